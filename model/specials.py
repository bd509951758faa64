"""NaN and infinities: which terms are special, and what they sum to (section 3 of the contract)."""

import numpy as np
from numpy.typing import NDArray

from .rounding import F32

NAN, POSITIVE_INF, NEGATIVE_INF = 1, 2, 4  # bits of a class; 0 is finite


def special_class(c: F32) -> NDArray[np.uint8]:
    """The class of each element of `c`."""
    classes = np.where(np.isnan(c), NAN, 0)
    classes[c == np.inf] = POSITIVE_INF
    classes[c == -np.inf] = NEGATIVE_INF
    return classes.astype(np.uint8)


def special_value(classes: NDArray[np.uint8]) -> F32:
    """The result of special terms of these classes (0 where there is none)."""
    both = POSITIVE_INF | NEGATIVE_INF
    result = np.zeros(classes.shape, np.float32)
    result[classes == POSITIVE_INF] = np.inf
    result[classes == NEGATIVE_INF] = -np.inf
    result[(classes & NAN != 0) | (classes & both == both)] = np.nan
    return result
