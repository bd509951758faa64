"""Regions: columns over which the outermost float scales of both operands are constant."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import Array, cast
from ..rounding import add_to_odd, nearest_even
from .array import ScaledArray
from .operand import Layout, Operand
from .scheme import Scheme, is_region


@dataclass(frozen=True)
class Region:
    """Columns `start` to `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of columns."""
        return self.stop - self.start

    def scale(self, a: Operand, b: Operand) -> Array:
        """S = RNE_fp32(s_a x s_b) of every pair of rows."""
        return nearest_even(a.region_scale(self.start)[:, None] * b.region_scale(self.start))

    def cuts(self, a: Layout, b: Layout, longest: int) -> tuple[tuple[int, int], ...]:
        """(start, stop) of blocks under one scale of each operand, of at most `longest` columns."""
        lengths = [scale.length for side in (a, b) for scale in side.blocks]
        parts = _stretches(self.start, self.stop, lengths)
        return split(parts, longest)


def split(parts: Iterable[tuple[int, int]], longest: int) -> tuple[tuple[int, int], ...]:
    """The parts, cut to at most `longest` columns each."""
    return tuple(
        (at, min(at + longest, stop)) for start, stop in parts for at in range(start, stop, longest)
    )


def regions(a: Layout, b: Layout) -> list[Region]:
    """Regions of a product, in order; one empty region for a product without columns."""
    return _regions(a.shape[1], [side.region_length for side in (a, b) if side.regions is not None])


def regions_of(a: Scheme, b: Scheme, shape: tuple[int, int]) -> list[Region]:
    """`regions` of operands of two schemes; `shape` is the first operand's."""
    outermost = [scheme.levels[0] for scheme in (a, b)]
    return _regions(
        shape[1], [level.granularity.group(shape)[1] for level in outermost if is_region(level, 0)]
    )


def _regions(columns: int, lengths: list[int]) -> list[Region]:
    return [Region(*ends) for ends in _stretches(0, columns, lengths) or [(0, 0)]]


def _stretches(start: int, stop: int, lengths: list[int]) -> list[tuple[int, int]]:
    """`start` to `stop`, cut at every multiple of any of the lengths."""
    inner = {at for length in lengths for at in range(0, stop, length) if at > start}
    return list(pairwise(sorted({start, stop} | inner)))


def rescaled(c: Array, scale: Array, partial: Array) -> Array:
    """RNE_fp32(c + scale x partial), a fused multiply-add; a zero is +0."""
    wide = cast(c, "float64")
    with np.errstate(invalid="ignore"):
        term = cast(scale, "float64") * cast(partial, "float64")
        return nearest_even(add_to_odd(wide, term))


def check_pair(a: ScaledArray, b: ScaledArray) -> None:
    """TypeError or ValueError unless a (M, K) and b (N, K) can be multiplied."""
    for name, array in (("a", a), ("b", b)):
        if not isinstance(array, ScaledArray):
            raise TypeError(f"{name} must be a ScaledArray, not {type(array).__name__}")
        check_axis(name, array)
    check_shapes(tuple(a.codes.shape), tuple(b.codes.shape))


def check_axis(name: str, array: Any) -> None:
    """ValueError unless a matrix, an array or a tensor of codes, has its groups along its rows."""
    if array.codes.ndim == 2 and array.axis not in (-1, 1):
        raise ValueError(f"axis of {name} must be the last axis, not {array.axis}")


def check_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """ValueError unless they are (M, K) and (N, K)."""
    if len(a) != 2 or len(b) != 2 or a[1] != b[1]:
        raise ValueError(f"a and b must have shapes (M, K) and (N, K), not {a} and {b}")
