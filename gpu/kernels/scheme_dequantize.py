"""Dequantisation of schemes: the executor ``triton`` of `ScaledTensor.dequantize`.

Of elements under one float32 scale to a group: the product, exact in float64, is rounded once by
a float32 multiplication.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import FLOAT32, IntegerFormat
from . import device
from .decode import Codes, codes_refusal, decode

if TYPE_CHECKING:
    from ..tensors.scheme_dequantize import SchemeDequantization

TILE = 4096  # elements of a program, of one row


def refusal(request: "SchemeDequantization") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    scheme, zero_points = request.x.scheme, request.x.zero_points
    (element, *more), (level, *inner) = scheme.elements, scheme.levels
    if more or zero_points is not None:
        return f"elements must be of one format, without zero points, not those of {scheme}"
    if isinstance(element, IntegerFormat) and element.sign_magnitude:
        return f"elements must not be sign-magnitude integers, not {element}"
    reason = codes_refusal(element)
    if reason is not None:
        return reason
    if inner or level.format != FLOAT32:
        return f"scales must be of one level, float32, not those of {scheme}"
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return device.refusal(request.device)


def run(request: "SchemeDequantization") -> Tensor:
    """Values in the shape of the codes."""
    x = request.x
    codes, scales = (x.matrix(part).contiguous() for part in (x.codes, x.level_scales[0]))
    rows, columns = codes.shape
    (element, *_), (level, *_) = x.scheme.elements, x.scheme.levels
    height, width = level.granularity.group(x.matrix_shape)
    values = torch.empty((rows, columns), dtype=request.dtype, device=request.device)
    tile = min(TILE, triton.next_power_of_2(columns))
    if rows and columns:
        _dequantize[(rows * triton.cdiv(columns, tile),)](
            codes,
            scales,
            values,
            columns,
            height,
            width,
            FORMAT=Codes.of(element, request.device),
            TILE=tile,
        )
    return x.unmatrix(values)


@triton.jit
def _dequantize(
    codes, scales, values, columns, height, width, FORMAT: tl.constexpr, TILE: tl.constexpr
):
    across = tl.cdiv(columns, TILE)
    row = (tl.program_id(0) // across).to(tl.int64)
    j = tl.program_id(0) % across * TILE + tl.arange(0, TILE)
    inside = j < columns
    element = decode(tl.load(codes + row * columns + j, mask=inside, other=0), FORMAT)
    at = row // height * (columns // width) + j // width
    scale = tl.load(scales + at, mask=inside, other=1.0)
    value = (element * scale).to(values.dtype.element_ty)
    tl.store(values + row * columns + j, value, mask=inside)
