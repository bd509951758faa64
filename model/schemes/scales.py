"""Scales as a format keeps them, in an array of its dtype. No scale is zero."""

import numpy as np
from numpy.typing import NDArray

from ..formats import FloatFormat, IntegerFormat
from ..rounding import F64


def encode(values: F64, fmt: FloatFormat | IntegerFormat) -> NDArray:
    """RNE of non-negative `values` (rounded to odd before), from the smallest to the largest."""
    return fmt.encode(np.clip(values, fmt.smallest, fmt.largest_finite))
