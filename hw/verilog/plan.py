"""Contents of a module's Verilog: a name for every bit, and operators that stand inside others."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ...model.keywords import RESERVED
from .expressions import Operation, operation, own_width
from .netlist import Bit, Bits, Cell, Field, Live, Net, NetlistModule, cut, split_nets

KEYWORDS = RESERVED["sv"]


class Names:
    """Vector of each bit, and ranges of the vectors.

    The first net that shows a bit names it. Nets that only repeat others have no bits left and do
    not appear.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.of: dict[Bit, tuple[str, int]] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self._taken = set(KEYWORDS) | set(reserved)

    def port(self, name: str, bits: Bits, own: bool) -> None:
        """Add a port with all its bits; with `own`, unnamed bits become its own."""
        self._taken.add(name)
        self.ranges[name] = (0, len(bits) - 1)
        for index, bit in enumerate(bits) if own else ():
            if isinstance(bit, int):
                self.of.setdefault(bit, (name, index))

    def net(self, net: Net, live: set[Bit]) -> None:
        """Add a net; only bits that are `live` and unnamed become its own."""
        new = [i for i, bit in enumerate(net.bits) if bit in live and bit not in self.of]
        new = [i for i in new if isinstance(net.bits[i], int)]
        first: dict[Bit, int] = {}
        for i in new:
            first.setdefault(net.bits[i], i)
        new = list(first.values())
        if not new:
            return
        name = self.unique(net.name)
        whole = new == list(range(new[0], new[-1] + 1))
        places = new if whole and len(new) > 1 else range(len(new))
        self.ranges[name] = (places[0], places[-1])
        for index, place in zip(new, places, strict=True):
            self.of[net.bits[index]] = (name, place)

    def rest(self, name: str, bits: Iterable[Bit]) -> None:
        """Vector of the unnamed ones among `bits`."""
        new = [b for b in dict.fromkeys(bits) if isinstance(b, int) and b not in self.of]
        if new:
            self.move(name, tuple(new))

    def move(self, name: str, bits: Bits) -> None:
        """Vector of all these bits, regardless of their earlier names."""
        name = self.unique(name)
        self.ranges[name] = (0, len(bits) - 1)
        for index, bit in enumerate(bits):
            self.of[bit] = (name, index)

    def is_part(self, bits: Bits) -> bool:
        """True if the bits follow each other in one vector."""
        name, low = self.of.get(bits[0], ("", 0))
        return all(self.of.get(bit) == (name, low + i) for i, bit in enumerate(bits))

    def unique(self, name: str) -> str:
        """Legal unused name, close to this one."""
        base = name = re.sub(r"\W", "_", re.sub(r"\$\d+$", "", name))
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def range(self, name: str) -> str:
        """Range of a vector in its declaration: empty, or followed by a space."""
        low, high = self.ranges[name]
        return "" if (low, high) == (0, 0) else f"[{high}:{low}] "

    def part(self, name: str, low: int, high: int) -> str:
        """Bits `low` to `high` of a vector."""
        if self.ranges[name] == (low, high):
            return name
        return f"{name}[{low}]" if low == high else f"{name}[{high}:{low}]"


LARGEST_INSIDE = 5  # names in an expression inside another
T = TypeVar("T")


@dataclass(frozen=True)
class Port:
    """Field of a port, which is a port of its own in the Verilog."""

    field: Field
    is_input: bool
    bits: Bits


class Plan:
    """Live parts of a module and their names.

    ports, constants, operations, registers, instances, reads and writes (of memories): parts to
    write. inside: operators whose results stand in the expression that reads them, by their first
    bit.
    """

    def __init__(self, module: NetlistModule, ports: dict[str, list[Field]], live: Live) -> None:
        self.module, self.live = module, live
        self.bits = live.bits[module.name]
        self.ports = [port for name, fields in ports.items() for port in self._ports(name, fields)]
        cells = [cell for cell in module.cells if self._matters(cell)]
        self.operations = [operation(cell, self.bits) for cell in cells if cell.is_operator]
        self.registers = [cell for cell in cells if cell.is_register]
        self.reads = [cell for cell in cells if cell.memory]
        memories = {cell.memory for cell in self.reads}
        self.writes = [c for c in module.cells if c.memory in memories and not c.outputs]
        self.instances = [cell for cell in cells if cell.is_instance]
        self.writers = {bit: op for op in self.operations for bit in op.out}
        given = module.constants.items()
        self.constants = {name: one for name, one in given if self.bits.intersection(one[0])}
        self.names = Names([*(cell.name for cell in self.instances), *memories])
        self.inside: dict[Bit, Operation] = {}
        self._name_what_the_design_names()
        self._name_the_rest()

    def _ports(self, name: str, fields: list[Field]) -> Iterable[Port]:
        is_input = name in self.module.inputs
        bits = (self.module.inputs if is_input else self.module.outputs)[name]
        for field in fields:
            if self.live.has(self.module.name, field):
                yield Port(field, is_input, cut(bits, field))

    def _matters(self, cell: Cell) -> bool:
        return any(self.bits.intersection(bits) for bits in cell.outputs.values())

    def kept(self, cell: Cell) -> list[tuple[Bit, Bit]]:
        """(Q, D) bits of a register that matter."""
        pairs = zip(cell.outputs["Q"], cell.inputs["D"], strict=True)
        return [(q, d) for q, d in pairs if q in self.bits]

    def runs(self, cell: Cell) -> list[list[tuple[Bit, Bit]]]:
        """`kept` bits of a named register in order, a list for each part of a vector."""
        order = {name: number for number, name in enumerate(self.names.ranges)}

        def place(pair: tuple[Bit, Bit]) -> tuple[int, int]:
            name, index = self.names.of[pair[0]]
            return order[name], index

        runs: list[list[tuple[Bit, Bit]]] = []
        last = (-1, -1)
        for pair in sorted(self.kept(cell), key=place):
            vector, index = place(pair)
            if (vector, index - 1) != last:
                runs.append([])
            runs[-1].append(pair)
            last = (vector, index)
        return runs

    def connections(self, cell: Cell) -> list[Port]:
        """Ports of an instance with the bits connected to them."""
        ports = {
            field.name: Port(field, is_input, cut(bits, field))
            for side, is_input in ((cell.inputs, True), (cell.outputs, False))
            for name, bits in side.items()
            for field in self.live.ports[cell.kind][name]
        }
        return [ports[field.name] for field in self.live.in_order(cell.kind)]

    # Names ------------------------------------------------------------------------------------

    def _name_what_the_design_names(self) -> None:
        """Name inputs, registers, outputs and signals; last the wires between instances."""
        names = self.names
        for name, (bits, _) in self.constants.items():
            names.port(name, bits, own=True)
        for port in self.ports:
            names.port(port.field.name, port.bits, own=port.is_input)
        nets = [net for net in split_nets(self.module.nets) if net.name not in names.ranges]
        outputs = tuple(f"{cell.name}_{port}" for cell in self.instances for port in cell.outputs)
        inputs = tuple(f"{cell.name}_{port}" for cell in self.instances for port in cell.inputs)
        plain = [net for net in nets if not net.name.startswith((*outputs, *inputs))]
        stored = {q for cell in self.registers for q, _ in self.kept(cell)}
        stored |= {bit for cell in self.reads for bit in cell.outputs["DATA"]}
        own = {bit for net in plain if net.is_register for bit in net.bits}
        for net in plain:
            names.net(net, stored if net.is_register else stored - own)
        for port in self.ports:
            if not port.is_input:
                register = tuple(b for b in port.bits if b in stored and b not in names.of)
                names.net(Net(f"{port.field.name}_register", register), stored)
        for port in self.ports:
            names.port(port.field.name, self._final(port), own=True)
        for net in (
            *plain,
            *(net for net in nets if net.name.startswith(outputs)),
            *(net for net in nets if net.name.startswith(inputs)),
        ):
            names.net(net, self.bits)

    def _final(self, port: Port) -> Bits:
        """Bits of an output that no operator reads to make another of its bits; "x" for the others.

        A vector that is read in the expression that writes parts of it is a loop to a simulator.
        """
        own = {bit for bit in port.bits if bit not in self.names.of}
        if port.is_input or len(own) == 1:
            return port.bits
        read: set[Bit] = set()
        met: set[int] = set()  # every bit of an operation's result leads to the same bits
        waiting = [*own]
        while waiting:
            writer = self.writers.get(waiting.pop())
            if writer is not None and id(writer) not in met:
                met.add(id(writer))
                new = set(writer.bits) - read
                read.update(new)
                waiting += new
        return tuple("x" if bit in read else bit for bit in port.bits)

    def _name_the_rest(self) -> None:
        """Name the remaining registers, outputs of instances, and operators that stand by
        themselves.
        """
        names = self.names
        for cell in self.registers:
            names.rest("register", [q for q, _ in self.kept(cell)])
        for cell in self.reads:
            names.rest(f"{cell.memory}_data", cell.outputs["DATA"])
        for cell in self.instances:
            for port in self.connections(cell):
                if not port.is_input:
                    name = f"{cell.name}_{port.field.name}"
                    names.rest(name, [bit for bit in port.bits if bit in self.bits])
                    names.rest(f"{name}_unused", port.bits)
        self.registers.sort(key=lambda cell: min(map(self._place_of, self._vectors(cell))))
        self._choose_inside()
        for op in self.operations:
            if op.out[0] in self.inside:
                continue
            if not names.is_part(op.out):
                names.move(self._stem(op), op.out)

    def _vectors(self, cell: Cell) -> set[str]:
        """Vectors of a register's bits."""
        return {self.names.of[q][0] for q, _ in self.kept(cell)}

    def _place_of(self, register: str) -> tuple[int, int]:
        """Place among the registers: those after an instance stand in the instances' order."""
        after = [i for i, c in enumerate(self.instances) if register.startswith(f"{c.name}_")]
        return max(after, default=-1), list(self.names.ranges).index(register)

    def _readers(self) -> list[Bits]:
        """Everything that is read, as one item per read."""
        operands: list[Bits] = []
        for op in self.operations:
            operands += [*op.operands, *((bit,) for bit in op.choices)]
        for cell in (*self.registers, *self.reads, *self.writes):
            operands += [bits for name, bits in cell.inputs.items() if name != "D"]
        for cell in self.registers:
            operands += [tuple(d for _, d in run) for run in self.runs(cell)]
        for cell in self.instances:
            operands += [port.bits for port in self.connections(cell) if port.is_input]
        return operands

    def _choose_inside(self) -> None:
        """Put small unnamed operators that are read once, as a whole, into the expression that
        reads them.
        """
        readers = self._readers()
        uses = Counter(bit for bits in readers for bit in bits)
        places: dict[Bit, list[tuple[Bits, int]]] = {}
        for bits in readers:
            for place, bit in enumerate(bits):
                if isinstance(bit, int):
                    places.setdefault(bit, []).append((bits, place))
        sizes: dict[Bit, int] = {}
        for op in in_order(self.operations, self.writers, lambda op: op.bits):
            out = op.out
            size = sum(self._size(operand, sizes) for operand in op.operands)
            size += len(op.choices)
            if any(bit in self.names.of for bit in out) or own_width(op) != len(out):
                continue
            reads = places.get(out[0], [])
            whole = all(bits[at : at + len(out)] == out for bits, at in reads)
            whole &= all(uses[bit] == len(reads) for bit in out)
            small = size == 1 or (len(reads) == 1 and size <= LARGEST_INSIDE)
            if reads and whole and small:
                self.inside[out[0]] = op
                sizes[out[0]] = size

    def _size(self, operand: Bits, sizes: dict[Bit, int]) -> int:
        """Number of names in an operand: runs of one vector or of constants."""
        size, place = 0, 0
        while place < len(operand):
            inside = self.inside.get(operand[place])
            if inside is not None:
                size, place = size + sizes[operand[place]], place + len(inside.out)
                continue
            size += 1
            vector = self._vector(operand[place])
            while place < len(operand) and self._vector(operand[place]) == vector:
                place += 1
        return size

    def _vector(self, bit: Bit) -> str | None:
        """Vector of a bit; None for constants, "" for a bit inside an expression."""
        if isinstance(bit, str):
            return None
        return self.names.of[bit][0] if bit in self.names.of else ""

    def _stem(self, op: Operation) -> str:
        """Name for the result of an operator, after the vector that it becomes part of."""
        owners = [self.names.of[bit][0] for bit in op.out if bit in self.names.of]
        if not owners:
            return self._reader_of(op)
        return f"{owners[0]}_{'wide' if self.bits.issuperset(op.out) else 'and_unused'}"

    def _reader_of(self, op: Operation) -> str:
        """Name after the register that takes the result, or the first net made of it."""
        for cell in self.registers:
            kept, controls = self.kept(cell), cell.inputs
            takers = [q for q, d in kept if d in op.out]
            if takers:
                return f"{self.names.of[takers[0]][0]}_next"
            for port, role in (("EN", "enable"), ("SRST", "reset")):
                if op.out == controls.get(port):
                    return f"{self.names.of[kept[0][0]][0]}_{role}"
        seen, waiting = set(op.out), [*op.out]
        while waiting:
            bits = set(waiting)
            waiting = []
            for reader in self.operations:
                if bits.intersection(reader.bits) and not seen.issuperset(reader.out):
                    owner = self.names.of.get(reader.out[-1])
                    if owner is not None:
                        return f"{owner[0]}_part"
                    seen.update(reader.out)
                    waiting += reader.out
        return "part"


def in_order(
    items: Iterable[T], writers: Mapping[Bit, T], reads: Callable[[T], Iterable[Bit]]
) -> list[T]:
    """Items, each after the writers of its inputs; items that read each other come in any order."""
    done: list[T] = []
    begun: set[int] = set()
    for first in items:
        path = [] if id(first) in begun else [(first, iter(reads(first)))]
        begun.add(id(first))
        while path:
            item, bits = path[-1]
            before_it = (writers[bit] for bit in bits if bit in writers)
            before = next((writer for writer in before_it if id(writer) not in begun), None)
            if before is None:
                done.append(item)
                path.pop()
            else:
                begun.add(id(before))
                path.append((before, iter(reads(before))))
    return done
