"""Graphs of AND gates and inverters in the binary AIGER format: shared states, unrolled cycles."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FALSE, TRUE = 0, 1


def passes(first: str = "opt -full", second: str = "opt") -> str:
    """Yosys passes that turn a flat design without processes into the cells of `write_aiger`.

    first, second: simplification of word-level cells and of gates.
    """
    return f"""
memory_map
{first}
techmap
{second}
dffunmap
setundef -undriven -zero
aigmap
opt_clean
"""


PASSES = passes()


@dataclass(frozen=True)
class Aig:
    """A graph. Literals are twice the number of a node, plus 1 where inverted; node 0 is false.

    inputs, outputs: names, bit i of `a` as ("a", i). nexts: a literal for each register, of the
    nodes after the inputs'; ands: two literals for each further node. registers: names, where it
    has one.
    """

    inputs: Sequence[tuple[str, int]]
    nexts: Sequence[int]
    outputs: dict[tuple[str, int], int]
    ands: Sequence[tuple[int, int]]
    registers: Sequence[tuple[str, int] | None] = ()


def read(path: Path) -> Aig:
    """Read a file of Yosys' `write_aiger -symbols` or of ABC's `write_aiger -s`."""
    data = path.read_bytes()
    end = data.index(b"\n")
    _, inputs, registers, outputs, ands = map(int, data[4:end].split()[:5])
    at = end + 1
    lines = []
    for _ in range(registers + outputs):
        stop = data.index(b"\n", at)
        lines.append(int(data[at:stop].split()[0]))
        at = stop + 1
    pairs = []
    for node in range(inputs + registers + 1, inputs + registers + 1 + ands):
        first, at = _number(data, at)
        second, at = _number(data, at)
        high = 2 * node - first
        pairs.append((high, high - second))
    names: dict[str, tuple[str, int]] = {}
    for line in data[at:].split(b"\nc\n")[0].decode().splitlines():
        place, *aliases = line.split(" ")
        # A register's own name, and names of the nets that it drives.
        own = next((alias for alias in aliases if "_register_" in alias), aliases[0])
        names[place] = named(own)
    return Aig(
        [names[f"i{i}"] for i in range(inputs)],
        lines[:registers],
        {names[f"o{i}"]: lines[registers + i] for i in range(outputs)},
        pairs,
        [names.get(f"l{i}") for i in range(registers)],
    )


def named(bit: str) -> tuple[str, int]:
    """Bit i of `a` as ("a", i), of "a[i]"; a net of one bit is its own bit 0. The word of a memory
    is a net of the name "a[i]"."""
    name, bracket, place = bit.rpartition("[")
    return (name, int(place.rstrip("]"))) if bracket else (bit, 0)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of 7 bits, and the place after it."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


@dataclass
class Builder:
    """A new graph: its inputs and registers first, then ANDs, each pair once."""

    inputs: int
    registers: int
    ands: list[tuple[int, int]] = field(default_factory=list)
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def input(self, number: int) -> int:
        """The literal of an input, or of a register, which come after inputs."""
        return 2 * (number + 1)

    def both(self, a: int, b: int) -> int:
        """AND."""
        a, b = max(a, b), min(a, b)
        if b == FALSE or a == b ^ 1:
            return FALSE
        if b == TRUE or a == b:
            return a
        if (a, b) not in self.known:
            self.ands.append((a, b))
            self.known[a, b] = 2 * (self.inputs + self.registers + len(self.ands))
        return self.known[a, b]

    def either(self, literals: Iterable[int]) -> int:
        """OR."""
        none = TRUE
        for literal in literals:
            none = self.both(none, literal ^ 1)
        return none ^ 1

    def differ(self, a: int, b: int) -> int:
        """XOR."""
        return self.either((self.both(a, b ^ 1), self.both(a ^ 1, b)))

    def choose(self, select: int, yes: int, no: int) -> int:
        """A multiplexer."""
        return self.either((self.both(select, yes), self.both(select ^ 1, no)))

    def copy(self, aig: Aig, leaves: Sequence[int]) -> list[int]:
        """Literals of all nodes of `aig`, whose inputs and registers are `leaves`."""
        nodes = [FALSE, *leaves]
        for a, b in aig.ands:
            nodes.append(self.both(nodes[a >> 1] ^ a & 1, nodes[b >> 1] ^ b & 1))
        return nodes

    def write(self, path: Path, nexts: Sequence[int], output: int) -> None:
        """Write binary AIGER with one output; registers begin at 0."""
        total = self.inputs + self.registers + len(self.ands)
        head = f"aig {total} {self.inputs} {self.registers} 1 {len(self.ands)}\n"
        body = bytearray("".join(f"{x}\n" for x in (*nexts, output)), "ascii")
        for node, (a, b) in enumerate(self.ands, self.inputs + self.registers + 1):
            for value in (2 * node - a, a - b):
                while value > 0x7F:
                    body.append(value & 0x7F | 0x80)
                    value >>= 7
                body.append(value)
        path.write_bytes(head.encode() + bytes(body))


def unroll(
    graph: Aig,
    cycles: int,
    fixed: dict[str, int],
    path: Path,
    order: Callable[[tuple[str, int]], Any] | None = None,
) -> None:
    """Write a graph whose output is that of the last of `cycles`, from any state in the first one.

    fixed: values of inputs, by name, in every cycle; order: what inputs are sorted by.
    """
    free = [name for name in graph.inputs if name[0] not in fixed]
    if order is not None:
        free.sort(key=order)
    builder = Builder(cycles * len(free) + len(graph.nexts), 0)
    state = [builder.input(cycles * len(free) + i) for i in range(len(graph.nexts))]
    bad = FALSE
    for cycle in range(cycles):
        given = {name: builder.input(cycle * len(free) + i) for i, name in enumerate(free)}
        leaves = [
            given[name] if name in given else fixed[name[0]] >> name[1] & 1 for name in graph.inputs
        ]
        nodes = builder.copy(graph, [*leaves, *state])
        state = [nodes[x >> 1] ^ x & 1 for x in graph.nexts]
        (output,) = graph.outputs.values()
        bad = nodes[output >> 1] ^ output & 1
    builder.write(path, [], bad)
