"""Timing in Liberty files: delay tables of cells (nonlinear delay model), and wire loads of nets.

A delay depends on input slew and output load, a wire on the number of pins that its net drives.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .errors import SynthesisError
from .liberty_syntax import Group, finite

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
    """Slew of the input; in constraints, slew of the data."""
    y: tuple[float, ...]
    """Load of the output; in constraints, slew of the clock."""
    values: tuple[tuple[float, ...], ...]
    """One row per entry of `x`."""

    def at(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Interpolate the values at many points."""
        values = np.array(self.values)
        i, u = _places(self.x, x)
        j, v = _places(self.y, y)
        right, down = np.minimum(j + 1, len(self.y) - 1), np.minimum(i + 1, len(self.x) - 1)
        low = values[i, j] * (1 - v) + values[i, right] * v
        high = values[down, j] * (1 - v) + values[down, right] * v
        return low * (1 - u) + high * u

    def __call__(self, x: float, y: float) -> float:
        """Interpolate the value at a point."""
        i, u = _place(self.x, x)
        j, v = _place(self.y, y)
        values = self.values
        low = values[i][j] * (1 - v) + values[i][j + 1] * v if v else values[i][j]
        if not u:
            return low
        high = values[i + 1][j] * (1 - v) + values[i + 1][j + 1] * v if v else values[i + 1][j]
        return low * (1 - u) + high * u


def _place(axis: Sequence[float], at: float) -> tuple[int, float]:
    """Index of the interval that holds `at`, and the fraction along it; the outer ones extend."""
    if len(axis) == 1:
        return 0, 0.0
    i = min(max(bisect_right(axis, at) - 1, 0), len(axis) - 2)
    return i, (at - axis[i]) / (axis[i + 1] - axis[i])


def _places(
    axis: Sequence[float], at: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """`_place` of many points."""
    if len(axis) == 1:
        return np.zeros(at.shape, np.intp), np.zeros(at.shape)
    points = np.array(axis)
    i = np.clip(np.searchsorted(points, at, "right") - 1, 0, len(axis) - 2)
    return i, (at - points[i]) / (points[i + 1] - points[i])


@dataclass(frozen=True)
class Arc:
    """Delays from one pin to another, in the library's units.

    delays, slews: tables for the output's rise and fall; None where the arc has no such edge.
    """

    source: str
    senses: tuple[tuple[int, int], ...]
    delays: tuple[Table | None, Table | None]
    slews: tuple[Table | None, Table | None]


@dataclass(frozen=True)
class CellTiming:
    """Timing data of one cell."""

    loads: dict[str, tuple[float, float]]
    """Capacitance of each input for its rise and its fall."""
    arcs: dict[str, list[Arc]]
    """Arcs to each output, from inputs or from other outputs."""
    launches: dict[str, list[Arc]]
    """Arcs from the clock to each output of a flip-flop or latch."""
    setups: dict[str, list[tuple[Table | None, Table | None]]]
    """Setup times of each input before the clock, for rise and fall."""


def cell_timing(cell: Group, templates: Mapping[str, Group], source: str) -> CellTiming:
    """Read the timing of a group `cell`; SynthesisError, naming `source`, for malformed numbers."""
    loads, arcs, launches, setups = {}, {}, {}, {}
    for pin in cell.of("pin"):
        for name in pin.arguments:
            if pin.attributes.get("direction") == "input":
                loads[name] = _load(pin, source)
            for timing in pin.of("timing"):
                kind = timing.attributes.get("timing_type", "combinational")
                tables = {t.kind: read_table(t, templates, source) for t in timing.groups}
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
    """One arc per related pin; without a given sense both edges are possible."""
    senses = SENSES.get(timing.attributes.get("timing_sense", ""), SENSES["non_unate"])
    delays = tables.get("cell_rise"), tables.get("cell_fall")
    slews = tables.get("rise_transition"), tables.get("fall_transition")
    return [
        Arc(pin, senses, delays, slews) for pin in timing.attributes.get("related_pin", "").split()
    ]


def read_table(table: Group, templates: Mapping[str, Group], source: str) -> Table:
    """Read a table; SynthesisError, naming `source`, for a malformed one."""
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
    """True for a load, and for the slew of a constraint's clock."""
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


MODES = ("top", "enclosed", "segmented")
"""Modes that choose a net's wire load; all give the same in a flat netlist."""
TREES = ("best_case_tree", "balanced_tree", "worst_case_tree")
"""Place of the wire's resistance: nowhere, in a branch per pin, or before all pins."""
_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)
"""Names that are safe in scripts of other tools."""


@dataclass(frozen=True)
class WireLoad:
    """A wire load, per unit of length in the library's units."""

    name: str
    capacitance: float
    resistance: float
    """Units of time per unit of capacitance."""
    slope: float
    """Additional length per pin after the last entry of `lengths`."""
    lengths: tuple[tuple[float, float], ...]
    """Pairs of a number of pins, ascending, and the length of a net with this number; empty where
    the netlist states its lengths.
    """
    tree: str = "balanced_tree"

    def length(self, pins: int) -> float:
        """Interpolate linearly; outside of the entries, extrapolate by `slope`."""
        (first, shortest), (last, longest) = self.lengths[0], self.lengths[-1]
        if pins <= first:
            return max(shortest - (first - pins) * self.slope, 0.0)
        for (low, short), (high, long) in pairwise(self.lengths):
            if pins <= high:
                return short + (long - short) * (pins - low) / (high - low)
        return longest + (pins - last) * self.slope

    def load(self, length: float) -> float:
        """Capacitance of a wire of this length."""
        return length * self.capacitance

    def delay(self, length: float, pins: int, pin: float, net: float) -> float:
        """Elmore delay to a pin of capacitance `pin`; `net` is all capacitance, wire included."""
        resistance = length * self.resistance
        if self.tree == "balanced_tree":
            return resistance / pins * (self.load(length) / pins + pin)
        return resistance * net if self.tree == "worst_case_tree" else 0.0


def default_wire_load(library: Group, source: str, time_per_ohm: float) -> WireLoad | None:
    """The default wire load of a library; SynthesisError, with `source`, for a malformed one.

    time_per_ohm: units of time that one ohm takes with one unit of capacitance.
    """
    name = library.attributes.get("default_wire_load")
    if not name:
        return None
    groups = {group.arguments[0]: group for group in library.of("wire_load") if group.arguments}
    if name not in groups or not _NAME.fullmatch(name):
        raise SynthesisError(
            f"library {source}: default_wire_load must name a wire_load group in letters, digits "
            f"and _.+- ({', '.join(groups) or 'it has none'}), not {name!r}"
        )
    _one_of(library, "default_wire_load_mode", MODES, source)
    group = groups[name]
    where = f"library {source}, line {group.line}: wire_load {name}"
    ohms = _ohms(library, source)
    return WireLoad(
        name,
        _wire_number(group, "capacitance", library, where),
        _wire_number(group, "resistance", library, where) * ohms * time_per_ohm,
        _wire_number(group, "slope", library, where),
        _lengths(group, where),
        _tree(library, source),
    )


def _wire_number(group: Group, name: str, library: Group, where: str) -> float:
    """Attribute of a wire load, or the library's default for all wire loads."""
    common = library.attributes.get(f"default_wire_load_{name}", "0")
    return _at_least_0(group.attributes.get(name, common), f"{where}: {name}")


def _at_least_0(text: str, what: str) -> float:
    try:
        value = finite(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise SynthesisError(f"{what} must be a number of at least 0, not {text!r}")
    return value


def _lengths(group: Group, where: str) -> tuple[tuple[float, float], ...]:
    """Entries `fanout_length (pins, length, ...)`; statistics after the length are ignored."""
    found = []
    for text in filter(None, group.attributes.get("fanout_length", "").split(";")):
        words = text.split(",")
        if len(words) < 2:
            raise SynthesisError(f"{where}: fanout_length must be pins and a length, not {text!r}")
        found.append(tuple(_at_least_0(word, f"{where}: fanout_length") for word in words[:2]))
    found.sort()
    if not found or any(low[0] == high[0] for low, high in pairwise(found)):
        raise SynthesisError(f"{where} must have a fanout_length, and one for each number of pins")
    return tuple(found)


def _ohms(library: Group, source: str) -> float:
    """Ohms in the library's unit of resistance."""
    text = library.attributes.get("pulling_resistance_unit", "1kohm")
    found = re.fullmatch(r"(10{0,2})(k?)ohm", text.replace(" ", "").lower())
    if found is None:
        raise SynthesisError(
            f"library {source}: pulling_resistance_unit must be 1, 10 or 100 ohm or kohm, not "
            f"{text!r}"
        )
    return float(found[1]) * (1000.0 if found[2] else 1.0)


def _tree(library: Group, source: str) -> str:
    """Tree type of the default operating conditions."""
    name = library.attributes.get("default_operating_conditions")
    for conditions in library.of("operating_conditions"):
        if name in conditions.arguments:
            return _one_of(conditions, "tree_type", TREES, source) or "balanced_tree"
    return "balanced_tree"


def _one_of(group: Group, name: str, allowed: tuple[str, ...], source: str) -> str:
    """Attribute in lower case, or empty; SynthesisError unless its value is allowed."""
    text = group.attributes.get(name, "")
    if text and text.lower() not in allowed:
        raise SynthesisError(
            f"library {source}, line {group.line}: {name} must be one of {', '.join(allowed)}, "
            f"not {text!r}"
        )
    return text.lower()
