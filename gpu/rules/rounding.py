"""Rounding of exact sums to float32, as `mxdot.model.rounding` says it for NumPy.

Real numbers travel as float64; a sum that does not fit is rounded to odd, which makes a second
rounding to 24 bits or fewer correct. NaN and infinities pass as IEEE 754 has them, which is what
the contract says of special values: no sum of finite terms comes near float64's overflow.
"""

import torch
from torch import Tensor

from ...model.formats import FLOAT32
from ...model.rounding import SPLITTER, TOO_LARGE


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(RN(a + b), its exact error), Knuth's TwoSum; the error of a special sum is 0."""
    total = a + b
    b_part = total - a
    error = (a - (total - b_part)) + (b - b_part)
    return total, torch.where(total.isfinite(), error, 0.0)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(RN(a x b), its exact error), Dekker's and Veltkamp's; factors and product in mid range.

    The error of a special product is 0.
    """
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, torch.where(product.isfinite(), error, 0.0)


def _halves(a: Tensor) -> tuple[Tensor, Tensor]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def to_odd(total: Tensor, error: Tensor) -> Tensor:
    """The sum total + error (a TwoSum pair) rounded to odd at 53 bits."""
    bits = total.view(torch.int64)
    inexact_even = (error != 0) & ((bits & 1) == 0)
    # The odd neighbour on the side of the error: away from zero where the signs agree.
    away = (error > 0) == (total > 0)
    step = torch.where(away, inexact_even.to(torch.int64), -inexact_even.to(torch.int64))
    return (bits + step).view(torch.float64)


def add_to_odd(a: Tensor, b: Tensor) -> Tensor:
    """The sum a + b rounded to odd at 53 bits."""
    return to_odd(*two_sum(a, b))


def sum3_to_odd(high: Tensor, low: Tensor, c: Tensor) -> Tensor:
    """The sum high + low + c rounded once, to odd; (high, low) is a TwoSum pair."""
    total, error = two_sum(high, c)
    return add_to_odd(total, add_to_odd(error, low))


def nearest_even(x: Tensor) -> Tensor:
    """RNE to float32, subnormals kept, overflow to infinity; a zero is +0."""
    return x.to(torch.float32) + 0.0


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
