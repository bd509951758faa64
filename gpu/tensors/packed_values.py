"""Values of packed codes by plain PyTorch; who computes is chosen as in `quantize`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .packed import PackedTensor


@dataclass(frozen=True)
class PackedValues:
    """A checked request: packed codes, and the dtype of their values."""

    x: "PackedTensor"
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.x.device


def refusal(_: PackedValues) -> None:
    """Plain PyTorch takes every request."""


def run(request: PackedValues) -> Tensor:
    """Values (N, K)."""
    return request.x.unpack().dequantize(request.dtype)
