"""Sections `factor`: what scales with a significand g multiply by it, exactly."""

from amaranth.hdl import Module, Value, signed

from ...model.pipeline.widths import Widths
from ..arithmetic.adder_tree import rows_of, total_of
from ..arithmetic.columns import Columns
from ..arithmetic.multiply import AND_DELAY, Multiplier
from ..hierarchy import submodule
from ..pipeline import Section
from .multiply import of_lane, products_shape, scale_values
from .window import window_of


class BlockFactor(Section):
    """g x the sum of a block, two rows for the loop of one addition.

    The sum comes as it is, or, where digits of it were cut, as a word and a digit to add to it.
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
    """g x the sum of a block, added up for a register."""

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
    """Of g x the sum of a block, signed."""
    return widths.total_bits + widths.factor_bits


def _add_product(columns: Columns, word: Value, factor: Value) -> None:
    """Add a two's-complement word times an unsigned one."""
    top = len(word) - 1
    for place, digit in enumerate(factor):
        *row, sign = [digit & bit for bit in word]
        # -x = (1 - x) - 1, of the sign.
        columns.add([*row, ~sign], place, AND_DELAY)
        columns.add_constant(-(1 << (top + place)))


class ProductFactor(Section):
    """g x each product, whose exponent and sign stay."""

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
