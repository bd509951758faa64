"""Values of packed 4-bit weights in one launch: the executor ``triton`` of
`PackedWeights.dequantize`, for products of many rows.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..schemes.weight_only import BIAS, BITS, CHUNK, TILE
from . import device

if TYPE_CHECKING:
    from ..schemes.weight_only import WeightValues

ROWS, COLUMNS = tl.constexpr(TILE), tl.constexpr(CHUNK)
WORDS = tl.constexpr(TILE * CHUNK * BITS // 32)  # of a chunk of a tile
WIDTH, OFFSET = tl.constexpr(BITS), tl.constexpr(BIAS)


def refusal(request: "WeightValues") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return device.refusal(request.device)


def run(request: "WeightValues") -> Tensor:
    """Values (N, K)."""
    weights = request.weights
    rows, columns = weights.shape
    tiles, groups, _ = weights.scales.shape
    values = torch.empty((rows, columns), dtype=request.dtype, device=request.device)
    _dequantize[(tiles * (columns // CHUNK),)](
        weights.words.contiguous(),
        weights.scales.contiguous(),
        values,
        rows,
        columns,
        groups,
        CHUNKS=weights.group // CHUNK,
    )
    return values


@triton.jit
def _dequantize(words, scales, values, rows, columns, groups, CHUNKS: tl.constexpr):
    """Values of a chunk of a tile. Axes are those of `mxdot.gpu.schemes.weight_only.AXES`."""
    chunks = columns // COLUMNS
    tile, chunk = tl.program_id(0) // chunks, tl.program_id(0) % chunks
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    # Axes of a word: 16 rows, row, pair, 8 columns, 32 columns. Axes of an element in it: one of
    # the pair, 16 columns, half of the rows.
    line = (i // 16 * 8 + i % 8) * 4
    at = ((line + j // 2 % 4) * 2 + j // 8 % 2) * 2 + j // 32
    place = (j % 2 * 2 + j // 16 % 2) * 2 + i // 8 % 2
    word = tl.load(words + tl.program_id(0).to(tl.int64) * WORDS + at)
    element = ((word >> (place * WIDTH)) & 15) - OFFSET
    of_group = (tile * groups + chunk // CHUNKS).to(tl.int64) * ROWS
    scale = tl.load(scales + of_group + i).to(tl.float32)
    row = tile * ROWS + i
    value = (element.to(tl.float32) * scale).to(values.dtype.element_ty)
    tl.store(values + row.to(tl.int64) * columns + chunk * COLUMNS + j, value, mask=row < rows)
