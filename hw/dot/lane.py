"""Product lanes: two elements to an exact product, never renormalised (contract, section 3)."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..arithmetic.adder_tree import add_rows
from ..arithmetic.floats import SpecialLayout
from ..hierarchy import submodule
from .decode import ElementDecoder
from .widths import Widths


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


class ProductLane(wiring.Component):
    """Decoders and multiplier of one lane; combinational.

    Ports: a, b in (codes), mode in (index into the unit's format pairs), micro_a, micro_b in (1 bit
    each, where the unit has micro-exponents), o out (`ProductLayout`),
    special out (`SpecialLayout`; `o` is not meaningful when one of its bits is set).
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {
                "a": In(widths.a.code_bits),
                "b": In(widths.b.code_bits),
                "mode": In(widths.config.mode_bits),
                "micro_a": In(int(widths.config.micro)),
                "micro_b": In(int(widths.config.micro)),
                "o": Out(ProductLayout(widths)),
                "special": Out(SpecialLayout()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        decode_a = submodule(m, "decode_a", ElementDecoder(self.widths.a))
        decode_b = submodule(m, "decode_b", ElementDecoder(self.widths.b))
        a, b = decode_a.element, decode_b.element
        a_zero = Signal()
        b_zero = Signal()
        negative = Signal()
        nan = Signal()
        infinite = Signal()
        m.d.comb += [
            decode_a.code.eq(self.a),
            decode_b.code.eq(self.b),
            decode_a.mode.eq(self.mode),
            decode_b.mode.eq(self.mode),
            decode_a.micro.eq(self.micro_a),
            decode_b.micro.eq(self.micro_b),
            a_zero.eq(a.significand == 0),
            b_zero.eq(b.significand == 0),
            negative.eq(a.sign ^ b.sign),
            self.o.significand.eq(a.significand * b.significand),
            self.o.exponent.eq(a.exponent + b.exponent),
            self.o.sign.eq(negative),
            self.o.nonzero.eq(~a_zero & ~b_zero),
            nan.eq(a.nan | b.nan | (a.inf & b_zero) | (a_zero & b.inf)),
            infinite.eq((a.inf | b.inf) & ~nan),
            self.special.nan.eq(nan),
            self.special.pos_inf.eq(infinite & ~negative),
            self.special.neg_inf.eq(infinite & negative),
        ]
        return m


class IntegerLane(wiring.Component):
    """The multiplier of two's-complement elements; combinational.

    Ports: a, b in (codes), o out (signed, as wide as both). After Baugh and Wooley: a partial
    product counts as negative where it has one sign bit; inverted, it is one less than a positive
    one, and the constant makes up for all of them.
    """

    def __init__(self, bits_a: int, bits_b: int) -> None:
        self.bits = bits_a, bits_b
        super().__init__({"a": In(bits_a), "b": In(bits_b), "o": Out(signed(bits_a + bits_b))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits_a, bits_b = self.bits
        width, top = bits_a + bits_b, 1 << (bits_a - 1)
        rows: list[Value] = []
        for i in range(bits_b):
            inverted = top - 1 if i == bits_b - 1 else top
            partial = (self.a & self.b[i].replicate(bits_a)) ^ inverted
            rows.append(Cat(Const(0, i), partial[:bits_a]))
        rows.append(Const((1 << (width - 1)) + top + (1 << (bits_b - 1)), width))
        m.d.comb += self.o.eq(add_rows(m, "rows", rows, width).as_signed())
        return m
