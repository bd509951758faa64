"""Values of packed codes by the unpacked container; who computes is chosen as in `quantize`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .packed import PackedTensor


@dataclass(frozen=True)
class PackedValues:
    """A checked request: packed codes, the dtype of their values, and the executor that was named
    for it."""

    x: "PackedTensor"
    dtype: torch.dtype
    executor: str | None

    @property
    def device(self) -> torch.device:
        return self.x.device


def refusal(_: PackedValues) -> None:
    """The unpacked container takes every request."""


def run(request: PackedValues) -> Tensor:
    """Values (N, K)."""
    return request.x.unpack().dequantize(request.dtype, executor=request.executor)
