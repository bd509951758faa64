"""Dequantisation: the executor ``triton`` of `MXTensor.dequantize`."""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import device
from .decode import LONGEST_CODE, Codes, decode, scale_value

if TYPE_CHECKING:
    from ..tensors.dequantize import Dequantization

LARGEST_BLOCK = 256
TILE = 4096  # elements of a program


def refusal(request: "Dequantization") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    block = request.codes.shape[1]
    if block > LARGEST_BLOCK or block & (block - 1):
        return f"block_size must be a power of two up to {LARGEST_BLOCK}, not {block}"
    if request.format.bits > LONGEST_CODE:
        return f"codes must have at most {LONGEST_CODE} bits, not {request.format.bits}"
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return device.refusal(request.device)


def run(request: "Dequantization") -> Tensor:
    """Values in the shape of the codes."""
    count, block = request.codes.shape
    values = torch.empty((count, block), dtype=request.dtype, device=request.device)
    blocks = TILE // block
    if count:
        _dequantize[(triton.cdiv(count, blocks),)](
            request.codes,
            request.scales,
            values,
            count,
            BLOCK=block,
            BLOCKS=blocks,
            FORMAT=Codes.of(request.format, request.device),
        )
    return values


@triton.jit
def _dequantize(
    codes,
    scales,
    values,
    count,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    FORMAT: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    inside = block < count
    at = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(codes + at, mask=inside[:, None], other=0)
    elements = decode(tile, FORMAT)
    scale = scale_value(tl.load(scales + block, mask=inside, other=0))
    value = elements * scale[:, None]
    tl.store(values + at, value.to(values.dtype.element_ty), mask=inside[:, None])
