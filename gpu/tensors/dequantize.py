"""Values of codes and scales, element x 2^(scale - 127), by plain PyTorch; who computes is chosen
as in `quantize`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.formats import E8M0, ElementFormat
from ..chunks import split


@dataclass(frozen=True)
class Dequantization:
    """A checked request: contiguous codes (blocks, block size), their scales (blocks), and the
    dtype of the values."""

    codes: Tensor
    scales: Tensor
    format: ElementFormat
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.codes.device


def refusal(_: Dequantization) -> None:
    """Plain PyTorch takes every request."""


def prepare(request: Dequantization) -> Callable[[Tensor, Tensor], Tensor]:
    """`run` for requests like this one, given codes and scales."""
    fmt, dtype = request.format, request.dtype
    return lambda codes, scales: run(Dequantization(codes, scales, fmt, dtype))


def run(request: Dequantization) -> Tensor:
    """Values in the shape of the codes."""
    values = torch.empty(request.codes.shape, dtype=request.dtype, device=request.device)
    for rows in split(request.codes):
        elements = request.format.exact(request.codes[rows])
        scaled = elements * E8M0.exact(request.scales[rows])[:, None]
        values[rows] = scaled.to(torch.float32)
    return values
