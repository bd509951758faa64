"""The executor ``triton`` of `mxdot::quantized_values`: blocks are quantised as in quantize.py and
read as in dequantize.py, in the registers of one program.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..names import named_format
from .decode import Codes, decode, scale_value
from .encode import Rules, quantize_tile
from .launch import Launch
from .overlap import overlaps, ready

if TYPE_CHECKING:
    from ..ops.quantized_values import QuantizedValues

TILE = 1024  # elements of a program


def refusal(request: "QuantizedValues") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return _rules(request).refusal(request.device)


def _rules(request: "QuantizedValues") -> Rules:
    return Rules(named_format(request.format), request.block_size, request.scale_rule)


def prepare(request: "QuantizedValues") -> Callable[[Tensor], Tensor]:
    """The work for requests like this one: values in the shape of x."""
    rules, dtype = _rules(request), request.dtype
    total, block = request.x.numel(), rules.block_size
    blocks = max(1, TILE // block)
    launch = Launch(
        _quantized_values,
        (triton.cdiv(total, blocks * block),),
        BLOCK=block,
        BLOCKS=blocks,
        FORMAT=Codes.of(rules.format, request.device),
        ENCODING=rules.encoding(request.device),
        EARLY=overlaps(request.device),
        launch_pdl=overlaps(request.device),
    )

    def work(x: Tensor) -> Tensor:
        values = torch.empty_like(x, dtype=dtype)
        if total:
            launch(x, values, total // block)
        return values

    return work


@triton.jit
def _quantized_values(
    x,
    values,
    count,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    FORMAT: tl.constexpr,
    ENCODING: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
    block = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    inside = (block < count)[:, None]
    at = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    codes, scales = quantize_tile(tile, tile, 1, ENCODING)
    value = decode(codes, FORMAT) * scale_value(scales)
    tl.store(values + at, value.to(values.dtype.element_ty), mask=inside)
