"""Limits: the least and greatest values that the outermost scales of a scheme are made for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import axis_last
from ..blocks import as_float32
from ..rounding import F64
from .grouping import Group, grid_shape
from .scheme import Scheme


@dataclass(frozen=True, init=False, eq=False)  # arrays have no one truth value to compare by
class Limits:
    """One `low` of 0 or less and one `high` of 0 or more for each group of the outermost level.

    Both float32 (or what converts exactly), finite, in the shape of the outermost scales, kept as
    read-only copies. A scheme without a zero point takes the larger magnitude of the two.
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
        return Limits, (self.low, self.high)  # copies that are read-only too


def check_takes_limits(scheme: Scheme) -> None:
    """ValueError for a scheme whose errors are measured by the values' own largest magnitude."""
    if scheme.error_digits is not None:
        raise ValueError(
            f"limits must be None for {scheme}: its errors have {scheme.error_digits} digits "
            "below each group's own largest magnitude"
        )


def matrix_limits(
    limits: Limits | None, moved: tuple[int, ...], group: Group, axis: int
) -> tuple[F64, F64] | None:
    """Low and high of the outermost groups of the matrix of an array of shape `moved`.

    axis: where the last axis of `moved` was. ValueError for limits of another shape.
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
