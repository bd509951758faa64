"""Quantised arrays, codes with their scales, and the checks of their parts.

MX is one of the schemes: an MXArray is a ScaledArray.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, at_most, axis_last, cast, chunks, look_up
from ..blocks import LARGEST_BLOCK, check_axis, scale_shape
from ..errors import integer, integer_array
from ..formats import (
    E8M0,
    ElementFormat,
    FloatFormat,
    ScaleFormat,
    UnsignedFormat,
    element_format,
    narrow_codes,
)
from .grouping import expand, grid_shape, group_in, in_axes, parts, spread
from .scheme import Scheme
from .table import mx

A = TypeVar("A")
CHECKED_AT_ONCE = 2**18  # codes


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Scaled(Generic[A]):
    """A quantised array of NumPy or tensor of PyTorch.

    codes: element codes, in the shape of the array. scales: one array per level of `scheme`, the
    outermost first, as its format stores them. A scale array has the axes of `codes`, each as long
    as it has groups; a group of all rows leaves 1 on every axis except rows and columns of the
    matrix. zero_points: int32. selectors: uint8 indices into `scheme.elements`. Both have the shape
    of the innermost scales, or are None where the scheme has none. axis: along which the groups'
    columns run.
    """

    scheme: Scheme
    codes: A
    scales: tuple[A, ...]
    zero_points: A | None
    selectors: A | None
    axis: int

    @property
    def level_scales(self) -> tuple[A, ...]:
        """Scales of every level, the outermost first."""
        return self.scales

    @property
    def moved_shape(self) -> tuple[int, ...]:
        """Shape of `codes` with `axis` moved to the end."""
        codes: Array = self.codes
        lead = list(codes.shape)
        columns = lead.pop(self.axis)
        return (*lead, columns)

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """(rows, columns): `axis` as the columns, everything else as rows."""
        *lead, columns = self.moved_shape
        return prod(lead), columns

    def matrix(self, part: Array) -> Array:
        """`part` with `axis` as its columns and everything else as rows."""
        moved = axis_last(part, self.axis)
        return moved.reshape(prod(moved.shape[:-1]), moved.shape[-1])

    def unmatrix(self, matrix: Array) -> Array:
        """A matrix with one entry per element, in the axes of `codes`."""
        return in_axes(matrix, self.moved_shape, 1, self.axis)

    def spread(self, groups: Array, level: int, rows: slice = slice(None)) -> Array:
        """Entry of every element's group, for `rows` of the matrix."""
        by_row, width = self._by_row(groups, level, rows)
        return expand(by_row, (1, width))

    def _by_row(self, groups: Array, level: int, rows: slice) -> tuple[Array, int]:
        """Entries of the groups in `rows`, and the width of a group."""
        height, width = self.scheme.levels[level].granularity.group(self.matrix_shape)
        return expand(self.matrix(groups), (height, 1))[rows], width

    def elements(self, table: NDArray, codes: Array, rows: slice = slice(None)) -> Array:
        """Entries of a table (formats, codes) for the codes of `rows` of the matrix."""
        book = 0 if self.selectors is None else self.spread(self.selectors, -1, rows)
        return look_up(table, codes, book)

    def values(self, codes: Array, rows: slice = slice(None)) -> Array:
        """Exact float64 s_0 x s_1 x ... x (q - z) of the codes of `rows` of the matrix."""
        values = self.elements(value_table(self.scheme.elements), codes, rows)
        if self.zero_points is not None:
            values = values - self.spread(self.zero_points, -1, rows)
        for i, (level, stored) in enumerate(
            zip(self.scheme.levels, self.level_scales, strict=True)
        ):
            scales, width = self._by_row(level.format.exact(stored), i, rows)
            values = (parts(values, (1, width)) * spread(scales)).reshape(values.shape)
        return values


@dataclass(frozen=True, init=False, eq=False)
class ScaledArray(Scaled[NDArray]):
    """Codes of a scheme with their scales, as arrays of NumPy; `Scaled` describes the fields.

    The arrays are read-only copies. A scale is from the smallest to the largest number of its
    format, or its NaN; never zero, negative or infinite (section 6 of docs/numerics.md).
    Raises TypeError for a wrong dtype and ValueError for a wrong shape or value.
    """

    def __init__(
        self,
        scheme: Scheme,
        codes: ArrayLike,
        scales: tuple[ArrayLike, ...],
        zero_points: ArrayLike | None = None,
        selectors: ArrayLike | None = None,
        axis: int = -1,
    ) -> None:
        if not isinstance(scheme, Scheme):
            raise TypeError(f"scheme must be a Scheme, not {scheme!r}")
        if len(scheme.elements) == 1:
            codes = narrow_codes(codes, scheme.elements[0].narrow)
        codes = np.array(codes)
        narrow = [level.format.narrow for level in scheme.levels]
        if codes.dtype != scheme.code_dtype:
            raise TypeError(
                f"codes of {scheme} must have dtype {scheme.code_dtype}, not {codes.dtype}"
            )
        if not isinstance(scales, tuple):
            raise TypeError(f"scales of {scheme} must be a tuple, not {type(scales).__name__}")
        axis = check_axis(codes.shape, axis)
        if not codes.size:
            raise ValueError(
                f"codes of {scheme} must hold at least one value, not have shape {codes.shape}"
            )
        self._hold(
            scheme=scheme,
            codes=codes,
            scales=tuple(
                np.array(narrow_codes(stored, narrow))
                for stored, narrow in zip_longest(scales, narrow[: len(scales)])
            ),
            zero_points=None if zero_points is None else np.array(zero_points),
            selectors=None if selectors is None else np.array(selectors),
            axis=axis,
        )
        check_shape(self)
        check_scales(self)
        check_codes(self)

    @classmethod
    def of_valid_parts(
        cls,
        scheme: Scheme,
        codes: NDArray,
        scales: tuple[NDArray, ...],
        zero_points: NDArray | None,
        selectors: NDArray | None,
        axis: int,
    ) -> "ScaledArray":
        """An array of parts that are valid and that nobody else holds: no checks, no copies."""
        array = ScaledArray.__new__(ScaledArray)
        array._hold(
            scheme=scheme,
            codes=codes,
            scales=scales,
            zero_points=zero_points,
            selectors=selectors,
            axis=axis,
        )
        return array

    def _hold(self, **fields: object) -> None:
        """Set the fields of the frozen dataclass, and make its arrays read-only."""
        vars(self).update(fields)
        for part in (self.codes, *self.level_scales, self.zero_points, self.selectors):
            if part is not None:
                part.flags.writeable = False

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Restore a pickled array with read-only parts."""
        self._hold(**fields)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `codes`."""
        return self.codes.shape

    def dequantize(self) -> NDArray[np.float32]:
        """RNE_fp32 of the exact s_0 x s_1 x ... x (q - z), in the shape of `codes`.

        NaN under a NaN scale; infinite where float32 overflows.
        """
        values = self.values(self.matrix(self.codes))
        with np.errstate(over="ignore", under="ignore"):
            return self.unmatrix(values.astype(np.float32))


@dataclass(frozen=True, init=False, eq=False)
class MXArray(ScaledArray):
    """Blocks of `block_size` consecutive elements along `axis`, each under one E8M0 scale.

    A ScaledArray with one level of scales, whose `scales` is an array instead of a tuple.

    codes: uint8 (uint16 for FP16 and BF16, uint32 for TF32), any shape; the length of the axis is a
    multiple of `block_size`. scales: uint8, the shape of `codes` with that axis divided by
    `block_size`. Both are kept as read-only copies. format: an ElementFormat or its name.
    padding: number of zeros that quantisation appended to the axis.
    Raises TypeError for a wrong dtype and ValueError for a wrong shape, size or code.
    """

    scheme: Scheme = field(init=False, repr=False)
    scales: NDArray[np.uint8]  # pyright: ignore[reportIncompatibleVariableOverride]
    zero_points: None = field(init=False, repr=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    selectors: None = field(init=False, repr=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    format: ElementFormat
    block_size: int
    padding: int

    def __init__(
        self,
        codes: ArrayLike,
        scales: ArrayLike,
        format: ElementFormat | str,  # noqa: A002  # the field's name
        block_size: int = 32,
        axis: int = -1,
        padding: int = 0,
    ) -> None:
        fmt = element_format(format)
        codes, scales = np.array(fmt.check(codes)), np.array(narrow_codes(scales, E8M0.narrow))
        block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
        axis = check_axis(codes.shape, axis)
        if scales.dtype != np.uint8:
            raise TypeError(f"scales must have dtype uint8, not {scales.dtype}")
        want = scale_shape(codes.shape, axis, block_size)
        if scales.shape != want:
            raise ValueError(f"scales must have shape {want}, not {scales.shape}")
        padding = integer("padding", padding, 0, block_size - 1)
        self._hold_blocks(codes, scales, fmt, block_size, axis, padding)

    @classmethod
    def of_valid_codes(
        cls,
        codes: NDArray,
        scales: NDArray[np.uint8],
        format: ElementFormat,  # noqa: A002  # the field's name
        block_size: int,
        axis: int,
        padding: int,
    ) -> "MXArray":
        """An array of parts that are valid and that nobody else holds: no checks, no copies."""
        array = MXArray.__new__(MXArray)
        array._hold_blocks(codes, scales, format, block_size, axis, padding)
        return array

    def _hold_blocks(
        self,
        codes: NDArray,
        scales: NDArray[np.uint8],
        fmt: ElementFormat,
        block_size: int,
        axis: int,
        padding: int,
    ) -> None:
        self._hold(
            scheme=mx(fmt, block_size, "floor"),  # any rule: blocks do not depend on it
            codes=codes,
            scales=scales,
            zero_points=None,
            selectors=None,
            axis=axis,
            format=fmt,
            block_size=block_size,
            padding=padding,
        )

    @property
    def level_scales(self) -> tuple[NDArray[np.uint8]]:
        return (self.scales,)

    def blocks_last(self) -> tuple[NDArray, NDArray[np.uint8]]:
        """Codes (..., blocks, block_size) and scales (..., blocks), with the axis at the end."""
        codes = axis_last(self.codes, self.axis)
        shape = (*codes.shape[:-1], codes.shape[-1] // self.block_size, self.block_size)
        return codes.reshape(shape), axis_last(self.scales, self.axis)


def check_shape(array: "ScaledArray") -> None:
    """TypeError or ValueError unless every part has the shape and dtype of the scheme."""
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
            wanted = "an array" if has else "None"
            given = None if part is None else type(part).__name__
            raise ValueError(f"{name} of {scheme} must be {wanted}, not {given}")
        if part is not None:
            _check_part(f"{name} of {scheme}", part, want, np.dtype(dtype))


def _check_part(name: str, part: NDArray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if part.dtype != dtype:
        raise TypeError(f"{name} must have dtype {dtype}, not {part.dtype}")
    if part.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {part.shape}")


def check_scales(array: "ScaledArray") -> None:
    """ValueError for a scale outside its format, or a zero, negative or infinite one."""
    for i, (level, stored) in enumerate(zip(array.scheme.levels, array.scales, strict=True)):
        _check_scale(f"scales[{i}] of {array.scheme}", level.format, stored)


def _check_scale(name: str, fmt: ScaleFormat, stored: NDArray) -> None:
    if not isinstance(fmt, FloatFormat):
        integer_array(name, stored, int(isinstance(fmt, UnsignedFormat)), 2**fmt.bits - 1)
    if isinstance(fmt, UnsignedFormat):
        return
    values = fmt.exact(stored)
    wrong = ~((values >= fmt.smallest) & (values <= fmt.largest_finite) | np.isnan(values))
    if wrong.any():
        raise ValueError(
            f"{name} must be from {fmt.smallest:g} to {fmt.largest_finite:g}, or NaN, "
            f"not {values[wrong][0]:g}"
        )


def check_codes(
    array: "Scaled", check: Callable[..., object] = integer_array, chunk: int | None = None
) -> None:
    """ValueError for codes, zero points and selectors outside their range.

    Widths of sums rely on these ranges. check: `integer_array`, or its counterpart for tensors.
    chunk: codes to look at at once, for their integers are long; None for `CHECKED_AT_ONCE`.
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
    matrix = array.matrix(array.codes)
    for rows in chunks(matrix.shape[0], (chunk or CHECKED_AT_ONCE, matrix.shape[1])):
        codes = cast(matrix[rows], "int64")
        allowed = (codes <= largest) & array.elements(table, at_most(codes, largest), rows)
        if not allowed.all():
            raise ValueError(
                f"codes of {scheme} must stand for numbers of {', '.join(map(str, formats))}, "
                f"not be {int(codes[~allowed][0]):#04x}"
            )


@cache
def _range_table(formats: tuple[ElementFormat, ...]) -> NDArray[np.bool_]:
    """(formats, codes): whether operands may hold the code."""
    return np.stack([fmt.in_range for fmt in formats])


@cache
def value_table(elements: tuple[ElementFormat, ...]) -> NDArray[np.float64]:
    """(formats, codes): value of every code of each format."""
    return np.stack([element.values for element in elements])
