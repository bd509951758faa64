"""Exact dot products as references, and error measures of results.

`math.fsum` returns the float64 nearest to the exact sum of float64 terms. Every term of a dot
product of MX arrays is a float64 exactly (at most 16 significant bits, an exponent between -290 and
290). The sum is therefore the exact dot product rounded once. A second call, with this value
subtracted, gives the part that the first rounded off. An exact comparison with a float32 needs only
this pair.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.formats import FLOAT32
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


LEAST = FLOAT32.smallest  # float32's smallest subnormal: stands for a reference of zero
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ErrorMetrics:
    """Errors of results against a reference, over n dot products.

    sqnr_db: 10 log10(sum reference^2 / sum error^2); infinite without error. max_relative,
    mean_relative: |error / reference|. ulp_max, ulp_mean: |error| in float32 ulps of the reference.
    bias: mean of the errors away from zero / mean |reference|; negative when results are too small.
    """

    sqnr_db: float
    max_relative: float
    mean_relative: float
    ulp_max: float
    ulp_mean: float
    bias: float


def errors(results: F64, reference: F64) -> ErrorMetrics:
    """Measure finite `results` against a finite `reference`, both (n,), n at least 1."""
    error = results - reference
    magnitude = np.maximum(np.abs(reference), LEAST)
    relative = np.abs(error) / magnitude
    ulps = np.abs(error) / ulp(reference)
    away = error * np.sign(reference)
    return ErrorMetrics(
        sqnr_db(reference, error),
        float(relative.max()),
        float(relative.mean()),
        float(ulps.max()),
        float(ulps.mean()),
        float(away.mean() / magnitude.mean()),
    )


def sqnr_db(signal: F64, error: F64) -> float:
    """Signal-to-error power ratio in dB; infinite without error, finite otherwise.

    A signal that is zero everywhere counts as float32's smallest subnormal.
    """
    largest = float(np.abs(error).max())
    if largest == 0:
        return math.inf
    # Both are scaled before squaring, so that nothing overflows or vanishes.
    scale = float(np.abs(signal).max())
    power = float(np.square(signal / scale).mean()) if scale else 1.0
    scale = scale or LEAST
    noise = float(np.square(error / largest).mean())
    return 10 * math.log10(power / noise) + 20 * math.log10(scale / largest)


def ulp(values: F64) -> F64:
    """The spacing of float32 numbers at `values`: 2^(exponent - 23), at least 2^-149."""
    exponent = np.where(values == 0, FLOAT32.emin, np.frexp(values)[1] - 1)
    return np.ldexp(1.0, np.maximum(exponent, FLOAT32.emin) - FLOAT32.mantissa_bits)


def finite(values: F64) -> F64:
    """Replace infinities by float32's largest finite number and NaN by 0."""
    return np.nan_to_num(values, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
