"""Sections of `exact` and `int32`: place, sum, normalize, accumulate."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import data

from ..shift import shift_left
from ..widths import Widths, magnitude_bits
from .accumulate import Accumulate
from .base import Section
from .multiply import ProductsLayout
from .sums import Normalize, Sum, TermsLayout


class Place(Section):
    """Each product on the exact grid of all products, in units of 2^lsb (INT8's are there)."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(ProductsLayout(widths), TermsLayout(widths, 0))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        for index in range(widths.config.lanes):
            lane, term = self.i.lanes[index], self.o.terms[index]
            m.d.comb += term.sign.eq(lane.sign)
            m.d.comb += term.magnitude.eq(self._place(m, lane, f"lane{index}_shifted"))
        m.d.comb += self.o.special.eq(self.i.special[0])
        self.carry(m, ["scale"])
        return m

    def _place(self, m: Module, lane: data.View, name: str):
        span = self.widths.unit_span
        if not span:
            return lane.product
        wide = Cat(lane.product, Const(0, span))
        return shift_left(m, wide, lane.unit[: magnitude_bits(span)], name)


def build(widths: Widths) -> list[Section]:
    """The sections of `exact` and `int32` between multiply and convert."""
    kept = widths.total - 1  # all of it
    nan_bits = widths.config.accumulator.nan_bits
    return [
        Place(widths),
        Sum(widths),
        Normalize(widths, widths.lsb, kept),
        Accumulate(kept, nan_bits),
    ]
