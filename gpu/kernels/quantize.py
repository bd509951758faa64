"""The executor ``triton`` of `mxdot.gpu.quantize`: choice of a kernel, and the kernel along rows.

A tensor is seen as (outer, length, inner), with blocks along `length`; if `inner` is 1, blocks are
contiguous.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import quantize_pairs
from .encode import Rules, empty_codes, quantize_tile, signed, store_codes
from .launch import Launch
from .quantize_columns import quantize_columns

if TYPE_CHECKING:
    from ..ops.quantize import Quantization

ROW_TILE = 4096  # elements of a program with contiguous blocks
PACKED_WARPS = 2  # with packed codes: storing threads have more work per exchange


def refusal(request: "Quantization") -> str | None:
    """Why the kernels cannot take `request`; None when they can."""
    return Rules.of(request).refusal(request.device)


def run(request: "Quantization") -> tuple[Tensor, Tensor]:
    """Codes (the shape of x) and scales, contiguous."""
    rules, shape, axis = Rules.of(request), request.x.shape, request.axis
    scale_shape = list(shape)
    scale_shape[axis] //= rules.block_size
    if len(shape) == 2 and axis == 1 and _is_transpose(request.x):
        # What lies in memory has its blocks along columns: no copy that turns it.
        words = None if request.words is None else request.words.t()
        codes, scales = quantize_columns(request.x.t()[None], rules, words, transposed=True)
        return codes.view(shape), scales.view(scale_shape)
    view = (shape[:axis].numel(), shape[axis], shape[axis + 1 :].numel())
    x = request.x.contiguous().view(view)
    words = None if request.words is None else request.words.reshape(view)
    kernel = quantize_rows if view[2] == 1 else quantize_columns
    codes, scales = kernel(x, rules, words)
    return codes.view(shape), scales.view(scale_shape)


def prepare(
    request: "Quantization",
) -> Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """The work for requests like this one, given `x` and `words` (`call_cache.Prepared`)."""
    rules, shape, axis = Rules.of(request), request.x.shape, request.axis
    if axis < len(shape) - 1 or not request.x.is_contiguous():
        empty = replace(request, x=request.x.new_empty(0), words=None)
        return lambda x, words: run(replace(empty, x=x, words=words))
    scale_shape = (*shape[:axis], shape[axis] // rules.block_size)
    count = request.x.numel() // rules.block_size
    launch = _rows_launch(count, rules, False, request.words is not None, request.device)
    options = {"dtype": torch.uint8, "device": request.device}

    def work(x: Tensor, words: Tensor | None) -> tuple[Tensor, Tensor]:
        codes = torch.empty_like(x, dtype=torch.uint8)
        scales = torch.empty(scale_shape, **options)
        if count:
            launch(x, signed(words, x), codes, scales, count)
        return codes, scales

    return work


def _is_transpose(x: Tensor) -> bool:
    """Whether a matrix is the transpose of a contiguous one, and is not one itself."""
    return x.t().is_contiguous() and not x.is_contiguous()


def quantize_rows(
    x: Tensor, rules: Rules, words: Tensor | None = None, *, packed: bool = False
) -> tuple[Tensor, Tensor]:
    """Codes and scales of contiguous blocks of `x`, a contiguous float tensor of any shape.

    words: uint32 of the shape of `x` for stochastic rounding. Returns flat uint8 tensors; codes
    are dense (`mxdot.gpu.pack`) when `packed`, of blocks of whole bytes.
    """
    k, total = rules.block_size, x.numel()
    count = total // k
    codes = empty_codes(total, rules, packed, x)
    scales = torch.empty(count, dtype=torch.uint8, device=x.device)
    if count and quantize_pairs.takes(x, rules, packed):
        quantize_pairs.launch(count, rules, x.device)(x, codes, scales, count)
    elif count:
        launch = _rows_launch(count, rules, packed, words is not None, x.device)
        launch(x, signed(words, x), codes, scales, count)
    return codes, scales


def _rows_launch(
    count: int, rules: Rules, packed: bool, has_words: bool, where: torch.device
) -> Launch:
    tile = max(1, ROW_TILE // rules.block_size)
    return Launch(
        _quantize_rows,
        (triton.cdiv(count, tile),),
        BLOCK=rules.block_size,
        BLOCKS=tile,
        PACKED=packed,
        HAS_WORDS=has_words,
        num_warps=PACKED_WARPS if packed else 4,
        ENCODING=rules.encoding(where),
    )


@triton.jit
def _quantize_rows(
    x,
    words,
    codes,
    scales,
    count,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    PACKED: tl.constexpr,
    HAS_WORDS: tl.constexpr,
    ENCODING: tl.constexpr,
):
    first = tl.program_id(0).to(tl.int64) * BLOCKS
    block = first + tl.arange(0, BLOCKS)
    inside = (block < count)[:, None]
    at = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    random = tile
    if HAS_WORDS:
        random = tl.load(words + at, mask=inside, other=0)
    tile_codes, tile_scales = quantize_tile(
        tile,
        random,
        1,
        ENCODING,
    )
    store_codes(codes, tile_codes, first, 0, count, BLOCK, ENCODING.bits, PACKED)
    tl.store(scales + block[:, None], tile_scales, mask=inside)
