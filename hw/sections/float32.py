"""Sections of `float32`: tree1, tree2, ... (a level of RNE adders each) and accumulate."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..float_sum import FloatSum
from ..floats import FLOAT32_FRACTION, FloatLayout
from ..hierarchy import submodule
from ..normalize import Normalizer
from ..round import rounds_up
from ..widths import Widths
from .accumulate import Accumulate
from .base import Section
from .multiply import ProductsLayout
from .sums import BESIDE, BlockResultLayout

SIGNIFICAND = FLOAT32_FRACTION + 1


class LevelLayout(data.StructLayout):
    """The float32 terms that are left at a level of the tree."""

    def __init__(self, count: int) -> None:
        super().__init__({"terms": data.ArrayLayout(FloatLayout(SIGNIFICAND), count), **BESIDE})


class TreeAdder(wiring.Component):
    """RNE_fp32(a + b) of normalised values in float32's normal range; combinational.

    Sums of MX element products stay between 2^-64 and 2^64: neither subnormals nor infinities
    occur, and the adder has no logic for them. Ports: a, b in and o out (`FloatLayout(24)`),
    inexact out.
    """

    def __init__(self) -> None:
        layout = FloatLayout(SIGNIFICAND)
        super().__init__({"a": In(layout), "b": In(layout), "o": Out(layout), "inexact": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adder = submodule(m, "adder", FloatSum(SIGNIFICAND, SIGNIFICAND))
        normalizer = submodule(m, "normalizer", Normalizer(adder.sum_width))
        cut = adder.sum_width - SIGNIFICAND
        kept, rest = normalizer.result[cut:], normalizer.result[:cut]
        rounded = Signal(SIGNIFICAND + 1)
        carry = rounded[-1]
        m.d.comb += [
            adder.a.eq(self.a),
            adder.b.eq(self.b),
            normalizer.value.eq(adder.magnitude),
            rounded.eq(kept + rounds_up(kept, rest)),
            self.o.significand.eq(Mux(carry, rounded[1:], rounded[:-1])),
            self.o.exponent.eq(adder.exponent - normalizer.amount + carry),
            self.o.sign.eq(adder.sign),
            self.o.zero.eq(adder.magnitude == 0),
            self.inexact.eq(rest.any()),
        ]
        return m


class ProductToFloat(wiring.Component):
    """An exact product as a normalised float; combinational. Ports: i in, o out."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        lane = ProductsLayout(widths)["lanes"].shape.elem_shape
        super().__init__({"i": In(lane), "o": Out(FloatLayout(SIGNIFICAND))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.widths.product
        normalizer = submodule(m, "normalizer", Normalizer(width))
        m.d.comb += [
            normalizer.value.eq(self.i.product),
            self.o.significand.eq(Cat(Const(0, SIGNIFICAND - width), normalizer.result)),
            self.o.exponent.eq(self.i.unit + (self.widths.lsb + width - 1) - normalizer.amount),
            self.o.sign.eq(self.i.sign),
            self.o.zero.eq(~self.i.nonzero),
        ]
        return m


class Level(Section):
    """One level of the tree: adjacent pairs added; the first converts, the last joins 2^s."""

    def __init__(self, widths: Widths, count: int) -> None:
        self.widths, self.count = widths, count
        super().__init__(
            ProductsLayout(widths) if self.is_first else LevelLayout(count),
            BlockResultLayout(SIGNIFICAND) if self.is_last else LevelLayout(count // 2),
        )

    @property
    def is_first(self) -> bool:
        return self.count == self.widths.config.lanes

    @property
    def is_last(self) -> bool:
        return self.count == 2

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = self._floats(m) if self.is_first else self.i.terms
        lost = [] if self.is_first else [self.i.lost]
        for index in range(self.count // 2):
            adder = submodule(m, f"adder{index}", TreeAdder())
            m.d.comb += [adder.a.eq(terms[2 * index]), adder.b.eq(terms[2 * index + 1])]
            lost.append(adder.inexact)
            if self.is_last:
                m.d.comb += self.o.x.eq(adder.o)
                m.d.comb += self.o.x.exponent.eq(adder.o.exponent + self.i.scale)
            else:
                m.d.comb += self.o.terms[index].eq(adder.o)
        m.d.comb += self.o.lost.eq(Cat(lost).any())
        special = self.i.special[0] if self.is_first else self.i.special
        m.d.comb += self.o.special.eq(special)
        if not self.is_last:
            self.carry(m, ["scale"])
        return m

    def _floats(self, m: Module) -> list:
        floats = []
        for index in range(self.count):
            convert = submodule(m, f"to_float{index}", ProductToFloat(self.widths))
            m.d.comb += convert.i.eq(self.i.lanes[index])
            floats.append(convert.o)
        return floats


def build(widths: Widths) -> list[Section]:
    """The sections of `float32` between multiply and convert."""
    counts = [widths.config.lanes >> level for level in range(widths.config.lanes.bit_length() - 1)]
    nan_bits = widths.config.accumulator.nan_bits
    return [*(Level(widths, count) for count in counts), Accumulate(SIGNIFICAND, nan_bits)]
