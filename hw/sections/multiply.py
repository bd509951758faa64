"""Section `multiply`: decoders, product lanes and the scale adder."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data

from ..hierarchy import submodule
from ..lane import ProductLane, ProductLayout, SpecialLayout
from ..scale import SCALE_SHAPE, ScaleAdder
from ..widths import Widths
from .base import Section


class BlockLayout(data.StructLayout):
    """A block of codes with its scales, the mode that selects its format pair, and side inputs."""

    def __init__(self, widths: Widths) -> None:
        config, lanes = widths.config, widths.config.lanes
        super().__init__(
            {
                "a": data.ArrayLayout(widths.a.bits, lanes),
                "b": data.ArrayLayout(widths.b.bits, lanes),
                "scale_a": config.scale_bits,
                "scale_b": config.scale_bits,
                "mode": config.mode_bits,
                **config.side_inputs,
            }
        )


class ProductsLayout(data.StructLayout):
    """The products of a block, its scale exponent s, and the special values of each step."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(
            {
                "lanes": data.ArrayLayout(ProductLayout(widths), widths.config.lanes),
                "special": data.ArrayLayout(SpecialLayout(), widths.steps),
                "scale": SCALE_SHAPE,
            }
        )


class Multiply(Section):
    """Codes to exact products; a NaN scale is a special value of every step."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(BlockLayout(widths), ProductsLayout(widths))

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
                self.o.lanes[index].eq(lane.o),
            ]
            if self.widths.config.micro:
                pair = index // 2
                m.d.comb += [
                    lane.micro_a.eq(self.i.micro_a[pair]),
                    lane.micro_b.eq(self.i.micro_b[pair]),
                ]
            lanes.append(lane)
        for step in range(self.widths.steps):
            members = lanes[step * self.widths.terms : (step + 1) * self.widths.terms]
            special = self.o.special[step]
            m.d.comb += [
                special.nan.eq(scale.nan | Cat(lane.special.nan for lane in members).any()),
                special.pos_inf.eq(Cat(lane.special.pos_inf for lane in members).any()),
                special.neg_inf.eq(Cat(lane.special.neg_inf for lane in members).any()),
            ]
        return m
