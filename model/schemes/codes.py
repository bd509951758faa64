"""Codes of a matrix under its scales (section 6 of docs/numerics.md, steps 3 and 4)."""

import numpy as np

from ..arrays import Array, at_least, cast, chunks, exponent, known_none, namespace, power
from ..formats import E8M0, IntegerFormat, PowerFormat
from ..rounding import quotient
from .grouping import Group, parts, spread
from .scales import Scales
from .scheme import Scheme


def codes_of(
    matrix: Array,
    scheme: Scheme,
    choices: list[Scales],
    group: Group,
    rounding: str,
    words: Array | None,
    chunk: int,
) -> tuple[Array, Array | None]:
    """Codes of a float32 matrix, and the selectors of its innermost groups for a code book.

    choices: scales of the whole matrix, one `Scales` per element format. group: size of the
    innermost groups. words: uint32 of the shape of the matrix, for ``stochastic`` rounding. chunk:
    elements to work on at once, so that temporaries stay small.
    """
    xp = namespace(matrix)
    if len(choices) == 1 and group[0] > 1:  # rows of a group are independent
        choices, group = [choices[0].of_rows(group[0])], (1, group[1])
    codes = xp.empty_like(matrix, dtype=getattr(xp, scheme.code_dtype.name))
    grid = choices[0].product.shape
    selectors = xp.empty_like(choices[0].product, dtype=xp.uint8) if len(choices) > 1 else None
    for band in chunks(grid[0], (chunk, group[0] * matrix.shape[1])):
        rows = slice(band.start * group[0], band.stop * group[0])
        with np.errstate(invalid="ignore"):  # a signalling NaN
            values = cast(parts(matrix[rows], group), "float64")
        random = None if words is None else parts(words[rows], group)
        coded = [_encode(values, scheme, each, band, rounding, random) for each in choices]
        best = coded[0]
        if selectors is not None:
            selectors[band] = _select(values, scheme, choices, coded, band)
            best = pick(coded, spread(selectors[band]))
        codes[rows] = best.reshape(codes[rows].shape)
    return codes, selectors


def _encode(
    values: Array, scheme: Scheme, scales: Scales, band: slice, rounding: str, random: Array | None
) -> Array:
    """Codes of `values`, which `parts` has cut, in a band of groups."""
    xp = namespace(values)
    product = spread(scales.product[band])
    if all(isinstance(level.format, PowerFormat) for level in scheme.levels):
        ratio = values * (1.0 / product)  # exact
    else:
        unusual = ~xp.isfinite(values)
        if known_none(unusual):
            ratio = quotient(values, product)
        else:
            ratio = xp.where(unusual, values, quotient(xp.where(unusual, 0.0, values), product))
    if scales.zero_points is None:
        return scales.element.encode_unchecked(ratio, rounding, random)
    assert isinstance(scales.element, IntegerFormat)
    zero_points = spread(scales.zero_points[band])
    return scales.element.encode_unchecked(ratio, rounding, random, zero_points)


def _select(
    original: Array, scheme: Scheme, choices: list[Scales], coded: list[Array], band: slice
) -> Array:
    """Index of the choice with the least error for each group; the first of equals.

    Elements that are not finite have no error. Errors in `error_digits` are sums of integers, exact
    in float64 in any order.
    """
    xp = namespace(original)
    finite = xp.isfinite(original)
    known = xp.where(finite, original, 0.0)
    digits, rule = scheme.error_digits, scheme.choosing_rule
    is_absolute = rule is not None and rule.error == "absolute"
    steps = None if digits is None else _steps(known, digits)
    best = least = None
    for i, (scales, codes) in enumerate(zip(choices, coded, strict=True)):
        values = scales.element.exact(codes) * spread(scales.product[band])
        values = xp.where(finite, values, 0.0)
        if steps is None:
            difference = known - values
        else:
            difference = xp.floor(xp.abs(known) * steps) - xp.floor(xp.abs(values) * steps)
        error = _tree_sum(difference, is_absolute)
        if best is None or least is None:
            best, least = xp.zeros_like(error, dtype=xp.uint8), error
        else:
            best = xp.where(error < least, xp.full_like(best, i), best)
            least = xp.minimum(error, least)
    return best


def _steps(known: Array, digits: int) -> Array:
    """Error steps per unit for each group, with errors of `digits` digits."""
    xp = namespace(known)
    largest = exponent(xp.amax(xp.abs(known), (1, 3)))
    return spread(power(digits - at_least(largest, E8M0.emin)))


def pick(choices: list[Array], which: Array) -> Array:
    """Entries of equally shaped `choices` at the indices `which`, which broadcasts to them."""
    xp = namespace(which)
    picked = choices[0]
    for i, choice in enumerate(choices[1:], 1):
        picked = xp.where(which == i, choice, picked)
    return picked


def squared_error(x: Array, values: Array, group: Group) -> Array:
    """Sums of squared differences over groups of two float64 matrices."""
    return _tree_sum(parts(x - values, group))


def _tree_sum(differences: Array, is_absolute: bool = False) -> Array:
    """Sums of squares, or of magnitudes, over groups that `parts` has cut, row by row in a group.

    Float64 additions by RNE in a tree of adjacent pairs, ((0, 1), (2, 3), ...); the last of an odd
    number passes to the next level.
    """
    xp = namespace(differences)
    down, height, across, width = differences.shape
    terms = xp.abs(differences) if is_absolute else differences * differences
    squares = xp.swapaxes(terms, 1, 2)
    level = squares.reshape(down, across, height * width)
    while level.shape[-1] > 1:
        paired = level.shape[-1] // 2 * 2
        sums = level[..., 0:paired:2] + level[..., 1:paired:2]
        level = xp.concat([sums, level[..., paired:]], -1)
    return level[..., 0]
