"""The executor ``triton`` of `mxdot::quantize_regrouped`: blocks are quantised as in quantize.py,
and regrouped as in regroup.py, in the registers of one program.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..names import named_format
from ..ops.regroup import GROUP, padded
from . import device
from .decode import Codes, decode, scale_value
from .encode import Rules, quantize_tile
from .launch import Launch
from .overlap import overlaps, ready
from .regroup import regrouped

if TYPE_CHECKING:
    from ..ops.quantize_regrouped import QuantizeRegrouped

TILE_ROWS, TILE_GROUPS = 8, 4  # of a program


def refusal(request: "QuantizeRegrouped") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    rules = _rules(request)
    if GROUP % rules.block_size:
        return f"block_size must divide {GROUP}, not {rules.block_size}"
    if not request.x.is_contiguous():
        return "x must be contiguous"
    return rules.refusal(request.device)


def _rules(request: "QuantizeRegrouped") -> Rules:
    return Rules(named_format(request.format), request.block_size, request.scale_rule)


def prepare(request: "QuantizeRegrouped") -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The work for requests like this one: codes (R, K) and scales (K / 128, R), filled up."""
    (rows, length), where, rules = request.x.shape, request.device, _rules(request)
    m, k = padded(rows, length)
    groups = k // GROUP
    launch = Launch(
        _quantize_regrouped,
        (m // TILE_ROWS * triton.cdiv(groups, TILE_GROUPS),),
        PARTS=GROUP // rules.block_size,
        PART=rules.block_size,
        ROWS=TILE_ROWS,
        GROUPS=TILE_GROUPS,
        FORMAT=Codes.of(rules.format, where),
        HAS_CONVERSION=device.has_fp8_conversion(where),
        ENCODING=rules.encoding(where),
        EARLY=overlaps(where),
        launch_pdl=overlaps(where),
    )

    def work(x: Tensor) -> tuple[Tensor, Tensor]:
        codes = torch.empty((m, k), dtype=torch.uint8, device=where)
        scales = torch.empty((groups, m), dtype=torch.float32, device=where)
        if m and k:
            launch(x, codes, scales, rows, length, m, groups)
        return codes, scales

    return work


@triton.jit
def _quantize_regrouped(
    x,
    codes,
    scales,
    rows,
    length,
    padded_rows,
    groups,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    FORMAT: tl.constexpr,
    HAS_CONVERSION: tl.constexpr,
    ENCODING: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
    WIDTH: tl.constexpr = GROUPS * PARTS * PART
    across = tl.cdiv(groups, GROUPS)
    row = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS).to(tl.int64)
    first = tl.program_id(0) % across * GROUPS
    k = first * (PARTS * PART) + tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (k < length)[None, :]
    tile = tl.load(x + row[:, None] * length + k[None, :], mask=inside, other=0.0).to(tl.float32)
    tile = tile.reshape((ROWS * GROUPS * PARTS, PART))
    codes_of_tile, tile_scales = quantize_tile(
        tile,
        tile,
        1,
        ENCODING,
    )
    elements = decode(codes_of_tile, FORMAT).reshape((ROWS, GROUPS, PARTS, PART))
    scale = tile_scales.to(tl.int32).reshape((ROWS, GROUPS, PARTS))
    new, top = regrouped(elements, scale, HAS_CONVERSION)
    at = row[:, None] * (groups * (PARTS * PART)) + k[None, :]
    written = (k < groups * (PARTS * PART))[None, :]
    tl.store(codes + at, new.reshape((ROWS, WIDTH)), mask=written)
    group = first + tl.arange(0, GROUPS)
    at = group[None, :].to(tl.int64) * padded_rows + row[:, None]
    tl.store(scales + at, scale_value(top), mask=(group < groups)[None, :])
