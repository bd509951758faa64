"""Triton functions for the contract's rounding: model/rounding.py, element by element.

Real numbers travel as float64. A sum that does not fit is rounded to odd, so that a later rounding
to float32 is correct (Boldo and Melquiond, IEEE Trans. Computers 57(4), 2008). An integer sum too
wide for int64 is a pair: high x 2^32 + low.
"""

import triton
import triton.language as tl

from ...model.formats import FLOAT32, FLOAT64
from ...model.rounding import TOO_LARGE

# How wide the integer sums of a step are: the values of the constexpr WIDTH.
INT32, INT64, PAIR = 0, 1, 2

BIAS32, FRACTION32 = tl.constexpr(FLOAT32.bias), tl.constexpr(FLOAT32.mantissa_bits)
BIAS64, FRACTION64 = tl.constexpr(FLOAT64.bias), tl.constexpr(FLOAT64.mantissa_bits)
HIDDEN32 = tl.constexpr(2**FLOAT32.mantissa_bits)  # the leading digit, which no field holds
INFINITY32 = tl.constexpr(FLOAT32.inf_code)
LIMIT32 = tl.constexpr(TOO_LARGE)
# Beside it a float64 below 2^51 keeps no fraction: adding it and taking it away is RNE.
WHOLE64 = tl.constexpr(1.5 * 2.0**FLOAT64.mantissa_bits)


@triton.jit
def power32(exponent):
    """2^exponent as float32, for an int32 exponent from -126 to 127."""
    return ((exponent + BIAS32) << FRACTION32).to(tl.float32, bitcast=True)


@triton.jit
def power64(exponent):
    """2^exponent as float64, for an integer exponent from -1022 to 1023."""
    return ((exponent.to(tl.int64) + BIAS64) << FRACTION64).to(tl.float64, bitcast=True)


@triton.jit
def exponent32(x):
    """The exponent of a finite float32, int32; -126 for a subnormal, and for 0."""
    field = (x.to(tl.int32, bitcast=True) >> FRACTION32) & 0xFF
    return tl.maximum(field, 1) - BIAS32


@triton.jit
def exponent64(x):
    """The exponent of a normal float64, int64; a zero's is below all of them."""
    return ((x.to(tl.int64, bitcast=True) >> FRACTION64) & 0x7FF) - BIAS64


@triton.jit
def is_finite(x):
    """Whether a float32 is neither infinite nor NaN."""
    return (x.to(tl.int32, bitcast=True) & INFINITY32) != INFINITY32


@triton.jit
def two_sum(a, b):
    """(RN(a + b), its exact error), Knuth's branch-free TwoSum."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


@triton.jit
def add_to_odd(a, b):
    """The float64 sum a + b rounded to odd at 53 bits."""
    total, error = two_sum(a, b)
    bits = total.to(tl.int64, bitcast=True)
    inexact_even = (error != 0) & ((bits & 1) == 0)
    # The odd neighbour on the side of the error: away from zero where the signs agree.
    step = tl.where((error > 0) == (total > 0), 1, -1)
    return tl.where(inexact_even, bits + step, bits).to(tl.float64, bitcast=True)


@triton.jit
def sum3_to_odd(high, low, c):
    """The sum high + low + c rounded once, to odd."""
    total, rest = two_sum(high, low)
    return pair_and_c_to_odd(total, rest, c)


@triton.jit
def pair_and_c_to_odd(total, rest, c):
    """`sum3_to_odd` of a pair that `two_sum` gives."""
    total, error = two_sum(total, c)
    return add_to_odd(total, add_to_odd(error, rest))


@triton.jit
def nearest_even(x):
    """RNE of float64 to float32; a zero is +0."""
    rounded = x.to(tl.float32)
    return tl.where(rounded == 0, 0.0, rounded)


@triton.jit
def toward_zero(x, DROPPED: tl.constexpr):
    """RZ of float64 to float32 without its last DROPPED fraction bits; infinite from 2^128 on."""
    rounded = x.to(tl.float32)
    size = tl.abs(x)
    limit: tl.constexpr = LIMIT32
    too_far = (tl.abs(rounded).to(tl.float64) > size) & (size < limit)
    bits = rounded.to(tl.int32, bitcast=True) - too_far.to(tl.int32)
    bits = (bits >> DROPPED) << DROPPED
    return tl.where((bits & 0x7FFFFFFF) == 0, 0, bits).to(tl.float32, bitcast=True)


@triton.jit
def odd(x):
    """A finite float64 rounded to odd, as float32; infinite from 2^128 on; a zero is +0."""
    truncated = toward_zero(x, 0)
    limit: tl.constexpr = LIMIT32
    lost = (truncated.to(tl.float64) != x) & (tl.abs(x) < limit)
    bits = truncated.to(tl.int32, bitcast=True) | lost.to(tl.int32)
    return tl.where(lost & (x < 0), bits | -2147483648, bits).to(tl.float32, bitcast=True)


@triton.jit
def narrowed(x, FRACTION: tl.constexpr, EMIN: tl.constexpr, NEAREST: tl.constexpr):
    """A finite float64 in a float of FRACTION fraction bits and exponents from EMIN to 1 - EMIN, as
    float32: RNE if NEAREST, else RZ; infinite from the power of two beyond them; a zero is +0."""
    place = tl.maximum(exponent64(x), EMIN) - FRACTION
    digits = x * power64(-place)
    if NEAREST:
        digits = (digits + WHOLE64) - WHOLE64
    else:
        digits = digits.to(tl.int32).to(tl.float64)
    exact = digits * power64(place)
    limit: tl.constexpr = 2.0 ** (2 - EMIN)
    rounded = tl.where(tl.abs(exact) < limit, exact, exact * float("inf")).to(tl.float32)
    return tl.where(rounded == 0, 0.0, rounded)


@triton.jit
def integer_to_odd(x):
    """An int64 (not -2^63) as float64, rounded to odd where it needs more than 53 bits."""
    magnitude = tl.where(x < 0, -x, x)
    jammed = ((magnitude >> 10) | ((magnitude & 1023) != 0).to(tl.int64)).to(tl.float64) * 1024.0
    odd = tl.where(magnitude < (1 << 53), magnitude.to(tl.float64), jammed)
    return tl.where(x < 0, -odd, odd)


@triton.jit
def pair_magnitude(high, low):
    """(negative, high, low) of high x 2^32 + low: a magnitude with 0 <= low < 2^32."""
    high += low >> 32
    low = low & 0xFFFFFFFF
    negative = high < 0
    borrow = (low != 0).to(tl.int64)
    high = tl.where(negative, -high - borrow, high)
    low = tl.where(negative, (-low) & 0xFFFFFFFF, low)
    return negative, high, low


@triton.jit
def pair_to_odd(high, low):
    """The sum high x 2^32 + low (below 2^79) as float64, rounded to odd."""
    negative, high, low = pair_magnitude(high, low)
    lost = ((low & 0xFFFF) != 0).to(tl.int64)
    wide = integer_to_odd((high << 16) | (low >> 16) | lost) * 65536.0
    odd = tl.where(high < (1 << 20), ((high << 32) | low).to(tl.float64), wide)
    return tl.where(negative, -odd, odd)


@triton.jit
def sum_to_odd(high, low, WIDTH: tl.constexpr):
    """An integer sum of WIDTH as float64, rounded to odd."""
    if WIDTH == 0:
        return low.to(tl.float64)
    elif WIDTH == 1:
        return integer_to_odd(low)
    else:
        return pair_to_odd(high, low)


@triton.jit
def sum_as_two(high, low, WIDTH: tl.constexpr):
    """An integer sum of WIDTH as two float64 whose sum it is exactly."""
    if WIDTH == 0:
        return low.to(tl.float64), (low * 0).to(tl.float64)
    elif WIDTH == 1:
        return ((low >> 32) << 32).to(tl.float64), (low & 0xFFFFFFFF).to(tl.float64)
    else:
        return high.to(tl.float64) * 4294967296.0, low.to(tl.float64)


@triton.jit
def truncate(x, WIDTH: tl.constexpr):
    """(high, low): the integer RZ(x) for a sum of WIDTH; x has at most 24 significant bits."""
    if WIDTH == 0:
        low = x.to(tl.int32)
        return low, low
    elif WIDTH == 1:
        low = x.to(tl.int64)
        return low, low
    else:
        high = (x * (1 / 4294967296)).to(tl.int64)
        return high, (x - high.to(x.dtype) * 4294967296.0).to(tl.int64)


@triton.jit
def truncate_to_odd(x, WIDTH: tl.constexpr):
    """(high, low) as `truncate`, of x rounded to odd."""
    high, low = truncate(x, WIDTH)
    if WIDTH < 2:
        low = _odd_integer(x, low)
        return low, low
    else:  # only a part below 2^32 loses digits
        return high, _odd_integer(x - high.to(x.dtype) * 4294967296.0, low)


@triton.jit
def _odd_integer(x, truncated):
    """RZ(x), made odd where digits were lost."""
    lost = (truncated.to(x.dtype) != x).to(truncated.dtype)
    return tl.where(x < 0, -(-truncated | lost), truncated | lost)
