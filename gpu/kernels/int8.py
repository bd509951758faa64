"""W8A8: INT32 sums of bytes, rescaled in registers: the executor ``triton`` of `int8_matmul`."""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ...model.accumulators import accumulator
from ..schemes.int8 import LONGEST, rows_of
from . import device
from .overlap import overlaps, ready

if TYPE_CHECKING:
    from ..schemes.int8 import Int8Request

ALIGNMENT = 16  # bytes, of the rows and the first byte that descriptors of tensors take
DESCRIPTORS = (9, 0)  # the compute capability that has them
TILE = {"ROWS": 128, "COLUMNS": 256, "LENGTH": 128}
FEW = {"ROWS": 16, "COLUMNS": 32, "LENGTH": 512}  # where `a` has at most ROWS rows
FEW_OF_MANY = {"ROWS": 16, "COLUMNS": 64, "LENGTH": 256}  # and `b` many rows
MANY = 8192
SMALL = {"ROWS": 16, "COLUMNS": 32, "LENGTH": 32}  # for the interpreter
GROUP_ROWS = 8  # tiles of rows that share columns in the cache
NAN_BITS = tl.constexpr(accumulator("int32").nan_bits)


def refusal(request: "Int8Request") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    reason = device.refusal(request.device)
    if reason is not None:
        return reason
    if not device.interpreted():
        capability = device.capability_of(request.device)
        if capability < DESCRIPTORS:
            needed, own = (f"{major}.{minor}" for major, minor in (DESCRIPTORS, capability))
            return f"it needs compute capability {needed} or later, not {own}"
    length = request.a.codes.shape[1]
    if length % ALIGNMENT:
        return f"K must be a multiple of {ALIGNMENT}, not {length}"
    if length > LONGEST:
        return f"K must be at most {LONGEST}, not {length}"
    return None


def run(request: "Int8Request") -> Tensor:
    """The product (M, N) in the wanted type."""
    a, b = rows_of(request.a), rows_of(request.b)
    (m, length), n = a.codes.shape, len(b.codes)
    out = torch.empty((m, n), dtype=request.out_dtype, device=request.device)
    few = m <= FEW["ROWS"]
    tile = (FEW_OF_MANY if n >= MANY else FEW) if few else TILE
    if device.interpreted():
        tile = SMALL
    blocks = [[tile["ROWS"], tile["LENGTH"]], [tile["COLUMNS"], tile["LENGTH"]]]
    grid = triton.cdiv(m, tile["ROWS"]) * triton.cdiv(n, tile["COLUMNS"])
    _multiply[(grid,)](
        TensorDescriptor.from_tensor(_aligned(a.codes), blocks[0]),
        TensorDescriptor.from_tensor(_aligned(b.codes), blocks[1]),
        a.scales,
        b.scales,
        a.zero_points,
        b.zero_points,
        # What a zero point of the other operand is multiplied by.
        None if b.zero_points is None else a.codes.sum(1, dtype=torch.int32),
        None if a.zero_points is None else b.codes.sum(1, dtype=torch.int32),
        out,
        m,
        n,
        length,
        **tile,
        GROUP=GROUP_ROWS,
        num_warps=4 if few else 8,
        num_stages=4,
        EARLY=overlaps(request.device),
        launch_pdl=overlaps(request.device),
    )
    return out


def _aligned(codes: Tensor) -> Tensor:
    """`codes`, copied where they are a view that begins between two addresses of a descriptor."""
    return codes.clone() if codes.data_ptr() % ALIGNMENT else codes


@triton.jit
def _multiply(
    a,
    b,
    scales_a,
    scales_b,
    zeros_a,
    zeros_b,
    sums_a,
    sums_b,
    out,
    m,
    n,
    length,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LENGTH: tl.constexpr,
    GROUP: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
    # Programs that run side by side share few rows and columns, which the cache then holds.
    across = tl.cdiv(n, COLUMNS)
    first = tl.program_id(0) // (GROUP * across) * GROUP
    height = min(tl.cdiv(m, ROWS) - first, GROUP)
    place = tl.program_id(0) % (GROUP * across)
    top = (first + place % height) * ROWS
    left = place // height * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), tl.int32)
    for k in range(0, length, LENGTH):
        total = tl.dot(a.load([top, k]), b.load([left, k]).T, total, out_dtype=tl.int32)
    row, column = top + tl.arange(0, ROWS), left + tl.arange(0, COLUMNS)
    there = (row < m)[:, None] & (column < n)[None, :]
    if sums_a is not None:
        zero = tl.load(zeros_b + column, mask=column < n, other=0)
        total -= tl.load(sums_a + row, mask=row < m, other=0)[:, None] * zero[None, :]
    if sums_b is not None:
        zero = tl.load(zeros_a + row, mask=row < m, other=0)
        total -= zero[:, None] * tl.load(sums_b + column, mask=column < n, other=0)[None, :]
        if sums_a is not None:
            both = tl.load(zeros_b + column, mask=column < n, other=0)
            total += length * zero[:, None] * both[None, :]
    scale_a = tl.load(scales_a + row, mask=row < m, other=0)
    scale_b = tl.load(scales_b + column, mask=column < n, other=0)
    result = (scale_a[:, None] * scale_b[None, :]) * total.to(tl.float32)
    result = tl.where(result == 0, 0.0, result)  # of either sign
    result = tl.where(result != result, NAN_BITS, result.to(tl.int32, bitcast=True))
    result = result.to(tl.float32, bitcast=True).to(out.dtype.element_ty)
    tl.store(out + row[:, None].to(tl.int64) * n + column[None, :], result, mask=there)
