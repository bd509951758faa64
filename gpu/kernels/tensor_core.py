"""Products on the tensor cores themselves: Triton's `tl.dot`, which becomes wgmma or mma.sync.

gpu/hardware/silicon.py says which accumulator they are, and agreement.py compares them.
"""

import re

import torch
import triton
import triton.language as tl
from torch import Tensor

WARPGROUP_ROWS = 64  # of a tile that becomes wgmma, with 4 warps
SMALL_ROWS = 16  # of a tile that becomes mma.sync, with 1 warp
STEP = tl.constexpr(32)


@triton.jit
def _matrix(
    a_ptr, b_ptr, c_ptr, out_ptr, m, n, k,
    HAS_C: tl.constexpr, IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (m, n) = c + a (m, k) x b (n, k)^T, the running value inside the tensor core.

    IMPRECISE: elements after which the partial sum is added to the sum in float32; 0 for never.
    """
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    inside = (row < m)[:, None] & (column < n)[None, :]
    place = row[:, None] * n + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if HAS_C:
        total = tl.load(c_ptr + place, inside, 0.0)
    for start in range(0, k, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row[:, None] * k + at[None, :], (row < m)[:, None] & (at < k), 0.0)
        b = tl.load(
            b_ptr + column[None, :] * k + at[:, None], (column < n) & (at < k)[:, None], 0.0
        )
        if IMPRECISE > 0:
            total = tl.dot(a, b, total, max_num_imprecise_acc=IMPRECISE)
        else:
            total = tl.dot(a, b, total)
    tl.store(out_ptr + place, total, inside)


@triton.jit
def _blocks(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, out_ptr, m, n, k, block,
    HAS_C: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`_matrix` whose steps of 32 elements start from 0, are scaled, and are added in float32."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    inside = (row < m)[:, None] & (column < n)[None, :]
    place = row[:, None] * n + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if HAS_C:
        total = tl.load(c_ptr + place, inside, 0.0)
    blocks = k // block
    for start in range(0, k, STEP):
        at = start + tl.arange(0, STEP)
        a = tl.load(a_ptr + row[:, None] * k + at[None, :], (row < m)[:, None], 0.0)
        b = tl.load(b_ptr + column[None, :] * k + at[:, None], (column < n)[None, :], 0.0)
        part = tl.dot(a, b)
        # 2^s from its exponent field; the caller has seen to it that s is that of a normal float32.
        s_a = tl.load(a_scale_ptr + row * blocks + start // block, row < m, 127).to(tl.int32)
        s_b = tl.load(b_scale_ptr + column * blocks + start // block, column < n, 127).to(tl.int32)
        scale = ((s_a[:, None] + s_b[None, :] - 127) << 23).to(tl.float32, bitcast=True)
        total = tl.fma(part, scale, total)
    tl.store(out_ptr + place, total, inside)


@triton.jit
def _pairs(
    a_ptr, b_ptr, c_ptr, out_ptr, n, k,
    HAS_C: tl.constexpr, INTEGERS: tl.constexpr, IMPRECISE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (n,): rows of a (n, k) with the same rows of b, by the diagonals of square products."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    other = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, ROWS), tl.int32 if INTEGERS else tl.float32)
    zero = 0 if INTEGERS else 0.0
    if HAS_C:
        total += tl.load(c_ptr + row, row < n, zero)[:, None]
    for start in range(0, k, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row[:, None] * k + at[None, :], (row < n)[:, None] & (at < k), zero)
        b = tl.load(b_ptr + other[None, :] * k + at[:, None], (other < n) & (at < k)[:, None], zero)
        if INTEGERS:
            total = tl.dot(a, b, total, out_dtype=tl.int32)
        elif IMPRECISE > 0:
            total = tl.dot(a, b, total, max_num_imprecise_acc=IMPRECISE)
        else:
            total = tl.dot(a, b, total, input_precision="tf32")
    same = (row[:, None] == other[None, :]) & (row < n)[:, None]
    tl.store(out_ptr + row[:, None] + 0 * other[None, :], total, same)


def matrix(a: Tensor, b: Tensor, c: Tensor | None, promote: int = 0) -> Tensor:
    """float32 (M, N) of float8 a (M, K), b (N, K), contiguous; c float32 (M, N) or None.

    promote: elements after which partial sums are added in float32 (0: never).
    """
    (m, k), n = a.shape, b.shape[0]
    out = torch.empty((m, n), dtype=torch.float32, device=a.device)
    tile = 128, 128
    grid = triton.cdiv(m, tile[0]), triton.cdiv(n, tile[1])
    _matrix[grid](
        a, b, out if c is None else c, out, m, n, k,
        HAS_C=c is not None, IMPRECISE=promote,
        BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=promote or 64, num_warps=8,
    )  # fmt: skip
    return out


def blocks(
    a: Tensor, b: Tensor, a_scales: Tensor, b_scales: Tensor, block: int, c: Tensor | None
) -> Tensor:
    """`matrix` with E8M0 scales uint8 (M, K / block), (N, K / block); each step starts from 0."""
    (m, k), n = a.shape, b.shape[0]
    out = torch.empty((m, n), dtype=torch.float32, device=a.device)
    tile = 128, 128
    grid = triton.cdiv(m, tile[0]), triton.cdiv(n, tile[1])
    _blocks[grid](
        a, b, a_scales, b_scales, out if c is None else c, out, m, n, k, block,
        HAS_C=c is not None, BLOCK_M=tile[0], BLOCK_N=tile[1], num_warps=8,
    )  # fmt: skip
    return out


def pairs(
    a: Tensor, b: Tensor, c: Tensor | None, rows: int, promote: int = 0
) -> tuple[Tensor, tuple[str, ...]]:
    """Dot products of rows of a and b (n, K), and the matrix instructions that computed them.

    float8, float16, bfloat16, float32 (as tf32) or int8; c (n,) float32, int32 for int8, or None.
    """
    n, k = a.shape
    integers = a.dtype == torch.int8
    out = torch.empty(n, dtype=torch.int32 if integers else torch.float32, device=a.device)
    kernel = _pairs[(triton.cdiv(n, rows),)](
        a, b, out if c is None else c, out, n, k,
        HAS_C=c is not None, INTEGERS=integers, IMPRECISE=promote,
        ROWS=rows, BLOCK_K=promote or 64, num_warps=4 if rows >= WARPGROUP_ROWS else 1,
    )  # fmt: skip
    return out, instructions(kernel)


def instructions(kernel: object) -> tuple[str, ...]:
    """The matrix instructions in a compiled kernel's PTX, each once; none without a GPU."""
    ptx = getattr(kernel, "asm", {}).get("ptx", "")
    return tuple(sorted(set(re.findall(r"(?:wgmma\.mma_async|mma\.sync)[\w.:]*", ptx))))
