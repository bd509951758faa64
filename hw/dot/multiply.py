"""Sections `decode` and `multiply`.

Elements take decoders, the scale adder and product lanes. Partial products of integer codes go
straight into the block's tree.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.pipeline.widths import PARTIAL_SUMS, OperandWidths, Widths
from ..arithmetic.columns import Bit, Columns
from ..arithmetic.floats import EXPONENT_BITS, SpecialLayout
from ..arithmetic.multiply import add_product_rows, add_signed_product, signed_constant
from ..arithmetic.scale import SCALE_SHAPE, ScaleAdder, ScaleMultiplier
from ..hierarchy import constant, submodule
from ..pipeline import Section, whole_or_parts
from .lane import (
    ElementDecoder,
    ElementLayout,
    ProductLane,
    ProductLayout,
    ProductRowsLane,
    ProductRowsLayout,
)


def block_values(widths: Widths) -> dict[str, ShapeLike]:
    """Codes of a block with their scales, the mode that selects the format pair, and side
    inputs.
    """
    config = widths.config
    return {
        "a": data.ArrayLayout(widths.a.code_bits, config.lanes),
        "b": data.ArrayLayout(widths.b.code_bits, config.lanes),
        "scale_a": of_blocks(config.scale_bits, widths),
        "scale_b": of_blocks(config.scale_bits, widths),
        "mode": config.mode_bits,
        **config.side_inputs,
    }


def of_blocks(shape: ShapeLike, widths: Widths) -> ShapeLike:
    """`shape` per scale of a beat; plain `shape` for one scale."""
    blocks = widths.config.scale_blocks
    return shape if blocks == 1 else data.ArrayLayout(shape, blocks)


def of_lane(value: Any, lane: int, widths: Widths) -> Any:
    """Item of an `of_blocks` value for the lane's block."""
    config = widths.config
    return value if config.scale_blocks == 1 else value[lane // config.scale_block]


def named_bias(m: Module, bias: int) -> Value:
    """Bias that `top_exponent` adds to the scale, as a constant with a name."""
    return constant(m, "TOP_BIAS", bias, signed(EXPONENT_BITS))


def scale_values(widths: Widths) -> dict[str, ShapeLike]:
    """Values `scale`, s, and `factor`, g as an integer, for scales that are no powers of two."""
    factor = {"factor": of_blocks(widths.factor_bits, widths)} if widths.factor_bits else {}
    return {"scale": of_blocks(SCALE_SHAPE, widths), **factor}


def products_shape(widths: Widths) -> data.ArrayLayout:
    """The value `products`: one per lane."""
    return data.ArrayLayout(ProductLayout(widths), widths.config.lanes)


COUNTED = (4, 2)
"""Words whose sum is the number of negative products, after the section that makes products and
after the next section.
"""


def negatives_shape(widths: Widths, number: int) -> data.ArrayLayout:
    """The value `negatives` after section `number` of `COUNTED`."""
    return data.ArrayLayout(widths.config.lanes.bit_length(), COUNTED[number])


def compress_negatives(m: Module, section: Section) -> None:
    """Write fewer words of `negatives`."""
    columns = Columns(m, "negative", len(section.o.negatives[0]))
    for word in section.i.negatives:
        columns.add(word)
    rows = columns.compress(halves_from=columns.width)
    for word, row in zip(section.o.negatives, rows, strict=True):
        m.d.comb += word.eq(Cat(*(bit.value for bit in row)))


def special_shape(widths: Widths) -> data.ArrayLayout:
    """The value `special`: special values that occur in each step."""
    return data.ArrayLayout(SpecialLayout(), widths.steps)


class Decode(Section):
    """Codes to elements; s, the exponent of both scales."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            block_values(widths),
            {
                "elements_a": elements_shape(widths, widths.a),
                "elements_b": elements_shape(widths, widths.b),
                **scale_values(widths),
                "scale_nan": of_blocks(1, widths),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        multiply_scales(m, self, self.widths, self.o.scale_nan)
        for side, widths in (("a", self.widths.a), ("b", self.widths.b)):
            for index in range(self.widths.config.lanes):
                decoder = submodule(m, f"decode_{side}{index}", ElementDecoder(widths))
                m.d.comb += [
                    decoder.code.eq(self.i[side][index]),
                    decoder.mode.eq(self.i.mode),
                    self.o[f"elements_{side}"][index].eq(decoder.element),
                ]
                if widths.micro:
                    m.d.comb += decoder.micro.eq(self.i[f"micro_{side}"][index // 2])
        return m


def elements_shape(widths: Widths, operand: OperandWidths) -> data.ArrayLayout:
    """The values `elements_a` and `elements_b`: one per lane."""
    return data.ArrayLayout(ElementLayout(operand), widths.config.lanes)


def multiply_scales(m: Module, section: Section, widths: Widths, nan: Any) -> None:
    """Write the product of both scales per block (`scale_values`), and `nan` if one is NaN."""
    config = widths.config
    for lane in range(0, config.lanes, config.scale_block):
        number = "" if config.scale_blocks == 1 else str(lane // config.scale_block)
        kind = ScaleMultiplier(config.scale_format) if widths.factor_bits else ScaleAdder()
        scale = submodule(m, f"scale{number}", kind)
        m.d.comb += [
            scale.a.eq(of_lane(section.i.scale_a, lane, widths)),
            scale.b.eq(of_lane(section.i.scale_b, lane, widths)),
            of_lane(section.o.scale, lane, widths).eq(scale.exponent),
            of_lane(nan, lane, widths).eq(scale.nan),
        ]
        if widths.factor_bits:
            m.d.comb += of_lane(section.o.factor, lane, widths).eq(scale.significand)


class Multipliers(Section):
    """Exact products of elements; a NaN scale makes a special value.

    Negative products are counted here: otherwise their sum would wait for the count.
    """

    verilog_name = "products"

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            element_values(widths),
            {
                "products": products_shape(widths),
                "special": special_shape(widths),
                "negatives": negatives_shape(widths, 0),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = multiply_elements(m, self, ProductLane, self.o.products)
        count_negatives(m, self, [lane.o.sign for lane in lanes])
        gather_specials(m, self, lanes)
        return m


def element_values(widths: Widths) -> dict[str, ShapeLike]:
    """Values that products are made of."""
    return {
        "elements_a": elements_shape(widths, widths.a),
        "elements_b": elements_shape(widths, widths.b),
        "scale_nan": of_blocks(1, widths),
    }


def multiply_elements(
    m: Module, section: Any, kind: type[ProductLane], products: Any
) -> list[ProductLane]:
    """Make a lane of this kind per product, in order."""
    lanes = []
    for index, place in enumerate(section.widths.order):
        lane = submodule(m, f"lane{index}", kind(section.widths))
        m.d.comb += [
            lane.a.eq(section.i.elements_a[place]),
            lane.b.eq(section.i.elements_b[place]),
            products[index].eq(lane.o),
        ]
        lanes.append(lane)
    return lanes


def count_negatives(m: Module, section: Any, signs: Iterable[Value]) -> None:
    """Write `negatives` from the signs of all products."""
    columns = Columns(m, "negative", len(section.o.negatives[0]))
    for sign in signs:
        columns.add([sign])
    for word, value in zip(section.o.negatives, columns.reduce(COUNTED[0]), strict=True):
        m.d.comb += word.eq(value)


def gather_specials(m: Module, section: Any, lanes: Sequence[ProductLane]) -> None:
    """Write `special` from the special values of all products and scales."""
    widths: Widths = section.widths
    count = widths.config.lanes // widths.steps
    for step in range(widths.steps):
        members = lanes[step * count : (step + 1) * count]
        nan = Cat(lane.special.nan for lane in members).any()
        special = section.o.special[step]
        m.d.comb += [
            special.nan.eq(_scale_nan(section, step * count, count) | nan),
            special.pos_inf.eq(Cat(lane.special.pos_inf for lane in members).any()),
            special.neg_inf.eq(Cat(lane.special.neg_inf for lane in members).any()),
        ]


def _scale_nan(section: Any, start: int, count: int) -> Value:
    """1 if a scale of these lanes is NaN."""
    nan, config = section.i.scale_nan, section.widths.config
    if config.scale_blocks == 1:
        return nan
    blocks = range(start // config.scale_block, -(-(start + count) // config.scale_block))
    return Cat(nan[block] for block in blocks).any()


class ProductRows(Section):
    """Products of elements without their last additions; a NaN scale makes a special value."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        rows, special = product_rows_shape(widths), special_shape(widths)
        super().__init__(element_values(widths), {"product_rows": rows, "special": special})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = multiply_elements(m, self, ProductRowsLane, self.o.product_rows)
        gather_specials(m, self, lanes)
        return m


def product_rows_shape(widths: Widths) -> data.ArrayLayout:
    """The value `product_rows`: one per lane."""
    return data.ArrayLayout(ProductRowsLayout(widths), widths.config.lanes)


class ProductSums(Section):
    """Last additions of the products, and the number of negative products."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(
            {"product_rows": product_rows_shape(widths)},
            {"products": products_shape(widths), "negatives": negatives_shape(widths, 0)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index, (product, rows) in enumerate(
            zip(self.o.products, self.i.product_rows, strict=True)
        ):
            x, y = ([Bit(digit) for digit in row] for row in rows.significand)
            total = Signal(len(product.significand), name=f"significand{index}")
            m.d.comb += [
                total.eq(add_product_rows(m, x, y)),
                product.significand.eq(total),
                product.exponent.eq(rows.exponent),
                product.sign.eq(rows.sign),
                product.nonzero.eq(rows.nonzero),
            ]
        count_negatives(m, self, [rows.sign for rows in self.i.product_rows])
        return m


PRODUCTS = whole_or_parts(Multipliers, ProductRows, ProductSums)


def partial_sums_shape(row_bits: int, words: int) -> data.ArrayLayout:
    """The value `partial_sums`: words whose sum, modulo 2^row_bits, is the block's."""
    return data.ArrayLayout(row_bits, words)


class PartialProducts(Section):
    """Two's-complement codes, one format per operand, to words of the sum of their products.

    The only special value is a NaN scale.

    scales: True for operands with scales. extra: further values to write; `top_exponent` among
    them is the exponent of both scales plus `bias`.
    """

    def __init__(
        self,
        widths: Widths,
        row_bits: int,
        scales: bool = True,
        extra: Mapping[str, ShapeLike] | None = None,
        bias: int = 0,
    ) -> None:
        self.widths, self.row_bits, self.scales, self.bias = widths, row_bits, scales, bias
        values = block_values(widths)
        names = ("a", "b", "scale_a", "scale_b") if scales else ("a", "b")
        extra = dict(extra or {})
        if scales:
            extra |= {**scale_values(widths), "special": special_shape(widths)}
        super().__init__(
            {name: values[name] for name in names},
            {"partial_sums": partial_sums_shape(row_bits, PARTIAL_SUMS[0]), **extra},
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
            bias = named_bias(m, self.bias)
            m.d.comb += self.o.top_exponent.eq(self.o.scale + bias)
        return m
