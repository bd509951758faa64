"""Quantisation kernels: along rows, along columns, or both in one pass; also packed.

The executor ``triton`` of `mxdot.gpu.quantize`. A tensor is seen as (outer, length, inner), with
blocks along `length`; where `inner` is 1, blocks are contiguous.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import ElementFormat
from . import device
from .decode import LONGEST_CODE
from .encode import constants, quantize_tile, store_codes
from .launch import Launch

if TYPE_CHECKING:
    from ..ops.quantize import Quantization

LARGEST_BLOCK = 256
ROW_TILE = 4096  # elements of a program with contiguous blocks
PACKED_WARPS = 2  # of such a program: the threads that store have more to do for each exchange
WARP_TILE = 2048  # elements of a warp with blocks along columns
TALL, TALL_WARPS = 128, 8  # rows and warps of a program that turns its columns


@dataclass(frozen=True)
class Rules:
    """How blocks are quantised; the words of `mxdot.gpu.quantize`."""

    format: ElementFormat
    block_size: int = 32
    scale_rule: str = "floor"
    rounding: str = "nearest_even"
    nonfinite: str = "poison"

    @classmethod
    def of(cls, request: "Quantization") -> "Rules":
        """The rules of a checked request."""
        return cls(
            request.format,
            request.block_size,
            request.scale_rule,
            request.rounding,
            request.nonfinite,
        )

    def refusal(self, where: torch.device) -> str | None:
        """Why the kernels cannot quantise on the device `where`; None when they can."""
        k = self.block_size
        if k > LARGEST_BLOCK or k & (k - 1):
            return f"block_size must be a power of two up to {LARGEST_BLOCK}, not {k}"
        if self.format.bits > LONGEST_CODE:
            return f"codes must have at most {LONGEST_CODE} bits, not {self.format.bits}"
        return device.refusal(where)

    def constants(self, where: torch.device) -> dict[str, object]:
        """The kernels' constants."""
        instruction = device.has_fp8_conversion(where)
        return constants(self.format, self.scale_rule, self.rounding, self.nonfinite, instruction)


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
    """What `run` does for requests like this one, given `x` and `words` (see `once.Prepared`)."""
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
            launch(x, _signed(words, x), codes, scales, count)
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
    codes = _codes(total, rules, packed, x)
    scales = torch.empty(count, dtype=torch.uint8, device=x.device)
    if count:
        launch = _rows_launch(count, rules, packed, words is not None, x.device)
        launch(x, _signed(words, x), codes, scales, count)
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
        **rules.constants(where),
    )


def quantize_columns(
    x: Tensor,
    rules: Rules,
    words: Tensor | None = None,
    *,
    packed: bool = False,
    transposed: bool = False,
) -> tuple[Tensor, Tensor]:
    """Codes and scales of blocks along the middle axis of contiguous `x` (outer, length, inner).

    As `quantize_rows`. Codes lie as `x` does and scales as (outer, length / block, inner), or, when
    `transposed`, both with their last two axes exchanged.
    """
    codes = _codes(x.numel(), rules, packed, x)
    scales = torch.empty(x.numel() // rules.block_size, dtype=torch.uint8, device=x.device)
    _launch_columns(x, rules, words, packed, transposed, codes, scales)
    return codes, scales


def quantize_both(
    x: Tensor,
    rules: Rules,
    row_words: Tensor | None = None,
    column_words: Tensor | None = None,
    *,
    packed: bool = False,
    transposed: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row codes, row scales, column codes, column scales of `x` (M, K), which is read once.

    M and K are multiples of the block size. Columns are as `quantize_columns` gives them, by
    default as the (K, M) codes of the transpose.
    """
    count = x.numel() // rules.block_size
    codes = [_codes(x.numel(), rules, packed, x) for _ in range(2)]
    scales = [torch.empty(count, dtype=torch.uint8, device=x.device) for _ in range(2)]
    rows = (codes[0], scales[0], row_words)
    _launch_columns(x[None], rules, column_words, packed, transposed, codes[1], scales[1], rows)
    return codes[0], scales[0], codes[1], scales[1]


def _codes(count: int, rules: Rules, packed: bool, x: Tensor) -> Tensor:
    size = count * rules.format.bits // 8 if packed else count
    return torch.empty(size, dtype=torch.uint8, device=x.device)


def _signed(words: Tensor | None, x: Tensor) -> Tensor:
    """Contiguous int32 words; `x` where there are none, which is not read."""
    return x if words is None else words.view(torch.int32).contiguous()


def _launch_columns(
    x: Tensor,
    rules: Rules,
    words: Tensor | None,
    packed: bool,
    transposed: bool,
    codes: Tensor,
    scales: Tensor,
    rows: tuple[Tensor, Tensor, Tensor | None] | None = None,
) -> None:
    outer, length, inner = x.shape
    if not x.numel():
        return
    k = rules.block_size
    row_codes, row_scales, row_words = rows or (codes, scales, None)
    # As narrow as a warp can own: then no other warp takes part in a column's maximum. Transposed,
    # a row of what is stored is as long as the tile is high, and a cache line should be.
    blocks = max(1, (TALL if transposed else 32) // k)
    width = max(64, k) if transposed else max(16, k, WARP_TILE // (blocks * k))
    warps = TALL_WARPS if transposed else min(8, blocks * k * width // WARP_TILE)
    grid = (triton.cdiv(inner, width) * triton.cdiv(length, blocks * k) * outer,)
    _quantize_columns[grid](
        x,
        _signed(words, x),
        codes,
        scales,
        _signed(row_words, x),
        row_codes,
        row_scales,
        length,
        inner,
        BLOCK=k,
        BLOCKS=blocks,
        WIDTH=width,
        PACKED=packed,
        TRANSPOSED=transposed,
        ROWS=rows is not None,
        HAS_WORDS=words is not None,
        num_warps=warps,
        **rules.constants(x.device),
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
    M: tl.constexpr,
    EMIN: tl.constexpr,
    EMAX: tl.constexpr,
    BITS: tl.constexpr,
    INTEGER: tl.constexpr,
    LARGEST: tl.constexpr,
    CEILING: tl.constexpr,
    LARGEST_CODE: tl.constexpr,
    INF_CODE: tl.constexpr,
    NAN_CODE: tl.constexpr,
    SCALE_RULE: tl.constexpr,
    ROUNDING: tl.constexpr,
    ELEMENT: tl.constexpr,
    CONVERT: tl.constexpr,
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
        M,
        EMIN,
        EMAX,
        BITS,
        INTEGER,
        LARGEST,
        CEILING,
        LARGEST_CODE,
        INF_CODE,
        NAN_CODE,
        SCALE_RULE,
        ROUNDING,
        ELEMENT,
        CONVERT,
    )
    store_codes(codes, tile_codes, first, 0, count, BLOCK, BITS, PACKED)
    tl.store(scales + block[:, None], tile_scales, mask=inside)


@triton.jit
def _load_columns(
    x,
    row,
    column,
    rows,
    columns,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    WIDTH: tl.constexpr,
    BY_WARP: tl.constexpr,
):
    """The tile at (row, column) of `x` (rows, columns) as (BLOCKS, BLOCK, WIDTH), 0 outside.

    BY_WARP: each block's rows in as few warps as can be. They are read as if the blocks had been
    dealt in turn, for Triton gives the innermost axes to the threads of a warp, then to warps.
    """
    if BY_WARP:
        LANES: tl.constexpr = min(4, BLOCK)
        step = tl.arange(0, BLOCK // LANES)[:, None, None, None] * LANES
        lane = tl.arange(0, LANES)[None, None, :, None]
        i = row + step + tl.arange(0, BLOCKS)[None, :, None, None] * BLOCK + lane
        j = column + tl.arange(0, WIDTH)[None, None, None, :]
        at = i.to(tl.int64) * columns + j
        tile = tl.load(x + at, mask=(i < rows) & (j < columns), other=0)
        return tile.permute(1, 0, 2, 3).reshape((BLOCKS, BLOCK, WIDTH))
    else:
        i = (row + tl.arange(0, BLOCKS * BLOCK))[:, None]
        j = (column + tl.arange(0, WIDTH))[None, :]
        at = i.to(tl.int64) * columns + j
        tile = tl.load(x + at, mask=(i < rows) & (j < columns), other=0)
        return tile.reshape((BLOCKS, BLOCK, WIDTH))


@triton.jit
def _quantize_columns(
    x,
    words,
    codes,
    scales,
    row_words,
    row_codes,
    row_scales,
    length,
    inner,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    WIDTH: tl.constexpr,
    PACKED: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_WORDS: tl.constexpr,
    M: tl.constexpr,
    EMIN: tl.constexpr,
    EMAX: tl.constexpr,
    BITS: tl.constexpr,
    INTEGER: tl.constexpr,
    LARGEST: tl.constexpr,
    CEILING: tl.constexpr,
    LARGEST_CODE: tl.constexpr,
    INF_CODE: tl.constexpr,
    NAN_CODE: tl.constexpr,
    SCALE_RULE: tl.constexpr,
    ROUNDING: tl.constexpr,
    ELEMENT: tl.constexpr,
    CONVERT: tl.constexpr,
):
    HEIGHT: tl.constexpr = BLOCKS * BLOCK
    across, down = tl.cdiv(inner, WIDTH), tl.cdiv(length, HEIGHT)
    tile_row = tl.program_id(0) // across
    column = tl.program_id(0) % across * WIDTH
    row = tile_row % down * HEIGHT
    slab = (tile_row // down).to(tl.int64) * length * inner
    at = (row, column, length, inner)
    tile = _load_columns(x + slab, *at, BLOCK, BLOCKS, WIDTH, TRANSPOSED).to(tl.float32)
    random = tile
    if ROWS:
        PER_ROW: tl.constexpr = WIDTH // BLOCK
        if HAS_WORDS:
            random = _load_columns(row_words + slab, *at, BLOCK, BLOCKS, WIDTH, TRANSPOSED)
        found, found_scales = quantize_tile(
            tile.reshape((HEIGHT, PER_ROW, BLOCK)),
            random.reshape((HEIGHT, PER_ROW, BLOCK)),
            2,
            M,
            EMIN,
            EMAX,
            BITS,
            INTEGER,
            LARGEST,
            CEILING,
            LARGEST_CODE,
            INF_CODE,
            NAN_CODE,
            SCALE_RULE,
            ROUNDING,
            ELEMENT,
            CONVERT,
        )
        row_tile = found.reshape((HEIGHT, WIDTH))
        store_codes(row_codes, row_tile, row, column, length, inner, BITS, PACKED)
        row_tile = found_scales.reshape((HEIGHT, PER_ROW))
        store_codes(row_scales, row_tile, row, column // BLOCK, length, inner // BLOCK, BITS, False)
    if HAS_WORDS:
        random = _load_columns(words + slab, *at, BLOCK, BLOCKS, WIDTH, TRANSPOSED)
    found, found_scales = quantize_tile(
        tile,
        random,
        1,
        M,
        EMIN,
        EMAX,
        BITS,
        INTEGER,
        LARGEST,
        CEILING,
        LARGEST_CODE,
        INF_CODE,
        NAN_CODE,
        SCALE_RULE,
        ROUNDING,
        ELEMENT,
        CONVERT,
    )
    column_codes = found.reshape((HEIGHT, WIDTH))
    column_scales = found_scales.reshape((BLOCKS, WIDTH))
    # Scales are bytes: their tiles are stored as codes that are never packed.
    codes += slab * BITS // 8 if PACKED else slab
    scales += slab // BLOCK
    blocks = length // BLOCK
    if TRANSPOSED:
        store_codes(codes, column_codes.trans(), column, row, inner, length, BITS, PACKED)
        store_codes(scales, column_scales.trans(), column, row // BLOCK, inner, blocks, BITS, False)
    else:
        store_codes(codes, column_codes, row, column, length, inner, BITS, PACKED)
        store_codes(scales, column_scales, row // BLOCK, column, blocks, inner, BITS, False)
