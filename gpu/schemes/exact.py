"""Exact quotients of float64, as `mxdot.model.schemes.exact` says it for NumPy."""

from torch import Tensor

from ...model.rounding import SPLITTER
from ..rules.rounding import to_odd


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b rounded to odd at 53 bits, for finite `a` and positive `b`.

    Rounding it again, to 51 bits or fewer, is rounding the exact quotient.
    """
    rounded = a / b
    product, error = two_product(rounded, b)
    return to_odd(rounded, (a - product) - error)  # the remainder, exact, has the error's sign


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(RN(a x b), its exact error), Dekker's and Veltkamp's; factors and product in mid range."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _halves(a: Tensor) -> tuple[Tensor, Tensor]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high
