"""Elements of quotients value / scale, nearest even, without a division per element.

A float32 estimate of the quotient finds the element below it, or a neighbour where it is next to an
element. The sign of value - midpoint x scale tells on which side of the midpoint above that element
the quotient lies. A wrong neighbour does no harm: its midpoint is far from the quotient, on the
side that leads to the same element. With a float32 scale one fused multiplication and addition
gives the sign, where float64 takes four conversions. Adding and subtracting a large float rounds to
integers: conversions take four times as long.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from ...model.formats import ElementFormat, FloatFormat, IntegerFormat
from .arithmetic import BIAS32, FRACTION32, HIDDEN32, INFINITY32
from .encode import MAGIC, MAGIC_BITS

FAR = tl.constexpr(2.0**20)  # beyond every integer less a zero point
TINY = tl.constexpr(2.0**-64)  # scales below it, and values under them, are taken 2^64 as large


class Element(NamedTuple):
    """Compile-time parameters of `elements`, one constexpr.

    unit: integers per value 1. lowest: the least integer. largest: the greatest integer, or the
    code of the largest float. m, emin: mantissa bits and least exponent of a float, else 0. top:
    between the largest float and the midpoint below it.
    """

    bits: int
    integer: bool
    unit: float
    lowest: int
    largest: int
    m: int
    emin: int
    top: float

    @classmethod
    def of(cls, element: ElementFormat) -> "Element":
        """The constants of `element`."""
        if isinstance(element, IntegerFormat):
            unit, ends = 2.0**element.fraction_bits, (element.lowest_encoded, element.highest)
            return cls(element.bits, True, unit, *ends, 0, 0, 0.0)
        assert isinstance(element, FloatFormat)
        m, largest = element.mantissa_bits, element.largest_code
        top = element.largest_finite - 2.0 ** (element.emax - m - 2)
        return cls(element.bits, element.is_integer, 1.0, 0, largest, m, element.emin, top)


@triton.jit
def _is_beyond(value, middle, scale, low, odd, FUSED: tl.constexpr):
    """Whether value / (scale + low) lies above a midpoint, or on it next to an odd element.

    odd: int32, 1 for odd. FUSED: in float32, each step rounded once: near zero the first is exact.
    Else exact in float64, without `low`.
    """
    if FUSED:
        rest = tl.fma(-middle, scale, value)
        if low is not None:
            rest = tl.fma(-middle, low, rest)
        return rest.to(tl.int32, bitcast=True) + odd > 0  # no rest is -0
    else:
        rest = value.to(tl.float64) - middle.to(tl.float64) * scale
        return (rest > 0) | ((rest == 0) & (odd > 0))


@triton.jit
def elements(
    value,
    near,
    scale,
    ELEMENT: tl.constexpr,
    VALUES: tl.constexpr,
    FUSED: tl.constexpr,
    zero_point=None,
    low=None,
):
    """Elements of float32 `value` / `scale`: uint8 codes, or by VALUES float32 values.

    near: float32, the quotient within a few last places. scale: float64; if FUSED float32, and
    `low` what it lacks (None: nothing). zero_point: int32, added to integers.
    """
    if ELEMENT.integer:
        if zero_point is None:
            near = tl.minimum(tl.maximum(near, ELEMENT.lowest + 0.25), ELEMENT.largest - 0.25)
        else:
            near = tl.minimum(tl.maximum(near, -FAR), FAR)
        total = near - 0.5 + MAGIC
        below, digits = total - MAGIC, total.to(tl.int32, bitcast=True)
        beyond = _is_beyond(value, below + 0.5, scale, low, digits & 1, FUSED)
        if VALUES is not None:
            made = tl.where(beyond, below + 1.0, below) * VALUES.factor
        else:
            digits = digits - MAGIC_BITS + beyond.to(tl.int32)
            if zero_point is not None:
                digits = tl.minimum(
                    tl.maximum(digits + zero_point, ELEMENT.lowest), ELEMENT.largest
                )
            made = (digits & ((1 << ELEMENT.bits) - 1)).to(tl.uint8)
    else:
        LEAST: tl.constexpr = (ELEMENT.emin + BIAS32) << FRACTION32
        # 1.5 times the float whose last place is the element's.
        OFFSET: tl.constexpr = ((FRACTION32 - ELEMENT.m) << FRACTION32) + HIDDEN32 // 2
        size = tl.minimum(tl.abs(near), ELEMENT.top)
        exponent = tl.maximum(size.to(tl.int32, bitcast=True) & INFINITY32, LEAST)
        half = exponent.to(tl.float32, bitcast=True) * 2.0 ** (-1 - ELEMENT.m)
        unit = exponent + OFFSET
        offset = unit.to(tl.float32, bitcast=True)
        total = size - half + offset
        below, digits = total - offset, total.to(tl.int32, bitcast=True)
        middle = below + half
        beyond = _is_beyond(tl.abs(value), middle, scale, low, digits & 1, FUSED)
        if VALUES is None:
            # A carry out of the significand runs into the exponent field, as it should.
            code = digits - unit + ((exponent - LEAST) >> (FRACTION32 - ELEMENT.m))
            code += beyond.to(tl.int32)
            code |= (value.to(tl.int32, bitcast=True) >> 31) & (1 << (ELEMENT.bits - 1))
            made = code.to(tl.uint8)
        else:
            bits = tl.where(beyond, middle + half, below).to(tl.int32, bitcast=True)
            bits |= value.to(tl.int32, bitcast=True) & -2147483648
            made = bits.to(tl.float32, bitcast=True)
    return made


@triton.jit
def plain_elements(
    value, scale, poisoned, ELEMENT: tl.constexpr, VALUES: tl.constexpr, FUSED: tl.constexpr
):
    """`elements` of float32 values and scales; codes are zeros where these are poisoned."""
    up = tl.where(scale < TINY, 1.0 / TINY, 1.0)
    if VALUES is None:
        value = tl.where(poisoned, 0.0, value)
    value, scale = value * up, scale * up
    return elements(value, value * (1.0 / scale), scale, ELEMENT, VALUES, FUSED)
