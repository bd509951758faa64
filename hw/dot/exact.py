"""Sections of `exact` and `int32`: place, sum, and the loop of float_loop.py."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, ShapeLike, Value, signed
from amaranth.lib import data

from ...model.widths import Widths, magnitude_bits
from ..arithmetic.adder_tree import TermLayout, add_terms, rows_of, total_of
from ..arithmetic.columns import Columns
from ..arithmetic.floats import EXPONENT_BITS, FLOAT32_BIAS
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import shift_left
from ..pipeline import Section
from . import float_loop
from .float_loop import Window
from .multiply import (
    CompressProducts,
    PartialProducts,
    add_partial_products,
    negatives_bits,
    partial_products_shape,
    products_shape,
)
from .multiply import Multiply as MultiplyElements


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
        low, span = self.widths.exponent_low, self.widths.exponent_span
        if not span:
            return product.significand
        # Biased exponents begin at `low`: the places below are never used.
        wide = Cat(product.significand, Const(0, low + span))
        return shift_left(m, wide, product.exponent[: magnitude_bits(low + span)], name)[low:]


def terms_shape(widths: Widths) -> data.ArrayLayout:
    """The value `terms`: a block's integers, on a common grid."""
    return data.ArrayLayout(TermLayout(widths.term_bits), widths.config.lanes)


def multiply(widths: Widths) -> Section:
    """Products of elements; of integer codes their partial products."""
    if widths.codes_are_integers:
        return PartialProducts(widths, row_bits(widths))
    return MultiplyElements(widths)


def compress(widths: Widths, number: int | None = None) -> Section:
    """Terms, or partial products, to fewer words."""
    if number is None:
        return Compress(widths, row_bits(widths))
    return CompressProducts(row_bits(widths), number)


def row_bits(widths: Widths) -> int:
    """Of the words that are summed."""
    if widths.config.accumulator.register is not None:
        return widths.total_bits
    return Window(widths.sum_bits).row_bits


def partial_sums_shape(widths: Widths, width: int) -> data.ArrayLayout:
    """The value `partial_sums`: words whose sum, modulo 2^width, is the block's."""
    return data.ArrayLayout(width, widths.partial_sums)


class Compress(Section):
    """A block's terms to a few words of the same sum, modulo 2^width."""

    def __init__(self, widths: Widths, width: int) -> None:
        self.width = width
        super().__init__(terms_inputs(widths), {"partial_sums": partial_sums_shape(widths, width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", self.width)
        add_terms(columns, list(self.i.terms), self.i.negatives)
        words = columns.reduce(len(self.o.partial_sums))
        for word, value in zip(self.o.partial_sums, words, strict=True):
            m.d.comb += word.eq(value)
        return m


def terms_inputs(widths: Widths) -> dict[str, ShapeLike]:
    """A block's terms, and how many of them are negative."""
    return {"terms": terms_shape(widths), "negatives": negatives_bits(widths)}


def sum_inputs(widths: Widths, width: int) -> Mapping[str, ShapeLike]:
    """What a sum is made of: a block's terms, or what is left of them."""
    if widths.partial_sums:
        return {"partial_sums": partial_sums_shape(widths, width)}
    return terms_inputs(widths)


def add_inputs(columns: Columns, section: Section) -> None:
    """Add what `sum_inputs` names."""
    if "terms" in section.reads:
        add_terms(columns, list(section.i.terms), section.i.negatives)
    else:
        for word in section.i.partial_sums:
            columns.add(word)


class Sum(Section):
    """A block's terms, or partial products, in a tree of full adders.

    For the loop of float_loop.py two rows, and the exponent of the window's top place; for others
    their total.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        reads = sum_inputs(widths, row_bits(widths))
        if widths.codes_are_integers:
            reads = {"partial_products": partial_products_shape(row_bits(widths))}
        self.for_loop = widths.config.accumulator.register is None
        scale, writes = {}, {"total": signed(widths.total_bits)}
        if self.for_loop:
            scale = {"scale": SCALE_SHAPE}
            writes = {
                "rows": Window(widths.sum_bits).rows,
                "top_exponent": signed(EXPONENT_BITS),
            }
        super().__init__({**reads, **scale}, writes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        columns = Columns(m, "sum", row_bits(widths))
        if widths.codes_are_integers:
            add_partial_products(columns, widths, self.i.partial_products)
        else:
            add_inputs(columns, self)
        if not self.for_loop:
            m.d.comb += self.o.total.eq(total_of(columns))
            return m
        for row, word in zip(self.o.rows, rows_of(columns), strict=True):
            m.d.comb += row.eq(word)
        bias = FLOAT32_BIAS + Window(widths.sum_bits).top + widths.lsb
        m.d.comb += self.o.top_exponent.eq(self.i.scale + bias)
        return m


BLOCK = {
    "multiply": multiply,
    "compress": compress,
    "place": Place,
    "sum": Sum,
}
"""From elements, or integer codes, to the sum of a block."""

SECTIONS = {**BLOCK, **float_loop.sections(lambda widths: Window(widths.sum_bits))}
