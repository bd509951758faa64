"""Sections `float`, `rescale`, `round`: an INT32 sum to a float32, times another, rounded."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from ...model.formats import FLOAT32
from ...model.requantize import SUM_BITS
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_FRACTION,
    FloatRounder,
    RunningLayout,
    SpecialLayout,
    special_of_float,
    unpack_float,
)
from ..arithmetic.multiply import Multiplier
from ..hierarchy import submodule
from ..pipeline import Section

SIGNIFICAND_BITS = FLOAT32.significand_bits
PRODUCT_BITS = 2 * SIGNIFICAND_BITS
ROUNDED, RESULT = "rounded", "result"


class ProductLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent - bits + 1), or the special value of the scale;
    an infinite scale multiplies a zero if `zero` is set.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "significand": PRODUCT_BITS,
                "exponent": signed(EXPONENT_BITS),
                "sign": 1,
                "zero": 1,
                "special": SpecialLayout(),
            }
        )


class SumToFloat(Section):
    """The INT32 sum as a float32, RNE, with its flags."""

    def __init__(self, running: data.StructLayout) -> None:
        super().__init__({"running": running}, {"sum": RunningLayout()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running, total = self.i.running, self.o.sum
        rounder = submodule(m, "rounder", FloatRounder(SUM_BITS, nearest=True))
        negative = Signal()
        m.d.comb += [
            negative.eq(running.c < 0),
            rounder.sign.eq(negative),
            rounder.magnitude.eq(Mux(negative, -running.c, running.c)),
            rounder.exponent.eq(SUM_BITS - 1),
            total.c.eq(rounder.result),
            total.flags.eq(running.flags),
        ]
        m.d.comb += total.flags.inexact.eq(rounder.inexact)
        return m


class RescaleFloat(Section):
    """Exact product of the float32 sum and the scale."""

    def __init__(self) -> None:
        super().__init__(
            {"sum": RunningLayout(), "result_scale": FLOAT32.bits}, {"product": ProductLayout()}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product = self.o.product
        total = unpack_float(m, self.i.sum.c, "total")
        scale = unpack_float(m, self.i.result_scale, "scale")
        multiplier = submodule(m, "multiplier", Multiplier(SIGNIFICAND_BITS, SIGNIFICAND_BITS))
        m.d.comb += [
            multiplier.a.eq(total.significand),
            multiplier.b.eq(scale.significand),
            product.significand.eq(multiplier.product),
            # The product of two numbers in [1, 2) has a top bit that counts twos.
            product.exponent.eq(total.exponent + scale.exponent + 1),
            product.sign.eq(total.sign ^ scale.sign),
            product.zero.eq(~self.i.sum.c[: FLOAT32.bits - 1].any()),
            product.special.eq(special_of_float(m, self.i.result_scale, "special")),
        ]
        return m


class RoundProduct(Section):
    """The product as a float32, RNE, or the result of a special scale, without flags."""

    def __init__(self, result: str) -> None:
        self._result = result
        super().__init__(
            {"sum": RunningLayout(), "product": ProductLayout()}, {result: RunningLayout()}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product, flags, result = self.i.product, self.i.sum.flags, getattr(self.o, self._result)
        special = product.special
        rounder = submodule(m, "rounder", FloatRounder(PRODUCT_BITS, nearest=True))
        infinite, usual, nan = Signal(), Signal(), Signal(name="nan")
        m.d.comb += [
            infinite.eq(special.pos_inf | special.neg_inf),
            nan.eq(special.nan | (infinite & product.zero)),
            usual.eq(~(infinite | special.nan)),
            rounder.sign.eq(product.sign),
            rounder.magnitude.eq(product.significand),
            rounder.exponent.eq(product.exponent),
        ]
        ones = Const(2**FLOAT32.exponent_bits - 1, FLOAT32.exponent_bits)
        infinity = Cat(Const(0, FLOAT32_FRACTION), ones, product.sign)
        of_special = Mux(nan, FLOAT32.nan_code, infinity)
        m.d.comb += [
            result.c.eq(Mux(usual, rounder.result, of_special)),
            result.flags.saturated.eq(flags.saturated),
            result.flags.overflow.eq(usual & rounder.overflow),
            result.flags.underflow.eq(usual & rounder.underflow),
            result.flags.inexact.eq(usual & (flags.inexact | rounder.inexact)),
        ]
        return m
