"""Sections of `aligned:F`: largest, align, sum, normalize, accumulate."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data

from ..align import AlignShifter
from ..floats import FLOAT32_FRACTION
from ..hierarchy import submodule
from ..largest import LargestExponent
from ..widths import Widths
from .accumulate import Accumulate
from .base import Section
from .multiply import ProductsLayout
from .sums import Normalize, Sum, TermsLayout


class LargestLayout(data.StructLayout):
    """The products with their largest biased unit exponent."""

    def __init__(self, widths: Widths) -> None:
        fields = {name: field.shape for name, field in ProductsLayout(widths)}
        super().__init__({**fields, "unit": widths.unit})


class Largest(Section):
    """The largest unit exponent of the block's non-zero products."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(ProductsLayout(widths), LargestLayout(widths))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.widths.config.lanes
        tree = submodule(m, "tree", LargestExponent(lanes, self.widths.unit))
        for index in range(lanes):
            m.d.comb += tree.exponent[index].eq(self.i.lanes[index].unit)
        m.d.comb += tree.nonzero.eq(Cat(self.i.lanes[index].nonzero for index in range(lanes)))
        m.d.comb += self.o.unit.eq(tree.largest)
        self.carry(m, ["lanes", "special", "scale"])
        return m


class Align(Section):
    """Each product truncated F bits below the largest unit digit."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(LargestLayout(widths), TermsLayout(widths, widths.unit))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        lost = []
        for index in range(widths.config.lanes):
            lane, term = self.i.lanes[index], self.o.terms[index]
            shift = submodule(m, f"shift{index}", AlignShifter(widths, widths.unit))
            m.d.comb += [
                shift.product.eq(lane.product),
                shift.distance.eq(self.i.unit - lane.unit),
                term.magnitude.eq(shift.magnitude),
                term.sign.eq(lane.sign),
            ]
            lost.append(shift.lost)
        m.d.comb += [self.o.lost.eq(Cat(lost).any()), self.o.special.eq(self.i.special[0])]
        self.carry(m, ["unit", "scale"])
        return m


def build(widths: Widths) -> list[Section]:
    """The sections of `aligned:F` between multiply and convert."""
    kept = FLOAT32_FRACTION + 1  # D is RZ to float32; it is never subnormal and never overflows
    lsb = widths.unit_min - widths.kept
    nan_bits = widths.config.accumulator.nan_bits
    return [
        Largest(widths),
        Align(widths),
        Sum(widths, widths.unit),
        Normalize(widths, lsb, kept, widths.unit),
        Accumulate(kept, nan_bits),
    ]
