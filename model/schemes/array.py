"""ScaledArray: codes of a scheme with their scales."""

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, contiguous, look_up, namespace
from ..errors import integer_array
from ..formats import ElementFormat
from .grouping import expand
from .scheme import Scheme

A = TypeVar("A")


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Scaled(Generic[A]):
    """What `quantize` makes of an array of NumPy or a tensor of PyTorch.

    codes: uint8, the shape of the array. scales: one array for each level of `scheme`, outermost
    first, as its format stores them; as many axes as `codes`, each as long as it has groups (1 for
    all axes but those of the matrix's rows and columns in a group of all rows). zero_points: int32,
    and selectors: uint8 indices into `scheme.elements`, both in the shape of the innermost scales,
    or None where the scheme has none. axis: along which the groups' columns run.
    """

    scheme: Scheme
    codes: A
    scales: tuple[A, ...]
    zero_points: A | None
    selectors: A | None
    axis: int

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """(rows, columns): `axis` as the columns, everything else as rows."""
        codes: Array = self.codes
        columns = codes.shape[self.axis]
        return prod(codes.shape) // columns, columns

    def matrix(self, part: Array) -> Array:
        """`part` with `axis` as its columns and everything else as rows."""
        moved = namespace(part).moveaxis(part, self.axis, -1)
        return moved.reshape(-1, moved.shape[-1])

    def unmatrix(self, matrix: Array) -> Array:
        """A matrix of an entry for each element in the axes of `codes`."""
        xp = namespace(matrix)
        moved = xp.moveaxis(self.codes, self.axis, -1)
        return contiguous(xp.moveaxis(matrix.reshape(moved.shape), -1, self.axis))

    def spread(self, groups: Array, level: int, rows: slice = slice(None)) -> Array:
        """The entry of every element's group, for some rows of the matrix."""
        height, width = self.scheme.levels[level].granularity.group(self.matrix_shape)
        return expand(expand(self.matrix(groups), (height, 1))[rows], (1, width))

    def elements(self, table: NDArray, codes: Array, rows: slice = slice(None)) -> Array:
        """What a table (formats, codes) has for the codes of some rows of the matrix."""
        book = 0 if self.selectors is None else self.spread(self.selectors, -1, rows)
        return look_up(table, codes, book)

    def values(self, codes: Array, rows: slice = slice(None)) -> Array:
        """Exact float64 s_0 x s_1 x ... x (q - z) of the codes of some rows of the matrix."""
        values = self.elements(value_table(self.scheme.elements), codes, rows)
        if self.zero_points is not None:
            values = values - self.spread(self.zero_points, -1, rows)
        for i, (level, stored) in enumerate(zip(self.scheme.levels, self.scales, strict=True)):
            values = values * self.spread(level.format.exact(stored), i, rows)
        return values


class ScaledArray(Scaled[NDArray]):
    """What `quantize` makes of an array of NumPy; its fields are those of `Scaled`."""

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


@cache
def value_table(elements: tuple[ElementFormat, ...]) -> NDArray[np.float64]:
    """(formats, codes): the value of every code of each format."""
    return np.stack([element.values for element in elements])


def check_selectors(scheme: Scheme, selectors: NDArray | None) -> None:
    """ValueError for a selector that names no element of `scheme`."""
    if selectors is not None:
        integer_array(f"selectors of {scheme}", selectors, 0, len(scheme.elements) - 1)
