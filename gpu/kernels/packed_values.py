"""Values of packed 4-bit codes: the executor ``triton`` of `PackedTensor.dequantize`.

A program reads bytes of one row, and both elements of a byte lie under one scale.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import ElementFormat
from ...model.schemes import Scheme
from ..names import named_format, named_scheme
from ..tensors.mx import MXTensor
from . import device, scheme_dequantize
from .decode import Codes, codes_refusal, decode, scale_value
from .scheme_dequantize import place_of_scale, under_scales

if TYPE_CHECKING:
    from ..tensors.packed import PackedTensor
    from ..tensors.packed_values import PackedValues

BITS = 4  # of a code
TILE = 4096  # elements of a program, of one row


def refusal(request: "PackedValues") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    x = request.x
    scheme, element, axis = _facts(x)
    if element.bits != BITS:
        return f"packed codes must have {BITS} bits, not {element.bits}"
    if axis not in (-1, 1):
        return "codes must be quantised along their rows"
    if x.shape[1] % 2 or _group(x, scheme)[1] % 2:
        return "rows and groups must have an even number of codes"
    if scheme is not None:
        return scheme_dequantize.refusal_of(scheme, request.dtype, request.device)
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    return codes_refusal(element) or device.refusal(request.device)


def _facts(x: "PackedTensor") -> tuple[Scheme | None, ElementFormat, int]:
    """The scheme (None of MX blocks), the first format of elements, and the axis of groups."""
    kind, name, *sizes = x.own_facts
    if kind == MXTensor.__name__:
        return None, named_format(name), sizes[1]
    scheme = named_scheme(name)
    return scheme, scheme.elements[0], sizes[0]


def _group(x: "PackedTensor", scheme: Scheme | None) -> tuple[int, int]:
    """Rows and columns under one scale."""
    if scheme is None:
        return 1, x.own_facts[2]
    rows, columns = x.shape
    return scheme.levels[-1].granularity.group((rows, columns))


def _codes_of_scales(scheme: Scheme | None, where: torch.device) -> Codes | None:
    """Constants that decode the inner scales of two levels; None for other scales."""
    if scheme is None or len(scheme.levels) == 1:
        return None
    return Codes.of(scheme.levels[-1].format, where)


def run(request: "PackedValues") -> Tensor:
    """Values (N, K)."""
    x = request.x
    (packed, *scales), (rows, columns) = (part.contiguous() for part in x.parts()), x.shape
    scheme, element, _ = _facts(x)
    height, width = _group(x, scheme)
    values = torch.empty((rows, columns), dtype=request.dtype, device=request.device)
    tile = min(TILE, triton.next_power_of_2(columns))
    if rows and columns:
        _values[(rows * triton.cdiv(columns, tile),)](
            packed,
            scales[-1],
            scales[0] if len(scales) > 1 else None,
            values,
            columns // 2,
            HEIGHT=0 if height == rows > 1 else height,
            WIDTH=0 if width == columns else width,
            BLOCKS=scheme is None,
            SCALE=_codes_of_scales(scheme, request.device),
            FORMAT=Codes.of(element, request.device),
            TILE=tile,
        )
    return values


@triton.jit
def _values(
    packed,
    scales,
    outer,
    values,
    length,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr,
    SCALE: tl.constexpr,
    FORMAT: tl.constexpr,
    TILE: tl.constexpr,
):
    columns = 2 * length
    across = tl.cdiv(columns, TILE)
    row, first = (tl.program_id(0) // across).to(tl.int64), tl.program_id(0) % across * TILE
    byte = first // 2 + tl.arange(0, TILE // 2)
    both = tl.load(packed + row * length + byte, mask=byte < length, other=0)
    place = place_of_scale(row, 2 * byte, columns, HEIGHT, WIDTH)
    scale = tl.load(scales + place, mask=byte < length, other=0)
    low, high = decode(both & 15, FORMAT), decode(both >> 4, FORMAT)
    if BLOCKS:
        factor = scale_value(scale)
        low, high = low * factor, high * factor
    else:
        low = under_scales(low, scale, outer, SCALE)
        high = under_scales(high, scale, outer, SCALE)
    j = first + tl.arange(0, TILE)
    value = tl.interleave(low, high).to(values.dtype.element_ty)
    tl.store(values + row * columns + j, value, mask=j < columns)
