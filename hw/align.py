"""Alignment shifter: a product truncated on the grid of an aligning accumulator."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .hierarchy import submodule
from .shift import ShiftRight
from .widths import Widths


class AlignShifter(wiring.Component):
    """magnitude = RZ(product x 2^(F - fraction - distance)); combinational.

    Ports: product in, distance in (`distance_width` bits: how far the product's unit digit lies
    below the largest), magnitude out (`Widths.term` bits), lost out (a one was cut off).
    """

    def __init__(self, widths: Widths, distance_width: int) -> None:
        self.widths = widths
        super().__init__(
            {
                "product": In(widths.product),
                "distance": In(distance_width),
                "magnitude": Out(widths.term),
                "lost": Out(1),
            }
        )
        self.distance_width = distance_width

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        # With fewer kept bits than product bits, the last ones always go.
        below = max(widths.fraction - widths.kept, 0)
        above = max(widths.kept - widths.fraction, 0)
        shift = submodule(m, "shift", ShiftRight(widths.product + above, self.distance_width))
        m.d.comb += [
            shift.value.eq(Cat(Const(0, above), self.product)),
            shift.amount.eq(self.distance),
            self.magnitude.eq(shift.result[below:]),
            self.lost.eq(shift.lost | shift.result[:below].any()),
        ]
        return m
