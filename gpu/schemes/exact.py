"""Exact quotients of float64, as `mxdot.model.schemes.exact` says it for NumPy."""

from torch import Tensor

from ..rules.rounding import to_odd, two_product


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b rounded to odd at 53 bits, for finite `a` and positive `b`.

    Rounding it again, to 51 bits or fewer, is rounding the exact quotient.
    """
    rounded = a / b
    product, error = two_product(rounded, b)
    return to_odd(rounded, (a - product) - error)  # the remainder, exact, has the error's sign
