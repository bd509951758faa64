"""Exact dot products, to which results are compared.

`math.fsum` returns the float64 nearest to the exact sum of float64 terms. Every term of a dot
product of MX arrays is a float64 exactly (at most 16 significant bits, an exponent between -290 and
290), so that is the exact dot product rounded once; a second call with that value taken away gives
what the first one rounded off. The pair is all that an exact comparison with a float32 needs.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.rounding import nearest_even, to_odd

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class ExactSums:
    """Exact sums: `high` is the float64 nearest to each, `low` the one nearest to the rest."""

    high: F64
    low: F64

    def nearest_float32(self) -> F32:
        """The exact sums rounded once, RNE; overflow to infinity."""
        return nearest_even(to_odd(self.high, self.low))

    def error_of(self, values: F32) -> F64:
        """`values` minus the exact sums, to a relative 2^-51; 0 only where they are equal.

        Proof of the latter: if high - value + low is 0 then value = high + low. Were low not 0,
        value would be a float64 nearer to the exact sum than high, which is the nearest.
        """
        return (values.astype(np.float64) - self.high) - self.low


def exact_sums(terms: F64) -> ExactSums:
    """Exact sums of the rows of finite float64 `terms` (n, k)."""
    high, low = np.empty(len(terms)), np.empty(len(terms))
    for i, row in enumerate(terms):
        values = row.tolist()
        high[i] = math.fsum(values)
        values.append(-high[i])
        low[i] = math.fsum(values)
    return ExactSums(high, low)
