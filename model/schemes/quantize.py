"""Quantisation by any scheme (section 6 of docs/numerics.md).

Quotients are exact up to the one rounding that makes a scale or a code of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..blocks import as_float32, check_axis
from ..formats import ElementFormat, IntegerFormat, PowerFormat
from ..quantize import shared_exponent
from ..rounding import F64, to_odd, two_sum
from .array import ScaledArray
from .exact import quotient
from .grouping import Group, expand, group_in, lead_axes, reduce
from .limits import Limits, matrix_limits
from .scales import encode
from .scheme import Scheme
from .table import scheme as find


class Coded(NamedTuple):
    """A matrix in one element format: codes, scales of each level, zero points."""

    codes: NDArray[np.uint8]
    scales: list[NDArray]
    zero_points: NDArray[np.int64] | None
    values: F64  # what the codes stand for, exact


def quantize(
    x: ArrayLike, scheme: Scheme | str, *, axis: int = -1, limits: Limits | None = None
) -> ScaledArray:
    """Quantise `x` by a Scheme or a name in SCHEMES, the groups' columns along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape but an empty one.
    All other axes together are the rows of a matrix; tiles of several rows need the axis before
    the last (`axis` moved behind it) to be a multiple of their rows.
    Each group of the innermost scales that can be NaN is poisoned by a value that is not finite:
    its values count as +0, and its scale is NaN.
    limits: of the outermost groups, instead of the extremes of x (`calibrate` finds some); what
    lies beyond saturates.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme = find(scheme)
    array = as_float32(x)
    axis = check_axis(array.shape, axis)
    if not array.size:
        raise ValueError(f"x must hold at least one value, not have shape {array.shape}")
    moved = np.moveaxis(array, axis, -1)
    matrix = moved.reshape(-1, moved.shape[-1])
    groups = [group_in(level.granularity, moved.shape, matrix.shape) for level in scheme.levels]

    poisoned_group = groups[scheme.poisoned_level]
    poisoned = reduce(~np.isfinite(matrix), poisoned_group, np.any)
    taken = np.where(expand(poisoned, poisoned_group), np.float32(0), matrix)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        taken = taken.astype(np.float64)
    given = matrix_limits(limits, moved.shape, groups[0], axis)
    choices = [_encode(taken, scheme, element, groups, given) for element in scheme.elements]
    coded, selectors = choices[0], None
    if scheme.selector_bits:
        coded, selectors = _select(taken, choices, groups[-1])
    level = scheme.poisoned_level
    coded.scales[level][poisoned] = scheme.levels[level].format.nan

    def back(part: NDArray, rows: int) -> NDArray:
        """`part` of the matrix, one entry for `rows` of its rows, in the axes of x."""
        lead = lead_axes(moved.shape, rows)
        return np.ascontiguousarray(np.moveaxis(part.reshape(*lead, -1), -1, axis))

    z = coded.zero_points
    inner = groups[-1][0]
    return ScaledArray(
        scheme,
        back(coded.codes, 1),
        tuple(back(s, rows) for s, (rows, _) in zip(coded.scales, groups, strict=True)),
        None if z is None else back(z.astype(np.int32), inner),
        None if selectors is None else back(selectors, inner),
        axis,
    )


def _encode(
    taken: F64,
    scheme: Scheme,
    element: ElementFormat,
    groups: list[Group],
    given: tuple[F64, F64] | None,
) -> Coded:
    """Scales from the outermost to the innermost, then codes."""
    magnitude = np.abs(taken)
    product = np.ones_like(taken)  # of the scales so far
    scales = []
    zero_points = None
    for i, (level, group) in enumerate(zip(scheme.levels, groups, strict=True)):
        outer = product[:: group[0], :: group[1]]
        amax = reduce(magnitude, group, np.max)
        if given is not None and i == 0:
            amax = np.maximum(-given[0], given[1])
        if isinstance(level.format, PowerFormat):
            stored = _power(amax, outer, scheme, i, element)
        elif scheme.zero_point and isinstance(element, IntegerFormat):
            low, high = given or (reduce(taken, group, f) for f in (np.min, np.max))
            stored, zero_points = _affine(low, high, scheme, element)
        else:
            stored = encode(quotient(amax, outer * scheme.room(i, element)), level.format)
        scales.append(stored)
        product = product * expand(level.format.exact(stored), group)
    ratio = quotient(taken, product)
    if zero_points is None:
        codes = element.encode(ratio)
        return Coded(codes, scales, None, element.values[codes] * product)
    assert isinstance(element, IntegerFormat)
    shift = expand(zero_points, groups[-1])
    codes = element.encode(ratio, zero_point=shift)
    return Coded(codes, scales, zero_points, (element.values[codes] - shift) * product)


def _power(
    amax: F64, outer: F64, scheme: Scheme, level: int, element: ElementFormat
) -> NDArray[np.uint8]:
    """Powers of two by the contract's rules, what outer and inner scales give taken off."""
    _, exponent = np.frexp(outer)
    scales = [lev.format for lev in scheme.levels]
    inner = sum(scale.emax for scale in scales[level + 1 :] if isinstance(scale, PowerFormat))
    mine = scheme.levels[level]
    assert isinstance(mine.format, PowerFormat)
    shared = shared_exponent(amax, element, mine.rule) - (exponent - 1) - inner
    return mine.format.encode(np.where(amax == 0, mine.format.emin, shared))


def _affine(
    low: F64, high: F64, scheme: Scheme, element: IntegerFormat
) -> tuple[NDArray, NDArray[np.int64]]:
    """Scales and zero points that spread min(low, 0) to max(high, 0) over the element's range."""
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    spread = to_odd(*two_sum(high, -low))
    steps = float(element.highest - element.lowest)
    fmt = scheme.levels[0].format
    assert not isinstance(fmt, PowerFormat)
    stored = encode(quotient(spread, np.full_like(spread, steps)), fmt)
    zero_points = element.lowest - np.rint(quotient(low, fmt.exact(stored)))
    limited = np.clip(zero_points, element.lowest, element.highest)
    return stored, limited.astype(np.int64)


def _select(taken: F64, choices: list[Coded], group: Group) -> tuple[Coded, NDArray[np.uint8]]:
    """For each group the choice with the least squared error, the first of equals."""
    errors = [squared_error(taken, coded.values, group) for coded in choices]
    selectors = np.argmin(errors, axis=0).astype(np.uint8)
    spread = expand(selectors, group)[None]
    groups = selectors[None]

    def pick(parts: list[NDArray], which: NDArray) -> NDArray:
        return np.take_along_axis(np.stack(parts), which, axis=0)[0]

    codes = pick([coded.codes for coded in choices], spread)
    scales = pick([coded.scales[0] for coded in choices], groups)
    values = pick([coded.values for coded in choices], spread)
    return Coded(codes, [scales], None, values), selectors


def squared_error(x: F64, values: F64, group: Group) -> F64:
    """Sums of squared differences over groups, row by row inside a group.

    Float64 throughout: differences, squares and sums are RNE, the sum a tree of adjacent pairs,
    ((0, 1), (2, 3), ...), an odd one out passing up.
    """
    rows, columns = group
    squares = (x - values) ** 2
    shape = (x.shape[0] // rows, rows, x.shape[1] // columns, columns)
    level = squares.reshape(shape).swapaxes(1, 2).reshape(shape[0], shape[2], rows * columns)
    while level.shape[-1] > 1:
        paired = level.shape[-1] // 2 * 2
        sums = level[..., 0:paired:2] + level[..., 1:paired:2]
        level = np.concatenate([sums, level[..., paired:]], axis=-1)
    return level[..., 0]
