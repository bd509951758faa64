"""Product lanes: two elements to an exact product, never renormalised (contract, section 3)."""

from typing import ClassVar

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.pipeline.widths import Widths
from ..arithmetic.adders import ripple
from ..arithmetic.columns import Columns
from ..arithmetic.floats import SpecialLayout
from ..arithmetic.multiply import Multiplier, MultiplierRows
from ..hierarchy import submodule
from .decode import ElementLayout


class ProductLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent + exponent_min - product_fraction_bits)."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(
            {
                "significand": widths.product_bits,
                "exponent": widths.exponent_bits,
                "sign": 1,
                "nonzero": 1,
            }
        )


class ProductRowsLayout(data.StructLayout):
    """As `ProductLayout`, of a significand in two rows whose sum it is."""

    def __init__(self, widths: Widths) -> None:
        fields = dict(ProductLayout(widths).members)
        bits = widths.a.significand_bits + widths.b.significand_bits
        super().__init__({**fields, "significand": data.ArrayLayout(bits, 2)})


class ProductLane(wiring.Component):
    """Two decoded elements to their product; combinational.

    Ports:

    - `a`, `b` in, `ElementLayout` of the operand: elements
    - `o` out, `ProductLayout`: not meaningful when a bit of `special` is set
    - `special` out, `SpecialLayout`: whether the product is NaN or an infinity
    """

    layout: ClassVar[type[data.StructLayout]] = ProductLayout
    multiplier: ClassVar[type[Multiplier | MultiplierRows]] = Multiplier

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {
                "a": In(ElementLayout(widths.a)),
                "b": In(ElementLayout(widths.b)),
                "o": Out(self.layout(widths)),
                "special": Out(SpecialLayout()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = self.a, self.b
        significands = len(a.significand), len(b.significand)
        multiplier = submodule(m, "multiplier", self.multiplier(*significands))
        a_zero = Signal()
        b_zero = Signal()
        negative = Signal()
        nan = Signal()
        infinite = Signal()
        m.d.comb += [
            a_zero.eq(a.significand == 0),
            b_zero.eq(b.significand == 0),
            negative.eq(a.sign ^ b.sign),
            multiplier.a.eq(a.significand),
            multiplier.b.eq(b.significand),
            self.o.significand.eq(multiplier.product),
            self.o.exponent.eq(_sum(m, a.exponent, b.exponent, len(self.o.exponent))),
            self.o.sign.eq(negative),
            self.o.nonzero.eq(~a_zero & ~b_zero),
            nan.eq(a.nan | b.nan | (a.inf & b_zero) | (a_zero & b.inf)),
            infinite.eq((a.inf | b.inf) & ~nan),
            self.special.nan.eq(nan),
            self.special.pos_inf.eq(infinite & ~negative),
            self.special.neg_inf.eq(infinite & negative),
        ]
        return m


class ProductRowsLane(ProductLane):
    """As `ProductLane`, without the last addition: `o` is a `ProductRowsLayout`."""

    layout = ProductRowsLayout
    multiplier = MultiplierRows


def _sum(m: Module, a: Value, b: Value, width: int) -> Value:
    """a + b, of a few bits: the smallest adder will do, for the multiplier takes longer."""
    columns = Columns(m, "exponents", width)
    columns.add(a)
    columns.add(b)
    return Cat(*ripple(m, "exponent", *columns.compress(halves_from=width)))
