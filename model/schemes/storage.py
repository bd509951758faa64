"""Bytes of quantised arrays: their number, derived from the scheme, and the packed arrays.

Codes, scales, zero points and selectors are each packed along a row of their matrix, entry 0 in the
lowest bits (INT4 and FP4 two to a byte, the first in the low nibble). Every row starts at a whole
byte.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..errors import flag, integer
from ..formats import ScaleFormat
from ..packing import pack_rows, unpack_rows
from .array import ScaledArray
from .grouping import Group, in_axes
from .scheme import Scheme
from .table import scheme as find

TILE_ROWS, TILE_SCALES = 128, 4  # layout of scales that block-scaled matrix units read


@dataclass(frozen=True)
class Storage:
    """Bytes of one matrix of `count` elements. scales: one entry per level, the outermost first."""

    count: int
    elements: int
    scales: tuple[int, ...]
    zero_points: int
    selectors: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.elements + sum(self.scales) + self.zero_points + self.selectors

    @property
    def bits_per_element(self) -> Fraction:
        """Bits per element, everything counted."""
        return Fraction(8 * self.total, self.count)

    @property
    def compression(self) -> Fraction:
        """Size in float32 divided by this size."""
        return Fraction(4 * self.count, self.total)

    def __add__(self, other: "Storage") -> "Storage":
        """Two copies of the same elements: bytes add, `count` stays."""
        return Storage(
            self.count,
            self.elements + other.elements,
            tuple(map(sum, zip(self.scales, other.scales, strict=True))),
            self.zero_points + other.zero_points,
            self.selectors + other.selectors,
        )


def storage(
    scheme: Scheme | str, rows: int, columns: int, *, tiled: bool = False, transposed: bool = False
) -> Storage:
    """Bytes of a matrix (rows, columns), the contraction along its columns.

    Codes, scales, zero points and selectors are each packed densely along a row, and every row
    starts at a whole byte. tiled: the innermost scales, which must have 8 bits and belong to blocks
    of one row, are padded to tiles of 128 rows x 4 scales. transposed: the second copy that
    training keeps, of the transposed matrix with scales of its own, is added.
    Raises ValueError where a group does not divide the matrix.
    """
    scheme = find(scheme)
    rows, columns = integer("rows", rows, 1), integer("columns", columns, 1)
    flag("tiled", tiled)
    flag("transposed", transposed)
    one = _one_copy(scheme, (rows, columns), tiled)
    return one + _one_copy(scheme, (columns, rows), tiled) if transposed else one


def _one_copy(scheme: Scheme, shape: tuple[int, int], tiled: bool) -> Storage:
    grids = []  # (rows, columns) of scales, for each level
    for level in scheme.levels:
        group = level.granularity.group(shape)
        grids.append((shape[0] // group[0], shape[1] // group[1]))
    bits = [level.format.bits for level in scheme.levels]
    scales = [_packed(grid, width) for grid, width in zip(grids, bits, strict=True)]
    if tiled:
        granularity = scheme.levels[-1].granularity
        if bits[-1] != 8 or granularity.rows != 1 or granularity.columns is None:
            raise ValueError(
                f"tiled must be False for {scheme}: tiles hold 8-bit scales of blocks, not "
                f"{scheme.levels[-1]}"
            )
        scales[-1] = prod(
            -(-length // part) * part
            for length, part in zip(grids[-1], (TILE_ROWS, TILE_SCALES), strict=True)
        )
    width = scheme.elements[0].bits
    return Storage(
        prod(shape),
        _packed(shape, width),
        tuple(scales),
        _packed(grids[-1], width) if scheme.zero_point else 0,
        _packed(grids[-1], scheme.selector_bits),
    )


def _packed(grid: tuple[int, int], bits: int) -> int:
    """Bytes of rows of `bits`-bit entries; each row starts at a whole byte."""
    return grid[0] * -(-grid[1] * bits // 8)


def bits_per_element(scheme: Scheme | str) -> Fraction:
    """Bits per element; scales of whole rows, columns or tensors do not count."""
    scheme = find(scheme)
    bits = Fraction(scheme.elements[0].bits)
    for level in scheme.levels:
        rows, columns = level.granularity.rows, level.granularity.columns
        if rows is not None and columns is not None:
            last = level is scheme.levels[-1]
            own = scheme.selector_bits + scheme.elements[0].bits * scheme.zero_point if last else 0
            bits += Fraction(level.format.bits + own, rows * columns)
    return bits


Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class PackedArray:
    """A ScaledArray of `shape` and `axis` as bytes.

    Every part is uint8 (rows, bytes of a row), with the rows of a matrix whose columns run along
    `axis`. Zero points are as wide as the elements. Zero points and selectors are None where the
    scheme has none.
    """

    scheme: Scheme
    shape: tuple[int, ...]
    axis: int
    elements: Bytes
    scales: tuple[Bytes, ...]
    zero_points: Bytes | None
    selectors: Bytes | None

    @property
    def nbytes(self) -> int:
        """All bytes."""
        parts = (self.elements, *self.scales, self.zero_points, self.selectors)
        return sum(part.nbytes for part in parts if part is not None)


def pack(array: ScaledArray) -> PackedArray:
    """The bytes of `array`."""
    if not isinstance(array, ScaledArray):
        raise TypeError(f"array must be a ScaledArray, not {type(array).__name__}")
    scheme = array.scheme
    width = scheme.elements[0].bits
    scales = tuple(
        _pack_scales(array.matrix(stored), level.format)
        for level, stored in zip(scheme.levels, array.level_scales, strict=True)
    )
    zero_points, selectors = array.zero_points, array.selectors
    return PackedArray(
        scheme,
        array.shape,
        array.axis,
        pack_rows(array.matrix(array.codes), width),
        scales,
        None if zero_points is None else pack_rows(array.matrix(zero_points), width),
        None if selectors is None else pack_rows(array.matrix(selectors), scheme.selector_bits),
    )


def unpack(packed: PackedArray) -> ScaledArray:
    """The inverse of `pack`.

    Raises ValueError for a part of the wrong shape, and for contents that a ScaledArray refuses.
    """
    if not isinstance(packed, PackedArray):
        raise TypeError(f"packed must be a PackedArray, not {type(packed).__name__}")
    scheme, axis = packed.scheme, packed.axis
    if not prod(packed.shape):
        raise ValueError(
            f"shape of a packed {scheme} must be that of at least one value, not {packed.shape}"
        )
    moved = np.moveaxis(np.broadcast_to(False, packed.shape), axis, -1).shape
    matrix = prod(moved[:-1]), moved[-1]
    groups = [level.granularity.group(matrix) for level in scheme.levels]
    formats = [level.format for level in scheme.levels]
    width = scheme.elements[0].bits

    def checked(name: str, rows: Bytes, bits: int, group: Group) -> int:
        """Entries per row; ValueError for bytes of another shape or type."""
        height, count = matrix[0] // group[0], matrix[1] // group[1]
        want = height, -(-count * bits // 8)
        if rows.shape != want or rows.dtype != np.uint8:
            raise ValueError(
                f"{name} of a packed {scheme} must be uint8 of shape {want}, not {rows.dtype} "
                f"{rows.shape}"
            )
        return count

    def part(name: str, rows: Bytes, bits: int, group: Group) -> NDArray:
        entries = unpack_rows(rows, bits, checked(name, rows, bits, group))
        return in_axes(entries, moved, group[0], axis)

    scales = [
        _floats(part("scales", rows, fmt.bits, group), fmt)
        for fmt, rows, group in zip(formats, packed.scales, groups, strict=True)
    ]
    zero_points = selectors = None
    if packed.zero_points is not None:
        stored = part("zero_points", packed.zero_points, width, groups[-1])
        zero_points = scheme.elements[0].values[stored].astype(np.int32)
    if packed.selectors is not None:
        selectors = part("selectors", packed.selectors, scheme.selector_bits, groups[-1])
    codes = part("elements", packed.elements, width, (1, 1)).astype(scheme.code_dtype, copy=False)
    return ScaledArray(scheme, codes, tuple(scales), zero_points, selectors, axis)


def _pack_scales(stored: NDArray, fmt: ScaleFormat) -> Bytes:
    """Bytes of scales, floats as their bits."""
    return pack_rows(stored.view(f"u{fmt.dtype.itemsize}"), fmt.bits)


def _floats(stored: NDArray, fmt: ScaleFormat) -> NDArray:
    """Scales of a format from their bits."""
    return stored.astype(f"u{fmt.dtype.itemsize}").view(fmt.dtype)
