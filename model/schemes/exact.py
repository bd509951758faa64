"""Exact quotients: rounded to odd, so that the rounding that follows is the only one."""

import numpy as np

from ..rounding import F64, to_odd, two_product


def quotient(a: F64, b: F64) -> F64:
    """a / b rounded to odd at 53 bits, for positive `b`: rounding it again, to 51 bits or fewer, is
    rounding the exact quotient.
    """
    rounded = np.asarray(a / b)
    product, error = two_product(rounded, b)
    return to_odd(rounded, (a - product) - error)  # the remainder, exact, has the error's sign
