"""Floating-point values between the sections: their layouts, special values and status flags."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data

from ...model.formats import FLOAT32

EXPONENT_BITS = 11  # signed; holds every exponent of every configuration, scales included
FLOAT32_BIAS, FLOAT32_EMIN = FLOAT32.bias, FLOAT32.emin
FLOAT32_FRACTION = FLOAT32.mantissa_bits
FLOAT32_ONES = 2**FLOAT32.exponent_bits - 1  # the exponent field of infinities and NaN


class SpecialLayout(data.StructLayout):
    """Which special values occur among a set of terms."""

    def __init__(self) -> None:
        super().__init__({"nan": 1, "pos_inf": 1, "neg_inf": 1})


class FloatLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent - bits + 1); `zero` when it is zero.

    The leading one is at the top, but for a float32 subnormal at exponent -126.
    """

    def __init__(self, bits: int) -> None:
        super().__init__(
            {"significand": bits, "exponent": signed(EXPONENT_BITS), "sign": 1, "zero": 1}
        )


class FlagsLayout(data.StructLayout):
    """Sticky status flags of a sum; invalid follows from the result."""

    def __init__(self) -> None:
        super().__init__({"overflow": 1, "underflow": 1, "inexact": 1, "saturated": 1})


class RunningLayout(data.StructLayout):
    """The running value c (float32 bits) and the flags so far."""

    def __init__(self) -> None:
        super().__init__({"c": 32, "flags": FlagsLayout()})


def unpack_float32(m: Module, bits: Value, name: str) -> data.View:
    """`bits` of a finite float32 as a FloatLayout(24) whose `zero` is never set: a zero has the
    exponent -126."""
    unpacked = Signal(FloatLayout(FLOAT32_FRACTION + 1), name=name)
    field, fraction = bits[FLOAT32_FRACTION:31], bits[:FLOAT32_FRACTION]
    m.d.comb += [
        unpacked.significand.eq(Cat(fraction, field.any())),
        unpacked.exponent.eq(Mux(field == 0, 1, field) - FLOAT32_BIAS),
        unpacked.sign.eq(bits[31]),
    ]
    return unpacked


def special_of_float32(m: Module, bits: Value, name: str) -> data.View:
    """Which special value the float32 `bits` are, if any."""
    special = Signal(SpecialLayout(), name=name)
    ones, fraction = bits[FLOAT32_FRACTION:31].all(), bits[:FLOAT32_FRACTION].any()
    m.d.comb += [
        special.nan.eq(ones & fraction),
        special.pos_inf.eq(ones & ~fraction & ~bits[31]),
        special.neg_inf.eq(ones & ~fraction & bits[31]),
    ]
    return special


def merge_special(
    m: Module, name: str, c: Value, special: ValueLike, nan_bits: int
) -> tuple[Value, Value]:
    """(active, bits): whether neither c nor the terms are special, and else the float32 result."""
    terms = data.View(SpecialLayout(), special)
    running = special_of_float32(m, c, f"{name}_c")
    positive, negative = Signal(name=f"{name}_pos_inf"), Signal(name=f"{name}_neg_inf")
    nan, active = Signal(name=f"{name}_nan"), Signal(name=f"{name}_active")
    bits = Signal(32, name=f"{name}_bits")
    infinity = Cat(Const(0, FLOAT32_FRACTION), Const(-1, FLOAT32.exponent_bits))
    m.d.comb += [
        positive.eq(terms.pos_inf | running.pos_inf),
        negative.eq(terms.neg_inf | running.neg_inf),
        nan.eq(terms.nan | running.nan | (positive & negative)),
        active.eq(~(nan | positive | negative)),
        bits.eq(Mux(nan, Const(nan_bits, 32), Cat(infinity, negative))),
    ]
    return active, bits
