"""Points of a comparison, and the sweeps that name many of them.

A point is a unit, how it is synthesised, and the data that its accuracy is measured on.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...model import DotConfig, accumulator, format_pairs
from ...model.errors import choice, integer
from ...model.formats import BLOCK_SCALES
from ...model.integers import INTEGER_SCALES, ZERO_POINTS
from ...model.outputs import output_format
from ...model.pipeline.delays import DEFAULT_DELAYS, DELAYS
from ...model.units.base import block_size
from ...synth import Flow
from ...util.data.sentences import SENTENCES
from ...util.sweep import LIMIT, expand, integers, values
from .units import Generated, Unit


@dataclass(frozen=True)
class Sampling:
    """How accuracy is measured: dot product lengths, their number, the seed of the data; and the
    sentences of the fixed set that go through the encoder, 0 for none of it."""

    lengths: tuple[int, ...] = (32, 512, 4096)
    """Ascending; the last is the one that tables and plots show."""
    count: int = 256
    seed: int = 1
    encoder: int = 0

    def __post_init__(self) -> None:
        if not self.lengths:
            raise ValueError("lengths must name at least one length, not none")
        for length in self.lengths:
            if not 1 <= length <= 1 << 20:
                raise ValueError(f"lengths must be from 1 to {1 << 20}, not {length}")
        object.__setattr__(self, "lengths", tuple(sorted(set(self.lengths))))
        if not 1 <= self.count <= 10**6:
            raise ValueError(f"count must be from 1 to {10**6}, not {self.count}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be from 0 to {2**63 - 1}, not {self.seed}")
        integer("encoder", self.encoder, 0, len(SENTENCES))


@dataclass(frozen=True)
class Point:
    """One row: `flow` None for no synthesis, `data` None for no accuracy; `energy`: its proxy, too,
    where the flow has one."""

    unit: Unit
    flow: Flow | None
    data: str | None
    sampling: Sampling
    energy: bool = True


@dataclass(frozen=True)
class Sweep:
    """Units as a cartesian product of sweep texts (`sweep.py`); the names are the options'."""

    format: str = "e4m3"
    accumulator: str = "aligned:13"
    lanes: str = "32"
    stages: str | None = None
    result: str = "float32"
    status: bool = True
    load_c: bool = True
    scales: str | None = None
    zero_points: str = "none"
    micro: bool = False
    scale_block: str | None = None
    interleave: str = "1"
    delays: str = DEFAULT_DELAYS
    process: str | None = None
    """Where these units are synthesised, if not where the study says."""
    accuracy: bool = True
    """Whether their results are measured, sections and energy, or only area and delay."""


_TEXTS = (
    *("format", "accumulator", "lanes", "stages", "result"),
    *("scales", "zero_points", "scale_block", "interleave", "delays"),
)


def units_of(sweep: Sweep, note: Callable[[str], None] = lambda text: None) -> list[Generated]:
    """The units of a sweep, in its order, each once.

    A combination that cannot be built (int32 with FP8) is left out, and `note(text)` told why. A
    value that is wrong by itself, and a sweep without any unit, are a ValueError.
    """
    axes = [_axis(sweep, name) for name in _TEXTS]
    total = math.prod(map(len, axes))
    if total > LIMIT:
        raise ValueError(f"a sweep must stand for at most {LIMIT} units, not {total}")
    found: dict[DotConfig, Generated] = {}
    refused: dict[str, list[str]] = {}
    switches = sweep.status, sweep.load_c
    for formats, rule, lanes, stages, result, *rest, block, interleave, delays in product(*axes):
        try:
            config = DotConfig(
                *(formats, lanes, rule, stages, result, *switches, *rest),
                micro=sweep.micro,
                scale_block=block,
                interleave=interleave,
                delays=delays,
            )
        except (ValueError, TypeError) as error:
            refused.setdefault(str(error), []).append(f"{formats} {rule}")
        else:
            found.setdefault(config, Generated(config))
    if not found:
        raise ValueError(next(iter(refused)))
    for reason, names in refused.items():
        note(f"left out {listed(list(dict.fromkeys(names)))}: {reason}")
    return list(found.values())


def listed(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def combinations(sweep: Sweep) -> int:
    """How many units a sweep stands for, those that cannot be built among them."""
    return math.prod(len(_values(sweep, name)) for name in _TEXTS)


def _axis(sweep: Sweep, name: str) -> list[Any]:
    """The values of one axis, each checked by itself; stages are checked with their accumulator."""
    found = _values(sweep, name)
    if getattr(sweep, name) is not None:
        for value in found:
            _CHECKS[name](value)
    return found


def _values(sweep: Sweep, name: str) -> list[Any]:
    text = getattr(sweep, name)
    if text is None:
        return [None]
    return values(text, name, integers) if name in _NUMBERS else values(text, name, expand)


_NUMBERS = ("lanes", "stages", "scale_block", "interleave")
_CHECKS: dict[str, Callable[[Any], object]] = {
    "format": format_pairs,
    "accumulator": accumulator,
    "lanes": lambda value: DotConfig(lanes=value),
    "stages": int,
    "result": output_format,
    "scales": lambda value: choice("scales", value, (*BLOCK_SCALES, *INTEGER_SCALES)),
    "zero_points": lambda value: choice("zero_points", value, ZERO_POINTS),
    "scale_block": lambda value: block_size("scale_block", value),
    "interleave": lambda value: DotConfig(interleave=value),
    "delays": lambda value: choice("delays", value, DELAYS),
}


def points_of(
    all_units: Sequence[Unit],
    flows: Sequence[Flow | None],
    data: Sequence[str | None],
    sampling: Sampling,
    energy: bool = True,
) -> list[Point]:
    """Every unit in every flow on all data; a unit of unknown accuracy once in every flow.

    A point that leaves nothing to measure is none.
    """
    return [
        Point(unit, flow, where, sampling, energy)
        for unit in all_units
        for flow in flows
        for where in (data if unit.has_accuracy else [None])
        if flow is not None or where is not None or (sampling.encoder and unit.rule is not None)
    ]
