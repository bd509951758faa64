"""Rounding of exact sums to float32.

Real numbers travel as float64, which holds every intermediate of the fast path exactly. A sum that
does not fit is rounded to odd first (Boldo and Melquiond, "Emulation of FMA and correctly rounded
sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57(4), 2008): the 53rd bit
then keeps "something was lost", and a second rounding to 24 bits or fewer is correct.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, cast, namespace, view
from .formats import FLOAT32

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
TOO_LARGE = 2.0 ** (FLOAT32.emax + 1)  # the least power of two that no float32 is
SPLITTER = 2.0**27 + 1  # cuts a float64 into two halves of at most 26 bits


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """(RN(a + b), its exact error), Knuth's branch-free TwoSum."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """(RN(a x b), its exact error), Dekker's and Veltkamp's; factors and product in mid range."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _halves(a: Array) -> tuple[Array, Array]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def to_odd(total: Array, error: Array) -> Array:
    """The sum total + error (a TwoSum pair) rounded to odd at 53 bits."""
    xp = namespace(total)
    bits = view(total, "int64")
    inexact_even = (error != 0) & ((bits & 1) == 0)
    # The odd neighbour on the side of the error: away from zero where the signs agree.
    away = (error > 0) == (total > 0)
    return view(bits + xp.where(inexact_even, xp.where(away, 1, -1), 0), "float64")


def add_to_odd(a: F64, b: F64) -> F64:
    """The sum a + b rounded to odd at 53 bits."""
    return to_odd(*two_sum(a, b))


def sum3_to_odd(high: F64, low: F64, c: F64) -> F64:
    """The sum high + low + c rounded once, to odd; (high, low) is a TwoSum pair."""
    total, error = two_sum(high, c)
    return add_to_odd(total, add_to_odd(error, low))


def nearest_even(x: Array) -> Array:
    """RNE of float64 to float32, subnormals kept, overflow to infinity; a zero is +0."""
    with np.errstate(over="ignore", under="ignore"):
        return cast(cast(x, "float64"), "float32") + 0.0


def toward_zero(x: F64, fraction_bits: int = FLOAT32.mantissa_bits) -> F32:
    """RZ to float32 with `fraction_bits` (0 to 23) fraction bits, subnormals on the same grid.

    A magnitude of 2^128 or more is infinite; below that it truncates. A zero is +0.
    """
    x = np.asarray(x, dtype=np.float64)
    finite = np.clip(x, *FLOAT32.extremes)
    with np.errstate(under="ignore"):
        rounded = finite.astype(np.float32)
    too_far = np.abs(rounded.astype(np.float64)) > np.abs(finite)
    bits = rounded.view(np.uint32) - too_far.astype(np.uint32)
    dropped = np.uint32(2 ** (FLOAT32.mantissa_bits - fraction_bits) - 1)
    truncated = (bits & ~dropped).view(np.float32)
    overflow = np.abs(x) >= TOO_LARGE
    infinity = np.copysign(np.float32(np.inf), truncated)
    return np.where(overflow, infinity, truncated) + np.float32(0)
