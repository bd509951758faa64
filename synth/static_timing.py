"""Static timing of a mapped netlist by the delay tables of its cells.

Each net has, for rise and fall, the latest arrival and the slowest slew of all arcs that drive it.
The clock is ideal: it comes at time 0 without slew. Paths begin at inputs, at clocked outputs and
at black boxes. They end at outputs, at data inputs of flip-flops and latches (setup included), and
at black boxes. Wires count where the library has a wire load, with the lengths of the
netlist if it states them: a net is loaded by the whole wire, and each pin adds its Elmore delay.
Not modelled: other wires, hold, asynchronous
inputs, time borrowing of latches, and half periods between clocks of both edges.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..util.yosys import Bit, Cell, Netlist
from .delay_tables import Arc, Table
from .errors import SynthesisError
from .liberty import Library
from .netlist import fanouts, in_order, named_inputs

NEVER = float("-inf")
NO_LOAD = (0.0, 0.0)
IDEAL = ((0.0, 0.0), (0.0, 0.0))
Signal = tuple[tuple[float, float], tuple[float, float]]
"""Arrivals of rise and fall, and their slews."""
Before = tuple[str, Bit, int]
"""Cell type of an arc, with the net and edge of its source."""


@dataclass(frozen=True)
class Surroundings:
    """Driver of each input (None: a step without slew), and load of each output in femtofarads."""

    driver: str | None = None
    load_ff: float = 0.0


@dataclass(frozen=True)
class End:
    """An end of paths, and the longest of them."""

    name: str
    """An output as `out[3]`, or a cell and its pin as `cell.D`."""
    net: Bit
    edge: int
    """0 when the longest path brings a rise, 1 for a fall."""
    ps: float
    """Picoseconds, setup included."""
    setup_ps: float = 0.0


@dataclass(frozen=True)
class Timing:
    """Timing of a netlist."""

    ends: list[End]
    """Ends with a path."""
    arrivals: dict[Bit, tuple[float, float]]
    """Picoseconds of each net's rise and fall; minus infinity without a path."""
    before: dict[tuple[Bit, int], Before]
    """Origin of the longest path to each net and edge."""
    slews: dict[Bit, tuple[float, float]]
    """Slowest slews of each net's rise and fall, in the library's unit."""
    loads: dict[Bit, tuple[float, float]]
    """Capacitance at each net for its rise and fall, in the library's unit."""

    @cached_property
    def worst(self) -> End | None:
        """The end of the longest path; None without any."""
        return max(self.ends, key=lambda end: end.ps, default=None)

    @property
    def delay_ps(self) -> float:
        """The longest path, and so the least period of a clock; 0 without any path."""
        return self.worst.ps if self.worst else 0.0

    def path(self, end: End) -> list[tuple[str, Bit, float]]:
        """Type of cell, net and arrival in picoseconds along the longest path to `end`."""
        net, edge, found = end.net, end.edge, []
        while (net, edge) in self.before:
            cell, source, came = self.before[net, edge]
            found.append((cell, net, self.arrivals[net][edge]))
            net, edge = source, came
        return found[::-1]


def time_netlist(
    netlist: Netlist,
    library: Library,
    around: Surroundings = Surroundings(),
    is_false: Callable[[str], object] = lambda name: False,
) -> Timing:
    """The timing of a flat netlist of cells of `library`.

    is_false: whether paths from an input (`rst`, `in[3]`) do not count. SynthesisError for a
    combinational loop, for tables that hold no numbers, and for a library without `around`'s cell.
    """
    return _Timer(netlist, library, around).run(is_false)


class _Timer:
    def __init__(self, netlist: Netlist, library: Library, around: Surroundings) -> None:
        self.netlist, self.library, self.around = netlist, library, around
        self.signals: dict[Bit, Signal] = {}
        self.before: dict[tuple[Bit, int], Before] = {}
        self.fanouts = fanouts(netlist, library)
        self.loads = self._loads()

    def run(self, is_false: Callable[[str], object]) -> Timing:
        self._inputs(is_false)
        clocked, boxes = [], []
        for cell in self.netlist.cells:
            kind = self.library.cells[cell.type]
            if kind.clock is not None:
                clocked.append(cell)
                self._launch(cell, kind.timing.launches)
            elif not kind.inputs and not kind.outputs:
                boxes.append(cell)
        self._leave(boxes)
        for cell, kind in in_order(self.netlist, self.library):
            self._gate(cell, kind.timing.arcs)
        ps = self.library.time_ps
        return Timing(
            [end for end in self._ends(clocked, boxes) if end.ps > NEVER],
            {net: (a[0] * ps, a[1] * ps) for net, (a, _) in self.signals.items()},
            self.before,
            {net: slews for net, (_, slews) in self.signals.items()},
            self.loads,
        )

    def _loads(self) -> dict[Bit, tuple[float, float]]:
        """Capacitance at each net, for its rise and its fall."""
        found: dict[Bit, tuple[float, float]] = {}

        def add(net: Bit, rise: float, fall: float) -> None:
            before = found.get(net, NO_LOAD)
            found[net] = before[0] + rise, before[1] + fall

        for cell in self.netlist.cells:
            for pin, (rise, fall) in self.library.cells[cell.type].timing.loads.items():
                for net in cell.pins.get(pin, ()):
                    add(net, rise, fall)
        load = self.around.load_ff / self.library.capacitance_ff
        for _, _, net in self.netlist.outputs():
            add(net, load, load)
        if self.library.wire_load is not None:
            for net in self.fanouts:
                add(net, *[self.library.wire_load.load(self._length(net))] * 2)
        return found

    def _length(self, net: Bit) -> float:
        """Length of a net's wire, as the wire load of the library counts."""
        lengths, wire = self.netlist.lengths, self.library.wire_load
        if lengths is not None:
            return lengths.get(net, 0.0)
        return 0.0 if wire is None else wire.length(self.fanouts[net])

    def _at(self, net: Bit, pin: tuple[float, float]) -> Signal | None:
        """Signal of a net at the end of its wire, at a pin of this capacitance."""
        wire, signal = self.library.wire_load, self.signals.get(net)
        pins = self.fanouts[net]
        if signal is None or wire is None or not pins:
            return signal
        (rise, fall), slews = signal
        net_rise, net_fall = self.loads[net]
        length = self._length(net)
        rise += wire.delay(length, pins, pin[0], net_rise)
        fall += wire.delay(length, pins, pin[1], net_fall)
        return (rise, fall), slews

    def _inputs(self, is_false: Callable[[str], object]) -> None:
        """Inputs change at 0; a driver adds its slew, and its extra delay under load."""
        arcs: Sequence[Arc] = ()
        if self.around.driver is not None:
            if self.around.driver not in self.library.cells:
                raise SynthesisError(
                    f"library {self.library.name} has no cell {self.around.driver} to drive inputs"
                )
            (arcs,) = self.library.cells[self.around.driver].timing.arcs.values()
        own, _ = _through(arcs, lambda _: IDEAL, NO_LOAD)[0] or IDEAL
        for name, net in named_inputs(self.netlist).items():
            load = self.loads.get(net, NO_LOAD)
            (rise, fall), slews = _through(arcs, lambda _: IDEAL, load)[0] or IDEAL
            arrival = (NEVER, NEVER) if is_false(name) else (rise - own[0], fall - own[1])
            self.signals[net] = arrival, slews

    def _leave(self, boxes: Sequence[Cell]) -> None:
        """Give nets that only black boxes drive a signal at time 0."""
        driven = {
            net
            for cell in self.netlist.cells
            for pin in self.library.cells[cell.type].outputs
            for net in cell.pins.get(pin, ())
        }
        for cell in boxes:
            for nets in cell.pins.values():
                for net in nets:
                    if isinstance(net, int) and net not in driven and net not in self.signals:
                        self.signals[net] = IDEAL

    def _launch(self, cell: Cell, arcs: Mapping[str, Sequence[Arc]]) -> None:
        """Signals that the clock's edge starts."""
        for pin in arcs:
            load = self.loads.get(_net(cell, pin), NO_LOAD)
            signal, _ = _through(arcs[pin], lambda _: IDEAL, load)
            self._set(cell, pin, signal, {0: ("", 0), 1: ("", 0)})

    def _gate(self, cell: Cell, arcs: Mapping[str, Sequence[Arc]]) -> None:
        """Signals through a gate; an output may have arcs from another output."""
        local: dict[str, Signal | None] = {}
        loads = self.library.cells[cell.type].timing.loads

        def signal(pin: str) -> Signal | None:
            if pin in arcs:
                return local[pin] if pin in local else drive(pin)
            return self._at(_net(cell, pin), loads.get(pin, NO_LOAD))

        def drive(pin: str) -> Signal | None:
            local[pin] = None
            local[pin], latest = _through(
                arcs[pin], signal, self.loads.get(_net(cell, pin), NO_LOAD)
            )
            self._set(cell, pin, local[pin], latest)
            return local[pin]

        for pin in arcs:
            signal(pin)

    def _set(
        self, cell: Cell, pin: str, signal: Signal | None, latest: Mapping[int, tuple[str, int]]
    ) -> None:
        net = _net(cell, pin)
        if signal is None or not isinstance(net, int):
            return
        self.signals[net] = signal
        for edge, (source, came) in latest.items():
            self.before[net, edge] = cell.type, _net(cell, source), came

    def _ends(self, clocked: Sequence[Cell], boxes: Sequence[Cell]) -> Iterator[End]:
        load = self.around.load_ff / self.library.capacitance_ff
        for name, place, net in self.netlist.outputs():
            wide = len(self.netlist.ports[name][1]) > 1
            yield self._end(f"{name}[{place}]" if wide else name, net, (load, load))
        for cell in clocked:
            timing = self.library.cells[cell.type].timing
            for pin, setups in timing.setups.items():
                for net in cell.pins.get(pin, ()):
                    for setup in setups:
                        yield self._end(
                            f"{cell.name}.{pin}", net, timing.loads.get(pin, NO_LOAD), setup
                        )
        for cell in boxes:
            for pin, nets in cell.pins.items():
                yield from (self._end(f"{cell.name}.{pin}", net, NO_LOAD) for net in nets)

    def _end(
        self,
        name: str,
        net: Bit,
        pin: tuple[float, float],
        setup: Sequence[Table | None] = (None, None),
    ) -> End:
        """The later edge at a pin of this capacitance; minus infinity without a signal."""
        signal = self._at(net, pin)
        if signal is None:
            return End(name, net, 0, NEVER)
        ends = []
        for edge, arrival, slew, table in zip((0, 1), *signal, setup, strict=True):
            needed = table(slew, 0.0) if table is not None else 0.0
            ps = self.library.time_ps
            ends.append(End(name, net, edge, (arrival + needed) * ps, needed * ps))
        return max(ends, key=lambda end: end.ps)


def _net(cell: Cell, pin: str) -> Bit:
    """Net at a pin, or ""."""
    nets = cell.pins.get(pin)
    return nets[0] if nets else ""


def _through(
    arcs: Sequence[Arc], signal: Callable[[str], Signal | None], load: tuple[float, float]
) -> tuple[Signal | None, dict[int, tuple[str, int]]]:
    """Combine signals through arcs: the output, and by edge the pin and edge that come last.

    The output is None when no pin has a signal.
    """
    arrivals, slews = [NEVER, NEVER], [0.0, 0.0]
    latest: dict[int, tuple[str, int]] = {}
    reached = False
    for arc in arcs:
        there = signal(arc.source)
        if there is None:
            continue
        reached = True
        for before, after in arc.senses:
            delays, transitions = arc.delays[after], arc.slews[after]
            slew = there[1][before]
            if delays is not None:
                arrival = there[0][before] + delays(slew, load[after])
                if arrival > arrivals[after]:
                    arrivals[after] = arrival
                    latest[after] = arc.source, before
            if transitions is not None:
                slews[after] = max(slews[after], transitions(slew, load[after]))
    return (((arrivals[0], arrivals[1]), (slews[0], slews[1])) if reached else None), latest
