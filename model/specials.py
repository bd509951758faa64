"""Special terms, NaN and infinities, and their sums (section 3 of docs/numerics.md)."""

import numpy as np
from numpy.typing import NDArray

from .rounding import F32, F64

NAN, POSITIVE_INF, NEGATIVE_INF = 1, 2, 4  # bits of a class; 0 is finite


def special_class(c: F32) -> NDArray[np.uint8]:
    """Class of each element of `c`."""
    classes = np.where(np.isnan(c), NAN, 0)
    classes[c == np.inf] = POSITIVE_INF
    classes[c == -np.inf] = NEGATIVE_INF
    return classes.astype(np.uint8)


def special_value(classes: NDArray[np.uint8]) -> F32:
    """Sum of special terms of these classes; 0 without special terms."""
    both = POSITIVE_INF | NEGATIVE_INF
    result = np.zeros(classes.shape, np.float32)
    result[classes == POSITIVE_INF] = np.inf
    result[classes == NEGATIVE_INF] = -np.inf
    result[(classes & NAN != 0) | (classes & both == both)] = np.nan
    return result


class Update:
    """Change of c by one step: special terms decide the result, arithmetic where there are none."""

    def __init__(self, c: F32, classes: NDArray[np.uint8]) -> None:
        self.classes = classes | special_class(c)
        self.active = self.classes == 0
        self.all_active = bool(self.active.all())
        self.c = self.finite(c)

    def finite(self, values: F32) -> F64:
        """`values` as float64, 0 where special terms decide."""
        finite = values if self.all_active else np.where(self.active, values, np.float32(0))
        return finite.astype(np.float64)

    def result(self, computed: F32) -> F32:
        """The c' of the step: `computed` from finite terms, or what the special terms give."""
        if self.all_active:
            return computed
        return np.where(self.active, computed, special_value(self.classes))
