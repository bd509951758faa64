"""Sections of `aligned:F`: largest, align, sum, where digits go from the sum cut, and the loop of
float_loop.py."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed

from ...model.formats import FLOAT32
from ...model.widths import Widths
from ..arithmetic.adder_tree import rows_of, total_of
from ..arithmetic.columns import Columns
from ..arithmetic.floats import EXPONENT_BITS, FLOAT32_BIAS
from ..arithmetic.largest import LargestExponent
from ..arithmetic.normalize import leading_zeros
from ..arithmetic.scale import SCALE_SHAPE
from ..hierarchy import submodule
from ..pipeline import Section
from . import float_loop
from .align import AlignShifter
from .exact import Compress, add_inputs, sum_inputs, terms_shape
from .float_loop import Window
from .multiply import products_shape


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


def columns_bits(widths: Widths) -> int:
    """Of the words whose sum is the block's: those of the rows, or of the total that is cut."""
    return widths.total_bits if widths.sum_is_cut else Window(widths.sum_bits).row_bits


class Sum(Section):
    """The terms in a tree of full adders: two rows, or their total where digits of it go; and the
    exponent of the window's top place."""

    def __init__(self, widths: Widths) -> None:
        self.widths, self.window = widths, Window(widths.sum_bits)
        total = {"total": signed(widths.total_bits)}
        rows = {"rows": self.window.rows}
        super().__init__(
            {
                **sum_inputs(widths, columns_bits(widths)),
                "largest": widths.exponent_bits,
                "scale": SCALE_SHAPE,
            },
            {
                **(total if widths.sum_is_cut else rows),
                "top_exponent": signed(EXPONENT_BITS),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, window = self.widths, self.window
        # A sum's last digit is worth 2^(largest + exponent_min - F).
        bias = FLOAT32_BIAS + window.top + widths.exponent_min - widths.fraction_bits
        m.d.comb += self.o.top_exponent.eq(self.i.scale + self.i.largest + bias)
        columns = Columns(m, "sum", columns_bits(widths))
        add_inputs(columns, self)
        if widths.sum_is_cut:
            m.d.comb += self.o.total.eq(total_of(columns))
            return m
        for row, word in zip(self.o.rows, rows_of(columns), strict=True):
            m.d.comb += row.eq(word)
        return m


class Cut(Section):
    """The block's result: its sum toward zero to a float32's 24 digits, still on the grid.

    It is never subnormal and never overflows. The digits that go are those more than 24 places
    below the leading one; of a negative sum, a negative word, one is added where any went.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths, self.window = widths, Window(widths.sum_bits)
        super().__init__(
            {"total": signed(widths.total_bits), "sticky": 1},
            {"rows": self.window.rows, "sticky": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size = self.widths.sum_bits
        total, negative = self.i.total, self.i.total[-1]
        magnitude = Signal(size)
        m.d.comb += magnitude.eq(Mux(negative, -total, total))
        count = leading_zeros(m, magnitude)
        # The lowest place that stays is that of the leading one less 23.
        excess = size - FLOAT32.significand_bits
        places = [count <= excess - 1 - place for place in range(excess)]
        gone = Signal(excess)
        m.d.comb += gone.eq(Cat(*places))
        kept = Signal(size)
        lost = (magnitude[:excess] & gone).any()
        m.d.comb += [
            kept.eq(Cat(magnitude[:excess] & ~gone, magnitude[excess:])),
            self.o.sticky.eq(self.i.sticky | lost),
        ]
        # -kept = ~kept + 1, the one in a row of its own.
        width = self.window.row_bits
        word = Cat(kept, Const(0, width - size)) ^ negative.replicate(width)
        m.d.comb += [self.o.rows[0].eq(word), self.o.rows[1].eq(negative)]
        return m


SECTIONS = {
    "largest": Largest,
    "align": Align,
    "compress": lambda widths: Compress(widths, columns_bits(widths)),
    "sum": Sum,
    "cut": Cut,
    **float_loop.sections(lambda widths: Window(widths.sum_bits)),
}
