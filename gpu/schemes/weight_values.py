"""Values of packed 4-bit weights by plain PyTorch; who computes is chosen as in `quantize`."""

import torch
from torch import Tensor

from .weight_only import AXES, BIAS, BITS, CHUNK, ORDER, TILE, WeightValues


def refusal(_: WeightValues) -> None:
    """Plain PyTorch takes every request."""


def run(request: WeightValues) -> Tensor:
    """Values (N, K)."""
    weights = request.weights
    tiles, groups, _ = weights.scales.shape
    axes = (tiles, *AXES[1:4], groups * weights.group // CHUNK, *AXES[5:])
    shifts = torch.arange(0, 32, BITS, dtype=torch.int32, device=request.device)
    q = (torch.bitwise_right_shift(weights.words[:, None], shifts) & 2**BITS - 1) - BIAS
    q = q.reshape([axes[axis] for axis in ORDER])
    q = q.permute([ORDER.index(axis) for axis in range(len(ORDER))])
    q = q.reshape(tiles * TILE, groups, weights.group)
    scales = weights.scales.transpose(1, 2).reshape(tiles * TILE, groups, 1)
    values = (q * scales.to(torch.float32)).flatten(1)
    return values[: weights.shape[0]].to(request.dtype)
