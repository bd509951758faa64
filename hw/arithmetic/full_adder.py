"""Full and half adders as modules of their own, so that synthesis can take a library's cells for
them: ABC does not find them in loose gates. Simulators and FPGAs see plain logic.

A module holds a row of adders, side by side and without carries between them, so that a tree reads,
and simulates, a word at a time.
"""

from collections.abc import Sequence
from itertools import groupby

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import collects, submodule


class FullAdder(wiring.Component):
    """2 carry[i] + sum[i] = a[i] + b[i] + c[i]; combinational.

    Ports:

    - `a`, `b`, `c` in, `bits`: words to add
    - `sum` out, `bits`: bits of their weight
    - `carry` out, `bits`: bits of twice the weight
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__(
            {"a": In(bits), "b": In(bits), "c": In(bits), "sum": Out(bits), "carry": Out(bits)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        half = Signal(self.bits)
        m.d.comb += [
            half.eq(self.a ^ self.b),
            self.sum.eq(half ^ self.c),
            self.carry.eq((self.a & self.b) | (half & self.c)),
        ]
        return m


class HalfAdder(wiring.Component):
    """2 carry[i] + sum[i] = a[i] + b[i]; combinational.

    Ports:

    - `a`, `b` in, `bits`: words to add
    - `sum` out, `bits`: bits of their weight
    - `carry` out, `bits`: bits of twice the weight
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__({"a": In(bits), "b": In(bits), "sum": Out(bits), "carry": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.sum.eq(self.a ^ self.b), self.carry.eq(self.a & self.b)]
        return m


def add_bits(m: Module, name: str, *words: Value) -> tuple[Value, Value]:
    """(sums, carries) of two or three words of one width, bit by bit."""
    width = len(words[0])
    if collects():
        adder = submodule(m, name, (FullAdder if len(words) == 3 else HalfAdder)(width))
        for port, word in zip("abc", words, strict=False):
            m.d.comb += getattr(adder, port).eq(word)
        return adder.sum, adder.carry
    # Without a module of its own: Amaranth's simulator is much faster that way.
    a, b, *rest = words
    c = rest[0] if rest else Const(0, width)
    total, carry = Signal(width, name=f"{name}_sum"), Signal(width, name=f"{name}_carry")
    m.d.comb += [total.eq(a ^ b ^ c), carry.eq((a & b) | ((a ^ b) & c))]
    return total, carry


class AdderRows:
    """The adders of a tree, from which rows are made: of neighbours in columns side by side that
    lie behind as many others, so that no row feeds itself."""

    def __init__(self, m: Module, name: str) -> None:
        self.m, self.name, self.rows = m, name, 0
        self._waiting: dict[tuple[int, int, int, int], tuple[Sequence[Value], Signal, Signal]] = {}

    def add(self, level: int, column: int, *bits: Value) -> tuple[Value, Value]:
        """(sum, carry) of two or three bits. level: the longest way to them, in adders."""
        rank = 0
        while (key := (level, len(bits), rank, column)) in self._waiting:
            rank += 1
        # Without names: they are bits of a row's.
        self._waiting[key] = bits, Signal(name=""), Signal(name="")
        return self._waiting[key][1:]

    def place(self) -> None:
        """Make the rows of all adders since the last time."""
        keys = sorted(self._waiting)
        # Neighbours have the same difference of column and number in order.
        for _, run in groupby(enumerate(keys), lambda item: (*item[1][:3], item[1][3] - item[0])):
            adders = [self._waiting[key] for _, key in run]
            inputs, totals, carries = zip(*adders, strict=True)
            words = [Cat(*bits) for bits in zip(*inputs, strict=True)]
            total, carry = add_bits(self.m, f"{self.name}{self.rows}", *words)
            self.m.d.comb += [Cat(*totals).eq(total), Cat(*carries).eq(carry)]
            self.rows += 1
        self._waiting.clear()


def is_constant(value: Value, digit: int) -> bool:
    """Whether a bit is always `digit`."""
    return isinstance(value, Const) and value.value == digit
