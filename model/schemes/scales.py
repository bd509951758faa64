"""Scales of a matrix by the levels of a scheme (section 6 of docs/numerics.md, steps 1 and 2).

Every quotient is exact until the one rounding that makes a scale or a zero point. No scale is zero.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, cast, namespace
from ..formats import FLOAT32, ElementFormat, FloatFormat, IntegerFormat, PowerFormat, TableFormat
from ..rounding import quotient, to_odd, two_sum
from .grouping import Group, expand, reduce, refine
from .rules import AMAX, RULES, shared_exponent
from .scheme import Scheme

__all__ = ["Bounds", "Scales", "candidates", "encode", "is_float32", "scales", "shared_exponent"]

Bounds = tuple[Array, Array]


@dataclass(frozen=True)
class Scales:
    """Scales of a matrix for one element format.

    stored: scales of every level, the outermost first, as its format stores them. product: float64,
    product of the scales of all levels. zero_points: int64 or None. Both have one entry per group
    of the innermost level.
    """

    element: ElementFormat
    stored: list[Array]
    product: Array
    zero_points: Array | None

    def of_rows(self, height: int) -> "Scales":
        """The scales with one entry per row, for groups of `height` rows."""
        z = self.zero_points
        product = expand(self.product, (height, 1))
        zero_points = None if z is None else expand(z, (height, 1))
        return replace(self, product=product, zero_points=zero_points)


def scales(
    matrix: Array, scheme: Scheme, element: ElementFormat, groups: list[Group], given: Bounds | None
) -> Scales:
    """The first of `candidates`."""
    return candidates(matrix, scheme, element, groups, given)[0]


def candidates(
    matrix: Array, scheme: Scheme, element: ElementFormat, groups: list[Group], given: Bounds | None
) -> list[Scales]:
    """Scales of a finite float32 matrix, from the outermost level to the innermost.

    They differ in the innermost level, where its rule leaves a choice. groups: size of each level's
    groups. given: float64 low and high of the outermost groups, which replace the least and
    greatest values.
    """
    stored: list[Array] = []
    others: list[Array] = []
    product = zero_points = outer = before = None
    for i, (level, group) in enumerate(zip(scheme.levels, groups, strict=True)):
        if outer is not None:
            product = refine(product, outer, group)
        bounds = given if i == 0 else None
        if scheme.zero_point and isinstance(element, IntegerFormat):
            level_scales, zero_points = _affine(matrix, group, bounds, scheme, element)
        else:
            amax = _largest(matrix, group, bounds)
            room = scheme.room(i, element)
            plain = product is None and bounds is None and level.rule == AMAX
            if plain and level.format == FLOAT32 and is_float32(room):
                level_scales = _float32_scale(cast(amax, "float32"), room)
            else:
                level_scales, *others = _by_rule(amax, product, scheme, i, element)
        stored.append(level_scales)
        before, product = product, _times(product, level.format.exact(level_scales))
        outer = group
    made = [Scales(element, stored, product, zero_points)]
    for other in others:
        total = _times(before, scheme.levels[-1].format.exact(other))
        made.append(Scales(element, [*stored[:-1], other], total, zero_points))
    return made


def _times(product: Array | None, values: Array) -> Array:
    return values if product is None else product * values


def is_float32(x: float) -> bool:
    """Whether a positive `x` is a finite float32."""
    return x <= FLOAT32.largest_finite and float(np.float32(x)) == x


def _float32_scale(amax: Array, room: float) -> Array:
    """`encode` of the quotient, by IEEE 754's division of two float32 numbers."""
    xp = namespace(amax)
    with np.errstate(under="ignore"):  # a tensor divides: PyTorch multiplies by a number's inverse
        ratio = amax / xp.full_like(amax, room)
    return xp.clip(ratio, FLOAT32.smallest, FLOAT32.largest_finite)


def encode(values: Array, fmt: FloatFormat | IntegerFormat | TableFormat) -> Array:
    """RNE of non-negative `values` that were rounded to odd, limited to the positive numbers."""
    return fmt.encode_unchecked(namespace(values).clip(values, fmt.smallest, fmt.largest_finite))


def _largest(matrix: Array, group: Group, bounds: Bounds | None) -> Array:
    """Largest magnitude of every group, or of its bounds where they are given; float64."""
    xp = namespace(matrix)
    if bounds is not None:
        return xp.maximum(-bounds[0], bounds[1])
    return cast(reduce(xp.abs(matrix), group, xp.amax), "float64")


def _by_rule(
    amax: Array, outer: Array | None, scheme: Scheme, level: int, element: ElementFormat
) -> list[Array]:
    """Candidates of the level's rule for its scales, as its format stores them."""
    xp, fmt, rule = namespace(amax), scheme.levels[level].format, scheme.levels[level].rule
    room = xp.full_like(amax, scheme.inner_room(level))
    room = room if outer is None else room * outer
    made = RULES[rule](amax, room, element)
    none = amax == 0
    if isinstance(fmt, PowerFormat):
        return [fmt.encode(xp.where(none, fmt.emin, each)) for each in made]
    return [encode(xp.where(none, fmt.smallest, each), fmt) for each in made]


def _affine(
    matrix: Array, group: Group, bounds: Bounds | None, scheme: Scheme, element: IntegerFormat
) -> tuple[Array, Array]:
    """Scales and zero points that spread min(low, 0) to max(high, 0) over the element's range."""
    xp = namespace(matrix)
    low, high = bounds or (reduce(matrix, group, function) for function in (xp.amin, xp.amax))
    low = xp.clip(cast(low, "float64"), None, 0.0)
    high = xp.clip(cast(high, "float64"), 0.0, None)
    difference = to_odd(*two_sum(high, -low))
    steps = xp.full_like(difference, element.highest - element.lowest)
    fmt = scheme.levels[0].format
    assert not isinstance(fmt, PowerFormat)
    stored = encode(quotient(difference, steps), fmt)
    zero_points = element.lowest - xp.round(quotient(low, fmt.exact(stored)))
    return stored, cast(xp.clip(zero_points, element.lowest, element.highest), "int64")
