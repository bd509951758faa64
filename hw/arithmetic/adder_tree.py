"""Carry-save adder trees: of sign-magnitude terms, and of two's-complement words."""

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


def signed_sum(m: Module, name: str, words: list[Value]) -> Value:
    """The exact sum of 2^n two's-complement `words` of one width w, w + n bits.

    With every sign bit inverted they are unsigned. That adds 2^(w - 1) to each, 2^(w + n - 1) to
    the sum: its own sign bit inverted.
    """
    rows = [Value.cast(word).as_unsigned() for word in words]
    width = len(rows[0]) + (len(rows) - 1).bit_length()
    flipped: list[Value] = [row ^ (1 << (len(row) - 1)) for row in rows]
    total = add_rows(m, name, flipped, width)
    return (total ^ (1 << (width - 1)))[:width].as_signed()


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
