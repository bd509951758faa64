"""Points of a comparison, and the sweeps that name many of them.

A point is a unit, how it is synthesised, and the data that its accuracy is measured on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ...model import DotConfig
from ...model.errors import integer
from ...model.units import Option
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
    """One row: `flow` None for no synthesis, `data` None for no accuracy; `energy`: its energy too,
    where the flow has one. clock_ps: period at which the smallest unit is searched that is like
    `unit` but for the options `free`."""

    unit: Unit
    flow: Flow | None
    data: str | None
    sampling: Sampling
    energy: bool = True
    clock_ps: float | None = None
    free: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """Units as a cartesian product of sweep texts (`util/sweep.py`)."""

    options: Mapping[str, str | bool] = field(default_factory=dict)
    """Texts of options and values of switches, by `Option.key`."""
    process: str | None = None
    """Processes for these units instead of the study's."""
    clock: tuple[float, ...] | None = None
    """Clock periods for these units instead of the study's."""
    accuracy: bool = True
    """False measures only area and delay: no results, sections or energy."""


SWEPT = {option.key: option for option in DotConfig.options().values()}
_OUTER = ("format", "accumulator")
"""Options that change slowest from unit to unit."""


def units_of(sweep: Sweep, note: Callable[[str], None] = lambda text: None) -> list[Generated]:
    """The units of a sweep, in its order, each once.

    A combination that cannot be built (int32 with FP8) is left out, and `note(text)` told why. A
    value that is wrong by itself, and a sweep without any unit, are a ValueError.
    """
    axes = {option.keyword: _axis(sweep, option) for option in _swept(sweep)}
    total = math.prod(map(len, axes.values()))
    if total > LIMIT:
        raise ValueError(f"a sweep must stand for at most {LIMIT} units, not {total}")
    found: dict[DotConfig, Generated] = {}
    refused: dict[str, list[str]] = {}
    for choice in product(*axes.values()):
        values = dict(zip(axes, choice, strict=True))
        try:
            config = DotConfig(**values)
        except (ValueError, TypeError) as error:
            name = " ".join(_value(values, keyword) for keyword in ("formats", "accumulator"))
            refused.setdefault(str(error), []).append(name)
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
    """Number of units that a sweep stands for, including those that cannot be built."""
    return math.prod(len(_values(sweep, option)) for option in _swept(sweep))


def _swept(sweep: Sweep) -> list[Option]:
    """Options that the sweep gives, the slowest first."""
    keys = [*_OUTER, *(key for key in SWEPT if key not in _OUTER)]
    return [SWEPT[key] for key in keys if key in sweep.options]


def _axis(sweep: Sweep, option: Option) -> list[Any]:
    """Values of one option, each checked by itself."""
    found = _values(sweep, option)
    for value in found:
        option.check(value)
    return found


def _values(sweep: Sweep, option: Option) -> list[Any]:
    given = sweep.options[option.key]
    if isinstance(given, bool):
        return [given]
    return values(given, option.key, integers if option.is_number else expand)


def _value(values: Mapping[str, Any], keyword: str) -> str:
    return str(values.get(keyword, DotConfig.options()[keyword].default))


def points_of(
    all_units: Sequence[Unit],
    flows: Sequence[Flow | None],
    data: Sequence[str | None],
    sampling: Sampling,
    energy: bool = True,
    clocks: Sequence[float | None] = (None,),
    free: tuple[str, ...] = (),
) -> list[Point]:
    """Every unit in every flow at every clock on all data; a unit of unknown accuracy once in every
    flow.

    A point that leaves nothing to measure is none.
    """
    return [
        Point(unit, flow, where, sampling, energy, clock, free)
        for unit in all_units
        for flow in flows
        for clock in clocks
        for where in (data if unit.has_accuracy else [None])
        if flow is not None or where is not None or (sampling.encoder and unit.rule is not None)
    ]
