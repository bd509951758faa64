"""Packed 4-bit codes to one in each byte: the executor ``triton`` of `PackedTensor.unpack`."""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import device

if TYPE_CHECKING:
    from ..tensors.unpack import Unpacking

BITS = 4  # of a code
TILE = 4096  # bytes of a program


def refusal(request: "Unpacking") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    if request.bits != BITS:
        return f"packed codes must have {BITS} bits, not {request.bits}"
    width = request.packed.shape[1]
    if request.length != 2 * width:
        return f"rows must be {width} bytes of {2 * width} codes, not of {request.length}"
    return device.refusal(request.device)


def run(request: "Unpacking") -> Tensor:
    """Codes, uint8 (N, K), contiguous."""
    packed, total = request.packed, request.packed.numel()
    codes = torch.empty((len(packed), request.length), dtype=torch.uint8, device=request.device)
    _unpack[(triton.cdiv(total, TILE),)](packed, codes, total, TILE=TILE)
    return codes


@triton.jit
def _unpack(packed, codes, total, TILE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    both = tl.load(packed + at, mask=at < total, other=0).to(tl.int16)
    pairs = codes.to(tl.pointer_type(tl.int16))
    tl.store(pairs + at, (both & 15) | (both >> 4 << 8), mask=at < total)
