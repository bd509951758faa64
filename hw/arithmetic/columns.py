"""Columns of bits and their compression to two rows by full adders.

All bits of a column have one weight. A full adder takes three bits of a column to one in the same
column and one in the next: n bits take n - 2 adders in any order. Taking the earliest bits first
keeps the tree as shallow as the arrivals allow (Oklobdzija, Villeger and Liu, IEEE Trans. Computers
45(3), 1996). Times are rough, in delays of an exclusive or.

Full and half adders are modules: ABC does not find a library's adder cells in loose gates.
A module holds a row of adders without carries between them: it reads, and simulates, word by word.

Without full adders (`is_plain`) the words are added by `+`, in a tree of two operands each.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, groupby

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import collects, constant, is_plain, submodule


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
    # No module of its own: Amaranth's simulator is much faster without.
    a, b, *rest = words
    c = rest[0] if rest else Const(0, width)
    total, carry = Signal(width, name=f"{name}_sum"), Signal(width, name=f"{name}_carry")
    m.d.comb += [total.eq(a ^ b ^ c), carry.eq((a & b) | ((a ^ b) & c))]
    return total, carry


class AdderRows:
    """Adders of a tree, gathered into rows.

    A row holds adders in neighbouring columns with equally many adders before them, so that no row
    feeds itself.
    """

    def __init__(self, m: Module, name: str) -> None:
        self.m, self.name, self.rows = m, name, 0
        self._waiting: dict[tuple[int, int, int, int], tuple[Sequence[Value], Signal, Signal]] = {}

    def add(self, level: int, column: int, *bits: Value) -> tuple[Value, Value]:
        """(sum, carry) of two or three bits. `level`: adders on the longest way to them."""
        rank = 0
        while (key := (level, len(bits), rank, column)) in self._waiting:
            rank += 1
        # No names: they are bits of a row.
        self._waiting[key] = bits, Signal(name=""), Signal(name="")
        return self._waiting[key][1:]

    def place(self) -> None:
        """Make the rows of all adders added since the last call."""
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
    """True for a bit that is always `digit`."""
    return isinstance(value, Const) and value.value == digit


SUM_DELAY, CARRY_DELAY = 1.9, 1.4  # delays of a full adder
LAST_INPUT = 0.2  # a full adder's last input is that much faster
HALF_SUM_DELAY, HALF_CARRY_DELAY = 1.0, 0.6


@dataclass(frozen=True)
class Bit:
    """A bit, its approximate arrival time, and the number of adders of its tree before it."""

    value: Value
    time: float = 0.0
    level: int = 0


ZERO = Bit(Const(0, 1))


class Columns:
    """A sum modulo 2^width under construction: bits and constants by weight."""

    def __init__(self, m: Module, name: str, width: int) -> None:
        self.m, self.name, self.width = m, name, width
        self.columns: list[list[Bit]] = [[] for _ in range(width)]
        self.spare: list[list[Bit]] = [[] for _ in range(width)]
        self.constant = 0
        self.adders = AdderRows(m, name)
        self.words: list[Value] | None = [] if is_plain() else None
        """Terms that `+` adds; None with full adders."""

    def add(self, word: Iterable[Value], place: int = 0, time: float = 0.0) -> None:
        """Add an unsigned word x 2^place, without the bits beyond the width."""
        if self.words is not None:
            self._add_word(Cat(*word), place)
            return
        for column, value in enumerate(word, place):
            bit = Bit(value, time)
            if column < self.width and not is_constant(value, 0):
                self.columns[column].append(bit)

    def add_where_free(self, word: Iterable[Value], place: int = 0, time: float = 0.0) -> None:
        """Add a word whose bits wait for adder inputs that would stay free: there they cost
        nothing.
        """
        if self.words is not None:
            self._add_word(Cat(*word), place)
            return
        for column, value in enumerate(word, place):
            if column < self.width:
                self.spare[column].append(Bit(value, time))

    def add_signed(self, word: Value) -> None:
        """Add a two's-complement word, by `+`."""
        assert self.words is not None
        self.words.append(word.as_signed())

    def _add_word(self, word: Value, place: int) -> None:
        kept = word[: max(self.width - place, 0)]
        if len(kept) and self.words is not None:
            self.words.append(Cat(Const(0, place), kept) if place else kept)

    def _totals(self, words: list[Value], count: int) -> list[Value]:
        """`count` words of the width with the sum of `words`, and of the constant."""
        added = constant(self.m, f"{self.name.upper()}_CONSTANT", self.constant, self.width)
        words = words if is_constant(added, 0) else [*words, added]
        each, more = divmod(len(words), count)
        totals: list[Value] = []
        for number in range(count):
            size = each + (number < more)
            group, words = words[:size], words[size:]
            total = Signal(self.width, name=f"{self.name}_word{number}")
            self.m.d.comb += total.eq(self._sum(group, f"{self.name}{number}_sum"))
            totals.append(total)
        return totals

    def _sum(self, words: list[Value], name: str) -> Value:
        """Sum of words in a tree of `+`, modulo 2^width."""
        level = 0
        while len(words) > 1:
            sums: list[Value] = []
            for number in range(0, len(words) - 1, 2):
                total = words[number] + words[number + 1]
                total = total[: self.width] if len(total) > self.width else total
                held = Signal(total.shape(), name=f"{name}{level}_{number // 2}")
                self.m.d.comb += held.eq(total)
                sums.append(held)
            words = sums + words[len(words) & ~1 :]
            level += 1
        return words[0] if words else Const(0, self.width)

    def add_constant(self, value: int) -> None:
        """Add an integer, which may be negative."""
        self.constant = (self.constant + value) % (1 << self.width)

    def _bits(self, column: int) -> list[Bit]:
        """Bits of a column, with the constant's."""
        constant = [Bit(Const(1, 1))] if self.constant >> column & 1 else []
        return self.columns[column] + constant

    def reduce(self, height: int) -> list[Value]:
        """At most `height` (3 or more) words with the same sum."""
        if self.words is not None:
            return self._totals(self.words, height)
        number = count()
        words: list[list[Value]] = [[] for _ in range(height)]
        for column in range(self.width):
            waiting = [
                (bit.time, next(number), bit) for bit in self._bits(column) + self.spare[column]
            ]
            heapq.heapify(waiting)
            while len(waiting) > height:
                first, second, third = (heapq.heappop(waiting)[2] for _ in range(3))
                self._put(waiting, column, number, *self._full(column, first, second, third))
            left = [bit.value for *_, bit in sorted(waiting, key=lambda entry: entry[:2])]
            for word, value in zip(words, left + [ZERO.value] * (height - len(left)), strict=True):
                word.append(value)
        self.adders.place()
        return [Cat(*word) for word in words]

    def compress(self, halves_from: int = 0) -> tuple[list[Bit], list[Bit]]:
        """Two rows with the same sum.

        A column with an odd number of bits keeps one of them. At or above `halves_from` a half
        adder makes the number even instead, and the tree less deep.
        """
        if self.words is not None:
            (total,) = self._totals(self.words, 1)
            return [Bit(digit) for digit in total], [ZERO] * self.width
        number = count()
        rows: tuple[list[Bit], list[Bit]] = ([], [])
        for column in range(self.width):
            bits = self._bits(column)
            left = self._compress_column(column, bits, number, column >= halves_from)
            left += [ZERO] * (2 - len(left))
            for row, bit in zip(rows, left, strict=True):
                row.append(bit)
        self.adders.place()
        return rows

    def _compress_column(
        self, column: int, bits: list[Bit], number: "count[int]", halves: bool
    ) -> list[Bit]:
        spare = list(self.spare[column])
        if spare and (len(bits) % 2 == 0 or len(bits) + len(spare) <= 2 or len(spare) > 1):
            bits, spare = bits + spare, []  # no place is left free
        waiting = [(bit.time, next(number), bit) for bit in bits]
        heapq.heapify(waiting)

        def take() -> Bit:
            return heapq.heappop(waiting)[2]

        if halves and len(waiting) % 2 and len(waiting) > 2 and not spare:
            self._put(waiting, column, number, *self._half(column, take(), take()))
        while len(waiting) > 2:
            self._put(waiting, column, number, *self._full(column, take(), take(), take()))
        return [bit for *_, bit in sorted(waiting, key=lambda entry: entry[:2])] + spare

    def _put(self, waiting: list, column: int, number: "count[int]", total: Bit, over: Bit) -> None:
        heapq.heappush(waiting, (total.time, next(number), total))
        if column + 1 < self.width and not is_constant(over.value, 0):
            self.columns[column + 1].append(over)

    def _full(self, column: int, a: Bit, b: Bit, c: Bit) -> tuple[Bit, Bit]:
        level = max(a.level, b.level, c.level)
        for one, x, y in ((a, b, c), (b, a, c), (c, a, b)):
            if is_constant(one.value, 1):  # x + y + 1
                time = max(x.time, y.time) + HALF_SUM_DELAY
                total, over = ~(x.value ^ y.value), x.value | y.value
                return Bit(total, time, level), Bit(over, time - 0.4, level)
        total, over = self.adders.add(level, column, a.value, b.value, c.value)
        time = max(a.time, b.time, c.time - LAST_INPUT)
        return Bit(total, time + SUM_DELAY, level + 1), Bit(over, time + CARRY_DELAY, level + 1)

    def _half(self, column: int, a: Bit, b: Bit) -> tuple[Bit, Bit]:
        level = max(a.level, b.level)
        for one, x in ((a, b), (b, a)):
            if is_constant(one.value, 1):
                return Bit(~x.value, x.time, level), x
        total, over = self.adders.add(level, column, a.value, b.value)
        time = max(a.time, b.time)
        return (
            Bit(total, time + HALF_SUM_DELAY, level + 1),
            Bit(over, time + HALF_CARRY_DELAY, level + 1),
        )
