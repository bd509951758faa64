"""Alignment shifter: a product truncated on the grid of an aligning accumulator."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.widths import Widths
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule


def places_around(widths: Widths) -> tuple[int, int]:
    """Of a product, the last places that always go and the ones that are free below it."""
    # With fewer fraction bits than a product has, the last ones always go.
    more = widths.fraction_bits - widths.product_fraction_bits
    return max(-more, 0), max(more, 0)


class AlignShifter(wiring.Component):
    """magnitude = RZ(significand x 2^(F - product_fraction_bits - distance)); combinational.

    Ports:

    - `significand` in, `Widths.product_bits`: the product's significand
    - `distance` in, `distance_bits`: how far the product's unit digit lies below the largest
    - `magnitude` out, `Widths.term_bits`: the term on the common grid
    - `sticky` out, 1 bit: a one was cut off
    """

    def __init__(self, widths: Widths, distance_bits: int) -> None:
        self.widths = widths
        super().__init__(
            {
                "significand": In(widths.product_bits),
                "distance": In(distance_bits),
                "magnitude": Out(widths.term_bits),
                "sticky": Out(1),
            }
        )
        self.distance_bits = distance_bits

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        below, above = places_around(widths)
        shift = submodule(m, "shift", ShiftRight(widths.product_bits + above, self.distance_bits))
        m.d.comb += [
            shift.value.eq(Cat(Const(0, above), self.significand)),
            shift.amount.eq(self.distance),
            self.magnitude.eq(shift.result[below:]),
            self.sticky.eq(shift.sticky | shift.result[:below].any()),
        ]
        return m
