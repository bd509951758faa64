"""Quantisation by any scheme (section 6 of docs/numerics.md), MX among them.

`quantized` works on arrays of NumPy and tensors of PyTorch: first on scales, one per group, then on
codes, a few rows of the matrix at a time.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, axis_last, cast, known_none, matched, namespace
from ..blocks import as_float32, check_axis
from ..errors import choice
from ..formats import ROUNDINGS
from ..rounding import F64
from .array import ScaledArray
from .codes import codes_of, pick
from .grouping import Group, expand, grid_shape, group_in, in_axes, reduce
from .scales import Bounds, candidates
from .scheme import Scheme
from .table import scheme as find

NONFINITE = ("poison", "element")
CHUNK = 2**16  # elements at once: their temporaries stay in the cache


@dataclass(frozen=True, init=False, eq=False)  # arrays have no one truth value to compare by
class Limits:
    """Least and greatest values for which the outermost scales of a scheme are made.

    low: 0 or less; high: 0 or more. Both are finite, float32 or convert to it exactly, have the
    shape of the outermost scales, and are kept as read-only copies. A scheme without a zero point
    uses the larger magnitude of the two.
    Raises TypeError for a wrong dtype and ValueError for a wrong shape or value.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        lowest, highest = as_float32(low, "low"), as_float32(high, "high")
        if lowest.shape != highest.shape:
            raise ValueError(
                f"low and high must have equal shapes, not {lowest.shape} and {highest.shape}"
            )
        for name, values, good in (
            ("low must be finite and at most 0", lowest, lowest <= 0),
            ("high must be finite and at least 0", highest, highest >= 0),
        ):
            bad = ~(good & np.isfinite(values))
            if bad.any():
                raise ValueError(f"{name}, not {values[bad].flat[0]}")
        for side in (lowest, highest):
            side.flags.writeable = False
        vars(self).update(low=lowest, high=highest)  # the dataclass is frozen

    def __reduce__(self) -> tuple[Any, ...]:
        return Limits, (self.low, self.high)  # the copies are read-only too


def check_takes_limits(scheme: Scheme) -> None:
    """ValueError for a scheme that measures errors by each group's largest magnitude."""
    if scheme.error_digits is not None:
        raise ValueError(
            f"limits must be None for {scheme}: its errors have {scheme.error_digits} digits "
            "below each group's own largest magnitude"
        )


def matrix_limits(
    limits: Limits | None, moved: tuple[int, ...], group: Group, axis: int
) -> tuple[F64, F64] | None:
    """`limits` as (low, high) of the outermost groups of the matrix, float64.

    moved: shape of the array with `axis` moved to the end. Raises ValueError for limits of another
    shape.
    """
    if limits is None:
        return None
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be Limits or None, not {type(limits).__name__}")
    want = grid_shape(moved, group, axis)
    if limits.low.shape != want:
        raise ValueError(f"limits must have shape {want}, not {limits.low.shape}")
    low, high = (axis_last(side, axis) for side in (limits.low, limits.high))
    rows = (-1, moved[-1] // group[1])
    return low.reshape(rows).astype(np.float64), high.reshape(rows).astype(np.float64)


def quantize(
    x: ArrayLike,
    scheme: Scheme | str,
    *,
    axis: int = -1,
    limits: Limits | None = None,
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: np.random.Generator | NDArray[np.uint32] | None = None,
) -> ScaledArray:
    """Quantise `x` by a Scheme or a name in SCHEMES, the groups' columns along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape with at least one
    value. All other axes together are the rows of a matrix. Tiles of several rows need the axis
    before the last (with `axis` moved to the end) to be a multiple of their rows.
    limits: replace the extremes of x in the outermost groups (`calibrate` makes them); values
    beyond saturate. Not with a scheme's `error_digits`.
    rounding: rounding of codes, ``nearest_even``, ``toward_zero`` or ``stochastic``; scales and
    zero points are always RNE. nonfinite: ``poison`` makes the scale NaN and all values +0 in a
    group with a value that is not finite; the group is one of the innermost scales that can be NaN.
    ``element`` keeps the value as an element: where a format has no NaN, NaN still poisons and
    infinities saturate. rng: for ``stochastic`` rounding, a Generator or one uint32 word per
    element of x.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme = find(scheme)
    check_policies(rounding, nonfinite)
    if limits is not None:
        check_takes_limits(scheme)
    values = as_float32(x)
    axis = check_axis(values.shape, axis)
    check_values(values.shape)
    words = random_words(rng, values.shape) if rounding == "stochastic" else None
    parts = quantized(values, scheme, axis, limits, rounding, nonfinite, words, CHUNK)
    return ScaledArray.of_valid_parts(scheme, *parts, axis)


def check_policies(rounding: str, nonfinite: str) -> None:
    """ValueError for an unknown rounding or policy."""
    choice("rounding", rounding, ROUNDINGS)
    choice("nonfinite", nonfinite, NONFINITE)


def check_values(shape: tuple[int, ...]) -> None:
    """ValueError for an array of no values."""
    if not prod(shape):
        raise ValueError(f"x must hold at least one value, not have shape {shape}")


def random_words(
    rng: np.random.Generator | NDArray[np.uint32] | None, shape: tuple[int, ...]
) -> NDArray[np.uint32]:
    """`rng` if it is one word per element, or words drawn from it; else ValueError."""
    if isinstance(rng, np.random.Generator):
        return rng.integers(0, 2**32, shape, dtype=np.uint32)
    if isinstance(rng, np.ndarray) and rng.dtype == np.uint32 and rng.shape == shape:
        return rng
    given = f"{rng.dtype} {rng.shape}" if isinstance(rng, np.ndarray) else repr(rng)
    raise ValueError(
        f"rng must be a numpy Generator or uint32 words of shape {shape} "
        f"for stochastic rounding, not {given}"
    )


class Parts(NamedTuple):
    """The arrays of a `ScaledArray`."""

    codes: Array
    scales: tuple[Array, ...]
    zero_points: Array | None
    selectors: Array | None

    @property
    def arrays(self) -> list[Array]:
        """All arrays that are not None."""
        others = (self.zero_points, self.selectors)
        return [self.codes, *self.scales, *(part for part in others if part is not None)]


def quantized(
    values: Array,
    scheme: Scheme,
    axis: int,
    limits: Limits | None,
    rounding: str,
    nonfinite: str,
    words: Array | None,
    chunk: int,
) -> Parts:
    """`quantize` of `values`, float32 or narrower. chunk: elements to work on at once."""
    shape = tuple(axis_last(values, axis).shape)
    outermost = group_in(scheme.levels[0].granularity, shape, (prod(shape[:-1]), shape[-1]))
    given = matrix_limits(limits, shape, outermost, axis)
    bounds = None if given is None else (matched(given[0], values), matched(given[1], values))
    return quantized_within(values, scheme, axis, bounds, rounding, nonfinite, words, chunk)


def quantized_within(
    values: Array,
    scheme: Scheme,
    axis: int,
    bounds: Bounds | None,
    rounding: str,
    nonfinite: str,
    words: Array | None,
    chunk: int,
) -> Parts:
    """`quantized` with (low, high) of the matrix's outermost groups, float64, as `bounds`."""
    xp = namespace(values)
    moved = axis_last(values, axis)
    shape = tuple(moved.shape)
    size = prod(shape[:-1]), shape[-1]
    groups = [group_in(level.granularity, shape, size) for level in scheme.levels]
    matrix = cast(moved.reshape(size), "float32")
    if words is not None:
        words = axis_last(words, axis).reshape(size)

    level = scheme.poisoned_level
    of_poison = groups[-1] if level is None else groups[level]
    kept = finite = matrix
    poisoned = None
    unusual = ~xp.isfinite(matrix)
    if not known_none(unusual):
        mask = _poison(matrix, unusual, scheme, nonfinite)
        if not scheme.has_nan and bool(mask.any()):
            raise ValueError(f"x must be finite for {scheme}, which has no NaN")
        poisoned = reduce(mask, of_poison, xp.any)
        kept = xp.where(expand(poisoned, of_poison), 0.0, matrix)
        finite = xp.where(xp.isfinite(kept), kept, 0.0)
    choices = [
        each
        for element in scheme.elements
        for each in candidates(finite, scheme, element, groups, bounds)
    ]
    codes, selectors = codes_of(kept, scheme, choices, groups[-1], rounding, words, chunk)
    first = choices[0]
    stored = first.stored
    if selectors is not None:
        stored = [*stored[:-1], pick([each.stored[-1] for each in choices], selectors)]
    if poisoned is not None and level is None:
        codes = _poisoned_codes(codes, scheme, selectors, expand(poisoned, of_poison), groups[-1])
    elif poisoned is not None and level is not None:
        nan = scheme.levels[level].format.nan
        assert nan is not None  # that is what a poisoned level is
        stored[level] = xp.where(poisoned, matched(nan, values), stored[level])
    if scheme.choosing_rule is not None:
        selectors = None

    return laid_out(codes, stored, first.zero_points, selectors, shape, groups, axis)


def _poisoned_codes(
    codes: Array, scheme: Scheme, selectors: Array | None, poisoned: Array, group: Group
) -> Array:
    """Codes with the NaN of their formats where `poisoned`; without one, as they are."""
    if not scheme.has_nan:
        return codes
    nans = [namespace(codes).full_like(codes, int(e.nan_code or 0)) for e in scheme.elements]
    nan = nans[0] if len(nans) == 1 else pick(nans, expand(selectors, group))
    return namespace(codes).where(poisoned, nan, codes)


def laid_out(
    codes: Array,
    stored: list[Array],
    zero_points: Array | None,
    selectors: Array | None,
    shape: tuple[int, ...],
    groups: list[Group],
    axis: int,
) -> Parts:
    """The parts of a quantised matrix, in the axes of its array.

    shape: shape of the array with `axis` moved to the end. stored: scales of every level.
    """
    height = groups[-1][0]
    return Parts(
        in_axes(codes, shape, 1, axis),
        tuple(in_axes(s, shape, g[0], axis) for s, g in zip(stored, groups, strict=True)),
        None if zero_points is None else in_axes(cast(zero_points, "int32"), shape, height, axis),
        None if selectors is None else in_axes(selectors, shape, height, axis),
    )


def _poison(matrix: Array, unusual: Array, scheme: Scheme, nonfinite: str) -> Array:
    """Mask of the values that are not finite and that an element cannot hold."""
    if nonfinite == "poison":
        return unusual
    xp = namespace(matrix)
    if any(element.nan_code is None for element in scheme.elements):
        return xp.isnan(matrix)
    return xp.zeros_like(unusual)
