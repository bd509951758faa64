"""Schemes with one float32 scale to a row: extremes, scales and codes of one launch.

A part of `scheme_quantize`. A row stays in registers where it is not too long. A code is found as
there, but for the sign of value less midpoint times scale: with a scale of float32, one
multiplication fused with an addition has it, where float64 takes four conversions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32
from ...model.schemes import Scheme
from . import device
from .arithmetic import INFINITY32
from .launch import Launch
from .rounded import element_code, element_constants

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

SHORTEST = 256  # shorter rows would leave threads without work
LONGEST_PART = 16384  # elements of a row that a program has at once
OF_WARP = 2048
NAN_BITS, LARGEST_BITS = tl.constexpr(FLOAT32.nan_code), tl.constexpr(FLOAT32.largest_code)
TINY = tl.constexpr(2.0**-64)  # scales below it, and values under them, are taken 2^64 as large


def takes(request: "SchemeQuantization") -> bool:
    """Whether this kernel does all that `scheme_quantize` does for a request that it takes."""
    scheme, x, element = request.scheme, request.x, request.scheme.elements[0]
    level = scheme.levels[0]
    rows = level.granularity.rows == 1 and level.granularity.columns is None
    last = request.axis in (-1, x.ndim - 1)
    if not (rows and is_plain(scheme) and last and x.is_contiguous()) or request.limits:
        return False
    room = scheme.room(0, element)
    exact = np.float32(room) == room and room <= FLOAT32.largest_finite
    return bool(exact and x.shape[-1] >= SHORTEST)


def is_plain(scheme: Scheme) -> bool:
    """Whether a code stands for itself times one float32."""
    (level, *inner), unit = scheme.levels, element_constants(scheme.elements[0])["UNIT"]
    return level.format == FLOAT32 and unit == 1 and not (inner or scheme.zero_point)


def prepare(request: "SchemeQuantization") -> Callable[[Tensor], list[Tensor]]:
    """The work for requests like this one: codes and scales of x."""
    shape, where, (element, *_) = request.x.shape, request.device, request.scheme.elements
    columns, rows = shape[-1], shape[:-1].numel()
    part = min(LONGEST_PART, triton.next_power_of_2(columns))
    launch = Launch(
        _quantize_rows,
        (rows,),
        ROOM=request.scheme.room(0, element),
        PART=part,
        WHOLE=columns <= part,
        FUSED=not device.interpreted(),  # which rounds a product before it adds
        num_warps=max(1, part // OF_WARP),
        **element_constants(element),
    )
    scale_shape = (*shape[:-1], 1)

    def work(x: Tensor) -> list[Tensor]:
        codes = torch.empty(shape, dtype=torch.uint8, device=where)
        scales = torch.empty(scale_shape, dtype=torch.float32, device=where)
        launch(x, codes, scales, columns)
        return [codes, scales]

    return work


@triton.jit
def plain_codes(
    value,
    scale,
    poisoned,
    INTEGER: tl.constexpr,
    BITS: tl.constexpr,
    LOWEST: tl.constexpr,
    LARGEST: tl.constexpr,
    M: tl.constexpr,
    EMIN: tl.constexpr,
    FUSED: tl.constexpr,
):
    """uint8 codes of float32 values under float32 scales, zeros where these are poisoned."""
    up = tl.where(scale < TINY, 1.0 / TINY, 1.0)
    value = tl.where(poisoned, 0.0, value) * up
    near = value * (1.0 / (scale * up))
    return element_code(value, near, scale * up, 0, BITS, INTEGER, LOWEST, LARGEST, M, EMIN, FUSED)


@triton.jit
def _quantize_rows(
    x,
    codes,
    scales,
    columns,
    ROOM: tl.constexpr,
    BITS: tl.constexpr,
    INTEGER: tl.constexpr,
    UNIT: tl.constexpr,
    LOWEST: tl.constexpr,
    LARGEST: tl.constexpr,
    M: tl.constexpr,
    EMIN: tl.constexpr,
    PART: tl.constexpr,
    WHOLE: tl.constexpr,
    FUSED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * columns
    codes += row * columns
    j = tl.arange(0, PART)
    value = tl.load(x + j, mask=j < columns, other=0.0).to(tl.float32)
    most = value.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    if not WHOLE:
        for k in range(PART, columns, PART):
            later = tl.load(x + k + j, mask=k + j < columns, other=0.0).to(tl.float32)
            most = tl.maximum(most, later.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    largest = tl.max(most, axis=0)
    poisoned = largest >= INFINITY32
    amax = tl.where(poisoned, 0, largest).to(tl.float32, bitcast=True)
    ratio = tl.div_rn(amax, tl.full((), ROOM, tl.float32)).to(tl.int32, bitcast=True)
    bits = tl.minimum(tl.maximum(ratio, 1), LARGEST_BITS)
    scale = bits.to(tl.float32, bitcast=True)
    tl.store(scales + row, tl.where(poisoned, NAN_BITS, bits).to(tl.float32, bitcast=True))
    code = plain_codes(value, scale, poisoned, INTEGER, BITS, LOWEST, LARGEST, M, EMIN, FUSED)
    tl.store(codes + j, code, mask=j < columns)
    if not WHOLE:
        for k in range(PART, columns, PART):
            later = tl.load(x + k + j, mask=k + j < columns, other=0.0).to(tl.float32)
            code = plain_codes(
                later, scale, poisoned, INTEGER, BITS, LOWEST, LARGEST, M, EMIN, FUSED
            )
            tl.store(codes + k + j, code, mask=k + j < columns)
