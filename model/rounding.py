"""Rounding of exact sums to float32, and to the 16-bit floats of running values.

Real numbers are float64, which holds every intermediate of the fast path exactly. A sum that does
not fit is first rounded to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
proved algorithms using rounding to odd", IEEE Trans. Computers 57(4), 2008). Its 53rd bit then says
that digits were lost, and a second rounding to 24 bits or fewer is correct. NaN and infinities of
special terms pass as in IEEE 754; no sum of finite terms comes near float64's overflow.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, at_least, cast, exponent, namespace, power, view
from .formats import FLOAT32, FloatFormat

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
TOO_LARGE = 2.0 ** (FLOAT32.emax + 1)  # the least power of two beyond float32
SPLITTER = 2.0**27 + 1  # cuts a float64 into two halves of at most 26 bits


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """(RN(a + b), its exact error), Knuth's branch-free TwoSum; a special sum's error is NaN."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """(RN(a x b), its exact error) by Dekker and Veltkamp; a special product's error is NaN.

    Factors and product must be far from overflow and underflow.
    """
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _halves(a: Array) -> tuple[Array, Array]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def clear_special_error(result: Array, error: Array) -> tuple[Array, Array]:
    """(result, error) with an error of 0 where the result is special."""
    xp = namespace(result)
    return result, xp.where(xp.isfinite(result), error, 0.0)


def to_odd(total: Array, error: Array) -> Array:
    """The sum total + error, a TwoSum pair, rounded to odd at 53 bits."""
    xp = namespace(total)
    bits = view(total, "int64")
    inexact_even = (abs(error) > 0) & ((bits & 1) == 0)  # False for an error of NaN
    # The odd neighbour on the side of the error: away from zero where the signs agree.
    away = xp.sign(error) == xp.sign(total)
    return view(bits + xp.where(inexact_even, xp.where(away, 1, -1), 0), "float64")


def add_to_odd(a: Array, b: Array) -> Array:
    """The sum a + b rounded to odd at 53 bits."""
    return to_odd(*two_sum(a, b))


def sum3_to_odd(high: Array, low: Array, c: Array) -> Array:
    """The sum high + low + c rounded once, to odd; (high, low) is a TwoSum pair."""
    total, error = clear_special_error(*two_sum(high, c))
    return add_to_odd(total, add_to_odd(error, low))


def nearest_even(x: Array, fmt: FloatFormat = FLOAT32) -> Array:
    """RNE of float64 to `fmt`, as float32, with subnormals; overflow is infinite, a zero is +0."""
    if fmt != FLOAT32:
        return _narrowed(x, fmt, namespace(x).round)
    with np.errstate(over="ignore", under="ignore"):
        return cast(cast(x, "float64"), "float32") + 0.0


def toward_zero(x: Array, fraction_bits: int = FLOAT32.mantissa_bits) -> Array:
    """RZ to float32 with `fraction_bits` (0 to 23) fraction bits, subnormals on the same grid.

    A magnitude of 2^128 or more becomes infinite. A zero is +0.
    """
    x = cast(x, "float64")
    xp, magnitude = namespace(x), abs(x)
    with np.errstate(over="ignore", under="ignore"):
        rounded = cast(xp.clip(x, *FLOAT32.extremes), "float32")
        untruncated = cast(x, "float32")  # infinite beyond float32
    too_far = abs(cast(rounded, "float64")) > magnitude
    bits = view(rounded, "int32") - cast(too_far, "int32")
    truncated = view(bits & (-1 << (FLOAT32.mantissa_bits - fraction_bits)), "float32")
    return xp.where(magnitude < TOO_LARGE, truncated, untruncated) + 0.0


def odd(x: Array) -> Array:
    """float64 rounded to odd, as float32: RZ with a last bit of 1 where digits were lost.

    Subnormals stay on their grid. A magnitude of 2^128 or more becomes infinite. A zero is +0.
    """
    x = cast(x, "float64")
    xp, truncated = namespace(x), toward_zero(x)
    lost = (cast(truncated, "float64") != x) & xp.isfinite(truncated)
    result = view(view(truncated, "int32") | cast(lost, "int32"), "float32")
    return xp.where(lost, xp.copysign(result, cast(xp.sign(x), "float32")), result)


def odd_integers(x: Array) -> Array:
    """Finite float64 rounded to odd, as integers."""
    xp = namespace(x)
    truncated = xp.trunc(x)
    even = xp.floor(truncated * 0.5) * 2.0 == truncated
    away = xp.where((truncated != x) & even, 1.0, 0.0)  # only magnitudes below 2^52 lose digits
    return truncated + xp.copysign(away, x)


def toward_zero_in(x: Array, fmt: FloatFormat) -> Array:
    """RZ to `fmt`, as float32; infinite from the power of two after its largest exponent."""
    return toward_zero(x) if fmt == FLOAT32 else _narrowed(x, fmt, namespace(x).trunc)


def _narrowed(x: Array, fmt: FloatFormat, to_integers: Callable[[Array], Array]) -> Array:
    """float64 on the grid of a format narrower than float32; NaN and infinities pass."""
    x = cast(x, "float64")
    xp = namespace(x)
    place = at_least(exponent(xp.abs(x)), fmt.emin) - fmt.mantissa_bits
    rounded = to_integers(x * power(-place)) * power(place)
    too_large = xp.abs(rounded) >= 2.0 ** (fmt.emax + 1)
    return (
        cast(xp.where(too_large, xp.copysign(xp.full_like(x, np.inf), x), rounded), "float32") + 0.0
    )


def quotient(a: Array, b: Array) -> Array:
    """a / b rounded to odd at 53 bits, for finite float64 `a` and positive `b`.

    A second rounding, to 51 bits or fewer, then equals rounding the exact quotient.
    """
    rounded = a / b
    product, error = two_product(rounded, b)
    return to_odd(rounded, (a - product) - error)  # the remainder, exact, has the error's sign
