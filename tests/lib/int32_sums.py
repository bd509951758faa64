"""INT32 sums of every length."""

import numpy as np

LOW, HIGH = -(2**31), 2**31 - 1

ENDS = [LOW, LOW + 1, -(2**24) - 1, -3, -2, -1, 0, 1, 2, 3, 2**24 + 1, 2**30, HIGH - 1, HIGH]


def sums_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """Both ends of INT32, and random sums of every length."""
    length = rng.integers(0, 32, n)
    random = rng.integers(LOW, HIGH + 1, n) >> length
    return np.concatenate([np.array(ENDS, np.int64), random])
