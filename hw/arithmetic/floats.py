"""Floating-point values: layouts, special values, flags, the rounder and the adder."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import FLOAT32, FloatFormat
from ..hierarchy import constant, submodule
from .shift import Normalizer, ShiftRight

EXPONENT_BITS = 11  # signed; holds every exponent of every configuration, scales included
FLOAT32_BIAS, FLOAT32_EMIN = FLOAT32.bias, FLOAT32.emin
FLOAT32_FRACTION = FLOAT32.mantissa_bits
FLOAT32_ONES = 2**FLOAT32.exponent_bits - 1  # the exponent field of infinities and NaN


class SpecialLayout(data.StructLayout):
    """Special values that occur among the terms."""

    def __init__(self) -> None:
        super().__init__({"nan": 1, "pos_inf": 1, "neg_inf": 1})


class FloatLayout(data.StructLayout):
    """value = (-1)^sign x significand x 2^(exponent - bits + 1); `zero` when the value is zero.

    The leading one is at the top, except for subnormals, which have a float's least exponent.
    """

    def __init__(self, bits: int) -> None:
        super().__init__(
            {"significand": bits, "exponent": signed(EXPONENT_BITS), "sign": 1, "zero": 1}
        )


class FlagsLayout(data.StructLayout):
    """Sticky status flags of a sum; `invalid` follows from the result."""

    def __init__(self) -> None:
        super().__init__({"overflow": 1, "underflow": 1, "inexact": 1, "saturated": 1})


class RunningLayout(data.StructLayout):
    """The running value c and the flags so far."""

    def __init__(self, fmt: FloatFormat = FLOAT32) -> None:
        super().__init__({"c": fmt.bits, "flags": FlagsLayout()})


def unpack_float(m: Module, bits: Value, name: str, fmt: FloatFormat = FLOAT32) -> data.View:
    """`bits` of a finite number in `fmt` as a `FloatLayout` that never sets `zero`: a zero has the
    least exponent.
    """
    unpacked = Signal(FloatLayout(fmt.significand_bits), name=name)
    field, fraction = bits[fmt.mantissa_bits : fmt.bits - 1], bits[: fmt.mantissa_bits]
    bias = constant(m, f"{name.upper()}_BIAS", fmt.bias, len(field))
    m.d.comb += [
        unpacked.significand.eq(Cat(fraction, field.any())),
        unpacked.exponent.eq(Mux(field == 0, 1, field) - bias),
        unpacked.sign.eq(bits[fmt.bits - 1]),
    ]
    return unpacked


def special_of_float(m: Module, bits: Value, name: str, fmt: FloatFormat = FLOAT32) -> data.View:
    """The special value, if any, that the `bits` in `fmt` are."""
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
    """Bits in `fmt` for the float32 NaN `nan_bits`: its leading ones."""
    fraction = nan_bits % 2**FLOAT32_FRACTION >> (FLOAT32_FRACTION - fmt.mantissa_bits)
    return (2**fmt.exponent_bits - 1 << fmt.mantissa_bits) | fraction


def merge_special(
    m: Module, name: str, c: Value, special: ValueLike, nan_bits: int, fmt: FloatFormat = FLOAT32
) -> tuple[Value, Value]:
    """(active, bits): True if neither c nor a term is special; the result's bits otherwise.

    fmt: format of c and the result. nan_bits: a float32 NaN.
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


def rounds_up(truncated: Value, discarded: Value) -> Value:
    """True if RNE of `truncated`, with the bits `discarded` below it, goes up."""
    return discarded[-1] & (discarded[:-1].any() | truncated[0])


class FloatRounder(wiring.Component):
    """Rounds (-1)^sign x magnitude x 2^(exponent - W + 1) to `fmt` once; combinational.

    W is `magnitude_bits`. `nearest` rounds to nearest even, `odd` to odd; otherwise toward zero to
    `fraction_bits` fraction bits, at most as many as `fmt` has. Subnormals stay. A magnitude that
    rounds to 2^(emax + 1) or more is infinite.

    Ports:

    - `sign` in, 1 bit: sign of the value
    - `magnitude` in, `magnitude_bits`: its magnitude
    - `exponent` in, `exponent_bits`, signed: exponent of the magnitude's top bit, at least emin
    - `result` out, bits of `fmt`; a zero is +0
    - `overflow` out, 1 bit: the result is infinite
    - `underflow` out, 1 bit: the result is inexact, and subnormal or zero
    - `inexact` out, 1 bit: the result is not the value
    """

    def __init__(
        self,
        magnitude_bits: int,
        *,
        nearest: bool = False,
        odd: bool = False,
        fraction_bits: int | None = None,
        exponent_bits: int = EXPONENT_BITS,
        fmt: FloatFormat = FLOAT32,
    ) -> None:
        most = fmt.mantissa_bits
        if (nearest or odd) and fraction_bits not in (None, most):
            way = "to nearest" if nearest else "to odd"
            raise ValueError(f"fraction_bits must be {most} to round {way}, not {fraction_bits}")
        self.magnitude_bits, self.nearest, self.odd = magnitude_bits, nearest, odd
        self.fraction_bits = most if fraction_bits is None else fraction_bits
        self.exponent_bits, self.fmt = exponent_bits, fmt
        super().__init__(
            {
                "sign": In(1),
                "magnitude": In(magnitude_bits),
                "exponent": In(signed(exponent_bits)),
                "result": Out(fmt.bits),
                "overflow": Out(1),
                "underflow": Out(1),
                "inexact": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt = self.fmt
        ones = 2**fmt.exponent_bits - 1  # the exponent field of an infinity
        # Room for the significand, a guard bit and a sticky bit.
        bits = max(self.magnitude_bits, self.fraction_bits + 3)
        normalizer = submodule(m, "normalizer", Normalizer(bits, limit_bits=self.exponent_bits))
        biased = Signal(signed(self.exponent_bits + 1))
        top = Signal()
        least = constant(m, "LEAST_EXPONENT", fmt.emin, signed(self.exponent_bits))
        bias = constant(m, "BIAS", fmt.bias, signed(self.exponent_bits))
        m.d.comb += [
            normalizer.value.eq(Cat(Const(0, bits - self.magnitude_bits), self.magnitude)),
            # No shift below the exponent of the subnormals.
            normalizer.limit.eq(self.exponent - least),
            biased.eq(self.exponent + bias),
            top.eq(normalizer.result[-1]),
        ]
        truncated = normalizer.result[bits - 1 - self.fraction_bits : bits - 1]
        discarded = normalizer.result[: bits - 1 - self.fraction_bits]
        if self.odd:
            truncated |= discarded.any()
        up = rounds_up(truncated, discarded) if self.nearest else Const(0, 1)
        field = Signal(self.exponent_bits)
        packed = Signal(fmt.mantissa_bits + self.exponent_bits)
        m.d.comb += [
            field.eq(Mux(top, biased - normalizer.amount, 0)),
            packed.eq(Cat(Const(0, fmt.mantissa_bits - self.fraction_bits), truncated, field) + up),
            self.overflow.eq(packed[fmt.mantissa_bits :] >= ones),
            self.inexact.eq(discarded.any() | self.overflow),
            self.underflow.eq(discarded.any() & (packed[fmt.mantissa_bits :] == 0)),
        ]
        infinity = Const(ones << fmt.mantissa_bits, fmt.bits - 1)
        magnitude = Mux(self.overflow, infinity, packed[: fmt.bits - 1])
        m.d.comb += self.result.eq(Cat(magnitude, self.sign & magnitude.any()))
        return m


class FloatSum(wiring.Component):
    """a + b, ready for one rounding to at most as many bits as the wider operand; combinational.

    Bits of the smaller operand beyond the three below the wider operand's last are or-ed into the
    last bit: an odd last bit rounds like any digits that were cut off.

    Ports:

    - `a` in, `FloatLayout` of `a_bits`: first operand
    - `b` in, `FloatLayout` of `b_bits`: second operand
    - `sign` out, 1 bit: sign of the sum
    - `magnitude` out, `sum_bits`: its magnitude
    - `exponent` out, `EXPONENT_BITS`, signed: exponent of the magnitude's top bit
    """

    def __init__(self, a_bits: int, b_bits: int) -> None:
        self.a_bits, self.b_bits = a_bits, b_bits
        super().__init__(
            {
                "a": In(FloatLayout(a_bits)),
                "b": In(FloatLayout(b_bits)),
                "sign": Out(1),
                "magnitude": Out(self.sum_bits),
                "exponent": Out(signed(EXPONENT_BITS)),
            }
        )

    @property
    def window(self) -> int:
        """Bits of the aligned operands."""
        return max(self.a_bits, self.b_bits) + 3

    @property
    def sum_bits(self) -> int:
        return self.window + 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = self.a, self.b
        align = submodule(m, "align", ShiftRight(self.window, EXPONENT_BITS))
        # Differences both ways: choosing one is faster than negating the other.
        a_above_b = Signal(signed(EXPONENT_BITS + 1))
        b_above_a = Signal(signed(EXPONENT_BITS + 1))
        b_larger = Signal()
        larger_sign = Signal()
        subtract = Signal()
        larger = Signal(self.window)
        smaller = Signal(self.window)
        a_window = Cat(Const(0, self.window - self.a_bits), a.significand)
        b_window = Cat(Const(0, self.window - self.b_bits), b.significand)
        total = Signal(signed(self.window + 2))
        m.d.comb += [
            a_above_b.eq(a.exponent - b.exponent),
            b_above_a.eq(b.exponent - a.exponent),
            b_larger.eq(~b.zero & (a.zero | a_above_b[-1])),
            align.amount.eq(Mux(b_larger, b_above_a, a_above_b)),
            larger.eq(Mux(b_larger, b_window, a_window)),
            align.value.eq(Mux(b_larger, a_window, b_window)),
            smaller.eq(align.result | align.sticky),
            larger_sign.eq(Mux(b_larger, b.sign, a.sign)),
            subtract.eq(a.sign ^ b.sign),
        ]
        # The lowest digit carries `subtract` into the sum, which is one carry chain that way.
        addend = Cat(subtract, smaller ^ subtract.replicate(self.window), subtract.replicate(2))
        m.d.comb += [
            total.eq((Cat(Const(1, 1), larger) + addend)[1:]),
            self.sign.eq(larger_sign ^ total[-1]),
            self.magnitude.eq(Mux(total[-1], -total, total)),
            self.exponent.eq(Mux(b_larger, b.exponent, a.exponent) + 1),
        ]
        return m
