"""Rounding as the contract says it, a step at a time: what every rounder is held against."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from ...model.formats import FloatFormat


@dataclass(frozen=True)
class Rounded:
    """Bits without a sign, and whether they are not the value, or infinity."""

    bits: Value
    inexact: Value
    infinite: Value


def round_to(
    m: Module, magnitude: Value, exponent: Value, fmt: FloatFormat, nearest: bool, fraction: int
) -> Rounded:
    """`magnitude`, whose top digit is worth 2^exponent, at least that of subnormals.

    The significand has `fraction` digits after the point; with `nearest` ties go to an even one.
    """
    width = max(len(magnitude), fraction + 3)
    wide = Signal(width)
    m.d.comb += wide.eq(Cat(Const(0, width - len(magnitude)), magnitude))
    room = exponent - fmt.emin
    shift = Signal(range(width + 1))
    zeros = Signal(range(width + 1))
    m.d.comb += zeros.eq(width)
    for place in range(width):  # the last that holds counts: the highest one
        with m.If(wide[place]):
            m.d.comb += zeros.eq(width - 1 - place)
    m.d.comb += shift.eq(Mux(zeros < room, zeros, room))
    top = Signal(width)
    m.d.comb += top.eq(wide << shift)
    cut = width - 1 - fraction
    kept, rest = top >> cut, top[:cut]
    half = 1 << (cut - 1)
    up = (rest > half) | ((rest == half) & kept[0]) if nearest else Const(0)
    digits = Signal(fraction + 2)
    m.d.comb += digits.eq(kept + up)
    # The value is digits x 2^(power - fraction).
    power = Signal(signed(len(exponent) + 2))
    m.d.comb += power.eq(exponent - shift)
    carried = digits[fraction + 1]
    field = Signal(signed(len(exponent) + 3))
    subnormal = digits[fraction:] == 0
    m.d.comb += field.eq(Mux(subnormal, 0, power + carried + fmt.bias))
    infinite = Signal()
    m.d.comb += infinite.eq(field > fmt.emax + fmt.bias)
    last = fmt.mantissa_bits - fraction
    finite = Cat(Const(0, last), digits[:fraction], field[: fmt.exponent_bits])
    infinity = ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits
    bits = Signal(fmt.bits - 1)
    m.d.comb += bits.eq(Mux(infinite, infinity, finite))
    return Rounded(bits, rest.any(), infinite)
