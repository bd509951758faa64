"""ScaledArray: codes of a scheme with their scales."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import integer_array
from .grouping import expand
from .scheme import Scheme


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class ScaledArray:
    """What `quantize` makes of an array.

    codes: uint8, the shape of the array. scales: one array for each level of `scheme`, outermost
    first, as its format stores them; as many axes as `codes`, each as long as it has groups (1 for
    all axes but those of the matrix's rows and columns in a group of all rows). zero_points: int32,
    and selectors: uint8 indices into `scheme.elements`, both in the shape of the innermost scales,
    or None where the scheme has none. axis: along which the groups' columns run.
    """

    scheme: Scheme
    codes: NDArray[np.uint8]
    scales: tuple[NDArray, ...]
    zero_points: NDArray[np.int32] | None
    selectors: NDArray[np.uint8] | None
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `codes`."""
        return self.codes.shape

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """(rows, columns): `axis` as the columns, everything else as rows."""
        columns = self.codes.shape[self.axis]
        return self.codes.size // columns, columns

    def dequantize(self) -> NDArray[np.float32]:
        """RNE_fp32 of the exact s_0 x s_1 x ... x (q - z), in the shape of `codes`.

        NaN under a NaN scale; infinite where float32 overflows.
        """
        codes = self.matrix(self.codes)
        tables = np.stack([element.values for element in self.scheme.elements])
        book = 0 if self.selectors is None else self.spread(self.selectors, -1)
        values = tables[book, codes]
        if self.zero_points is not None:
            values = values - self.spread(self.zero_points, -1)
        for i, (level, stored) in enumerate(zip(self.scheme.levels, self.scales, strict=True)):
            values = values * self.spread(level.format.exact(stored), i)
        with np.errstate(over="ignore", under="ignore"):
            narrow = values.astype(np.float32)
        moved = np.moveaxis(self.codes, self.axis, -1).shape
        return np.ascontiguousarray(np.moveaxis(narrow.reshape(moved), -1, self.axis))

    def matrix(self, array: NDArray) -> NDArray:
        """`array` with `axis` as its columns and everything else as rows."""
        moved = np.moveaxis(array, self.axis, -1)
        return moved.reshape(-1, moved.shape[-1])

    def spread(self, groups: NDArray, level: int) -> NDArray:
        """The entry of every element's group."""
        group = self.scheme.levels[level].granularity.group(self.matrix_shape)
        return expand(self.matrix(groups), group)


def check_selectors(scheme: Scheme, selectors: NDArray | None) -> None:
    """ValueError for a selector that names no element of `scheme`."""
    if selectors is not None:
        integer_array(f"selectors of {scheme}", selectors, 0, len(scheme.elements) - 1)
