"""Squares, by half of the partial products of a multiplier."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .columns import Columns
from .multiply import AND_DELAY, NO_HALF_ADDERS, add_product_rows


class Square(wiring.Component):
    """square = value x value; combinational.

    Two digits i < j meet twice at place i + j, which is once at i + j + 1; a digit times itself is
    the digit.

    Ports:

    - `value` in, `bits`, unsigned: what is squared
    - `square` out, 2 x `bits`, unsigned
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__({"value": In(bits), "square": Out(2 * bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", 2 * self.bits)
        for place, digit in enumerate(self.value):
            columns.add([digit], 2 * place)
            above = [digit & bit for bit in self.value[place + 1 :]]
            columns.add(above, 2 * place + 2, AND_DELAY)
        rows = columns.compress(halves_from=NO_HALF_ADDERS)
        m.d.comb += self.square.eq(add_product_rows(m, *rows))
        return m
