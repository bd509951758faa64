"""Switching activity with glitches: a netlist simulated with the delay of each cell.

`glitches.cc` simulates; it is compiled once per source and compiler. Delays come from the
library's tables, per pair of pins and edges, at the slew and load of static timing. They are
inertial: a pulse shorter than a cell's delay does not pass it. Wires have no delay.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..util.cache import digest, is_whole, locked, seal
from ..util.files import write_file
from ..util.yosys import Bit, Cell, Netlist
from .delay_tables import Arc
from .errors import SynthesisError
from .liberty import Library, LibraryCell
from .liberty_syntax import Function
from .netlist import clocks, in_order, named_inputs
from .static_timing import NO_LOAD, Timing

SOURCE = Path(__file__).with_suffix(".cc")
FLAGS = ("-O2", "-std=c++17")
LONGEST = 60_000
"""Ticks of the longest delay; the program holds 65,536."""
SHORTEST_FS = 10.0
"""Least length of a tick in femtoseconds."""
STATE_BITS = 12
"""Limit for a cell's inputs and variables: counts take 2 to this power."""
FAILURES = {2: "arguments", 3: "an input file", 4: "a full disk", 6: "a period that is too short"}
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Kind:
    """A cell of the library, its Boolean functions as tables over a cell's state.

    A state has a bit per input pin, then one per variable of a flip-flop.
    """

    def __init__(self, cell: LibraryCell) -> None:
        self.cell = cell
        self.pins = list(cell.inputs)
        self.bits = len(self.pins) + len(cell.state)
        if self.bits > STATE_BITS:
            raise SynthesisError(
                f"cell {cell.name} must have at most {STATE_BITS} inputs and variables, not "
                f"{self.bits}"
            )
        self.states = 1 << self.bits
        self._ones = (1 << self.states) - 1
        index = np.arange(self.states)
        names = [*self.pins, *cell.state]
        self._values = {name: _packed(index >> i & 1) for i, name in enumerate(names)}
        self.outputs = {pin: self.table(function) for pin, function in cell.outputs.items()}
        self.next = [self.table(function) for function in cell.state.values()]
        self._values |= {pin: _packed(table) for pin, table in self.outputs.items()}
        self.clock = -1 if cell.clock is None else self.pins.index(str(cell.clock.pin))

    def table(self, function: Function) -> NDArray[np.uint8]:
        """Value of a function of pins and variables in each state."""
        unknown = [name for name in function.names if name not in self._values]
        if unknown:
            raise SynthesisError(f"cell {self.cell.name} has no pin {unknown[0]}")
        value = function.evaluate(self._values, self._ones)
        raw = np.frombuffer(value.to_bytes((self.states + 7) // 8, "little"), np.uint8)
        return np.unpackbits(raw, count=self.states, bitorder="little")


def _packed(bits: NDArray) -> int:
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


@dataclass(frozen=True)
class Group:
    """All cells of one kind."""

    kind: Kind
    cells: Ints
    """Their numbers in `TimedNetlist.cells`."""
    ins: Ints
    """Net (cells, pins) at each input pin; -1 for a constant."""
    outs: Ints
    """Net (cells, outputs) at each output pin."""


class TimedNetlist:
    """A netlist with one clock, and the delays of its cells.

    SynthesisError for latches, black boxes, several clocks, and flip-flops that another edge or a
    gated clock drives.
    """

    def __init__(self, netlist: Netlist, library: Library, timing: Timing) -> None:
        self.netlist, self.library, self.timing = netlist, library, timing
        self.clock = _clock(netlist, library)
        for cell in netlist.cells:
            kind = library.cells[cell.type]
            if kind.is_latch or not kind.outputs:
                raise SynthesisError(
                    f"activity needs flip-flops and gates, and {cell.type} is none"
                )
        held = [cell for cell in netlist.cells if library.cells[cell.type].clock is not None]
        self.flipflops = len(held)
        self.cells: list[Cell] = held + [cell for cell, _ in in_order(netlist, library)]
        """Flip-flops, then gates behind their drivers."""
        self._number_nets()
        self.inputs = [
            (name, bit) for name, bit in named_inputs(netlist).items() if name != self.clock
        ]
        """Input bits without the clock, by name."""
        self.groups = self._groups()
        self.slews = self._per_net(timing.slews)
        """Slews (nets, 2) of rise and fall, in the library's unit."""
        self.loads = self._per_net(timing.loads)
        """Capacitance (nets, 2) for rise and fall, in the library's unit."""

    def _number_nets(self) -> None:
        bits = {bit for _, port in self.netlist.ports.values() for bit in port}
        bits.update(bit for cell in self.cells for pins in cell.pins.values() for bit in pins)
        nets = sorted(bit for bit in bits if isinstance(bit, int))
        self.numbers: dict[Bit, int] = {net: i for i, net in enumerate(nets)}
        """Number of each net in all arrays."""
        self.nets: list[int] = nets
        self.size = len(nets)

    def _per_net(self, values: dict[Bit, tuple[float, float]]) -> Floats:
        found = np.zeros((self.size, 2))
        for net, pair in values.items():
            if net in self.numbers:
                found[self.numbers[net]] = pair
        return found

    def _groups(self) -> list[Group]:
        members: dict[str, list[int]] = {}
        for index, cell in enumerate(self.cells):
            members.setdefault(cell.type, []).append(index)
        groups = []
        for name, indices in members.items():
            kind = Kind(self.library.cells[name])
            ins = [[self._net(self.cells[i], pin) for pin in kind.pins] for i in indices]
            outs = [[self._output(self.cells[i], pin) for pin in kind.outputs] for i in indices]
            shape = len(indices), -1
            groups.append(
                Group(
                    kind,
                    np.array(indices),
                    np.array(ins, np.int64).reshape(shape),
                    np.array(outs, np.int64).reshape(shape),
                )
            )
        return groups

    def _net(self, cell: Cell, pin: str) -> int:
        bit = cell.pins.get(pin, ["0"])[0]
        return self.numbers.get(bit, -1)

    def _output(self, cell: Cell, pin: str) -> int:
        """Net at an output; an open one has a net of its own."""
        nets = cell.pins.get(pin)
        if nets:
            return self.numbers[nets[0]]
        self.size += 1
        return self.size - 1

    @cached_property
    def delays(self) -> list[Floats]:
        """Delays (cells, outputs, bits, edge before, edge after) of each group, in picoseconds."""
        return [self._delays(group) for group in self.groups]

    def _delays(self, group: Group) -> Floats:
        kind = group.kind
        found = np.full((*group.outs.shape, kind.bits, 2, 2), -1.0)
        timing = kind.cell.timing
        is_clocked = kind.clock >= 0
        for o, output in enumerate(kind.outputs):
            arcs = (timing.launches if is_clocked else timing.arcs).get(output, [])
            for arc in arcs:
                if arc.source in kind.pins:
                    self._arc(group, arc, kind.pins.index(arc.source), o, found)
        # A pin without an arc, whose output another output drives, is as slow as the slowest pin.
        slowest = found.max(axis=(2, 3), keepdims=True)
        return np.maximum(np.where(found < 0, slowest, found), 0.0) * self.library.time_ps

    def _arc(self, group: Group, arc: Arc, pin: int, output: int, found: Floats) -> None:
        """Enter the delays of an arc: the largest of all arcs between its pins."""
        slews = slews_at(self, group, pin)
        loads = self.loads[group.outs[:, output]]
        for came, goes in arc.senses:
            table = arc.delays[goes]
            if table is not None:  # bit 1 is a rise, and edge 0
                delay = table.at(slews[:, came], loads[:, goes])
                place = found[:, output, pin, 1 - came, 1 - goes]
                np.maximum(place, delay, out=place)


def slews_at(timed: TimedNetlist, group: Group, pin: int) -> Floats:
    """Slews (cells, 2) of rise and fall at a pin; 0 at constants and at the ideal clock."""
    nets = group.ins[:, pin]
    slews = np.where(nets[:, None] >= 0, timed.slews[nets], 0.0)
    return np.zeros_like(slews) if pin == group.kind.clock else slews


def _clock(netlist: Netlist, library: Library) -> str | None:
    names = sorted(clocks(netlist, library))
    if len(names) > 1:
        raise SynthesisError(f"activity needs one clock, not {', '.join(names)}")
    if not names:
        return None
    net = named_inputs(netlist)[names[0]]
    for cell in netlist.cells:
        clock = library.cells[cell.type].clock
        if clock is not None and (clock.pin is None or cell.pins[clock.pin][0] != net):
            raise SynthesisError(
                f"{cell.name} is no flip-flop that the rising edge of an input clocks"
            )
    return names[0]


@dataclass(frozen=True)
class Counts:
    """Transitions of all cells and nets, summed over streams and counted cycles."""

    pins: list[Ints]
    """Of each group (cells, bits, states): transitions of each input pin, by the state after it;
    the bit of the pin says whether it rose.
    """
    outputs: list[Ints]
    """Of each group (cells, outputs, bits, states): transitions of each output, by the pin that
    caused it and the state that demands the new value.
    """
    states: list[Ints]
    """Of each group (cells, states): ends of cycles in each state."""
    changes: Ints
    """Transitions of each net."""
    settled: Ints
    """Cycles in which each net ends with another value than the cycle before: no glitches."""
    results: NDArray[np.uint8]
    """Output bits (streams, cycles, outputs) at the end of each cycle, those not counted too."""
    cycles: int
    """Counted cycles, summed over streams."""


def simulate(
    timed: TimedNetlist,
    stimulus: NDArray[np.uint8],
    skipped: int,
    period_ps: float,
    *,
    cache_dir: Path,
    vcd: Path | None = None,
) -> Counts:
    """Simulate streams of cycles, each from registers at 0.

    stimulus: bits (streams, cycles, inputs) in the order of `timed.inputs`. skipped: first cycles
    of each stream, which do not count. period_ps: the clock falls in its middle. vcd: a file for
    all transitions of the first stream's counted cycles.
    """
    program = _program(cache_dir)
    streams, cycles, _ = stimulus.shape
    with tempfile.TemporaryDirectory(prefix="mxdot-glitches-") as name:
        directory = Path(name)
        design, inputs, result = (directory / file for file in ("design", "stimulus", "result"))
        _write(design, _design(timed, period_ps))
        _write(inputs, [np.array([streams, cycles, skipped], np.int32), stimulus.reshape(-1)])
        command = [str(program), str(design), str(inputs), str(result)]
        if vcd is not None:
            vcd.write_text(_vcd_head(timed))
        done = subprocess.run(
            [*command, *([str(vcd)] if vcd is not None else [])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            reason = FAILURES.get(done.returncode, f"status {done.returncode}")
            raise SynthesisError(f"the simulation of {timed.netlist.name} failed: {reason}")
        return _counts(timed, result.read_bytes(), (streams, cycles), skipped)


def _program(cache_dir: Path) -> Path:
    """The simulator, compiled once; SynthesisError without a compiler."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise SynthesisError(
            "g++ not found; it compiles the simulation of glitches (Debian, Ubuntu: apt install "
            "g++)"
        )
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    key = digest([SOURCE.read_text(), *FLAGS, version.stdout])
    program = cache_dir.resolve() / f"glitches-{key[:16]}"
    with locked(program.with_suffix(".lock")):
        if not is_whole(program, key):
            with tempfile.TemporaryDirectory(prefix="mxdot-glitches-") as name:
                made = Path(name) / "glitches"
                command = [compiler, *FLAGS, str(SOURCE), "-o", str(made)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    lines = done.stderr.strip().splitlines() or ["no message"]
                    raise SynthesisError(f"g++ on {SOURCE.name}: {lines[0]}")
                write_file(program, made.read_bytes())
            program.chmod(0o755)
            seal(program, key)
    return program


def _design(timed: TimedNetlist, period_ps: float) -> list[NDArray]:
    """The arrays of DESIGN, in the order in which the program reads them."""
    longest = max((float(delays.max()) for delays in timed.delays if delays.size), default=0.0)
    arrivals = np.zeros((len(timed.inputs), 2))
    for row, (_, bit) in zip(arrivals, timed.inputs, strict=True):
        row[:] = timed.timing.arrivals.get(bit, NO_LOAD)
    arrivals = np.maximum(arrivals, 0.0)
    longest = max(longest, float(arrivals.max(initial=0.0)))
    tick_fs = max(SHORTEST_FS, longest * 1000 / LONGEST)
    truth, table, outs, delays = [], {}, [], []
    at = delay_at = 0
    readers: list[tuple[int, int, int]] = []
    for group, delay in zip(timed.groups, timed.delays, strict=True):
        kind = group.kind
        tables = [*kind.outputs.values(), *kind.next]
        truth += tables
        place, at = at, at + len(tables) * kind.states
        delays.append(np.rint(delay * 1000 / tick_fs).astype(np.int32).reshape(-1))
        step = kind.bits * 4
        for row, (index, nets) in enumerate(zip(group.cells, group.outs, strict=True)):
            table[int(index)] = (kind, place, _first_state(timed.cells[index], kind))
            for o, net in enumerate(nets):
                first = delay_at + (row * len(nets) + o) * step
                outs.append((int(index), int(net), place + o * kind.states, first))
        delay_at += delays[-1].size
        for pin in range(len(kind.pins)):
            if pin != kind.clock:
                nets = group.ins[:, pin]
                readers += [
                    (int(n), int(c), pin) for n, c in zip(nets, group.cells, strict=True) if n >= 0
                ]
    outs.sort()
    first = np.searchsorted([out[0] for out in outs], np.arange(len(timed.cells) + 1))
    cells = []
    for index in range(len(timed.cells)):
        kind, place, begin = table[index]
        following = place + len(kind.outputs) * kind.states
        cells += [kind.bits, first[index], first[index + 1], kind.clock, len(kind.pins)]
        cells += [following, begin]
    readers.sort()
    fan = np.array(readers, np.int32).reshape(-1, 3)
    clock = -1
    if timed.clock is not None:
        clock = timed.numbers[named_inputs(timed.netlist)[timed.clock]]
    half = max(1, round(period_ps * 500 / tick_fs))
    return [
        np.array([timed.size, clock, half], np.int32),
        np.array([tick_fs], np.float64),
        np.array(cells, np.int32),
        np.array([(net, index, t, d) for index, net, t, d in outs], np.int32).reshape(-1),
        np.concatenate([np.zeros(0, np.uint8), *truth]),
        np.concatenate([np.zeros(0, np.int32), *delays]),
        np.searchsorted(fan[:, 0], np.arange(timed.size + 1)).astype(np.int32),
        np.ascontiguousarray(fan[:, 1]),
        np.ascontiguousarray(fan[:, 2]),
        np.array([timed.numbers[bit] for _, bit in timed.inputs], np.int32),
        np.rint(arrivals * 1000 / tick_fs).astype(np.int32).reshape(-1),
        np.array(_results(timed), np.int32),
        np.array([len(timed.nets)], np.int32),
    ]


VCD_DIGITS = "".join(map(chr, range(33, 127)))


def _vcd_head(timed: TimedNetlist) -> str:
    """Declarations of a VCD, with the names of `opensta.structural`: nets, and pins of cells."""
    lines = ["$timescale 1 fs $end", "$scope module mapped $end"]
    lines += [f"$var wire 1 {_vcd_label(i)} n{net} $end" for i, net in enumerate(timed.nets)]
    for index, cell in enumerate(timed.netlist.cells):
        lines.append(f"$scope module c{index} $end")
        lines += [
            f"$var wire 1 {_vcd_label(timed.numbers[bits[0]])} {pin} $end"
            for pin, bits in cell.pins.items()
            if bits and bits[0] in timed.numbers
        ]
        lines.append("$upscope $end")
    return "\n".join([*lines, "$upscope $end", "$enddefinitions $end", ""])


def _vcd_label(net: int) -> str:
    """The same as the program's `label`."""
    text = VCD_DIGITS[net % 94]
    while net := net // 94:
        text += VCD_DIGITS[net % 94]
    return text


def _first_state(cell: Cell, kind: Kind) -> int:
    """The constant pins of a cell that are 1."""
    return sum(1 << i for i, pin in enumerate(kind.pins) if cell.pins.get(pin, ["0"])[0] == "1")


def _results(timed: TimedNetlist) -> list[int]:
    return [timed.numbers[bit] for _, _, bit in timed.netlist.outputs() if isinstance(bit, int)]


def _write(path: Path, arrays: Sequence[NDArray]) -> None:
    with path.open("wb") as file:
        for array in arrays:
            file.write(np.int64(array.size).tobytes())
            file.write(np.ascontiguousarray(array).tobytes())


def _counts(timed: TimedNetlist, raw: bytes, shape: tuple[int, int], skipped: int) -> Counts:
    """Sort the program's counts by group."""
    bits = np.zeros(len(timed.cells), np.int64)
    outputs = np.zeros(len(timed.cells), np.int64)
    for group in timed.groups:
        bits[group.cells], outputs[group.cells] = group.kind.bits, group.outs.shape[1]
    states = 1 << bits
    sizes = [(bits * states).sum(), (outputs * bits * states).sum(), states.sum(), timed.size]
    ends = np.cumsum([*sizes, timed.size])
    numbers = np.frombuffer(raw, np.uint32, int(ends[-1])).astype(np.int64)
    pins, outs, ends_in, changes, settled = np.split(numbers, ends[:-1])
    results = np.frombuffer(raw, np.uint8, offset=4 * int(ends[-1]))

    def rows(values: Ints, lengths: Ints, group: Group, *axes: int) -> Ints:
        first = (np.cumsum(lengths) - lengths)[group.cells]
        length = int(np.prod(axes))
        return values[first[:, None] + np.arange(length)].reshape(len(first), *axes)

    by_group = [
        (
            rows(pins, bits * states, group, group.kind.bits, group.kind.states),
            rows(
                outs,
                outputs * bits * states,
                group,
                *(group.outs.shape[1], group.kind.bits, group.kind.states),
            ),
            rows(ends_in, states, group, group.kind.states),
        )
        for group in timed.groups
    ]
    streams, cycles = shape
    return Counts(
        [one for one, _, _ in by_group],
        [one for _, one, _ in by_group],
        [one for _, _, one in by_group],
        changes,
        settled,
        results.reshape(streams, cycles, -1),
        streams * (cycles - skipped),
    )
