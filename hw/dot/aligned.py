"""Sections of `aligned:F`: largest, align, sum, normalize, accumulate."""

from amaranth.hdl import Cat, Module

from ..arithmetic.floats import FLOAT32_FRACTION
from ..arithmetic.largest import LargestExponent
from ..hierarchy import submodule
from ..pipeline import Section
from .accumulate import Accumulate
from .align import AlignShifter
from .multiply import products_shape
from .sums import Normalize, Sum, terms_shape
from .widths import Widths

FLOAT32_SIGNIFICAND = FLOAT32_FRACTION + 1


class Largest(Section):
    """The largest biased exponent of the block's non-zero products."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__({"products": products_shape(widths)}, {"largest": widths.exponent_bits})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.widths.config.lanes
        tree = submodule(m, "tree", LargestExponent(lanes, self.widths.exponent_bits))
        for index in range(lanes):
            m.d.comb += tree.exponent[index].eq(self.i.products[index].exponent)
        m.d.comb += tree.nonzero.eq(Cat(self.i.products[index].nonzero for index in range(lanes)))
        m.d.comb += self.o.largest.eq(tree.largest)
        return m


class Align(Section):
    """Each product truncated F bits below the largest unit digit."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {"products": products_shape(widths), "largest": widths.exponent_bits},
            {"terms": terms_shape(widths), "sticky": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        sticky = []
        for index in range(widths.config.lanes):
            product, term = self.i.products[index], self.o.terms[index]
            shift = submodule(m, f"shift{index}", AlignShifter(widths, widths.exponent_bits))
            m.d.comb += [
                shift.significand.eq(product.significand),
                shift.distance.eq(self.i.largest - product.exponent),
                term.magnitude.eq(shift.magnitude),
                term.sign.eq(product.sign),
            ]
            sticky.append(shift.sticky)
        m.d.comb += self.o.sticky.eq(Cat(sticky).any())
        return m


# D is RZ to float32; it is never subnormal and never overflows.
SECTIONS = {
    "largest": Largest,
    "align": Align,
    "sum": Sum,
    "normalize": lambda widths: Normalize(widths, FLOAT32_SIGNIFICAND),
    "accumulate": lambda widths: Accumulate(widths, FLOAT32_SIGNIFICAND),
}
