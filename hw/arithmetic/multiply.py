"""Multipliers and squares: partial products in columns."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..hierarchy import is_plain
from .adders import carry_increment
from .columns import ZERO, Bit, Columns

AND_DELAY = 0.6
NO_HALF_ADDERS = 1 << 16  # columns that short need none to be shallow


class Multiplier(wiring.Component):
    """product = a x b, for significands of a few bits; combinational.

    Ports:

    - `a` in, `a_bits`, unsigned: first factor
    - `b` in, `b_bits`, unsigned: second factor
    - `product` out, `a_bits` + `b_bits`, unsigned: their product
    """

    def __init__(self, a_bits: int, b_bits: int) -> None:
        self.a_bits, self.b_bits = a_bits, b_bits
        super().__init__({"a": In(a_bits), "b": In(b_bits), "product": Out(a_bits + b_bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.product.eq(add_product_rows(m, *product_rows(m, self.a, self.b)))
        return m


def product_rows(m: Module, a: Value, b: Value) -> tuple[list[Bit], list[Bit]]:
    """Two rows whose sum is a x b."""
    if is_plain():
        product = Signal(len(a) + len(b), name="product_row")
        m.d.comb += product.eq(a * b)
        return [Bit(digit) for digit in product], [ZERO] * len(product)
    columns = Columns(m, "column", len(a) + len(b))
    for place, digit in enumerate(b):
        columns.add([digit & bit for bit in a], place, AND_DELAY)
    return columns.compress(halves_from=NO_HALF_ADDERS)


def add_product_rows(m: Module, x: Sequence[Bit], y: Sequence[Bit]) -> Value:
    """Sum of the two rows of `product_rows`."""
    return Cat(*carry_increment(m, "digit", x, y, [len(x)])[0])


class MultiplierRows(wiring.Component):
    """`Multiplier` without the last addition; combinational.

    Ports:

    - `a` in, `a_bits`, unsigned: first factor
    - `b` in, `b_bits`, unsigned: second factor
    - `product` out, 2 x (`a_bits` + `b_bits`): two rows whose sum is their product
    """

    def __init__(self, a_bits: int, b_bits: int) -> None:
        self.a_bits, self.b_bits = a_bits, b_bits
        rows = data.ArrayLayout(a_bits + b_bits, 2)
        super().__init__({"a": In(a_bits), "b": In(b_bits), "product": Out(rows)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for word, row in zip(self.product, product_rows(m, self.a, self.b), strict=True):
            m.d.comb += word.eq(Cat(*(bit.value for bit in row)))
        return m


def add_signed_product(columns: Columns, a: Value, b: Value) -> None:
    """Add a product of two's-complement words, less `signed_constant`, without computing it first.

    After Baugh and Wooley: a partial product with one sign bit counts as negative. Inverted, it is
    one less than a positive one; a constant makes up for all of them.
    """
    if is_plain():
        columns.add_signed(a.as_signed() * b.as_signed())
        columns.add_constant(-signed_constant(len(a), len(b)))
        return
    top_a, top_b = len(a) - 1, len(b) - 1
    for j, digit in enumerate(b):
        inverted = range(top_a) if j == top_b else (top_a,)
        row = [digit & bit for bit in a]
        row = [~bit if i in inverted else bit for i, bit in enumerate(row)]
        columns.add(row, j, AND_DELAY)


def signed_constant(a_bits: int, b_bits: int) -> int:
    """Constant that the partial products of one product lack."""
    return (1 << (a_bits - 1)) + (1 << (b_bits - 1)) - (1 << (a_bits + b_bits - 1))


class Square(wiring.Component):
    """square = value x value, for values up to `largest`; combinational.

    Digits i < j meet twice at place i + j, which equals once at i + j + 1. A digit times itself is
    the digit.

    Ports:

    - `value` in, bits of `largest`, unsigned: number to square
    - `square` out, bits of its square, unsigned
    """

    def __init__(self, largest: int) -> None:
        self.largest = largest
        super().__init__({"value": In(bits_for(largest)), "square": Out(bits_for(largest**2))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if is_plain():
            m.d.comb += self.square.eq(self.value * self.value)
            return m
        columns = Columns(m, "column", len(self.square))
        for place, digit in enumerate(self.value):
            columns.add([digit], 2 * place)
            above = [digit & bit for bit in self.value[place + 1 :]]
            columns.add(above, 2 * place + 2, AND_DELAY)
        rows = columns.compress(halves_from=NO_HALF_ADDERS)
        m.d.comb += self.square.eq(add_product_rows(m, *rows))
        return m
