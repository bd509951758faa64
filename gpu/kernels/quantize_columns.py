"""Quantisation kernels along columns, and along both axes in one pass; also packed.

The executor ``triton`` of `mxdot.gpu.quantize_both`; `quantize` takes the columns here.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from .encode import Rules, empty_codes, quantize_tile, signed, store_codes

if TYPE_CHECKING:
    from ..ops.quantize_both import Both

WARP_TILE = 2048  # elements of a warp with blocks along columns
TALL, TALL_WARPS = 128, 8  # rows and warps of a program that turns its columns


def refusal(request: "Both") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    return Rules.of(request.rows).refusal(request.device)


def run(request: "Both") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes and scales of the rows, then of the columns."""
    rows, columns = request.rows, request.columns
    rules, (m, k) = Rules.of(rows), rows.x.shape
    codes, scales, column_codes, column_scales = quantize_both(
        rows.x.contiguous(), rules, rows.words, columns.words, transposed=request.transposed
    )
    shape, scale_shape = (m, k), (m // rules.block_size, k)
    if request.transposed:
        shape, scale_shape = (k, m), (k, m // rules.block_size)
    return (
        codes.view(m, k),
        scales.view(m, k // rules.block_size),
        column_codes.view(shape),
        column_scales.view(scale_shape),
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
    codes = empty_codes(x.numel(), rules, packed, x)
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
    codes = [empty_codes(x.numel(), rules, packed, x) for _ in range(2)]
    scales = [torch.empty(count, dtype=torch.uint8, device=x.device) for _ in range(2)]
    rows = (codes[0], scales[0], row_words)
    _launch_columns(x[None], rules, column_words, packed, transposed, codes[1], scales[1], rows)
    return codes[0], scales[0], codes[1], scales[1]


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
    # Plain columns find scales and slabs the longer ways: by the shorter ones they take 64
    # registers and not 128, twice as many programs read at a time, and memory gives them 0.69 of a
    # copy's speed and not 0.89.
    plain = rows is None and not transposed
    _quantize_columns[grid](
        x,
        signed(words, x),
        codes,
        scales,
        signed(row_words, x),
        row_codes,
        row_scales,
        length,
        inner,
        BLOCK=k,
        BLOCKS=blocks,
        WIDTH=width,
        SLABS=outer > 1 or plain,
        ANY_EMAX=plain,
        PACKED=packed,
        TRANSPOSED=transposed,
        ROWS=rows is not None,
        HAS_WORDS=words is not None,
        num_warps=warps,
        ENCODING=rules.encoding(x.device),
    )


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
    SLABS: tl.constexpr,
    ANY_EMAX: tl.constexpr,
    PACKED: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_WORDS: tl.constexpr,
    ENCODING: tl.constexpr,
):
    HEIGHT: tl.constexpr = BLOCKS * BLOCK
    BITS: tl.constexpr = ENCODING.bits
    across, down = tl.cdiv(inner, WIDTH), tl.cdiv(length, HEIGHT)
    tile_row = tl.program_id(0) // across
    column = (tl.program_id(0) - tile_row * across) * WIDTH
    slab = 0
    if SLABS:
        slab = (tile_row // down).to(tl.int64) * length * inner
        tile_row = tile_row % down
    row = tile_row * HEIGHT
    at = (row, column, length, inner)
    tile = _load_columns(x + slab, *at, BLOCK, BLOCKS, WIDTH, TRANSPOSED).to(tl.float32)
    random = tile
    if ROWS:
        PER_ROW: tl.constexpr = WIDTH // BLOCK
        if HAS_WORDS:
            random = _load_columns(row_words + slab, *at, BLOCK, BLOCKS, WIDTH, TRANSPOSED)
        tile_codes, tile_scales = quantize_tile(
            tile.reshape((HEIGHT, PER_ROW, BLOCK)),
            random.reshape((HEIGHT, PER_ROW, BLOCK)),
            2,
            ENCODING,
        )
        row_tile = tile_codes.reshape((HEIGHT, WIDTH))
        store_codes(row_codes, row_tile, row, column, length, inner, BITS, PACKED)
        row_tile = tile_scales.reshape((HEIGHT, PER_ROW))
        store_codes(
            row_scales, row_tile, row, column // BLOCK, length, inner // BLOCK, ENCODING.bits, False
        )
    if HAS_WORDS:
        random = _load_columns(words + slab, *at, BLOCK, BLOCKS, WIDTH, TRANSPOSED)
    tile_codes, tile_scales = quantize_tile(
        tile,
        random,
        1,
        ENCODING,
        ANY_EMAX,
    )
    column_codes = tile_codes.reshape((HEIGHT, WIDTH))
    column_scales = tile_scales.reshape((BLOCKS, WIDTH))
    # Scales are bytes: their tiles are stored as codes that are never packed.
    codes += slab * BITS // 8 if PACKED else slab
    scales += slab // BLOCK
    blocks = length // BLOCK
    if TRANSPOSED:
        store_codes(codes, column_codes.trans(), column, row, inner, length, BITS, PACKED)
        store_codes(
            scales, column_scales.trans(), column, row // BLOCK, inner, blocks, ENCODING.bits, False
        )
    else:
        store_codes(codes, column_codes, row, column, length, inner, BITS, PACKED)
        store_codes(
            scales, column_scales, row // BLOCK, column, blocks, inner, ENCODING.bits, False
        )
