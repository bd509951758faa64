"""Delay tables of Liberty cells: the nonlinear delay model, by input slew and output load."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .errors import SynthesisError
from .groups import Group, finite

EDGES = ("rise", "fall")
SENSES = {
    # timing_sense: (edge of the input, edge of the output), 0 is rise
    "positive_unate": ((0, 0), (1, 1)),
    "negative_unate": ((1, 0), (0, 1)),
    "non_unate": ((0, 0), (1, 1), (1, 0), (0, 1)),
}
COMBINATIONAL = ("combinational", "combinational_rise", "combinational_fall")
CLOCKED = ("rising_edge", "falling_edge")
SETUP = ("setup_rising", "setup_falling")


@dataclass(frozen=True)
class Table:
    """Values over one or two axes, linear between and beyond their points."""

    x: tuple[float, ...]
    """The input's slew, of constraints that of the data."""
    y: tuple[float, ...]
    """The output's load, of constraints the slew of the clock."""
    values: tuple[tuple[float, ...], ...]
    """A row for each of `x`."""

    def __call__(self, x: float, y: float) -> float:
        """The value at a point."""
        i, u = _place(self.x, x)
        j, v = _place(self.y, y)
        values = self.values
        low = values[i][j] * (1 - v) + values[i][j + 1] * v if v else values[i][j]
        if not u:
            return low
        high = values[i + 1][j] * (1 - v) + values[i + 1][j + 1] * v if v else values[i + 1][j]
        return low * (1 - u) + high * u


def _place(axis: Sequence[float], at: float) -> tuple[int, float]:
    """The step of an axis that `at` is on, and how far along; the outer ones go on for ever."""
    if len(axis) == 1:
        return 0, 0.0
    i = min(max(bisect_right(axis, at) - 1, 0), len(axis) - 2)
    return i, (at - axis[i]) / (axis[i + 1] - axis[i])


@dataclass(frozen=True)
class Arc:
    """Delays from one pin to another, in the library's units.

    delays, slews: for the output's rise and fall, None where the arc has no such edge.
    """

    source: str
    senses: tuple[tuple[int, int], ...]
    delays: tuple[Table | None, Table | None]
    slews: tuple[Table | None, Table | None]


@dataclass(frozen=True)
class CellTiming:
    """What a timer needs of one cell."""

    loads: dict[str, tuple[float, float]]
    """Capacitance of each input when it rises and falls."""
    arcs: dict[str, list[Arc]]
    """By output, those from inputs and, where a cell has such, from its other outputs."""
    launches: dict[str, list[Arc]]
    """By output of a flip-flop or latch, those from its clock."""
    setups: dict[str, list[tuple[Table | None, Table | None]]]
    """By input, how long before the clock its rise and fall must be there."""


def cell_timing(cell: Group, templates: Mapping[str, Group], source: str) -> CellTiming:
    """The timing of a group `cell`; SynthesisError, which names `source`, for what is no number."""
    loads, arcs, launches, setups = {}, {}, {}, {}
    for pin in cell.of("pin"):
        for name in pin.arguments:
            if pin.attributes.get("direction") == "input":
                loads[name] = _load(pin, source)
            for timing in pin.of("timing"):
                kind = timing.attributes.get("timing_type", "combinational")
                tables = {t.kind: _table(t, templates, source) for t in timing.groups}
                if kind in SETUP:
                    pair = (tables.get("rise_constraint"), tables.get("fall_constraint"))
                    setups.setdefault(name, []).append(pair)
                elif kind in COMBINATIONAL + CLOCKED:
                    into = launches if kind in CLOCKED else arcs
                    into.setdefault(name, []).extend(_arcs(timing, tables))
    return CellTiming(loads, arcs, launches, setups)


def _load(pin: Group, source: str) -> tuple[float, float]:
    plain = pin.attributes.get("capacitance", "0")
    texts = [pin.attributes.get(f"{edge}_capacitance", plain) for edge in EDGES]
    rise, fall = (_number(text, pin, source) for text in texts)
    return rise, fall


def _arcs(timing: Group, tables: Mapping[str, Table]) -> list[Arc]:
    """An arc from each related pin; a sense that is not given may be either."""
    senses = SENSES.get(timing.attributes.get("timing_sense", ""), SENSES["non_unate"])
    delays = tables.get("cell_rise"), tables.get("cell_fall")
    slews = tables.get("rise_transition"), tables.get("fall_transition")
    return [
        Arc(pin, senses, delays, slews) for pin in timing.attributes.get("related_pin", "").split()
    ]


def _table(table: Group, templates: Mapping[str, Group], source: str) -> Table:
    template = templates.get(table.arguments[0]) if table.arguments else None
    known = (template.attributes if template else {}) | table.attributes
    values = _numbers(known.get("values", "0"), table, source)
    axes = [
        (known.get(f"variable_{i}", ""), tuple(_numbers(known[f"index_{i}"], table, source)))
        for i in (1, 2)
        if f"index_{i}" in known and len(values) > 1
    ]
    first, second = (*(axis for _, axis in axes), (0.0,), (0.0,))[:2]
    if len(first) * len(second) != len(values):
        raise SynthesisError(
            f"library {source}, line {table.line}: {table.kind} must have "
            f"{len(first)} x {len(second)} values, not {len(values)}"
        )
    for axis in (first, second):
        if any(low >= high for low, high in pairwise(axis)):
            raise SynthesisError(
                f"library {source}, line {table.line}: the indices of {table.kind} must ascend"
            )
    rows = [values[i : i + len(second)] for i in range(0, len(values), len(second))]
    if axes and _is_second(axes[0][0]):  # the other way round
        first, second = second, first
        rows = [list(column) for column in zip(*rows, strict=True)]
    return Table(first, second, tuple(map(tuple, rows)))


def _is_second(variable: str) -> bool:
    """Whether a template's variable is a load, or of a constraint the slew of the clock."""
    return variable in ("total_output_net_capacitance", "related_pin_transition")


def _numbers(text: str, group: Group, source: str) -> list[float]:
    return [_number(word, group, source) for word in re.split(r"[\s,]+", text.strip()) if word]


def _number(text: str, group: Group, source: str) -> float:
    try:
        return finite(text)
    except ValueError:
        raise SynthesisError(
            f"library {source}, line {group.line}: {group.kind} must hold numbers, not {text!r}"
        ) from None
