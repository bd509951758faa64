"""Quantisation by schemes: the executor ``triton`` of `mxdot.gpu.schemes.quantize`.

One look at the values finds the extremes of the finest groups, from which the model's rules make
scales and zero points; a second one makes codes (`quotients`). A product of midpoint and scale is
exact in float64: a midpoint has at most 21 bits and scales have at most 30.
"""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.arrays import axis_last, matched
from ...model.formats import FloatFormat, IntegerFormat
from ...model.formats.floating import Specials
from ...model.schemes.grouping import Group, expand, group_in, reduce
from ...model.schemes.quantize import laid_out
from ...model.schemes.rules import AMAX, SCALE_RULES
from ...model.schemes.scales import Scales, scales
from . import device, scheme_levels, scheme_rows
from .arithmetic import INFINITY32
from .decode import codes_refusal
from .quotients import Element, elements, plain_elements

if TYPE_CHECKING:
    from ..schemes.quantize import SchemeQuantization

MOST_SCALE_BITS = 30  # significant ones, of all levels together
TILE = {"ROWS": 1, "COLUMNS": 2048}
INTERPRETED_TILE = {"ROWS": 16, "COLUMNS": 512}


def refusal(request: "SchemeQuantization") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    scheme, element = request.scheme, request.scheme.elements[0]
    if len(scheme.elements) > 1:
        return f"elements must be of one format, not the code book of {scheme}"
    reason = codes_refusal(element)
    if reason is not None:
        return reason
    if isinstance(element, IntegerFormat) and element.sign_magnitude:
        return f"elements must not be sign-magnitude integers, not {element}"
    if isinstance(element, FloatFormat) and element.specials is Specials.FNUZ:
        return f"elements must have a negative zero, not be {element}"
    known = (*SCALE_RULES, AMAX)
    other = next((level.rule for level in scheme.levels if level.rule not in known), None)
    if other is not None:
        return f"rules of scales must be one of {', '.join(known)}, not {other}"
    if scheme.poisoned_level is None:
        return f"scales must have one that can be NaN, not those of {scheme}"
    bits = sum(level.format.significand_bits for level in scheme.levels)
    if bits > MOST_SCALE_BITS:
        return f"scales must have at most {MOST_SCALE_BITS} significant bits, not {bits}"
    if request.rounding != "nearest_even" and not scheme_levels.takes(request):
        return f"rounding must be nearest_even, not {request.rounding}"
    if request.nonfinite != "poison":
        return f"nonfinite must be poison, not {request.nonfinite}"
    return device.refusal(request.device)


def prepare(
    request: "SchemeQuantization", dtype: torch.dtype | None = None
) -> Callable[..., list[Tensor]] | None:
    """The work for requests like this one, given x, and words where there are some.

    None where `run` does it each time. dtype: of values in place of codes and scales.
    """
    kernels = next((each for each in (scheme_rows, scheme_levels) if each.takes(request)), None)
    return None if kernels is None else kernels.prepare(request, dtype)


def run(request: "SchemeQuantization") -> list[Tensor]:
    """Codes, the scales of every level, and zero points where there are some."""
    scheme, axis = request.scheme, request.axis
    moved = axis_last(request.x, axis)
    shape = tuple(moved.shape)
    size = prod(shape[:-1]), shape[-1]
    groups = [group_in(level.granularity, shape, size) for level in scheme.levels]
    finest = groups[-1]
    matrix = moved.reshape(size).contiguous()

    # Two columns for a finest group: its extremes stand for its values.
    extremes = torch.stack(_extremes(matrix, finest), dim=-1).flatten(1)
    counts = [(rows // finest[0], columns // finest[1]) for rows, columns in groups]
    over = [(rows, 2 * columns) for rows, columns in counts]
    level = scheme.poisoned_level
    assert level is not None  # refused
    poisoned = reduce(~torch.isfinite(extremes), over[level], torch.any)
    extremes = torch.where(expand(poisoned, over[level]), 0.0, extremes)
    made = scales(extremes, scheme, scheme.elements[0], over, request.bounds)
    nan = scheme.levels[level].format.nan
    assert nan is not None  # that is what a poisoned level is
    made.stored[level] = torch.where(poisoned, matched(nan, matrix), made.stored[level])
    poisoned = expand(poisoned, counts[level])
    codes = _codes(matrix, made, poisoned, finest, scheme_rows.is_plain(scheme))
    return laid_out(codes, made.stored, made.zero_points, None, shape, groups, axis).arrays


def _extremes(matrix: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """Least and greatest value of every group, float32; NaN where one is not finite."""
    (rows, columns), (height, width) = matrix.shape, group
    low, high = (
        torch.empty((rows, columns // width), dtype=torch.float32, device=matrix.device)
        for _ in range(2)
    )
    tile = _tile(triton.next_power_of_2(width))
    _find_extremes[_grid(rows, columns // width, tile)](
        matrix, low, high, rows, columns // width, width, **tile
    )
    if height > 1:
        cut = (rows // height, height, columns // width)
        low, high = low.reshape(cut).amin(1), high.reshape(cut).amax(1)
    return low, high


def _tile(width: int) -> dict[str, int]:
    """Rows of a tile, its parts of `width` elements, a power of two, or of a tile's width."""
    tile = INTERPRETED_TILE if device.interpreted() else TILE
    part = min(width, tile["COLUMNS"])
    return {"ROWS": tile["ROWS"], "PARTS": tile["COLUMNS"] // part, "PART": part}


def _grid(rows: int, parts: int, tile: dict[str, int]) -> tuple[int]:
    """Grid of programs for rows of `parts` parts."""
    return (triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(parts, tile["PARTS"]),)


def _codes(matrix: Tensor, made: Scales, poisoned: Tensor, group: Group, plain: bool) -> Tensor:
    """Codes of a matrix whose groups have the scales `made`; of +0 where they are poisoned.

    plain: whether a float32 has the whole scale.
    """
    (rows, columns), (height, width) = matrix.shape, group
    codes = torch.empty((rows, columns), dtype=torch.uint8, device=matrix.device)
    products = made.product.contiguous()
    zero_points = products if made.zero_points is None else made.zero_points.contiguous()
    # A row that is one group has no end that a part could reach over.
    whole = width == columns
    tile = _tile(triton.next_power_of_2(width) if whole else width & -width)
    _make_codes[_grid(rows, triton.cdiv(columns, tile["PART"]), tile)](
        matrix,
        products,
        poisoned.contiguous(),
        zero_points,
        codes,
        rows,
        columns,
        height,
        width,
        WHOLE=whole,
        HAS_ZERO=made.zero_points is not None,
        PLAIN=plain,
        FUSED=plain and not device.interpreted(),
        **tile,
        ELEMENT=Element.of(made.element),
    )
    return codes


@triton.jit
def _find_extremes(
    x,
    low,
    high,
    rows,
    groups,
    width,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
):
    across = tl.cdiv(groups, PARTS)
    i = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    group = tl.program_id(0) % across * PARTS + tl.arange(0, PARTS)
    there = (i < rows)[:, None] & (group < groups)[None, :]
    at = i.to(tl.int64)[:, None] * groups + group[None, :]
    j = tl.arange(0, PART)[None, None, :]
    first = (at * width)[:, :, None] + j
    least = tl.full((ROWS, PARTS, PART), float("inf"), tl.float32)
    most = tl.full((ROWS, PARTS, PART), float("-inf"), tl.float32)
    special = tl.zeros((ROWS, PARTS, PART), tl.int32)
    for k in range(0, width, PART):
        inside = there[:, :, None] & (k + j < width)
        value = tl.load(x + first + k, mask=inside, other=0.0).to(tl.float32)
        special = tl.maximum(special, value.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
        least = tl.minimum(least, tl.where(inside, value, float("inf")))
        most = tl.maximum(most, tl.where(inside, value, float("-inf")))
    is_special = tl.max(special, axis=2) >= INFINITY32
    nan = float("nan")
    tl.store(low + at, tl.where(is_special, nan, tl.min(least, axis=2)), mask=there)
    tl.store(high + at, tl.where(is_special, nan, tl.max(most, axis=2)), mask=there)


@triton.jit
def _make_codes(
    x,
    products,
    poisoned,
    zero_points,
    codes,
    rows,
    columns,
    height,
    width,
    ELEMENT: tl.constexpr,
    WHOLE: tl.constexpr,
    HAS_ZERO: tl.constexpr,
    PLAIN: tl.constexpr,
    FUSED: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
):
    across = tl.cdiv(columns, PARTS * PART)
    i = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(0) % across * (PARTS * PART) + tl.arange(0, PARTS) * PART
    there = (i < rows)[:, None] & (first < columns)[None, :]
    group = (i // height).to(tl.int64)[:, None] + tl.zeros((1, PARTS), tl.int64)
    if not WHOLE:
        group = group * (columns // width) + (first // width)[None, :]
    scale = tl.load(products + group, mask=there, other=1.0)
    drop = tl.load(poisoned + group, mask=there, other=True)[:, :, None]
    j = first[None, :, None] + tl.arange(0, PART)[None, None, :]
    inside = (i < rows)[:, None, None] & (j < columns)
    at = i.to(tl.int64)[:, None, None] * columns + j
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if PLAIN:
        scale = scale.to(tl.float32)[:, :, None]
        code = plain_elements(value, scale, drop, ELEMENT, None, FUSED)
    else:
        value = tl.where(drop, 0.0, value)
        near = (value.to(tl.float64) * (ELEMENT.unit / scale)[:, :, None]).to(tl.float32)
        scale = scale[:, :, None] / ELEMENT.unit
        zero_point = None
        if HAS_ZERO:
            zero_point = tl.load(zero_points + group, mask=there, other=0).to(tl.int32)[:, :, None]
        code = elements(value, near, scale, ELEMENT, None, False, zero_point)
    tl.store(codes + at, code, mask=inside)
