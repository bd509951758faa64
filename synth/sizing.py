"""Sizes of cells for small area and short delay together, by the timing of the whole netlist.

ABC sees neither flip-flops nor adder cells, so it sizes each stretch between them alone. Here
every cell weighs its delay by its part in the longest paths: the gradient of a smooth maximum over
all paths. Each round, cells take the size and the order of pins whose weighted delay, with the
delay of their drivers and the price of their area, is least. The netlist with the least
`area * delay ** SPEED` counts, or the smallest one within a target.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..util.yosys import Bit, Cell, Netlist
from .delay_tables import Table
from .liberty import LibraryCell
from .netlist import in_order, named_inputs
from .static_timing import Surroundings
from .variants import Choices, Floats, Places, Variant, steps_of

NEVER = -np.inf
SPEED = 2.0
"""Percent of area that a percent of delay may cost."""
ROUNDS = 36
"""Rounds of new sizes."""
REORDERS = 6
"""Pins change places in one of these rounds."""
LIGHT = 1e-5
"""Weight of a cell below which it keeps the least size."""
WIDTH = (0.012, 0.004)
"""First and last width of the smooth maximum, as a share of the longest path."""


@dataclass
class Kind:
    """Cells of one type in the netlist, and what may stand for them."""

    variants: list[Variant]
    cells: Places
    """Places of the cells."""
    steps: Places
    """Place of each step of each cell, -1 where it has none."""
    nets: Places
    """Net of each input of each cell, -1 for a constant."""

    @cached_property
    def tables(self) -> Places:
        """Tables of each step of each variant."""
        return np.array([v.tables for v in self.variants], np.intp)

    @cached_property
    def loads(self) -> Floats:
        """Capacitances of each input of each variant, by edge."""
        return np.array([v.loads for v in self.variants]).reshape(len(self.variants), -1, 2)

    @cached_property
    def areas(self) -> Floats:
        """Area of each variant."""
        return np.array([v.area for v in self.variants])

    @cached_property
    def orders(self) -> Places:
        """A number for each variant, equal for equal orders of pins."""
        numbers: dict[tuple[int, ...], int] = {}
        found = []
        for variant in self.variants:
            inputs = sorted(self.variants[0].pins.values())
            order = tuple(
                inputs.index(pin) if pin in inputs else -1 for pin in variant.pins.values()
            )
            found.append(numbers.setdefault(order, len(numbers)))
        return np.array(found, np.intp)

    def alike(self, order: int) -> Places:
        """Variants with an order of pins."""
        return np.flatnonzero(self.orders == order)


class Circuit:
    """A netlist as arrays. Nets with an edge are numbers: 2 * net + edge."""

    def __init__(
        self,
        netlist: Netlist,
        choices: Choices,
        around: Surroundings,
        is_false: Callable[[str], object],
    ) -> None:
        self.netlist, self.choices, self.library = netlist, choices, choices.library
        self.tables = choices.tables
        self._numbers: dict[Bit | tuple[int, str], int] = {}
        self._fixed: dict[int, float] = {}
        self._starts: list[tuple[int, float]] = []
        """Nets with an edge, and their arrivals."""
        self._launches: list[tuple[int, int, bool]] = []
        """Nets with an edge, tables, and whether the delay without a load is left out."""
        self._ends: list[tuple[int, Table | None]] = []
        """Nets with an edge, and setup times."""
        for cell in netlist.cells:
            self._read_end(cell, self.library.cells[cell.type])
        self._read_ports(around, is_false)
        self._read_gates()
        self._load_nets()

    def _net(self, key: Bit | tuple[int, str]) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _nets(self, bits: Sequence[Bit]) -> list[int]:
        """Nets without constants."""
        return [self._net(bit) for bit in bits if isinstance(bit, int)]

    def _keep_load(self, net: int, pair: tuple[float, float]) -> None:
        for edge in (0, 1):
            place = 2 * net + edge
            self._fixed[place] = self._fixed.get(place, 0.0) + pair[edge]

    def _read_end(self, cell: Cell, kind: LibraryCell) -> None:
        """Read a cell where paths begin or end: a flip-flop, latch or black box."""
        if kind.clock is None and kind.outputs and kind.inputs:
            return
        for pin, pair in kind.timing.loads.items():
            for net in self._nets(cell.pins.get(pin, ())):
                self._keep_load(net, pair)
        for step in steps_of(kind.timing.launches, self.tables):
            for net in self._nets(cell.pins.get(step.output, ())):
                self._launches.append((2 * net + step.after, step.tables, False))
        for pin, setups in kind.timing.setups.items():
            for net in self._nets(cell.pins.get(pin, ())):
                self._ends += [(2 * net + edge, s[edge]) for s in setups for edge in (0, 1)]
        if not kind.outputs and not kind.inputs:
            for net in self._nets([bit for bits in cell.pins.values() for bit in bits]):
                self._ends += [(2 * net + edge, None) for edge in (0, 1)]

    def _read_ports(self, around: Surroundings, is_false: Callable[[str], object]) -> None:
        load = around.load_ff / self.library.capacitance_ff
        for net in self._nets([bit for _, _, bit in self.netlist.outputs()]):
            self._keep_load(net, (load, load))
            self._ends += [(2 * net + edge, None) for edge in (0, 1)]
        driver = around.driver and self.library.cells[around.driver].timing.arcs
        for name, bit in named_inputs(self.netlist).items():
            net = self._net(bit)
            if is_false(name) or not driver:
                arrival = NEVER if is_false(name) else 0.0
                self._starts += [(2 * net + edge, arrival) for edge in (0, 1)]
            else:
                steps = steps_of(driver, self.tables)
                self._launches += [(2 * net + step.after, step.tables, True) for step in steps]

    def _read_gates(self) -> None:
        """Steps of all gates, by level and target."""
        places = {id(cell): place for place, cell in enumerate(self.netlist.cells)}
        levels: dict[int, int] = {}
        columns: list[tuple[int, int, int, int, int]] = []  # level, source, target, tables, cell
        rows: dict[str, list[tuple[int, list[int], list[int]]]] = {}
        for cell, kind in in_order(self.netlist, self.library):
            place = places[id(cell)]
            nets = self._pins(cell, kind, place)
            steps = self.choices.steps(kind)
            for pin in _outputs_in_order(kind):
                sources = [nets[step.source] for step in steps if step.output == pin]
                levels[nets[pin]] = 1 + max((levels.get(net, 0) for net in sources), default=0)
            own = []
            for step in steps:
                source, target = nets[step.source], nets[step.output]
                own.append(len(columns) if source >= 0 else -1)
                if source >= 0:
                    ways = 2 * source + step.before, 2 * target + step.after
                    columns.append((levels[target], *ways, step.tables, place))
            inputs = [nets[pin] for pin in kind.inputs]
            rows.setdefault(cell.type, []).append((place, own, inputs))
        table = np.array(columns, np.intp).reshape(-1, 5)
        order = np.lexsort((table[:, 2], table[:, 0]))
        where = np.full(len(order) + 1, -1, np.intp)
        where[order] = np.arange(len(order))
        level, self.source, self.target, self.which, self.owner = table[order].T.copy()
        self._parts = list(_parts(level, self.target))
        self.kinds = []
        for name, those in rows.items():
            cells, own, inputs = (np.array(x, np.intp) for x in zip(*those, strict=True))
            steps, nets = where[own.reshape(len(those), -1)], inputs.reshape(len(those), -1)
            self.kinds.append(Kind(self.choices.variants(name), cells, steps, nets))

    def _pins(self, cell: Cell, kind: LibraryCell, place: int) -> dict[str, int]:
        """Net at each pin; -1 for a constant input, a net of its own for an open output."""
        found = {}
        for pin in (*kind.inputs, *kind.outputs):
            nets = self._nets(cell.pins.get(pin, ()))
            found[pin] = nets[0] if nets else -1 if pin in kind.inputs else self._net((place, pin))
        return found

    def _load_nets(self) -> None:
        """Variants, areas and loads as the netlist has them."""
        self._size = 2 * len(self._numbers)
        self.load = np.zeros(self._size)
        self.load[list(self._fixed)] = list(self._fixed.values())
        self.chosen = np.zeros(len(self.netlist.cells), np.intp)
        cells = self.library.cells
        self.areas = np.array([cells[cell.type].area for cell in self.netlist.cells])
        for kind in self.kinds:
            for slot in range(kind.nets.shape[1]):
                loads = np.broadcast_to(kind.loads[0][slot], (len(kind.cells), 2))
                self._add(kind.nets[:, slot], loads)

    def _add(self, nets: Places, loads: Floats) -> None:
        there = nets >= 0
        for edge in (0, 1):
            np.add.at(self.load, 2 * nets[there] + edge, loads[there, edge])

    @property
    def area(self) -> float:
        """Area of all cells."""
        return float(self.areas.sum())

    def time(self) -> float:
        """Arrivals, slews and delays; the longest path in picoseconds."""
        self.arrival, self.slew = np.full(self._size, NEVER), np.zeros(self._size)
        for net, arrival in self._starts:
            self.arrival[net] = arrival
        if self._launches:
            nets, which, bare = (np.array(x, np.intp) for x in zip(*self._launches, strict=True))
            zero = np.zeros(len(nets))
            loaded, _, _ = self.tables.look_up(which, zero, self.load[nets])
            empty, _, _ = self.tables.look_up(which, zero, zero)
            np.maximum.at(self.arrival, nets, loaded[:, 0] - bare * empty[:, 0])
            np.maximum.at(self.slew, nets, loaded[:, 1])
        count = len(self.source)
        self.came = np.empty(count)
        self.by_slew, self.by_load = np.empty((count, 2)), np.empty((count, 2))
        for part, first, targets in self._parts:
            sources = self.source[part]
            values, self.by_slew[part], self.by_load[part] = self.tables.look_up(
                self.which[part], self.slew[sources], self.load[self.target[part]]
            )
            self.came[part] = self.arrival[sources] + values[:, 0]
            self.arrival[targets] = np.maximum.reduceat(self.came[part], first)
            self.slew[targets] = np.maximum(np.maximum.reduceat(values[:, 1], first), 0.0)
        setups = [s(self.slew[net], 0.0) if s is not None else 0.0 for net, s in self._ends]
        self.reached = self.arrival[[net for net, _ in self._ends]] + np.array(setups)
        return float(self.reached.max(initial=0.0)) * self.library.time_ps

    def weigh(self, width_ps: float) -> None:
        """Weights of nets and steps in the smooth longest path, after `time`."""
        width = width_ps / self.library.time_ps
        self.weight, self.slowness = np.zeros(self._size), np.zeros(self._size)
        share = np.exp((self.reached - self.reached.max(initial=0.0)) / width)
        ends = np.array([net for net, _ in self._ends], np.intp)
        np.add.at(self.weight, ends, share / share.sum())
        self.shares = np.zeros(len(self.source))
        self.step_weight = np.zeros(len(self.source))
        for part, first, _ in reversed(self._parts):
            latest = self.arrival[self.target[part]]
            with np.errstate(invalid="ignore"):
                parts = np.exp((self.came[part] - latest) / width)
            parts = np.nan_to_num(parts)
            sums = np.add.reduceat(parts, first)
            shares = parts / np.repeat(np.maximum(sums, 1e-300), np.diff(first, append=len(parts)))
            self.shares[part] = shares
            own = self.weight[self.target[part]] * shares
            self.step_weight[part] = own
            slow = self.slowness[self.target[part]] * shares
            np.add.at(self.weight, self.source[part], own)
            np.add.at(
                self.slowness,
                self.source[part],
                own * self.by_slew[part, 0] + slow * self.by_slew[part, 1],
            )
        self.price_of_load = np.zeros(self._size)
        np.add.at(
            self.price_of_load,
            self.target,
            self.step_weight * self.by_load[:, 0]
            + self.slowness[self.target] * self.shares * self.by_load[:, 1],
        )

    def through(self, place: int) -> float:
        """Weight of the paths through a cell, after `weigh`."""
        return float(self.step_weight[self.owner == place].sum())

    def latest(self, place: int) -> str:
        """Input pin of a cell whose signal comes last, after `time`."""
        cell = self.netlist.cells[place]
        kind = self.library.cells[cell.type]
        nets = self._pins(cell, kind, place)
        return max(kind.inputs, key=lambda pin: (self._latest(nets[pin]), pin))

    def _latest(self, net: int) -> float:
        return NEVER if net < 0 else float(self.arrival[2 * net : 2 * net + 2].max())

    def resize(self, price: float, reorders: bool, least: float = 0.0) -> int:
        """Give cells other variants where this costs less; the number of changes.

        price: picoseconds that a unit of area is worth. reorders: whether pins may change places.
        """
        gains = np.zeros(len(self.netlist.cells))
        wanted = self.chosen.copy()
        heavy = np.zeros(len(gains))
        np.add.at(heavy, self.owner, self.step_weight)
        for kind in self.kinds:
            large = kind.areas[self.chosen[kind.cells]] > kind.areas.min()
            rows = np.flatnonzero((heavy[kind.cells] > LIGHT) | large)
            now = self.chosen[kind.cells[rows]]
            for order in (None,) if reorders else np.unique(kind.orders[now]):
                part = rows if order is None else rows[kind.orders[now] == order]
                some = np.arange(len(kind.variants)) if order is None else kind.alike(int(order))
                if len(part) and len(some) > 1:
                    cells = kind.cells[part]
                    costs = self._costs(kind, part, some, price)
                    current = np.searchsorted(some, self.chosen[cells])
                    best = costs.argmin(0)
                    each = np.arange(len(part))
                    gains[cells] = costs[current, each] - costs[best, each]
                    wanted[cells] = some[best]
        gains[gains <= least] = 0.0
        before = self._owner_of_source
        rival = np.zeros(len(gains))
        linked = before >= 0
        np.maximum.at(rival, self.owner[linked], gains[before[linked]])
        np.maximum.at(rival, before[linked], gains[self.owner[linked]])
        moved = np.flatnonzero((gains > 0) & (gains >= rival))
        self._apply(moved, wanted)
        return len(moved)

    @cached_property
    def _owner_of_source(self) -> Places:
        owner = np.full(self._size, -1, np.intp)
        owner[self.target] = self.owner
        return owner[self.source]

    def _costs(self, kind: Kind, rows: Places, some: Places, price: float) -> Floats:
        """Cost of these cells (columns) as each of these variants (rows), in picoseconds."""
        steps = kind.steps[rows]
        used, ps = np.maximum(steps, 0), self.library.time_ps
        shape = (len(some), *steps.shape)
        which = np.broadcast_to(kind.tables[some][:, None], shape).ravel()
        slew = np.broadcast_to(self.slew[self.source[used]], shape).ravel()
        load = np.broadcast_to(self.load[self.target[used]], shape).ravel()
        values = self.tables.values(which, slew, load).reshape(*shape, 2)
        there = steps >= 0
        by_delay = self.step_weight[used] * there
        by_slew = self.slowness[self.target[used]] * self.shares[used] * there
        cost = (values[..., 0] * by_delay + values[..., 1] * by_slew).sum(2) * ps
        nets = kind.nets[rows]
        connected = nets >= 0
        for edge in (0, 1):
            prices = self.price_of_load[2 * np.maximum(nets, 0) + edge] * connected
            cost += kind.loads[some][:, :, edge] @ prices.T * ps
        return cost + price * kind.areas[some][:, None]

    def _apply(self, moved: Places, wanted: Places) -> None:
        """Change the cells in `moved`."""
        chosen = np.zeros(len(self.chosen), bool)
        chosen[moved] = True
        for kind in self.kinds:
            rows = np.flatnonzero(chosen[kind.cells])
            for variant in np.unique(wanted[kind.cells[rows]]) if len(rows) else ():
                those = rows[wanted[kind.cells[rows]] == variant]
                self._set(kind, those, int(variant))

    def _set(self, kind: Kind, rows: Places, variant: int) -> None:
        new = kind.variants[variant]
        steps = kind.steps[rows]
        tables = np.broadcast_to(kind.tables[variant], steps.shape)
        self.which[steps[steps >= 0]] = tables[steps >= 0]
        change = kind.loads[variant][None] - kind.loads[self.chosen[kind.cells[rows]]]
        for slot in range(kind.nets.shape[1]):
            self._add(kind.nets[rows, slot], change[:, slot])
        self.chosen[kind.cells[rows]] = variant
        self.areas[kind.cells[rows]] = new.area

    def restore(self, chosen: Places) -> None:
        """Go back to a copy of `chosen`."""
        self._apply(np.flatnonzero(self.chosen != chosen), chosen)

    def result(self) -> Netlist:
        """The netlist with the chosen variants."""
        cells = list(self.netlist.cells)
        for kind in self.kinds:
            for place in kind.cells:
                variant = kind.variants[self.chosen[place]]
                if self.chosen[place]:
                    cell = cells[place]
                    pins = {variant.pins.get(pin, pin): bits for pin, bits in cell.pins.items()}
                    cells[place] = Cell(cell.name, variant.cell, pins)
        return replace(self.netlist, cells=cells)


def _parts(level: Places, target: Places) -> Iterator[tuple[slice, Places, Places]]:
    """Steps of each level, the first step of each target in it, and the targets."""
    begin = 0
    for end in np.flatnonzero(np.diff(level, append=-1)) + 1:
        first = np.flatnonzero(np.diff(target[begin:end], prepend=-1))
        yield slice(begin, end), first, target[begin:end][first]
        begin = end


def _outputs_in_order(kind: LibraryCell) -> list[str]:
    """Outputs, those that others are timed from first."""
    sources = {arc.source for arcs in kind.timing.arcs.values() for arc in arcs}
    return sorted(kind.outputs, key=lambda pin: pin not in sources)


def sized(
    netlist: Netlist,
    choices: Choices,
    around: Surroundings,
    is_false: Callable[[str], object],
    *,
    target_ps: float | None = None,
    speed: float = SPEED,
    rounds: int = ROUNDS,
) -> Netlist:
    """The netlist with the sizes and orders of pins that serve the whole."""
    circuit = Circuit(netlist, choices, around, is_false)
    delay = circuit.time()
    best, least = circuit.chosen.copy(), merit_of(circuit.area, delay, target_ps, speed)
    trade = speed
    for turn in range(rounds):
        width = WIDTH[0] * (WIDTH[1] / WIDTH[0]) ** (turn / rounds)
        circuit.weigh(width * delay)
        if target_ps is not None:
            trade *= (delay / target_ps) ** 4
        changes = circuit.resize(delay / (trade * circuit.area), turn % REORDERS == 0)
        if not changes and turn % REORDERS:
            break
        delay = circuit.time()
        merit = merit_of(circuit.area, delay, target_ps, speed)
        if merit < least:
            best, least = circuit.chosen.copy(), merit
    circuit.restore(best)
    return circuit.result()


def merit_of(
    area: float, delay: float, target_ps: float | None, speed: float = SPEED
) -> tuple[float, float]:
    """Less is better: a missed target first, then area and delay."""
    if target_ps is not None:
        return max(0.0, delay - target_ps), area
    return 0.0, area * delay**speed
