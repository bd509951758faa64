"""Section `multiply`: decoders, product lanes and the scale adder."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, ShapeLike
from amaranth.lib import data

from ...model.widths import PARTIAL_PRODUCTS, OperandWidths, Widths
from ..arithmetic.adder_tree import count_negatives
from ..arithmetic.columns import Columns
from ..arithmetic.floats import SpecialLayout
from ..arithmetic.multiply import add_signed_product, signed_constant
from ..arithmetic.scale import SCALE_SHAPE, ScaleAdder
from ..hierarchy import submodule
from ..pipeline import Section
from .decode import ElementDecoder, ElementLayout
from .lane import ProductLane, ProductLayout


def block_values(widths: Widths) -> dict[str, ShapeLike]:
    """A block of codes with its scales, the mode that selects its format pair, and side inputs."""
    config = widths.config
    return {
        "a": data.ArrayLayout(widths.a.code_bits, config.lanes),
        "b": data.ArrayLayout(widths.b.code_bits, config.lanes),
        "scale_a": config.scale_bits,
        "scale_b": config.scale_bits,
        "mode": config.mode_bits,
        **config.side_inputs,
    }


def products_shape(widths: Widths) -> data.ArrayLayout:
    """The value `products`: one for each lane."""
    return data.ArrayLayout(ProductLayout(widths), widths.config.lanes)


def negatives_bits(widths: Widths) -> int:
    """Of the value `negatives`, the number of negative products."""
    return widths.config.lanes.bit_length()


def special_shape(widths: Widths) -> data.ArrayLayout:
    """The value `special`: which special values occur in each step."""
    return data.ArrayLayout(SpecialLayout(), widths.steps)


class Decode(Section):
    """Codes to elements, and s, the exponent of both scales."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            block_values(widths),
            {
                "elements_a": elements_shape(widths, widths.a),
                "elements_b": elements_shape(widths, widths.b),
                "scale": SCALE_SHAPE,
                "scale_nan": 1,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        _add_scales(m, self)
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
    """The values `elements_a` and `elements_b`: one for each lane."""
    return data.ArrayLayout(ElementLayout(operand), widths.config.lanes)


def _add_scales(m: Module, section: Section) -> None:
    scale = submodule(m, "scale", ScaleAdder())
    m.d.comb += [
        scale.a.eq(section.i.scale_a),
        scale.b.eq(section.i.scale_b),
        section.o.scale.eq(scale.exponent),
        section.o.scale_nan.eq(scale.nan),
    ]


class Multiply(Section):
    """Elements to exact products; a NaN scale is a special value of every step.

    How many products are negative is counted here: a sum of them would wait for the count.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {
                "elements_a": elements_shape(widths, widths.a),
                "elements_b": elements_shape(widths, widths.b),
                "scale_nan": 1,
            },
            {
                "products": products_shape(widths),
                "special": special_shape(widths),
                "negatives": negatives_bits(widths),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = []
        for index in range(self.widths.config.lanes):
            lane = submodule(m, f"lane{index}", ProductLane(self.widths))
            m.d.comb += [
                lane.a.eq(self.i.elements_a[index]),
                lane.b.eq(self.i.elements_b[index]),
                self.o.products[index].eq(lane.o),
            ]
            lanes.append(lane)
        signs = [lane.o.sign for lane in lanes]
        m.d.comb += self.o.negatives.eq(count_negatives(m, "products", signs))
        for step in range(self.widths.steps):
            members = lanes[step * self.widths.step_lanes : (step + 1) * self.widths.step_lanes]
            nan = Cat(lane.special.nan for lane in members).any()
            special = self.o.special[step]
            m.d.comb += [
                special.nan.eq(self.i.scale_nan | nan),
                special.pos_inf.eq(Cat(lane.special.pos_inf for lane in members).any()),
                special.neg_inf.eq(Cat(lane.special.neg_inf for lane in members).any()),
            ]
        return m


# Integer codes: partial products go straight into the tree, which is cut into sections.


def partial_products_shape(row_bits: int, number: int = -1) -> data.ArrayLayout:
    """The value `partial_products`: words whose sum, and a constant, is the products'."""
    return data.ArrayLayout(row_bits, PARTIAL_PRODUCTS[number])


class PartialProducts(Section):
    """Two's-complement codes of one format each to partial products, and those to fewer words.

    A NaN scale, where operands have scales of E8M0, is the only special value that there is.
    """

    def __init__(
        self,
        widths: Widths,
        row_bits: int,
        scales: bool = True,
        beside: Mapping[str, ShapeLike] | None = None,
    ) -> None:
        self.widths, self.row_bits, self.scales = widths, row_bits, scales
        values = block_values(widths)
        names = ("a", "b", "scale_a", "scale_b") if scales else ("a", "b")
        beside = dict(beside or {})
        if scales:
            beside |= {"scale": SCALE_SHAPE, "special": special_shape(widths)}
        super().__init__(
            {name: values[name] for name in names},
            {"partial_products": partial_products_shape(row_bits, 0), **beside},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", self.row_bits)
        for index in range(self.widths.config.lanes):
            add_signed_product(columns, self.i.a[index], self.i.b[index])
        for word, value in zip(
            self.o.partial_products, columns.reduce(PARTIAL_PRODUCTS[0]), strict=True
        ):
            m.d.comb += word.eq(value)
        if self.scales:
            scale = submodule(m, "scale", ScaleAdder())
            m.d.comb += [
                scale.a.eq(self.i.scale_a),
                scale.b.eq(self.i.scale_b),
                self.o.scale.eq(scale.exponent),
                self.o.special[0].nan.eq(scale.nan),
            ]
        return m


class CompressProducts(Section):
    """Fewer words of the same sum."""

    def __init__(self, row_bits: int, number: int) -> None:
        self.row_bits, self.number = row_bits, number
        super().__init__(
            {"partial_products": partial_products_shape(row_bits, number - 1)},
            {"partial_products": partial_products_shape(row_bits, number)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = Columns(m, "column", self.row_bits)
        for word in self.i.partial_products:
            columns.add(word)
        words = columns.reduce(PARTIAL_PRODUCTS[self.number])
        for word, value in zip(self.o.partial_products, words, strict=True):
            m.d.comb += word.eq(value)
        return m


def add_partial_products(columns: Columns, widths: Widths, words: data.View) -> None:
    """Add the words that are left of the partial products, and what these lack."""
    for word in words:
        columns.add(word)
    columns.add_constant(widths.config.lanes * signed_constant(*widths.code_bits))
