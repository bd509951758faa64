"""Floating-point values between the sections: their layouts, special values and status flags."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data

from ...model.formats import FLOAT32, FloatFormat

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

    The leading one is at the top, but for a float's subnormal at its least exponent.
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
    """The running value c (bits of `fmt`) and the flags so far."""

    def __init__(self, fmt: FloatFormat = FLOAT32) -> None:
        super().__init__({"c": fmt.bits, "flags": FlagsLayout()})


def unpack_float(m: Module, bits: Value, name: str, fmt: FloatFormat = FLOAT32) -> data.View:
    """`bits` of a finite number of `fmt` as a FloatLayout whose `zero` is never set: a zero has the
    least exponent."""
    unpacked = Signal(FloatLayout(fmt.significand_bits), name=name)
    field, fraction = bits[fmt.mantissa_bits : fmt.bits - 1], bits[: fmt.mantissa_bits]
    m.d.comb += [
        unpacked.significand.eq(Cat(fraction, field.any())),
        unpacked.exponent.eq(Mux(field == 0, 1, field) - fmt.bias),
        unpacked.sign.eq(bits[fmt.bits - 1]),
    ]
    return unpacked


def special_of_float(m: Module, bits: Value, name: str, fmt: FloatFormat = FLOAT32) -> data.View:
    """Which special value the `bits` of `fmt` are, if any."""
    special = Signal(SpecialLayout(), name=name)
    sign = bits[fmt.bits - 1]
    ones, fraction = bits[fmt.mantissa_bits : fmt.bits - 1].all(), bits[: fmt.mantissa_bits].any()
    m.d.comb += [
        special.nan.eq(ones & fraction),
        special.pos_inf.eq(ones & ~fraction & ~sign),
        special.neg_inf.eq(ones & ~fraction & sign),
    ]
    return special


def narrow_nan(nan_bits: int, fmt: FloatFormat) -> int:
    """The bits of `fmt` that stand for the float32 NaN `nan_bits`: its leading ones."""
    fraction = nan_bits % 2**FLOAT32_FRACTION >> (FLOAT32_FRACTION - fmt.mantissa_bits)
    return (2**fmt.exponent_bits - 1 << fmt.mantissa_bits) | fraction


def merge_special(
    m: Module, name: str, c: Value, special: ValueLike, nan_bits: int, fmt: FloatFormat = FLOAT32
) -> tuple[Value, Value]:
    """(active, bits): whether neither c nor the terms are special, and else the result's bits.

    fmt: of c and the result; nan_bits: a float32's.
    """
    terms = data.View(SpecialLayout(), special)
    running = special_of_float(m, c, f"{name}_c", fmt)
    positive, negative = Signal(name=f"{name}_pos_inf"), Signal(name=f"{name}_neg_inf")
    nan, active = Signal(name=f"{name}_nan"), Signal(name=f"{name}_active")
    bits = Signal(fmt.bits, name=f"{name}_bits")
    infinity = Cat(Const(0, fmt.mantissa_bits), Const(-1, fmt.exponent_bits))
    nan_code = Const(narrow_nan(nan_bits, fmt), fmt.bits)
    m.d.comb += [
        positive.eq(terms.pos_inf | running.pos_inf),
        negative.eq(terms.neg_inf | running.neg_inf),
        nan.eq(terms.nan | running.nan | (positive & negative)),
        active.eq(~(nan | positive | negative)),
        bits.eq(Mux(nan, nan_code, Cat(infinity, negative))),
    ]
    return active, bits
