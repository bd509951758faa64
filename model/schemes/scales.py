"""Scales of a matrix by the levels of a scheme (section 6 of docs/numerics.md, steps 1 and 2).

Every quotient is exact until the one rounding that makes a scale or a zero point. No scale is zero.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..arrays import FLOAT64_BIAS, FLOAT64_FRACTION, Array, cast, exponent, namespace, view
from ..formats import FLOAT32, ElementFormat, FloatFormat, IntegerFormat, PowerFormat
from ..rounding import quotient, to_odd, two_sum
from .grouping import Group, expand, reduce, refine
from .scheme import Scheme

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
    matrix: Array,
    scheme: Scheme,
    element: ElementFormat,
    groups: list[Group],
    given: Bounds | None,
) -> Scales:
    """Scales of a finite float32 matrix, from the outermost level to the innermost.

    groups: size of each level's groups. given: float64 low and high of the outermost groups, which
    replace the least and greatest values.
    """
    stored: list[Array] = []
    product = zero_points = outer = None
    for i, (level, group) in enumerate(zip(scheme.levels, groups, strict=True)):
        if outer is not None:
            product = refine(product, outer, group)
        bounds = given if i == 0 else None
        if scheme.zero_point and isinstance(element, IntegerFormat):
            level_scales, zero_points = _affine(matrix, group, bounds, scheme, element)
        elif isinstance(level.format, PowerFormat):
            level_scales = _power(_largest(matrix, group, bounds), product, scheme, i, element)
        else:
            amax = _largest(matrix, group, bounds)
            room = scheme.room(i, element)
            if product is None and bounds is None and level.format == FLOAT32 and _is_float32(room):
                level_scales = _float32_scale(cast(amax, "float32"), room)
            else:
                rooms = namespace(amax).full_like(amax, room)
                rooms = rooms if product is None else rooms * product
                level_scales = encode(quotient(amax, rooms), level.format)
        stored.append(level_scales)
        values = level.format.exact(level_scales)
        product = values if product is None else product * values
        outer = group
    return Scales(element, stored, product, zero_points)


def _is_float32(x: float) -> bool:
    return x <= FLOAT32.largest_finite and np.float32(x) == x


def _float32_scale(amax: Array, room: float) -> Array:
    """`encode` of the quotient, by IEEE 754's division of two float32 numbers."""
    xp = namespace(amax)
    with np.errstate(under="ignore"):  # a tensor divides: PyTorch multiplies by a number's inverse
        ratio = amax / xp.full_like(amax, room)
    return xp.clip(ratio, FLOAT32.smallest, FLOAT32.largest_finite)


def encode(values: Array, fmt: FloatFormat | IntegerFormat) -> Array:
    """RNE of non-negative `values` that were rounded to odd, limited to the positive numbers."""
    return fmt.encode_unchecked(namespace(values).clip(values, fmt.smallest, fmt.largest_finite))


def _largest(matrix: Array, group: Group, bounds: Bounds | None) -> Array:
    """Largest magnitude of every group, or of its bounds where they are given; float64."""
    xp = namespace(matrix)
    if bounds is not None:
        return xp.maximum(-bounds[0], bounds[1])
    return cast(reduce(xp.abs(matrix), group, xp.amax), "float64")


def _power(
    amax: Array, outer: Array | None, scheme: Scheme, level: int, element: ElementFormat
) -> Array:
    """Powers of two by the level's rule, less the exponents of outer and inner scales."""
    formats = [lev.format for lev in scheme.levels]
    inner = sum(fmt.emax for fmt in formats[level + 1 :] if isinstance(fmt, PowerFormat))
    fmt = formats[level]
    assert isinstance(fmt, PowerFormat)
    shared = shared_exponent(amax, element, scheme.levels[level].rule) - inner
    if outer is not None:
        shared = shared - exponent(outer)
    return fmt.encode(namespace(amax).where(amax == 0, fmt.emin, shared))


class Range(Protocol):
    """Facts of a format that a shared exponent depends on."""

    @property
    def emax(self) -> int: ...
    @property
    def mantissa_bits(self) -> int: ...
    @property
    def largest_finite(self) -> float: ...


def shared_exponent(amax: Array, fmt: Range, scale_rule: str) -> Array:
    """A block's exponent before clamping, int64; far below every exponent for an `amax` of 0.

    It comes from the bits of float64, in which float32's subnormals are normal, without a
    logarithm.
    """
    bits = view(cast(amax, "float64"), "int64")
    one = 1 << FLOAT64_FRACTION
    if scale_rule == "even":
        bits = bits + one // 2 ** (
            fmt.mantissa_bits + 1
        )  # half of the last place; the exponent takes a carry
    elif scale_rule == "ceil":
        # The least e with amax <= largest x 2^e: compares the two significands in [1, 2).
        bits = bits + (2 * one - 1 - int(fmt.largest_finite / 2.0**fmt.emax * one))
    exponent = namespace(bits).bitwise_right_shift(bits, FLOAT64_FRACTION) - FLOAT64_BIAS
    return exponent - fmt.emax


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
