"""Delays of sections in processes other than ASAP7, whose delays `sections.py` states.

A delay is ASAP7's times a ratio. `tools/section_delays.py` measures the ratio of each kind of
section in several units and processes, and writes `section_delays.toml`. A unit takes the ratios of
the first unit there that has all of its kinds.
"""

import tomllib
from dataclasses import replace
from pathlib import Path

from .placement import Section

TABLE = Path(__file__).with_name("section_delays.toml")
DEFAULT_DELAYS = "asap7"
"""Process of the delays in `sections.py`."""
RATIOS: dict[str, dict[str, dict[str, float]]] = tomllib.loads(TABLE.read_text())
"""Ratio of each kind of section, by process and unit."""
DELAYS = (DEFAULT_DELAYS, *RATIOS)
ALIKE = {
    "narrow": "convert",
    "factor": "multiply",
    "gather": "sum",
    "truncate": "join",
    "halves": "join",
}
"""Kinds that take the ratio of another kind with the same arithmetic."""


def in_process(parts: tuple[Section, ...], process: str) -> tuple[Section, ...]:
    """Sections with their delays in `process`, one of `DELAYS`."""
    if process == DEFAULT_DELAYS:
        # Parallel sections count as a sequence here: stored units keep their registers.
        return tuple(replace(part, parallel=False) for part in parts)
    kinds = [ALIKE.get(part.kind, part.kind) for part in parts]
    ratios = next(ratios for ratios in RATIOS[process].values() if {*kinds} <= ratios.keys())
    return tuple(
        replace(part, delay=round(part.delay * ratios[kind]))
        for part, kind in zip(parts, kinds, strict=True)
    )
