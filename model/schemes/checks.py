"""What an array of codes and scales must be: shapes, scales, codes, zero points and selectors."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arrays import at_most, cast
from ..errors import integer_array
from ..formats import ElementFormat, FloatFormat, ScaleFormat, UnsignedFormat
from .grouping import grid_shape, group_in

if TYPE_CHECKING:
    from .array import Scaled, ScaledArray


def check_shape(array: "ScaledArray") -> None:
    """TypeError or ValueError unless every part has the shape and dtype that the scheme asks."""
    scheme, moved = array.scheme, array.moved_shape
    if len(array.scales) != len(scheme.levels):
        raise ValueError(
            f"scales of {scheme} must be one array for each level, {len(scheme.levels)}, "
            f"not {len(array.scales)}"
        )
    want = ()
    for i, (level, stored) in enumerate(zip(scheme.levels, array.scales, strict=True)):
        group = group_in(level.granularity, moved, array.matrix_shape)
        want = grid_shape(moved, group, array.axis)
        _check_part(f"scales[{i}] of {scheme}", stored, want, level.format.dtype)
    for name, part, has, dtype in (
        ("zero_points", array.zero_points, scheme.zero_point, np.int32),
        ("selectors", array.selectors, bool(scheme.selector_bits), np.uint8),
    ):
        if (part is not None) != has:
            what = "an array" if has else "None"
            found = None if part is None else type(part).__name__
            raise ValueError(f"{name} of {scheme} must be {what}, not {found}")
        if part is not None:
            _check_part(f"{name} of {scheme}", part, want, np.dtype(dtype))


def _check_part(name: str, part: NDArray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if part.dtype != dtype:
        raise TypeError(f"{name} must have dtype {dtype}, not {part.dtype}")
    if part.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {part.shape}")


def check_scales(array: "ScaledArray") -> None:
    """ValueError for a scale that its format has not, or that is zero, negative or infinite."""
    for i, (level, stored) in enumerate(zip(array.scheme.levels, array.scales, strict=True)):
        _check_scale(f"scales[{i}] of {array.scheme}", level.format, stored)


def _check_scale(name: str, fmt: ScaleFormat, stored: NDArray) -> None:
    if not isinstance(fmt, FloatFormat):
        integer_array(name, stored, int(isinstance(fmt, UnsignedFormat)), 2**fmt.bits - 1)
        return
    values = fmt.exact(stored)
    wrong = ~((values >= fmt.smallest) & (values <= fmt.largest_finite) | np.isnan(values))
    if wrong.any():
        raise ValueError(
            f"{name} must be from {fmt.smallest:g} to {fmt.largest_finite:g}, or NaN, "
            f"not {values[wrong][0]:g}"
        )


def check_codes(array: "Scaled", check: Callable[..., object] = integer_array) -> None:
    """ValueError for codes, zero points and selectors outside their range, by which sums are sized.

    check: `integer_array`, or its like for tensors.
    """
    scheme, formats = array.scheme, array.scheme.elements
    if array.selectors is not None:
        check(f"selectors of {scheme}", array.selectors, 0, len(formats) - 1)
    if array.zero_points is not None:
        low, high = map(int, formats[0].extremes)
        check(f"zero_points of {scheme}", array.zero_points, low, high)
    table, largest = _range_table(formats), 2 ** formats[0].bits - 1
    if table.all() and largest == np.iinfo(scheme.code_dtype).max:
        return
    codes = cast(array.matrix(array.codes), "int64")
    allowed = (codes <= largest) & array.elements(table, at_most(codes, largest))
    if not allowed.all():
        raise ValueError(
            f"codes of {scheme} must stand for numbers of {', '.join(map(str, formats))}, "
            f"not be {int(codes[~allowed][0]):#04x}"
        )


@cache
def _range_table(formats: tuple[ElementFormat, ...]) -> NDArray[np.bool_]:
    """(formats, codes): whether a code is that of a number of the range, or of none."""
    return np.stack([fmt.in_range for fmt in formats])


@cache
def value_table(elements: tuple[ElementFormat, ...]) -> NDArray[np.float64]:
    """(formats, codes): the value of every code of each format."""
    return np.stack([element.values for element in elements])
