"""Switching activity: a netlist simulated with many streams of inputs at a time.

Each net is one Python integer, whose bit j belongs to stream j, so that an operation serves all
streams. There are no delays: a net changes at most once in a cycle, and glitches are not seen.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..util.yosys import Bit, Cell, Netlist
from .errors import SynthesisError
from .liberty import Library, LibraryCell
from .liberty_syntax import Function
from .netlist import clocks, in_order

Cells = list[tuple[Cell, LibraryCell]]
Words = dict[str, list[int]]
"""Bits of each port, lowest first; one integer holds a bit of all streams."""


class Activity:
    """A netlist with one clock, and the number of changes of each cell's output.

    Registers start at 0. streams: runs of the design, simulated in parallel. SynthesisError for
    latches, for several clocks, and for a clock that is not an input.
    """

    def __init__(self, netlist: Netlist, library: Library, streams: int) -> None:
        cells = [(cell, library.cells[cell.type]) for cell in netlist.cells]
        for cell, kind in cells:
            if kind.is_latch or len(kind.outputs) == 0:
                raise SynthesisError(
                    f"activity needs flip-flops and gates, and {cell.type} is none"
                )
        held = [(cell, kind) for cell, kind in cells if kind.clock is not None]
        names = sorted(clocks(netlist, library))
        if len(names) > 1:
            raise SynthesisError(f"activity needs one clock, not {', '.join(names)}")
        self.clock = names[0] if names else None
        self.ones = (1 << streams) - 1
        self.netlist, self._library = netlist, library
        order = in_order(netlist, library)
        self.nets: list[Bit] = []
        """Nets whose changes are counted: outputs of registers first, then of gates."""
        self.drivers: list[str] = []
        """Type of the cell that drives each of `nets`."""
        self._state = [0] * sum(len(kind.state) for _, kind in held)
        self._step = self._compile(held, order)
        self._values = [0] * len(self.nets)
        self.changes: NDArray[np.int64] = np.zeros(len(self.nets), np.int64)
        """Changes of each of `nets` since the last `clear`, summed over streams."""
        self.cycles = 0
        """Cycles since the last `clear`."""

    def restart(self, streams: int) -> None:
        """Set all registers to 0, for this number of streams."""
        self.ones = (1 << streams) - 1
        self._state = [0] * len(self._state)
        self._values = [0] * len(self._values)
        self.clear()

    def clear(self) -> None:
        """Start counting from 0."""
        self.changes[:] = 0
        self.cycles = 0

    def cycle(self, inputs: Mapping[str, list[int]]) -> Words:
        """One clock cycle: the outputs for `inputs` (0 where a port is left out), then an edge."""
        words = {}
        for name, place, bit in self.netlist.inputs():
            if isinstance(bit, int):
                bits = inputs.get(name)
                words[bit] = bits[place] if bits is not None else 0
        values, self._state, outputs = self._step(words, self._state, self.ones)
        self.changes += [(a ^ b).bit_count() for a, b in zip(values, self._values, strict=True)]
        self._values = values
        self.cycles += 1
        found: Words = {}
        for (name, _, _), word in zip(self.netlist.outputs(), outputs, strict=True):
            found.setdefault(name, []).append(word)
        return found

    def _compile(self, held: Cells, order: Cells) -> Callable:
        """Compile the cells to one Python function of inputs and state."""
        lines = ["def step(inputs, state, ones):"]
        names = [f"s{index}" for index in range(len(self._state))]
        if names:
            lines.append(f"  {', '.join(names)}, = state")
        lines += [f"  {_net(bit)} = inputs.get({bit}, 0)" for bit in self._undriven()]
        following = []
        states = iter(names)
        for cell, kind in held:
            own = {variable: next(states) for variable in kind.state}
            self._outputs(lines, cell, kind, own)
            following += [(function, cell, own) for function in kind.state.values()]
        for cell, kind in order:
            self._outputs(lines, cell, kind, {})
        nexts = ", ".join(_expression(function, cell, own) for function, cell, own in following)
        ends = ", ".join(_net(bit) for _, _, bit in self.netlist.outputs())
        values = ", ".join(_net(net) for net in self.nets)
        lines.append(f"  return [{values}], [{nexts}], [{ends}]")
        scope: dict[str, Callable] = {}
        exec("\n".join(lines), scope)
        return scope["step"]

    def _outputs(
        self, lines: list[str], cell: Cell, kind: LibraryCell, own: dict[str, str]
    ) -> None:
        for pin, function in kind.outputs.items():
            for net in cell.pins.get(pin, []):
                lines.append(f"  {_net(net)} = {_expression(function, cell, own)}")
                self.nets.append(net)
                self.drivers.append(cell.type)

    def _undriven(self) -> list[int]:
        """Nets without a driving cell: inputs of the design, and nets that are always 0."""
        used = {bit for _, bits in self.netlist.ports.values() for bit in bits}
        driven: set[Bit] = set()
        for cell in self.netlist.cells:
            used.update(bit for bits in cell.pins.values() for bit in bits)
            for pin in self._library.cells[cell.type].outputs:
                driven.update(cell.pins.get(pin, []))
        return sorted(bit for bit in used - driven if isinstance(bit, int))


def _net(bit: Bit) -> str:
    if isinstance(bit, int):
        return f"n{bit}"
    return "ones" if bit == "1" else "0"


def _expression(function: Function, cell: Cell, own: dict[str, str]) -> str:
    pins = {name: own[name] if name in own else _net(cell.pins[name][0]) for name in function.names}
    return function.substitute(pins)


def pack(bits: NDArray[np.bool_]) -> list[int]:
    """Pack bits (streams, width) into `width` integers; bit j of each comes from row j."""
    columns = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
    return [int.from_bytes(column.tobytes(), "little") for column in columns]


def unpack(words: list[int], streams: int) -> NDArray[np.bool_]:
    """The inverse of `pack`."""
    size = (streams + 7) // 8
    raw = np.frombuffer(b"".join(word.to_bytes(size, "little") for word in words), np.uint8)
    columns = np.unpackbits(raw.reshape(len(words), size), axis=1, count=streams, bitorder="little")
    return columns.T.astype(bool)
