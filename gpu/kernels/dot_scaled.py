"""Triton's own block-scaled product, `tl.dot_scaled`, to measure `mx_matmul` against."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..tensors.mx import MXTensor

BLOCK = tl.constexpr(32)
# The fastest of three tiles that were tried on an H200.
TILE = {"ROWS": 128, "COLUMNS": 128, "LENGTH": 64, "num_warps": 4, "num_stages": 3}
DOWN = tl.constexpr(8)  # tiles that follow each other down, for the cache's sake


def multiply(a: MXTensor, b: MXTensor) -> Tensor:
    """bfloat16 (M, N) of MXFP8 E4M3 a (M, K), b (N, K): K a multiple of 64, M of 1024, N of 128."""
    (m, k), n = a.shape, b.shape[0]
    rows = TILE["ROWS"] * DOWN.value
    if m % rows or n % TILE["COLUMNS"] or k % TILE["LENGTH"]:
        wanted = f"{rows}, {TILE['COLUMNS']} and {TILE['LENGTH']}"
        raise ValueError(f"M, N and K must be multiples of {wanted}, not {m}, {n} and {k}")
    out = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    x, y = a.to_float8()[0], b.to_float8()[0]
    grid = (m // TILE["ROWS"] * (n // TILE["COLUMNS"]),)
    _multiply[grid](x, a.scales, y, b.scales, out, n, k, **TILE)
    return out


@triton.jit
def _multiply(
    a,
    a_scales,
    b,
    b_scales,
    out,
    n,
    k,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LENGTH: tl.constexpr,
):
    strip = DOWN * (n // COLUMNS)
    tile = tl.program_id(0)
    row = (tile // strip * DOWN + tile % DOWN) * ROWS + tl.arange(0, ROWS)
    column = tile % strip // DOWN * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, LENGTH):
        at = start + tl.arange(0, LENGTH)
        block = start // BLOCK + tl.arange(0, LENGTH // BLOCK)
        x = tl.load(a + row[:, None] * k + at[None, :])
        y = tl.load(b + column[None, :] * k + at[:, None])
        x_scale = tl.load(a_scales + row[:, None] * (k // BLOCK) + block[None, :])
        y_scale = tl.load(b_scales + column[:, None] * (k // BLOCK) + block[None, :])
        total = tl.dot_scaled(x, x_scale, "e4m3", y, y_scale, "e4m3", total)
    tl.store(out + row[:, None] * n + column[None, :], total.to(tl.bfloat16))
