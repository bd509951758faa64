"""What a section takes in another process than that of the delays that the model states.

It is the stated delay times a ratio, measured for each kind of section of some units in each
process: `section_delays.toml`, which `tools/section_delays.py` writes. A unit takes the ratios of
the first of these units that has all of its kinds.
"""

import tomllib
from dataclasses import replace
from pathlib import Path

from .pipeline import Section

TABLE = Path(__file__).with_name("section_delays.toml")
DEFAULT_DELAYS = "asap7"
"""The process of the delays that the model states."""
RATIOS: dict[str, dict[str, dict[str, float]]] = tomllib.loads(TABLE.read_text())
"""By process and unit: the ratio of each kind of section."""
DELAYS = (DEFAULT_DELAYS, *RATIOS)
ALIKE = {
    "narrow": "convert",
    "factor": "multiply",
    "gather": "sum",
    "truncate": "join",
    "halves": "join",
}
"""Kinds that take the ratio of another, whose arithmetic is theirs."""


def in_process(parts: tuple[Section, ...], process: str) -> tuple[Section, ...]:
    """Sections with their delays in a process of `DELAYS`."""
    if process == DEFAULT_DELAYS:
        # These are added up, so that registers stay where they stand.
        return tuple(replace(part, beside=False) for part in parts)
    kinds = [ALIKE.get(part.kind, part.kind) for part in parts]
    ratios = next(ratios for ratios in RATIOS[process].values() if {*kinds} <= ratios.keys())
    return tuple(
        replace(part, delay=round(part.delay * ratios[kind]))
        for part, kind in zip(parts, kinds, strict=True)
    )
