"""Carry-save adder tree of sign-magnitude terms."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class TermLayout(data.StructLayout):
    """A signed term: (-1)^sign x magnitude."""

    def __init__(self, width: int) -> None:
        super().__init__({"magnitude": width, "sign": 1})


def add_rows(m: Module, name: str, rows: list[Value], width: int) -> Value:
    """The sum of unsigned `rows` modulo 2^width: 3:2 compressors, then one addition."""
    level = 0
    while len(rows) > 2:
        level += 1
        above: list[Value] = []
        for i in range(0, len(rows) - 2, 3):
            x, y, z = rows[i : i + 3]
            size = max(len(x), len(y), len(z))
            partial = Signal(size, name=f"{name}{level}_{i // 3}_partial")
            carry = Signal(min(size + 1, width), name=f"{name}{level}_{i // 3}_carry")
            m.d.comb += [
                partial.eq(x ^ y ^ z),
                carry.eq(Cat(Const(0, 1), (x & y) | (x & z) | (y & z))),
            ]
            above += [partial, carry]
        rows = above + rows[len(rows) // 3 * 3 :]
    return sum(rows[1:], rows[0])[:width]


class AdderTree(wiring.Component):
    """The exact sum of `count` terms of `width`-bit magnitudes; combinational.

    Ports: terms in (`count` x `TermLayout`), total out (signed, `total_width` bits, which must hold
    the sum). No term is negated or sign-extended: with n negative terms and each of their
    magnitudes inverted, sum = sum of the w-bit words + n - n x 2^w. The words and n's two
    appearances go through 3:2 compressors; the one carry-propagating addition is the last.
    """

    def __init__(self, count: int, width: int, total_width: int) -> None:
        self.count, self.width, self.total_width = count, width, total_width
        super().__init__(
            {
                "terms": In(data.ArrayLayout(TermLayout(width), count)),
                "total": Out(signed(total_width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = [self.terms[i] for i in range(self.count)]
        negatives = Signal(self.count.bit_length())
        m.d.comb += negatives.eq(add_rows(m, "count", [t.sign for t in terms], len(negatives)))
        rows: list[Value] = [t.magnitude ^ t.sign.replicate(self.width) for t in terms]
        borrow = Signal(self.total_width - self.width)
        m.d.comb += borrow.eq(-negatives)
        rows += [negatives, Cat(Const(0, self.width), borrow)]
        m.d.comb += self.total.eq(add_rows(m, "sum", rows, self.total_width))
        return m
