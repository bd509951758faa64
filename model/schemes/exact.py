"""Exact quotients: rounded to odd, so that the rounding that follows is the only one."""

import numpy as np

from ..rounding import F64, to_odd

SPLITTER = 2.0**27 + 1  # cuts a float64 into two halves of at most 26 bits


def two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """(RN(a x b), its exact error), Dekker's and Veltkamp's; factors and product in mid range."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _halves(a: F64) -> tuple[F64, F64]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def quotient(a: F64, b: F64) -> F64:
    """a / b rounded to odd at 53 bits, for positive `b`: rounding it again, to 51 bits or fewer, is
    rounding the exact quotient.
    """
    rounded = np.asarray(a / b)
    product, error = two_product(rounded, b)
    return to_odd(rounded, (a - product) - error)  # the remainder, exact, has the error's sign
