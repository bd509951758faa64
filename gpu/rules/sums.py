"""Exact sums that may need more than the 53 bits of one float64."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.arrays import power as power64
from ...model.wide import exact_sum_fits
from . import rounding


@dataclass(frozen=True)
class WideSum:
    """An exact sum `high` + `low`, float64; `low` is None when the sum fits one float64."""

    high: Tensor
    low: Tensor | None = None

    def plus(self, c: Tensor) -> Tensor:
        """The sum plus `c`, rounded to odd."""
        if self.low is None:
            return rounding.add_to_odd(self.high, c)
        return rounding.sum3_to_odd(self.high, self.low, c)

    def scaled(self, exponent: Tensor) -> "WideSum":
        """The sum x 2^exponent."""
        power = power64(exponent)
        return WideSum(self.high * power, None if self.low is None else self.low * power)

    def rounded_to_odd(self) -> Tensor:
        """The sum as one float64."""
        return self.high if self.low is None else rounding.to_odd(self.high, self.low)


def exact_sum(terms: Tensor, bits: int, lsb: int) -> WideSum:
    """Exact sum over the last axis of multiples of 2^lsb of at most 2^(bits + lsb) each."""
    if exact_sum_fits(bits, terms.shape[-1]):
        return WideSum(terms.sum(dim=-1))
    # Halves: multiples of 2^middle and the rest; either sums exactly.
    middle = 2.0 ** (lsb + bits // 2)
    upper = (terms * (1 / middle)).trunc_() * middle
    rest = torch.where(upper.isfinite(), terms - upper, 0.0)
    return WideSum(*rounding.two_sum(upper.sum(dim=-1), rest.sum(dim=-1)))
