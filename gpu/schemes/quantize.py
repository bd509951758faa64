"""Quantisation of tensors by any scheme, as `mxdot.model.schemes.quantize` (docs/numerics.md, 6).

Scales come first, from the outermost level to the innermost, on one entry for each group; then
codes, some rows of the matrix at a time. Plain PyTorch in float64, every quotient rounded to odd.
"""

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from ...model.blocks import check_axis
from ...model.formats import ElementFormat, IntegerFormat, PowerFormat
from ...model.schemes import Limits, Scheme
from ...model.schemes.grouping import Group, group_in, lead_axes
from ...model.schemes.limits import matrix_limits
from ...model.schemes.table import scheme as find
from .. import checks
from ..chunks import split
from ..eager import eager
from ..floats import exponent64
from ..quantize import shared_exponent
from ..rules.rounding import to_odd, two_sum
from . import elements, scales
from .exact import quotient
from .grouping import expand, reduce, refine
from .tensor import ScaledTensor


@dataclass(frozen=True)
class Choice:
    """Scales for one element format: those of every level as stored, and their product.

    product: float64, and zero_points: int64 or None, one for each group of the innermost level, or
    for each element.
    """

    element: ElementFormat
    scales: list[Tensor]
    product: Tensor
    zero_points: Tensor | None

    def of_rows(self, rows: slice, group: Group) -> "Choice":
        """The same for every element of some rows of the matrix, in groups of size `group`."""

        def spread(part: Tensor) -> Tensor:
            return expand(expand(part, (group[0], 1))[rows], (1, group[1]))

        z = self.zero_points
        return replace(
            self, product=spread(self.product), zero_points=None if z is None else spread(z)
        )

    def encode(self, taken: Tensor) -> Tensor:
        """Codes of float64 elements."""
        z = self.zero_points
        return elements.encode(quotient(taken, self.product), self.element, 0 if z is None else z)

    def decode(self, codes: Tensor) -> Tensor:
        """The exact float64 values of codes of a format without zero points."""
        return elements.decode(codes, (self.element,)) * self.product


@eager
def quantize(
    x: Tensor, scheme: Scheme | str, *, axis: int = -1, limits: Limits | None = None
) -> ScaledTensor:
    """Quantise `x` by a Scheme or a name in SCHEMES, the groups' columns along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape but an empty one,
    any strides. Rows, tiles, values that are not finite, and `limits`: as in the model's
    `quantize`.
    The result is on the device of `x`, cut from its gradient.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme = find(scheme)
    values = checks.floats("x", x)
    axis = check_axis(tuple(values.shape), axis)
    if not values.numel():
        raise ValueError(f"x must hold at least one value, not have shape {tuple(x.shape)}")
    moved = values.movedim(axis, -1)
    shape = tuple(moved.shape)
    size = prod(shape[:-1]), shape[-1]
    groups = [group_in(level.granularity, shape, size) for level in scheme.levels]
    given = matrix_limits(limits, shape, groups[0], axis)
    matrix = moved.reshape(size).to(torch.float32)

    level = scheme.poisoned_level
    poisoned = reduce(~matrix.isfinite(), groups[level], torch.any)
    if bool(poisoned.any()):
        matrix = torch.where(expand(poisoned, groups[level]), 0.0, matrix)
    bounds = None if given is None else tuple(torch.tensor(b, device=x.device) for b in given)
    choices = [_scales(matrix, scheme, element, groups, bounds) for element in scheme.elements]
    codes, selectors = _codes(matrix, choices, groups[-1])
    chosen = choices[0]
    kept = chosen.scales
    if selectors is not None:
        kept = [_pick([choice.scales[0] for choice in choices], selectors)]
    kept[level] = scales.poison(kept[level], poisoned, scheme.levels[level].format)

    def back(part: Tensor, rows: int) -> Tensor:
        """`part` of the matrix, one entry for `rows` of its rows, in the axes of x."""
        lead = lead_axes(shape, rows)
        return part.reshape(*lead, -1).movedim(-1, axis).contiguous()

    z, inner = chosen.zero_points, groups[-1][0]
    return ScaledTensor(
        scheme,
        back(codes, 1),
        tuple(back(s, rows) for s, (rows, _) in zip(kept, groups, strict=True)),
        None if z is None else back(z.to(torch.int32), inner),
        None if selectors is None else back(selectors, inner),
        axis,
    )


# Scales -----------------------------------------------------------------------------------------


def _scales(
    matrix: Tensor,
    scheme: Scheme,
    element: ElementFormat,
    groups: list[Group],
    given: tuple[Tensor, ...] | None,
) -> Choice:
    """From the outermost level to the innermost."""
    kept: list[Tensor] = []
    zero_points = None
    outer, product = (1, 1), matrix.new_ones((1, 1), dtype=torch.float64)
    for i, (level, group) in enumerate(zip(scheme.levels, groups, strict=True)):
        if i:
            product = refine(product, outer, group)
        limits = given if i == 0 else None
        if scheme.zero_point and isinstance(element, IntegerFormat):
            low, high = limits or (
                reduce(matrix, group, f).to(torch.float64) for f in (torch.amin, torch.amax)
            )
            stored, zero_points = _affine(low, high, scheme, element)
        elif isinstance(level.format, PowerFormat):
            stored = _power(_largest(matrix, group, limits), product, scheme, i, element)
        else:
            amax = _largest(matrix, group, limits)
            room = product * scheme.room(i, element)
            stored = scales.encode(quotient(amax, room), level.format)
        kept.append(stored)
        product = product * scales.decode(stored, level.format)
        outer = group
    return Choice(element, kept, product, zero_points)


def _largest(matrix: Tensor, group: Group, limits: tuple[Tensor, ...] | None) -> Tensor:
    """The largest magnitude of every group, or of its limits where there are some."""
    if limits is not None:
        return torch.maximum(-limits[0], limits[1])
    return reduce(matrix.abs(), group, torch.amax).to(torch.float64)


def _power(
    amax: Tensor, outer: Tensor, scheme: Scheme, level: int, element: ElementFormat
) -> Tensor:
    """Powers of two by the contract's rules, what outer and inner scales give taken off."""
    formats = [lev.format for lev in scheme.levels]
    inner = sum(fmt.emax for fmt in formats[level + 1 :] if isinstance(fmt, PowerFormat))
    mine = formats[level]
    assert isinstance(mine, PowerFormat)
    shared = shared_exponent(amax, element, scheme.levels[level].rule)
    exponents = shared - exponent64(outer) - inner
    return scales.encode_power(torch.where(amax == 0, mine.emin, exponents), mine)


def _affine(
    low: Tensor, high: Tensor, scheme: Scheme, element: IntegerFormat
) -> tuple[Tensor, Tensor]:
    """Scales and zero points that spread min(low, 0) to max(high, 0) over the element's range."""
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    spread = to_odd(*two_sum(high, -low))
    steps = torch.full_like(spread, element.highest - element.lowest)
    fmt = scheme.levels[0].format
    assert not isinstance(fmt, PowerFormat)
    stored = scales.encode(quotient(spread, steps), fmt)
    zero_points = element.lowest - quotient(low, scales.decode(stored, fmt)).round()
    return stored, zero_points.clamp(element.lowest, element.highest).to(torch.int64)


# Codes ------------------------------------------------------------------------------------------


def _codes(matrix: Tensor, choices: list[Choice], group: Group) -> tuple[Tensor, Tensor | None]:
    """Codes of the matrix, and for a code book the selector of every group."""
    codes = torch.empty(matrix.shape, dtype=torch.uint8, device=matrix.device)
    if len(choices) == 1:
        for rows in split(matrix):
            part = choices[0].of_rows(rows, group)
            codes[rows] = part.encode(matrix[rows].to(torch.float64))
        return codes, None
    height, width = group
    grid = matrix.shape[0] // height, matrix.shape[1] // width
    selectors = torch.empty(grid, dtype=torch.uint8, device=matrix.device)
    for part in split(matrix.reshape(grid[0], -1)):  # whole groups
        rows = slice(part.start * height, part.stop * height)
        taken = matrix[rows].to(torch.float64)
        spread = [choice.of_rows(rows, group) for choice in choices]
        coded = [each.encode(taken) for each in spread]
        errors = [
            _squared_error(taken, each.decode(mine), group)
            for each, mine in zip(spread, coded, strict=True)
        ]
        least = errors[0]
        best = torch.zeros_like(least, dtype=torch.uint8)
        for i, error in enumerate(errors[1:], 1):  # the first of equals
            best = torch.where(error < least, i, best)
            least = torch.minimum(error, least)
        selectors[part] = best
        codes[rows] = _pick(coded, expand(best, group))
    return codes, selectors


def _pick(parts: list[Tensor], which: Tensor) -> Tensor:
    """The entries of the parts that `which` names, each in its own place."""
    return torch.stack(parts).gather(0, which.to(torch.int64)[None])[0]


def _squared_error(x: Tensor, values: Tensor, group: Group) -> Tensor:
    """Sums of squared differences over groups, as the model's `squared_error` adds them."""
    rows, columns = group
    difference = x - values
    shape = x.shape[0] // rows, rows, x.shape[1] // columns, columns
    squares = (difference * difference).reshape(shape).swapaxes(1, 2)
    level = squares.reshape(shape[0], shape[2], rows * columns)
    while level.shape[-1] > 1:
        paired = level.shape[-1] // 2 * 2
        sums = level[..., 0:paired:2] + level[..., 1:paired:2]
        level = torch.cat([sums, level[..., paired:]], dim=-1)
    return level[..., 0]
