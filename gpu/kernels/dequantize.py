"""Dequantisation: the executor ``triton`` of `MXTensor.dequantize`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import device
from .decode import Codes, codes_refusal, decode, scale_value
from .launch import Launch

if TYPE_CHECKING:
    from ..tensors.dequantize import Dequantization

LARGEST_BLOCK = 256
TILE = 4096  # elements of a program


def refusal(request: "Dequantization") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    block = request.codes.shape[1]
    if block > LARGEST_BLOCK or block & (block - 1):
        return f"block_size must be a power of two up to {LARGEST_BLOCK}, not {block}"
    reason = codes_refusal(request.format)
    if reason is not None:
        return reason
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return device.refusal(request.device)


def prepare(request: "Dequantization") -> Callable[[Tensor, Tensor], Tensor]:
    """The work for requests like this one: values in the shape of the codes."""
    (count, block), shape = request.codes.shape, request.codes.shape
    blocks = TILE // block
    launch = Launch(
        _dequantize,
        (triton.cdiv(count, blocks),),
        BLOCK=block,
        BLOCKS=blocks,
        FORMAT=Codes.of(request.format, request.device),
    )
    options = {"dtype": request.dtype, "device": request.device}

    def work(codes: Tensor, scales: Tensor) -> Tensor:
        values = torch.empty(shape, **options)
        if count:
            launch(codes, scales, values, count)
        return values

    return work


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
    dequantize_blocks(codes, scales, values, count, tl.program_id(0), BLOCK, BLOCKS, FORMAT)


@triton.jit
def dequantize_blocks(
    codes,
    scales,
    values,
    count,
    program,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    FORMAT: tl.constexpr,
):
    """Write the values of BLOCKS of `count` blocks, those of one program."""
    block = program.to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    inside = block < count
    at = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(codes + at, mask=inside[:, None], other=0)
    elements = decode(tile, FORMAT)
    scale = scale_value(tl.load(scales + block, mask=inside, other=0))
    value = elements * scale[:, None]
    tl.store(values + at, value.to(values.dtype.element_ty), mask=inside[:, None])
