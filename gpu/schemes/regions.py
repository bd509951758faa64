"""Regions of products: their scales, and how they are added (section 7 of docs/numerics.md)."""

import torch
from torch import Tensor

from ...model.schemes.regions import Region, check_shapes
from .. import checks
from ..rules.rounding import add_to_odd, nearest_even
from .operand import Operand
from .tensor import ScaledTensor


def region_scale(region: Region, a: Operand, b: Operand) -> Tensor:
    """S = RNE_fp32(s_a x s_b) of every pair of rows."""
    return nearest_even(a.region_scale(region.start)[:, None] * b.region_scale(region.start))


def rescaled(c: Tensor, scale: Tensor, partial: Tensor) -> Tensor:
    """RNE_fp32(c + scale x partial), a fused multiply-add; a zero is +0."""
    term = scale.to(torch.float64) * partial.to(torch.float64)
    return nearest_even(add_to_odd(c.to(torch.float64), term))


def check_pair(a: ScaledTensor, b: ScaledTensor) -> None:
    """TypeError or ValueError unless a (M, K) and b (N, K) can be multiplied."""
    for name, array in (("a", a), ("b", b)):
        if not isinstance(array, ScaledTensor):
            raise TypeError(f"{name} must be a ScaledTensor, not {type(array).__name__}")
        if array.codes.ndim == 2 and array.axis not in (-1, 1):
            raise ValueError(f"axis of {name} must be the last axis, not {array.axis}")
    check_shapes(tuple(a.shape), tuple(b.shape))
    checks.same_device(a=a.codes, b=b.codes)
