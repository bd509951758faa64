"""Schemes of two levels, NVFP4 among them: a float32 scale of the tensor, 8-bit scales of groups.

Used by `scheme_quantize`. One launch finds the largest magnitude, one makes scales and codes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32, FloatFormat
from ...model.schemes.grouping import grid_shape
from ...model.schemes.rules import AMAX
from .arithmetic import INFINITY32
from .decode import Codes, decode
from .launch import Launch
from .scheme_rows import LARGEST_BITS, Element, element_code

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

TILE = 4096  # elements of a program
MOST_COLUMNS = 1024  # of a group


def takes(request: "SchemeQuantization") -> bool:
    """Whether this kernel does all that `scheme_quantize` does for a request that it takes."""
    scheme, x = request.scheme, request.x
    if len(scheme.levels) != 2 or scheme.zero_point or request.limits is not None:
        return False
    outer, inner = scheme.levels
    of_tensor = outer.granularity.rows is None and outer.granularity.columns is None
    if not of_tensor or outer.format != FLOAT32 or {outer.rule, inner.rule} != {AMAX}:
        return False
    height, width = inner.granularity.rows, inner.granularity.columns
    if height is None or width is None or height & (height - 1) or width & (width - 1):
        return False
    small = height * width <= TILE and width <= MOST_COLUMNS
    eight = isinstance(inner.format, FloatFormat) and inner.format.dtype == np.uint8
    last = request.axis in (-1, x.ndim - 1) and x.is_contiguous()
    room = scheme.room(0, scheme.elements[0])
    exact = np.float32(room) == room and room <= FLOAT32.largest_finite
    return bool(small and eight and last and exact and scheme.poisoned_level == 1)


def prepare(request: "SchemeQuantization") -> Callable[[Tensor], list[Tensor]]:
    """The work for requests like this one: codes and scales of x."""
    scheme, shape, where = request.scheme, request.x.shape, request.device
    element, inner = scheme.elements[0], scheme.levels[1]
    height, width = inner.granularity.rows, inner.granularity.columns
    assert height is not None
    assert width is not None
    assert isinstance(inner.format, FloatFormat)
    columns, rows = shape[-1], shape[:-1].numel()
    groups = rows // height * (columns // width)
    constants = {"HEIGHT": height, "WIDTH": width, "GROUPS": TILE // (height * width)}
    grid = (triton.cdiv(groups, constants["GROUPS"]),)
    find = Launch(_find_largest, grid, **constants)
    make = Launch(
        _make_codes,
        grid,
        **constants,
        ROOM=scheme.room(0, element),
        INNER_ROOM=scheme.room(1, element),
        NAN=inner.format.nan_code,
        ELEMENT=Element.of(element),
        SCALE=Element.of(inner.format),
        CODES=Codes.of(inner.format, where),
    )
    outer_shape, scales_shape = (
        grid_shape(shape, level.granularity.group((rows, columns)), -1) for level in scheme.levels
    )

    def work(x: Tensor) -> list[Tensor]:
        largest = torch.zeros(1, dtype=torch.int32, device=where)
        find(x, largest, groups, columns)
        codes = torch.empty(shape, dtype=torch.uint8, device=where)
        outer = torch.empty(outer_shape, dtype=torch.float32, device=where)
        scales = torch.empty(scales_shape, dtype=torch.uint8, device=where)
        make(x, largest, codes, outer, scales, groups, columns)
        return [codes, outer, scales]

    return work


@triton.jit
def _places(groups, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr):
    """Groups of a program, a mask of the groups that exist, and the places of their elements."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    across = columns // WIDTH
    row = group // across * HEIGHT
    first = row.to(tl.int64) * columns + group % across * WIDTH
    inside = tl.arange(0, HEIGHT)[:, None] * columns + tl.arange(0, WIDTH)[None, :]
    return group, group < groups, first[:, None, None] + inside[None, :, :]


@triton.jit
def _magnitudes(value):
    """int32 bits of the largest magnitude of each group."""
    return tl.max(tl.max(value.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=2), axis=1)


@triton.jit
def _find_largest(
    x,
    largest,
    groups,
    columns,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
):
    _, there, at = _places(groups, columns, HEIGHT, WIDTH, GROUPS)
    most = _magnitudes(tl.load(x + at, mask=there[:, None, None], other=0.0).to(tl.float32))
    tl.atomic_max(largest, tl.max(tl.where(most >= INFINITY32, 0, most), axis=0))


@triton.jit
def _make_codes(
    x,
    largest,
    codes,
    outer,
    scales,
    groups,
    columns,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    ROOM: tl.constexpr,
    INNER_ROOM: tl.constexpr,
    NAN: tl.constexpr,
    ELEMENT: tl.constexpr,
    SCALE: tl.constexpr,
    CODES: tl.constexpr,
):
    amax = tl.load(largest).to(tl.float32, bitcast=True)
    ratio = tl.div_rn(amax, tl.full((), ROOM, tl.float32)).to(tl.int32, bitcast=True)
    whole = tl.minimum(tl.maximum(ratio, 1), LARGEST_BITS).to(tl.float32, bitcast=True)
    tl.store(outer, whole)
    group, there, at = _places(groups, columns, HEIGHT, WIDTH, GROUPS)
    value = tl.load(x + at, mask=there[:, None, None], other=0.0).to(tl.float32)
    most = _magnitudes(value)
    poisoned = most >= INFINITY32
    most = tl.where(poisoned, 0, most).to(tl.float32, bitcast=True)
    room = whole.to(tl.float64) * INNER_ROOM + tl.zeros((GROUPS,), tl.float64)
    near = (most.to(tl.float64) / room).to(tl.float32)
    code = element_code(most, near, room, 0, SCALE, False).to(tl.int32)
    code = tl.maximum(code, 1)  # no scale is zero
    tl.store(scales + group, tl.where(poisoned, NAN, code).to(tl.uint8), mask=there)
    scale = decode(code.to(tl.uint8), CODES).to(tl.float64) * whole.to(tl.float64)
    value = tl.where(poisoned[:, None, None], 0.0, value)
    near = (value.to(tl.float64) * (ELEMENT.unit / scale)[:, None, None]).to(tl.float32)
    made = element_code(value, near, (scale / ELEMENT.unit)[:, None, None], 0, ELEMENT, False)
    tl.store(codes + at, made, mask=there[:, None, None])
