"""Section `multiply` of integer codes: their partial products go straight into the block's tree."""

from collections.abc import Mapping

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import data

from ...model.pipeline.widths import PARTIAL_SUMS, Widths
from ..arithmetic.columns import Columns
from ..arithmetic.multiply import add_signed_product, signed_constant
from ..pipeline import Section
from .multiply import block_values, multiply_scales, scale_values, special_shape


def partial_sums_shape(row_bits: int, words: int) -> data.ArrayLayout:
    """The value `partial_sums`: words whose sum, modulo 2^row_bits, is the block's."""
    return data.ArrayLayout(row_bits, words)


class PartialProducts(Section):
    """Two's-complement codes of one format each to words of the sum of their products.

    A NaN scale, where operands have scales that can be, is the only special value that there is.
    scales: whether they have. beside: further values that are written; of these `top_exponent` is
    the exponent of both scales plus `bias`.
    """

    def __init__(
        self,
        widths: Widths,
        row_bits: int,
        scales: bool = True,
        beside: Mapping[str, ShapeLike] | None = None,
        bias: int = 0,
    ) -> None:
        self.widths, self.row_bits, self.scales, self.bias = widths, row_bits, scales, bias
        values = block_values(widths)
        names = ("a", "b", "scale_a", "scale_b") if scales else ("a", "b")
        beside = dict(beside or {})
        if scales:
            beside |= {**scale_values(widths), "special": special_shape(widths)}
        super().__init__(
            {name: values[name] for name in names},
            {"partial_sums": partial_sums_shape(row_bits, PARTIAL_SUMS[0]), **beside},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", self.row_bits)
        for a, b in zip(self.i.a, self.i.b, strict=True):
            add_signed_product(columns, a, b)
        columns.add_constant(self.widths.config.lanes * signed_constant(*self.widths.code_bits))
        words = columns.reduce(PARTIAL_SUMS[0])
        for word, value in zip(self.o.partial_sums, words, strict=True):
            m.d.comb += word.eq(value)
        if self.scales:
            multiply_scales(m, self, self.widths, self.o.special[0].nan)
        if "top_exponent" in self.writes:
            m.d.comb += self.o.top_exponent.eq(self.o.scale + self.bias)
        return m
