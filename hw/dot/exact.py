"""Sections of `exact` and `int32`: place, sum, normalize, accumulate."""

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import data

from ..arithmetic.shift import shift_left
from ..pipeline import Section
from .accumulate import Accumulate
from .multiply import products_shape
from .sums import Normalize, Sum, terms_shape
from .widths import Widths, magnitude_bits


class Place(Section):
    """Each product on the exact grid of all products, in units of 2^lsb (INT8's are there)."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__({"products": products_shape(widths)}, {"terms": terms_shape(widths)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(self.widths.config.lanes):
            product, term = self.i.products[index], self.o.terms[index]
            m.d.comb += term.sign.eq(product.sign)
            m.d.comb += term.magnitude.eq(self._place(m, product, f"lane{index}_shifted"))
        return m

    def _place(self, m: Module, product: data.View, name: str) -> Value:
        span = self.widths.exponent_span
        if not span:
            return product.significand
        wide = Cat(product.significand, Const(0, span))
        return shift_left(m, wide, product.exponent[: magnitude_bits(span)], name)


SECTIONS = {
    "place": Place,
    "sum": Sum,
    "normalize": lambda widths: Normalize(widths, widths.total_bits - 1),  # all of it
    "accumulate": lambda widths: Accumulate(widths, widths.total_bits - 1),
}
