"""Section `multiply`: decoders, product lanes and the scale adder."""

from amaranth.hdl import Cat, Module, ShapeLike
from amaranth.lib import data

from ..arithmetic.floats import SpecialLayout
from ..arithmetic.scale import SCALE_SHAPE, ScaleAdder
from ..hierarchy import submodule
from ..pipeline import Section
from .lane import ProductLane, ProductLayout
from .widths import Widths


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


def special_shape(widths: Widths) -> data.ArrayLayout:
    """The value `special`: which special values occur in each step."""
    return data.ArrayLayout(SpecialLayout(), widths.steps)


class Multiply(Section):
    """Codes to exact products and s, the exponent of both scales; a NaN scale is a special value of
    every step."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            block_values(widths),
            {
                "products": products_shape(widths),
                "special": special_shape(widths),
                "scale": SCALE_SHAPE,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        scale = submodule(m, "scale", ScaleAdder())
        m.d.comb += [
            scale.a.eq(self.i.scale_a),
            scale.b.eq(self.i.scale_b),
            self.o.scale.eq(scale.exponent),
        ]
        lanes = []
        for index in range(self.widths.config.lanes):
            lane = submodule(m, f"lane{index}", ProductLane(self.widths))
            m.d.comb += [
                lane.a.eq(self.i.a[index]),
                lane.b.eq(self.i.b[index]),
                lane.mode.eq(self.i.mode),
                self.o.products[index].eq(lane.o),
            ]
            if self.widths.config.micro:
                pair = index // 2
                m.d.comb += [
                    lane.micro_a.eq(self.i.micro_a[pair]),
                    lane.micro_b.eq(self.i.micro_b[pair]),
                ]
            lanes.append(lane)
        for step in range(self.widths.steps):
            members = lanes[step * self.widths.step_lanes : (step + 1) * self.widths.step_lanes]
            special = self.o.special[step]
            m.d.comb += [
                special.nan.eq(scale.nan | Cat(lane.special.nan for lane in members).any()),
                special.pos_inf.eq(Cat(lane.special.pos_inf for lane in members).any()),
                special.neg_inf.eq(Cat(lane.special.neg_inf for lane in members).any()),
            ]
        return m
