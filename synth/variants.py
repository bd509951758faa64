"""Cells of a library that can stand for each other, and their delay tables side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from .delay_tables import Arc, Table
from .liberty import Library, LibraryCell

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
MOST_PINS = 5
"""Inputs of a cell up to which the order of its pins is chosen."""


class Tables:
    """Delay tables and slew tables side by side, looked up many at a time."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], int] = {}
        self._pairs: list[tuple[Table, Table | None]] = []

    def add(self, delay: Table, slew: Table | None) -> int:
        """The index of a pair of tables."""
        key = id(delay), id(slew)
        if key not in self._places:
            self._places[key] = len(self._pairs)
            self._pairs.append((delay, slew))
        return self._places[key]

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, Floats, Places, Places]:
        most_x = max(2, *(len(delay.x) for delay, _ in self._pairs))
        most_y = max(2, *(len(delay.y) for delay, _ in self._pairs))
        count = len(self._pairs)
        xs, ys = np.full((count, most_x), np.inf), np.full((count, most_y), np.inf)
        values = np.zeros((count, most_x, most_y, 2))
        for place, (delay, slew) in enumerate(self._pairs):
            x, y = _axis(delay.x), _axis(delay.y)
            xs[place, : len(x)], ys[place, : len(y)] = x, y
            at = np.meshgrid(x, y, indexing="ij")
            for kind, table in enumerate((delay, slew)):
                if table is not None:
                    flat = table.at(at[0].ravel(), at[1].ravel())
                    values[place, : len(x), : len(y), kind] = flat.reshape(at[0].shape)
        last_x = np.array([len(_axis(delay.x)) - 2 for delay, _ in self._pairs], np.intp)
        last_y = np.array([len(_axis(delay.y)) - 2 for delay, _ in self._pairs], np.intp)
        return xs, ys, values, last_x, last_y

    def values(self, which: Places, slew: Floats, load: Floats) -> Floats:
        """Pairs (delay, slew)."""
        return self.look_up(which, slew, load)[0]

    def look_up(self, which: Places, slew: Floats, load: Floats) -> tuple[Floats, Floats, Floats]:
        """Pairs (delay, slew), and their derivatives by slew and by load."""
        xs, ys, values, last_x, last_y = self._arrays
        i = np.minimum((xs[which, 1:] <= slew[:, None]).sum(1), last_x[which])
        j = np.minimum((ys[which, 1:] <= load[:, None]).sum(1), last_y[which])
        x, y = xs[which, i], ys[which, j]
        wide, high = xs[which, i + 1] - x, ys[which, j + 1] - y
        u, v = ((slew - x) / wide)[:, None], ((load - y) / high)[:, None]
        v00, v01 = values[which, i, j], values[which, i, j + 1]
        v10, v11 = values[which, i + 1, j], values[which, i + 1, j + 1]
        near, far = v00 + (v01 - v00) * v, v10 + (v11 - v10) * v
        by_slew = (far - near) / wide[:, None]
        by_load = ((v01 - v00) * (1 - u) + (v11 - v10) * u) / high[:, None]
        return near + (far - near) * u, by_slew, by_load


def _axis(points: Sequence[float]) -> tuple[float, ...]:
    return (points[0], points[0] + 1.0) if len(points) == 1 else tuple(points)


@dataclass(frozen=True)
class Step:
    """A way of an edge through a cell: source pin and edge, output pin and edge, tables."""

    source: str
    before: int
    output: str
    after: int
    tables: int


@dataclass(frozen=True)
class Variant:
    """A cell that can stand for another one."""

    cell: str
    area: float
    pins: dict[str, str]
    """Own pin for each pin of the other cell."""
    tables: tuple[int, ...]
    """Tables of each step of the other cell."""
    loads: tuple[tuple[float, float], ...]
    """Capacitances in the order of the other cell's inputs."""


def steps_of(arcs: dict[str, list[Arc]], tables: Tables) -> list[Step]:
    """Steps of a cell in an order that depends on pins and edges alone."""
    steps = []
    for output, all_ in arcs.items():
        for arc in all_:
            for before, after in arc.senses:
                delay, slew = arc.delays[after], arc.slews[after]
                if delay is not None:
                    index = tables.add(delay, slew)
                    steps.append(Step(arc.source, before, output, after, index))
    return steps


class Choices:
    """Cells of a library that may stand for one another."""

    def __init__(self, library: Library) -> None:
        self.library, self.tables = library, Tables()
        self._variants: dict[str, list[Variant]] = {}
        self._alike: dict[tuple[int, tuple[int, ...]], list[LibraryCell]] = {}
        for cell in library.cells.values():
            if cell.clock is None and cell.inputs and cell.outputs and cell.timing.arcs:
                self._alike.setdefault(_class(cell), []).append(cell)
        for cells in self._alike.values():  # every table is known before the first look-up
            for cell in cells:
                self.steps(cell)

    def steps(self, cell: LibraryCell) -> list[Step]:
        """Steps of a gate."""
        return steps_of(cell.timing.arcs, self.tables)

    def variants(self, name: str) -> list[Variant]:
        """The cell as it is, then the others."""
        if name not in self._variants:
            self._variants[name] = list(self._found(self.library.cells[name]))
        return self._variants[name]

    def _found(self, cell: LibraryCell) -> Iterator[Variant]:
        own = dict(zip(cell.inputs, cell.inputs, strict=True)) | {o: o for o in cell.outputs}
        steps = self.steps(cell)
        yield _variant(cell, cell, own, steps) or Variant(cell.name, cell.area, own, (), ())
        many = len(cell.inputs) > MOST_PINS
        done = {(cell.name, tuple(own.values()))}
        for other in self._alike.get(_class(cell), [cell]):
            orders = [tuple(other.inputs)] if many else permutations(other.inputs)
            for order in orders:
                outputs = _matched(cell, other, order)
                if outputs is None:
                    continue
                pins = dict(zip(cell.inputs, order, strict=True)) | outputs
                variant = _variant(cell, other, pins, steps, self.steps(other))
                if variant is not None and (other.name, tuple(pins.values())) not in done:
                    done.add((other.name, tuple(pins.values())))
                    yield variant


def _table(cell: LibraryCell, pin: str, order: Sequence[str]) -> int:
    """Truth table of an output; `order` names the inputs, the fastest changing first."""
    size = len(order)
    columns = {
        name: sum(1 << case for case in range(1 << size) if case >> place & 1)
        for place, name in enumerate(order)
    }
    ones = (1 << (1 << size)) - 1
    return cell.outputs[pin].evaluate(columns, ones) & ones


def _class(cell: LibraryCell) -> tuple[int, tuple[int, ...]]:
    """Equal for cells that could stand for each other: inputs, and ones of each truth table."""
    tables = (_table(cell, pin, tuple(cell.inputs)).bit_count() for pin in cell.outputs)
    return len(cell.inputs), tuple(sorted(tables))


def _matched(cell: LibraryCell, other: LibraryCell, order: Sequence[str]) -> dict[str, str] | None:
    """Output of `other` for each output of `cell`, its inputs in `order`; None if none is equal."""
    theirs = {_table(other, pin, order): pin for pin in other.outputs}
    found = {pin: theirs.get(_table(cell, pin, tuple(cell.inputs))) for pin in cell.outputs}
    return None if None in found.values() else {p: q for p, q in found.items() if q is not None}


def _variant(
    cell: LibraryCell,
    other: LibraryCell,
    pins: dict[str, str],
    steps: list[Step],
    theirs: list[Step] | None = None,
) -> Variant | None:
    """None where the other cell has other steps."""
    waiting: dict[tuple[str, int, str, int], list[int]] = {}
    for step in steps if theirs is None else theirs:
        key = step.source, step.before, step.output, step.after
        waiting.setdefault(key, []).append(step.tables)
    tables = []
    for step in steps:
        key = pins[step.source], step.before, pins[step.output], step.after
        if not waiting.get(key):
            return None
        tables.append(waiting[key].pop(0))
    if any(waiting.values()):
        return None
    loads = tuple(other.timing.loads.get(pins[pin], (0.0, 0.0)) for pin in cell.inputs)
    return Variant(other.name, other.area, pins, tuple(tables), loads)
