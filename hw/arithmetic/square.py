"""Squares, by half of the partial products of a multiplier."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .columns import Columns
from .multiply import AND_DELAY, NO_HALF_ADDERS, add_product_rows


class Square(wiring.Component):
    """square = value x value, for values up to `largest`; combinational.

    Two digits i < j meet twice at place i + j, which is once at i + j + 1; a digit times itself is
    the digit.

    Ports:

    - `value` in, bits of `largest`, unsigned: what is squared
    - `square` out, bits of its square, unsigned
    """

    def __init__(self, largest: int) -> None:
        self.largest = largest
        super().__init__({"value": In(bits_for(largest)), "square": Out(bits_for(largest**2))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", len(self.square))
        for place, digit in enumerate(self.value):
            columns.add([digit], 2 * place)
            above = [digit & bit for bit in self.value[place + 1 :]]
            columns.add(above, 2 * place + 2, AND_DELAY)
        rows = columns.compress(halves_from=NO_HALF_ADDERS)
        m.d.comb += self.square.eq(add_product_rows(m, *rows))
        return m
