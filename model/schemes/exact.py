"""Exact quotients: rounded to odd, so that the rounding that follows is the only one."""

from ..arrays import Array
from ..rounding import to_odd, two_product


def quotient(a: Array, b: Array) -> Array:
    """a / b rounded to odd at 53 bits, for finite float64 `a` and positive `b`.

    Rounding it again, to 51 bits or fewer, is rounding the exact quotient.
    """
    rounded = a / b
    product, error = two_product(rounded, b)
    return to_odd(rounded, (a - product) - error)  # the remainder, exact, has the error's sign
