"""Dense packing of quantised arrays: the bytes that `storage` counts.

Codes, scales, zero points and selectors are each packed along a row of their matrix, entry 0 in
the lowest bits (INT4 and FP4 two to a byte, the first in the low nibble), every row from a whole
byte on.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..formats import ScaleFormat
from ..packing import pack_rows, unpack_rows
from .array import ScaledArray
from .grouping import Group, in_axes
from .scheme import Scheme

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class PackedArray:
    """A ScaledArray of `shape` and `axis` as bytes.

    Every part is uint8 (rows, bytes of a row), the rows those of a matrix with `axis` as its
    columns; zero points are as wide as the elements, and None where the scheme has none.
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

    ValueError where a part has not the bytes that its shape needs, or what a ScaledArray refuses.
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
        """Entries of a row; ValueError for other bytes."""
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
    """Floats by their bits."""
    return pack_rows(stored.view(f"u{fmt.dtype.itemsize}"), fmt.bits)


def _floats(stored: NDArray, fmt: ScaleFormat) -> NDArray:
    """The inverse of bits as integers."""
    return stored.astype(f"u{fmt.dtype.itemsize}").view(fmt.dtype)
