"""Quantisation by schemes: the executor ``triton`` of `mxdot.gpu.schemes.quantize`.

One look at the values finds the extremes of the finest groups, from which the model's rules make
scales and zero points; a second one makes codes. A quotient is rounded once to float64 before it
is rounded to an element of at most 8 bits. That is the rounding of the exact quotient: between
two elements lies a number of at most 9 bits, whose product with the scales (of at most 30 bits)
either is the value, of 24 bits, or differs from it by more than 2^-41 of it.
"""

from math import prod
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.arrays import axis_last, beside
from ...model.formats import FLOAT64, ElementFormat, FloatFormat, IntegerFormat
from ...model.formats.floating import Specials
from ...model.schemes.grouping import Group, expand, group_in, parts, reduce
from ...model.schemes.limits import matrix_limits
from ...model.schemes.quantize import laid_out
from ...model.schemes.scales import Scales, scales
from . import device
from .arithmetic import BIAS64, FRACTION64
from .decode import LONGEST_CODE

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

MOST_SCALE_BITS = 30  # significant ones, of all levels together
TILE_ROWS, TILE_COLUMNS = 4, 1024
TO_INTEGER = tl.constexpr(1.5 * 2**FLOAT64.mantissa_bits)  # added and taken off: RNE
FAR = tl.constexpr(2.0**20)  # beyond every code, and what a zero point makes of it


def refusal(request: "SchemeQuantization") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    scheme, element = request.scheme, request.scheme.elements[0]
    if len(scheme.elements) > 1:
        return f"elements must be of one format, not the code book of {scheme}"
    if element.bits > LONGEST_CODE:
        return f"codes must have at most {LONGEST_CODE} bits, not {element.bits}"
    if isinstance(element, IntegerFormat) and element.sign_magnitude:
        return f"elements must not be sign-magnitude integers, not {element}"
    if isinstance(element, FloatFormat) and element.specials is Specials.FNUZ:
        return f"elements must have a negative zero, not be {element}"
    bits = sum(level.format.significand_bits for level in scheme.levels)
    if bits > MOST_SCALE_BITS:
        return f"scales must have at most {MOST_SCALE_BITS} significant bits, not {bits}"
    if request.rounding != "nearest_even":
        return f"rounding must be nearest_even, not {request.rounding}"
    if request.nonfinite != "poison":
        return f"nonfinite must be poison, not {request.nonfinite}"
    return device.refusal(request.device)


def run(request: "SchemeQuantization") -> list[Tensor]:
    """Codes, the scales of every level, and zero points where there are some."""
    scheme, axis = request.scheme, request.axis
    moved = axis_last(request.x, axis)
    shape = tuple(moved.shape)
    size = prod(shape[:-1]), shape[-1]
    groups = [group_in(level.granularity, shape, size) for level in scheme.levels]
    finest = groups[-1]
    matrix = moved.reshape(size).contiguous()
    given = matrix_limits(request.limits, shape, groups[0], axis)
    bounds = None if given is None else (beside(given[0], matrix), beside(given[1], matrix))

    # Two columns for a finest group: its extremes stand for its values.
    extremes = torch.stack(_extremes(matrix, finest), dim=-1).flatten(1)
    counts = [(rows // finest[0], columns // finest[1]) for rows, columns in groups]
    over = [(rows, 2 * columns) for rows, columns in counts]
    level = scheme.poisoned_level
    poisoned = reduce(~torch.isfinite(extremes), over[level], torch.any)
    extremes = torch.where(expand(poisoned, over[level]), 0.0, extremes)
    made = scales(extremes, scheme, scheme.elements[0], over, bounds)
    nan = scheme.levels[level].format.nan
    assert nan is not None  # that is what a poisoned level is
    made.stored[level] = torch.where(poisoned, beside(nan, matrix), made.stored[level])
    codes = _codes(matrix, made, expand(poisoned, counts[level]), finest)
    return laid_out(codes, made.stored, made.zero_points, None, shape, groups, axis).arrays


def _extremes(matrix: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """Least and greatest value of every group, float32; NaN where there is one."""
    cut = parts(matrix, group)
    if group[0] == 1:
        low, high = torch.aminmax(cut[:, 0], dim=-1)
    else:
        low, high = cut.amin((1, 3)), cut.amax((1, 3))
    return low.float(), high.float()


def _codes(matrix: Tensor, made: Scales, poisoned: Tensor, group: Group) -> Tensor:
    """Codes of a matrix whose groups have the scales `made`; of +0 where they are poisoned."""
    rows, columns = matrix.shape
    codes = torch.empty((rows, columns), dtype=torch.uint8, device=matrix.device)
    products = made.product.contiguous()
    zero_points = products if made.zero_points is None else made.zero_points.contiguous()
    across = triton.cdiv(columns, TILE_COLUMNS)
    _make_codes[(triton.cdiv(rows, TILE_ROWS) * across,)](
        matrix,
        products,
        poisoned.contiguous(),
        zero_points,
        codes,
        rows,
        columns,
        across,
        *group,
        HAS_ZERO=made.zero_points is not None,
        ROWS=TILE_ROWS,
        COLUMNS=TILE_COLUMNS,
        **_constants(made.element),
    )
    return codes


def _constants(element: ElementFormat) -> dict[str, object]:
    """The constexpr arguments of the kernel that say what an element is."""
    found: dict[str, object] = {"BITS": element.bits, "INTEGER": element.is_integer}
    if isinstance(element, IntegerFormat):
        unit, ends = 2.0**element.fraction_bits, (element.lowest_encoded, element.highest)
        return found | {"UNIT": unit, "LOWEST": ends[0], "LARGEST": ends[1], "M": 0, "EMIN": 0}
    assert isinstance(element, FloatFormat)
    places = {"M": element.mantissa_bits, "EMIN": element.emin}
    return found | {"UNIT": 1.0, "LOWEST": 0, "LARGEST": element.largest_finite, **places}


@triton.jit
def _make_codes(
    x,
    products,
    poisoned,
    zero_points,
    codes,
    rows,
    columns,
    across,
    height,
    width,
    BITS: tl.constexpr,
    INTEGER: tl.constexpr,
    UNIT: tl.constexpr,
    LOWEST: tl.constexpr,
    LARGEST: tl.constexpr,
    M: tl.constexpr,
    EMIN: tl.constexpr,
    HAS_ZERO: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    i = (tl.program_id(0) // across * ROWS + tl.arange(0, ROWS))[:, None]
    j = (tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    inside = (i < rows) & (j < columns)
    at = i.to(tl.int64) * columns + j
    group = (i // height).to(tl.int64) * (columns // width) + j // width
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32).to(tl.float64)
    value = tl.where(tl.load(poisoned + group, mask=inside, other=False), 0.0, value)
    ratio = value / tl.load(products + group, mask=inside, other=1.0)
    if INTEGER:
        digits = tl.minimum(tl.maximum(ratio * UNIT, -FAR), FAR)
        digits = ((digits + TO_INTEGER) - TO_INTEGER).to(tl.int32)
        if HAS_ZERO:
            digits += tl.load(zero_points + group, mask=inside, other=0).to(tl.int32)
        code = tl.minimum(tl.maximum(digits, LOWEST), LARGEST) & ((1 << BITS) - 1)
    else:
        # As in encode.py: adding 2^52 last places rounds to one of them.
        lowest: tl.constexpr = (EMIN + BIAS64) << FRACTION64
        size = tl.minimum(tl.abs(ratio), LARGEST)
        exponent = (size.to(tl.int64, bitcast=True) >> FRACTION64) << FRACTION64
        exponent = tl.maximum(exponent, lowest)
        offset = exponent + ((FRACTION64 - M) << FRACTION64)
        total = size + offset.to(tl.float64, bitcast=True)
        units = total.to(tl.int64, bitcast=True) - offset
        code = (units + ((exponent - lowest) >> (FRACTION64 - M))).to(tl.int32)
        sign = (ratio.to(tl.int64, bitcast=True) >> 63).to(tl.int32)
        code |= sign & (1 << (BITS - 1))
    tl.store(codes + at, code.to(tl.uint8), mask=inside)
