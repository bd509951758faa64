"""Dequantisation of schemes: the executor ``triton`` of `ScaledTensor.dequantize`.

Elements lie under one float32 scale of a group, or under an 8-bit float scale of a group within a
float32 scale of the tensor. The product is rounded once to float32.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32, FloatFormat, IntegerFormat
from ...model.schemes import Scheme
from . import device
from .decode import Codes, codes_refusal, decode

if TYPE_CHECKING:
    from ..tensors.scheme_dequantize import SchemeDequantization

TILE = 4096  # elements of a program, of one row


def refusal(request: "SchemeDequantization") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    return refusal_of(request.x.scheme, request.dtype, request.device)


def refusal_of(scheme: Scheme, dtype: torch.dtype, where: torch.device) -> str | None:
    """Why no kernel gives values of a `scheme` in `dtype` on a device; None when one does."""
    (element, *more), (level, *inner) = scheme.elements, scheme.levels
    if more or scheme.zero_point:
        return f"elements must be of one format, without zero points, not those of {scheme}"
    if isinstance(element, IntegerFormat) and element.sign_magnitude:
        return f"elements must not be sign-magnitude integers, not {element}"
    reason = codes_refusal(element)
    if reason is not None:
        return reason
    if level.format != FLOAT32 or len(inner) > 1 or (inner and not _takes_inner(scheme)):
        return (
            "scales must be of one level, float32, or of 8-bit floats in a float32 scale of the "
            f"tensor, not those of {scheme}"
        )
    if dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return device.refusal(where)


def _takes_inner(scheme: Scheme) -> bool:
    """Whether the inner scales are 8-bit floats in one scale of the tensor."""
    outer, inner = scheme.levels
    of_tensor = outer.granularity.rows is None and outer.granularity.columns is None
    return of_tensor and isinstance(inner.format, FloatFormat) and inner.format.bits <= 8


def run(request: "SchemeDequantization") -> Tensor:
    """Values in the shape of the codes."""
    x = request.x
    codes, scales = (x.matrix(part).contiguous() for part in (x.codes, x.level_scales[-1]))
    rows, columns = codes.shape
    element, level = x.scheme.elements[0], x.scheme.levels[-1]
    two = len(x.scheme.levels) > 1
    height, width = level.granularity.group(x.matrix_shape)
    values = torch.empty((rows, columns), dtype=request.dtype, device=request.device)
    tile = min(TILE, triton.next_power_of_2(columns))
    if rows and columns:
        _dequantize[(rows * triton.cdiv(columns, tile),)](
            codes,
            scales,
            x.level_scales[0] if two else None,
            values,
            columns,
            HEIGHT=0 if height == rows > 1 else height,
            WIDTH=0 if width == columns else width,
            SCALE=Codes.of(level.format, request.device) if two else None,
            FORMAT=Codes.of(element, request.device),
            TILE=tile,
        )
    return x.unmatrix(values)


@triton.jit
def _dequantize(
    codes,
    scales,
    outer,
    values,
    columns,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SCALE: tl.constexpr,
    FORMAT: tl.constexpr,
    TILE: tl.constexpr,
):
    across = tl.cdiv(columns, TILE)
    row = (tl.program_id(0) // across).to(tl.int64)
    j = tl.program_id(0) % across * TILE + tl.arange(0, TILE)
    inside = j < columns
    element = decode(tl.load(codes + row * columns + j, mask=inside, other=0), FORMAT)
    scale = tl.load(scales + place_of_scale(row, j, columns, HEIGHT, WIDTH), mask=inside, other=0)
    value = under_scales(element, scale, outer, SCALE)
    tl.store(values + row * columns + j, value.to(values.dtype.element_ty), mask=inside)


@triton.jit
def place_of_scale(row, j, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Place of the scale of an element in groups of HEIGHT x WIDTH; 0: of all rows or columns."""
    place = row * 0 if HEIGHT == 0 else row // HEIGHT
    return place + j * 0 if WIDTH == 0 else place * (columns // WIDTH) + j // WIDTH


@triton.jit
def under_scales(element, scale, outer, SCALE: tl.constexpr):
    """float32 values under float32 scales; by SCALE under codes of scales and the scale of the
    tensor. An element times its own scale is exact."""
    if SCALE is None:
        return element * scale
    else:
        return element * decode(scale, SCALE) * tl.load(outer)
