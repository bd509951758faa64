"""Quantised arrays: codes with their scales. MX is one scheme of many, MXArray one ScaledArray."""

from dataclasses import dataclass, field
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, axis_last, look_up
from ..blocks import LARGEST_BLOCK, check_axis, scale_shape
from ..errors import integer
from ..formats import ElementFormat, element_format
from .checks import check_codes, check_scales, check_shape, value_table
from .grouping import expand, in_axes, parts, spread
from .scheme import Scheme
from .table import mx

A = TypeVar("A")


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Scaled(Generic[A]):
    """What `quantize` makes of an array of NumPy or a tensor of PyTorch.

    codes: those of the elements, the shape of the array. scales: one array for each level of
    `scheme`, outermost first, as its format stores them; as many axes as `codes`, each as long as
    it has groups (1 for all axes but those of the matrix's rows and columns in a group of all
    rows). zero_points: int32, and selectors: uint8 indices into `scheme.elements`, both in the
    shape of the innermost scales,
    or None where the scheme has none. axis: along which the groups' columns run.
    """

    scheme: Scheme
    codes: A
    scales: tuple[A, ...]
    zero_points: A | None
    selectors: A | None
    axis: int

    @property
    def level_scales(self) -> tuple[A, ...]:
        """The scales of every level, outermost first."""
        return self.scales

    @property
    def moved_shape(self) -> tuple[int, ...]:
        """The shape of `codes`, `axis` moved behind the others."""
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
        """A matrix of an entry for each element in the axes of `codes`."""
        return in_axes(matrix, self.moved_shape, 1, self.axis)

    def spread(self, groups: Array, level: int, rows: slice = slice(None)) -> Array:
        """The entry of every element's group, for some rows of the matrix."""
        by_row, width = self._by_row(groups, level, rows)
        return expand(by_row, (1, width))

    def _by_row(self, groups: Array, level: int, rows: slice) -> tuple[Array, int]:
        """The entries of some rows' groups, and the width of a group."""
        height, width = self.scheme.levels[level].granularity.group(self.matrix_shape)
        return expand(self.matrix(groups), (height, 1))[rows], width

    def elements(self, table: NDArray, codes: Array, rows: slice = slice(None)) -> Array:
        """What a table (formats, codes) has for the codes of some rows of the matrix."""
        book = 0 if self.selectors is None else self.spread(self.selectors, -1, rows)
        return look_up(table, codes, book)

    def values(self, codes: Array, rows: slice = slice(None)) -> Array:
        """Exact float64 s_0 x s_1 x ... x (q - z) of the codes of some rows of the matrix."""
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
    """Codes of a scheme with their scales, arrays of NumPy; the fields are those of `Scaled`.

    All are kept as read-only copies. Scales are from the smallest to the largest of their format,
    or its NaN: none is zero, negative or infinite (section 6 of docs/numerics.md).
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
        codes = np.array(codes)
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
            scales=tuple(map(np.array, scales)),
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
        """Of parts known to be right and nobody else's: neither checked nor copied."""
        made = ScaledArray.__new__(ScaledArray)
        made._hold(
            scheme=scheme,
            codes=codes,
            scales=scales,
            zero_points=zero_points,
            selectors=selectors,
            axis=axis,
        )
        return made

    def _hold(self, **fields: object) -> None:
        """Set the fields of a frozen dataclass, and close its arrays to writing."""
        vars(self).update(fields)
        for part in (self.codes, *self.level_scales, self.zero_points, self.selectors):
            if part is not None:
                part.flags.writeable = False

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """A pickled array's parts are read-only too."""
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
    """Blocks of `block_size` consecutive elements along `axis` that share an E8M0 scale.

    The ScaledArray of one level of scales; `scales` is the one array and no tuple.

    codes: uint8 (uint16 for FP16 and BF16, uint32 for TF32), any shape; the axis a multiple of
    `block_size` long. scales: uint8, the shape of `codes` with that axis divided by `block_size`.
    Both are kept as read-only copies. format: an ElementFormat or its name.
    padding: zeros that quantisation appended to the axis.
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
        codes, scales = np.array(fmt.check(codes)), np.array(scales)
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
        """Of arrays known to be right and nobody else's: neither checked nor copied."""
        made = MXArray.__new__(MXArray)
        made._hold_blocks(codes, scales, format, block_size, axis, padding)
        return made

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
            scheme=mx(fmt, block_size, "floor"),  # a rule is none of what blocks are
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
        """The scales of the one level."""
        return (self.scales,)

    def blocks_last(self) -> tuple[NDArray, NDArray[np.uint8]]:
        """Codes (..., blocks, block_size) and scales (..., blocks): the axis comes last."""
        codes = axis_last(self.codes, self.axis)
        shape = (*codes.shape[:-1], codes.shape[-1] // self.block_size, self.block_size)
        return codes.reshape(shape), axis_last(self.scales, self.axis)
