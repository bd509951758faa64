"""Schemes with one float32 scale per row.

Used by `scheme_quantize`, and for values by `mxdot::scheme_values`. One launch finds extremes and
makes scales and codes. A row stays in registers unless it is too long.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32
from ...model.schemes import Scheme
from ...model.schemes.scales import is_float32
from . import device
from .arithmetic import INFINITY32
from .decode import Codes
from .launch import Launch
from .overlap import overlaps, ready
from .quotients import Element, plain_elements

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

SHORTEST = 256  # shorter rows would leave threads without work
LONGEST_PART = 16384  # elements of a row that a program has at once
OF_WARP = 1024  # elements
OF_WARP_FEW, FEW_ROWS = 256, 64  # elements, up to as many rows
MOST_WARPS = 32
NAN_BITS, LARGEST_BITS = tl.constexpr(FLOAT32.nan_code), tl.constexpr(FLOAT32.largest_code)


def takes(request: "SchemeQuantization") -> bool:
    """Whether this kernel does all that `scheme_quantize` does for a request that it takes."""
    scheme, x, element = request.scheme, request.x, request.scheme.elements[0]
    level = scheme.levels[0]
    rows = level.granularity.rows == 1 and level.granularity.columns is None
    last = request.axis in (-1, x.ndim - 1)
    if request.rounding != "nearest_even":
        return False
    if not (rows and is_plain(scheme) and last and x.is_contiguous()) or request.limits:
        return False
    return is_float32(scheme.room(0, element)) and x.shape[-1] >= SHORTEST


def is_plain(scheme: Scheme) -> bool:
    """Whether a code stands for itself times one float32."""
    (level, *inner), unit = scheme.levels, Element.of(scheme.elements[0]).unit
    return level.format == FLOAT32 and unit == 1 and not (inner or scheme.zero_point)


def prepare(
    request: "SchemeQuantization", dtype: torch.dtype | None = None
) -> Callable[[Tensor], list[Tensor]]:
    """The work for requests like this one: codes and scales of x, or its values of a `dtype`."""
    shape, where, (element, *_) = request.x.shape, request.device, request.scheme.elements
    columns, rows = shape[-1], shape[:-1].numel()
    part = min(LONGEST_PART, triton.next_power_of_2(columns))
    of_warp = OF_WARP_FEW if rows <= FEW_ROWS else OF_WARP
    launch = Launch(
        _quantize_rows,
        (rows,),
        ROOM=request.scheme.room(0, element),
        PART=part,
        WHOLE=columns <= part,
        FUSED=not device.interpreted(),  # which rounds a product before it adds
        num_warps=min(MOST_WARPS, max(1, part // of_warp)),
        ELEMENT=Element.of(element),
        VALUES=None if dtype is None else Codes.of(element, where),
        EARLY=overlaps(where),
        launch_pdl=overlaps(where),
    )
    scale_shape = (*shape[:-1], 1)

    def work(x: Tensor) -> list[Tensor]:
        if dtype is not None:
            values = torch.empty(shape, dtype=dtype, device=where)
            launch(x, values, values, columns)
            return [values]
        codes = torch.empty(shape, dtype=torch.uint8, device=where)
        scales = torch.empty(scale_shape, dtype=torch.float32, device=where)
        launch(x, codes, scales, columns)
        return [codes, scales]

    return work


@triton.jit
def _quantize_rows(
    x,
    codes,
    scales,
    columns,
    ROOM: tl.constexpr,
    ELEMENT: tl.constexpr,
    PART: tl.constexpr,
    WHOLE: tl.constexpr,
    FUSED: tl.constexpr,
    VALUES: tl.constexpr,
    EARLY: tl.constexpr,
):
    ready(EARLY)
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
    stored = tl.where(poisoned, NAN_BITS, bits).to(tl.float32, bitcast=True)
    if VALUES is None:
        tl.store(scales + row, stored)
    made = plain_elements(value, scale, poisoned, ELEMENT, VALUES, FUSED)
    if VALUES is not None:
        made = (made * stored).to(codes.dtype.element_ty)
    tl.store(codes + j, made, mask=j < columns)
    if not WHOLE:
        for k in range(PART, columns, PART):
            later = tl.load(x + k + j, mask=k + j < columns, other=0.0).to(tl.float32)
            made = plain_elements(later, scale, poisoned, ELEMENT, VALUES, FUSED)
            if VALUES is not None:
                made = (made * stored).to(codes.dtype.element_ty)
            tl.store(codes + k + j, made, mask=k + j < columns)
