"""FP8 operands with a scale to 128 elements: the executor ``triton`` of `mxdot.gpu.regroup`."""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import E4M3
from ..ops.regroup import GROUP, LEAST_SHIFT
from . import device
from .arithmetic import power32
from .decode import Codes, decode, scale_value
from .encode import nearest_even_code

if TYPE_CHECKING:
    from ..ops.regroup import Regrouping

TILE_ROWS, TILE_GROUPS = 16, 4  # of a program
LEAST = tl.constexpr(LEAST_SHIFT)
M, EMIN = tl.constexpr(E4M3.mantissa_bits), tl.constexpr(E4M3.emin)
LARGEST, NAN_CODE = tl.constexpr(E4M3.largest_finite), tl.constexpr(E4M3.nan_code)


def refusal(request: "Regrouping") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    return device.refusal(request.device)


def run(request: "Regrouping") -> tuple[Tensor, Tensor]:
    """Codes (R, K) and float32 scales (K / 128, R), all filled up."""
    (rows, length), (m, k) = request.codes.shape, request.padded
    codes = torch.empty((m, k), dtype=torch.uint8, device=request.device)
    scales = torch.empty((k // GROUP, m), dtype=torch.float32, device=request.device)
    groups = k // GROUP
    across = triton.cdiv(groups, TILE_GROUPS)
    if m and k:
        _regroup[(m // TILE_ROWS * across,)](
            request.codes,
            request.scales,
            codes,
            scales,
            rows,
            length,
            m,
            groups,
            length // request.block_size,
            request.block_size,
            PARTS=max(1, GROUP // request.block_size),
            PART=min(GROUP, request.block_size),
            ROWS=TILE_ROWS,
            GROUPS=TILE_GROUPS,
            FORMAT=Codes.of(request.format, request.device),
            CONVERT=device.has_fp8_conversion(request.device),
        )
    return codes, scales


@triton.jit
def regrouped(element, scale, CONVERT: tl.constexpr):
    """E4M3 codes of elements (rows, groups, blocks, block) under the largest scale of their group,
    and these scales. scale: int32 (rows, groups, blocks)."""
    top = tl.max(scale, axis=2)
    down = power32(tl.maximum(scale - top[:, :, None], LEAST))
    value = element * down[:, :, :, None]
    if CONVERT:
        new = value.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        is_nan = value != value
        sign = (value.to(tl.int32, bitcast=True) >> 31) & 0x80
        new = nearest_even_code(tl.where(is_nan, 0.0, tl.abs(value)), M, EMIN, LARGEST) | sign
        new = tl.where(is_nan, NAN_CODE, new).to(tl.uint8)
    return new, top


@triton.jit
def _regroup(
    codes,
    scales,
    new_codes,
    new_scales,
    rows,
    length,
    padded_rows,
    groups,
    blocks,
    block_size,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    FORMAT: tl.constexpr,
    CONVERT: tl.constexpr,
):
    across = tl.cdiv(groups, GROUPS)
    row = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS).to(tl.int64)
    group = tl.program_id(0) % across * GROUPS + tl.arange(0, GROUPS)
    first = group[:, None] * (PARTS * PART) + tl.arange(0, PARTS)[None, :] * PART
    there = (row < rows)[:, None, None] & (first < length)[None, :, :]
    at = row[:, None, None] * blocks + (first // block_size)[None, :, :]
    scale = tl.load(scales + at, mask=there, other=0).to(tl.int32)
    k = first[:, :, None] + tl.arange(0, PART)[None, None, :]
    at = row[:, None, None, None] * length + k[None, :, :, :]
    code = tl.load(codes + at, mask=there[:, :, :, None], other=0)
    element = decode(code, FORMAT)
    new, top = regrouped(element, scale, CONVERT)
    padded = row[:, None, None, None] * groups * (PARTS * PART) + k[None, :, :, :]
    tl.store(new_codes + padded, new, mask=(group < groups)[None, :, None, None])
    at = group[None, :].to(tl.int64) * padded_rows + row[:, None]
    tl.store(new_scales + at, scale_value(top), mask=(group < groups)[None, :])
