"""Exact sums that may need more than the 53 bits of one float64."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import rounding
from .arrays import Array, namespace, power
from .formats import FLOAT64
from .rounding import F64

CARRIER_BITS = FLOAT64.significand_bits


@dataclass(frozen=True)
class WideSum:
    """An exact sum `high` + `low`, float64; `low` is None when the sum fits one float64."""

    high: Array
    low: Array | None = None

    def plus(self, c: Array) -> Array:
        """The sum plus `c`, rounded to odd."""
        if self.low is None:
            return rounding.add_to_odd(self.high, c)
        return rounding.sum3_to_odd(self.high, self.low, c)

    def scaled(self, exponent: Array) -> "WideSum":
        """The sum x 2^exponent."""
        factor = power(exponent)
        return WideSum(self.high * factor, None if self.low is None else self.low * factor)

    def rounded_to_odd(self) -> Array:
        """The sum as one float64; a zero is +0."""
        odd = self.high if self.low is None else rounding.to_odd(self.high, self.low)
        return odd + 0.0

    def integers(self, lsb: int) -> NDArray[np.object_]:
        """The sum x 2^-lsb as Python integers."""
        high = integers(np.ldexp(self.high, -lsb))
        return high if self.low is None else high + integers(np.ldexp(self.low, -lsb))


def integers(values: F64) -> NDArray[np.object_]:
    """Python integers of integral `values`; 0 for a NaN."""
    return np.array(np.frompyfunc(int, 1, 1)(np.nan_to_num(values, nan=0.0)), np.object_)


def exact_sum_fits(bits: int, count: int) -> bool:
    """Whether `exact_sum` of `count` terms of `bits` bits fits one float64."""
    return bits + (count - 1).bit_length() <= CARRIER_BITS


def exact_sum(terms: Array, bits: int, lsb: int) -> WideSum:
    """Exact sum over the last axis of multiples of 2^lsb of at most 2^(bits + lsb) each."""
    if exact_sum_fits(bits, terms.shape[-1]):
        return WideSum(terms.sum(-1))
    # Halves: multiples of 2^middle and what is below; either sums exactly.
    middle = 2.0 ** (lsb + bits // 2)
    upper = terms * (1 / middle)
    namespace(upper).trunc(upper, out=upper)
    upper *= middle
    halves = rounding.known(upper.sum(-1), (terms - upper).sum(-1))
    return WideSum(*rounding.known(*rounding.two_sum(*halves)))
