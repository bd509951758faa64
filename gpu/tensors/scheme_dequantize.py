"""Values of codes and scales of schemes by plain PyTorch; who computes is chosen as in
`quantize`."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.schemes.array import Scaled
from ..chunks import split


@dataclass(frozen=True)
class SchemeDequantization:
    """A checked request: codes and scales of a scheme, and the dtype of the values."""

    x: Scaled[Tensor]
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.x.codes.device


def refusal(_: SchemeDequantization) -> None:
    """Plain PyTorch takes every request."""


def run(request: SchemeDequantization) -> Tensor:
    """Values in the shape of the codes."""
    x, dtype = request.x, request.dtype
    codes = x.matrix(x.codes)
    result = torch.empty(codes.shape, dtype=dtype, device=codes.device)
    for rows in split(codes):
        result[rows] = x.values(codes[rows], rows).to(torch.float32).to(dtype)
    return x.unmatrix(result)
