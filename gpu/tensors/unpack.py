"""Packed rows to a code in each byte, by plain PyTorch; who computes is chosen as in `quantize`."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.packing import unpack_rows


@dataclass(frozen=True)
class Unpacking:
    """A checked request: contiguous uint8 (N, bytes), the bits of a code, the codes of a row."""

    packed: Tensor
    bits: int
    length: int

    @property
    def device(self) -> torch.device:
        return self.packed.device


def refusal(_: Unpacking) -> None:
    """Plain PyTorch takes every request."""


def run(request: Unpacking) -> Tensor:
    """Codes, uint8 (N, K), contiguous."""
    return unpack_rows(request.packed, request.bits, request.length).contiguous()
