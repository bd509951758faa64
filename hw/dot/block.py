"""Sections of a block: from elements, or integer codes, to the sum of their products; and `factor`.

`exact`, `int32` and `fixed` place products on a grid of all products. `aligned` has its own
sections for that (aligned.py), and compresses and sums like them. `factor` multiplies exactly by
the significand g of the scales.
"""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, ShapeLike, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.pipeline.widths import Widths
from ..arithmetic.adders import (
    COUNT_TIME,
    LATE_COUNT,
    add_terms,
    rows_of,
    signed_word,
    total_of,
)
from ..arithmetic.columns import Columns
from ..arithmetic.floats import EXPONENT_BITS
from ..arithmetic.multiply import AND_DELAY, Multiplier
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import ZERO, place_left
from ..hierarchy import submodule
from ..pipeline import Section
from .multiply import (
    PRODUCTS,
    PartialProducts,
    compress_negatives,
    named_bias,
    negatives_shape,
    of_lane,
    partial_sums_shape,
    products_shape,
    scale_values,
)
from .window import window_of

SHORT_PRODUCT = 4
"""Digits of a product (E2M1's) that is placed before the number of negative products is known."""


def words_shape(widths: Widths) -> data.ArrayLayout:
    """The value `words`: a block's integers on a common grid; negative ones as inverted
    magnitudes.
    """
    return data.ArrayLayout(widths.term_bits, widths.config.lanes)


def row_bits(widths: Widths) -> int:
    """Width of the words to sum."""
    return window_of(widths).row_bits if widths.ends_in_rows else widths.total_bits


def loop_values(widths: Widths) -> dict[str, ShapeLike]:
    """The value `top_exponent`, for the loop of one addition: biased exponent of its window's top
    place.
    """
    has_loop = widths.config.accumulator.register is None
    return {"top_exponent": signed(EXPONENT_BITS)} if has_loop else {}


def top_bias(widths: Widths, lsb: int) -> int:
    """`top_exponent` less the block's scale, for a sum whose last digit is worth 2^lsb.
    Significands of scales add finer digits.
    """
    return widths.running.bias + window_of(widths).top + lsb - widths.factor_fraction_bits


class Place(Section):
    """Each product on the exact grid of all products: in units of their least last digit."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        has_loop = loop_values(widths)
        super().__init__(
            {
                "products": products_shape(widths),
                "negatives": negatives_shape(widths, 0),
                **({"scale": SCALE_SHAPE} if has_loop else {}),
            },
            {
                "words": words_shape(widths),
                "negatives": negatives_shape(widths, 1),
                **has_loop,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        for index, (product, word) in enumerate(zip(self.i.products, self.o.words, strict=True)):
            digits, sign = product.significand, product.sign
            m.d.comb += word.eq(place(m, widths, digits, product.exponent, f"lane{index}", sign))
        compress_negatives(m, self)
        if "top_exponent" in self.writes:
            bias = named_bias(m, top_bias(widths, widths.lsb))
            m.d.comb += self.o.top_exponent.eq(self.i.scale + bias)
        return m


def place(
    m: Module, widths: Widths, digits: Value, exponent: Value, name: str, inverts: Value = ZERO
) -> Value:
    """Digits of a product on the exact grid of all products, in units of the smallest one's last
    digit; all digits inverted with `inverts`.
    """
    low, span = widths.exponent_low, widths.exponent_span
    if not span:
        return signed_word(digits, inverts)
    placer = submodule(m, name, Placer(len(digits), len(exponent), low, span))
    m.d.comb += [
        placer.digits.eq(digits),
        placer.exponent.eq(exponent),
        placer.inverts.eq(inverts),
    ]
    return placer.word


class Placer(wiring.Component):
    """The digits of a product, shifted left by its exponent less the least exponent of all
    products, and inverted if it is negative; combinational.

    Ports:

    - `digits` in, `bits`: digits of the product
    - `exponent` in, `exponent_bits`: at least `low`, at most `low` + `span`
    - `inverts` in, 1 bit: all places are inverted
    - `word` out, `bits` + `span`: the digits at their place
    """

    def __init__(self, bits: int, exponent_bits: int, low: int, span: int) -> None:
        self.bits, self.exponent_bits, self.low, self.span = bits, exponent_bits, low, span
        super().__init__(
            {
                "digits": In(bits),
                "exponent": In(exponent_bits),
                "inverts": In(1),
                "word": Out(bits + span),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        amounts = range(self.low, self.low + self.span + 1)
        # Inverted while it is short.
        digits = signed_word(self.digits, self.inverts)
        placed = place_left(m, digits, self.exponent, amounts, "shifted", self.inverts)
        m.d.comb += self.word.eq(placed)
        return m


def multiply(widths: Widths, number: int | None = None) -> Section:
    """Section of products, or its part `number`; integer codes give partial products."""
    if not widths.has_partial_products:
        return PRODUCTS(widths, number)
    extra, bias = loop_values(widths), top_bias(widths, widths.lsb)
    return PartialProducts(widths, row_bits(widths), extra=extra, bias=bias)


def sum_inputs(widths: Widths, bits: int, words: int) -> Mapping[str, ShapeLike]:
    """Values to sum: a block's terms, or the `words` made of them."""
    if words:
        return {"partial_sums": partial_sums_shape(bits, words)}
    return {"words": words_shape(widths), "negatives": negatives_shape(widths, 1)}


def add_inputs(columns: Columns, section: Any) -> None:
    """Add the values that `sum_inputs` names."""
    if "words" in section.reads:
        words, negatives = list(section.i.words), list(section.i.negatives)
        widths: Widths = section.widths
        is_late = widths.config.accumulator.sums_exactly and widths.product_bits <= SHORT_PRODUCT
        add_terms(columns, words, negatives, LATE_COUNT if is_late else COUNT_TIME)
    else:
        for word in section.i.partial_sums:
            columns.add(word)


class Compress(Section):
    """Words to fewer words of the same sum.

    before: number of words that come, 0 for terms. after: number of words that leave.
    """

    def __init__(self, widths: Widths, bits: int, before: int, after: int) -> None:
        self.widths, self.bits, self.before, self.after = widths, bits, before, after
        super().__init__(
            sum_inputs(widths, bits, before), {"partial_sums": partial_sums_shape(bits, after)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", self.bits)
        add_inputs(columns, self)
        words = columns.reduce(self.after)
        for word, value in zip(self.o.partial_sums, words, strict=True):
            m.d.comb += word.eq(value)
        return m


def compress(widths: Widths, number: int, bits: int | None = None) -> Section:
    """Compression `number`, from 1 on, of words with the width of a float loop, or of
    `bits` bits.
    """
    multiplied = widths.partial_sums if widths.has_partial_products else (0, *widths.partial_sums)
    before, after = multiplied[number - 1 : number + 1]
    return Compress(widths, row_bits(widths) if bits is None else bits, before, after)


class BlockSum(Section):
    """Sum S of a block.

    total: S.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        words = (0, *widths.partial_sums)[-1]
        rows = {"rows": window_of(widths).rows}
        total = {"total": signed(widths.total_bits)}
        super().__init__(
            sum_inputs(widths, row_bits(widths), words), rows if widths.ends_in_rows else total
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "sum", row_bits(self.widths))
        add_inputs(columns, self)
        if "total" in self.writes:
            m.d.comb += self.o.total.eq(total_of(columns))
            return m
        for row, word in zip(self.o.rows, rows_of(columns), strict=True):
            m.d.comb += row.eq(word)
        return m


TREE = {"compress": compress, "sum": BlockSum}
"""Sections from terms to their sum."""

BLOCK = {"multiply": multiply, "place": Place, **TREE}
"""Sections from elements, or integer codes, to the sum of a block."""


class BlockFactor(Section):
    """g x the sum of a block, as two rows for the loop of one addition.

    The sum comes whole or, if digits of it were cut, as a word and a digit to add.

    rows: two words whose sum, modulo their width, is g x S.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        rows, rule = {"rows": window_of(widths).rows}, widths.config.accumulator
        is_cut = rule.alignment_bits is not None and widths.sum_is_cut
        total = rows if is_cut else {"total": signed(widths.total_bits)}
        super().__init__({**total, "factor": widths.factor_bits}, rows)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self.widths.total_bits
        columns = Columns(m, "factor", window_of(self.widths).row_bits)
        if "rows" in self.reads:
            word, one = self.i.rows[0][:bits], self.i.rows[1][0]
            columns.add([one & digit for digit in self.i.factor], time=AND_DELAY)
        else:
            word = self.i.total[:bits]
        _add_product(columns, word, self.i.factor)
        for row, value in zip(self.o.rows, rows_of(columns), strict=True):
            m.d.comb += row.eq(value)
        return m


class TotalFactor(Section):
    """g x the sum of a block, as one number for a register."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {"total": signed(widths.total_bits), "factor": widths.factor_bits},
            {"total": signed(scaled_total_bits(widths))},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "factor", scaled_total_bits(self.widths))
        _add_product(columns, self.i.total[: self.widths.total_bits], self.i.factor)
        m.d.comb += self.o.total.eq(total_of(columns))
        return m


def scaled_total_bits(widths: Widths) -> int:
    """Width of g x the sum of a block, signed."""
    return widths.total_bits + widths.factor_bits


def _add_product(columns: Columns, word: Value, factor: Value) -> None:
    """Add a two's-complement word times an unsigned one."""
    top = len(word) - 1
    for place, digit in enumerate(factor):
        *row, sign = [digit & bit for bit in word]
        # The sign bit x counts as -x = (1 - x) - 1.
        columns.add([*row, ~sign], place, AND_DELAY)
        columns.add_constant(-(1 << (top + place)))


class ProductFactor(Section):
    """g x each product; exponents and signs pass."""

    def __init__(self, widths: Widths) -> None:
        self.widths, self.terms = widths, widths.terms
        super().__init__(
            {"products": products_shape(widths), "factor": scale_values(widths)["factor"]},
            {"products": products_shape(self.terms)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        sizes = widths.product_bits, widths.factor_bits
        for index, place in enumerate(widths.order):
            product, term = self.i.products[index], self.o.products[index]
            multiplier = submodule(m, f"multiplier{index}", Multiplier(*sizes))
            m.d.comb += [
                multiplier.a.eq(product.significand),
                multiplier.b.eq(of_lane(self.i.factor, place, widths)),
                term.significand.eq(multiplier.product),
                term.exponent.eq(product.exponent),
                term.sign.eq(product.sign),
                term.nonzero.eq(product.nonzero),
            ]
        return m
