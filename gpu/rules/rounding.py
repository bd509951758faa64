"""Rounding of exact sums to float32: `mxdot.model.rounding` where terms may be special.

Real numbers travel as float64; a sum that does not fit is rounded to odd, which makes a second
rounding to 24 bits or fewer correct. NaN and infinities pass as IEEE 754 has them, which is what
the contract says of special values: no sum of finite terms comes near float64's overflow.
"""

import torch
from torch import Tensor

from ...model import rounding
from ...model.formats import FLOAT32
from ...model.rounding import TOO_LARGE, to_odd


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(RN(a + b), its exact error); the error of a special sum is 0."""
    return _known(*rounding.two_sum(a, b))


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(RN(a x b), its exact error), factors and product in mid range; 0 of a special product."""
    return _known(*rounding.two_product(a, b))


def _known(result: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    return result, torch.where(result.isfinite(), error, 0.0)


def add_to_odd(a: Tensor, b: Tensor) -> Tensor:
    """The sum a + b rounded to odd at 53 bits."""
    return to_odd(*two_sum(a, b))


def sum3_to_odd(high: Tensor, low: Tensor, c: Tensor) -> Tensor:
    """The sum high + low + c rounded once, to odd; (high, low) is a TwoSum pair."""
    total, error = two_sum(high, c)
    return add_to_odd(total, add_to_odd(error, low))


def toward_zero(x: Tensor, fraction_bits: int = FLOAT32.mantissa_bits) -> Tensor:
    """RZ to float32 with `fraction_bits` (0 to 23) fraction bits, subnormals on the same grid.

    A magnitude of 2^128 or more is infinite; below that it truncates. A zero is +0.
    """
    finite = x.clamp(*FLOAT32.extremes)
    rounded = finite.to(torch.float32)
    too_far = rounded.to(torch.float64).abs() > finite.abs()
    bits = rounded.view(torch.int32) - too_far.to(torch.int32)
    truncated = (bits & (-1 << (FLOAT32.mantissa_bits - fraction_bits))).view(torch.float32)
    return torch.where(x.abs() < TOO_LARGE, truncated, x.to(torch.float32)) + 0.0
