"""Granularities, which say what elements share a scale, and groups of a matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ..arrays import Array, axis_back, contiguous, namespace
from ..errors import integer

Group = tuple[int, int]  # rows and columns of a group, or of a matrix


@dataclass(frozen=True)
class Granularity:
    """Groups of `rows` x `columns`, None for all; columns run along the contraction axis."""

    rows: int | None
    columns: int | None

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name), 1)

    def __str__(self) -> str:
        names = {(None, None): "tensor", (1, None): "channel"}
        if (self.rows, self.columns) in names:
            return names[self.rows, self.columns]
        if self.rows == 1:
            return f"block {self.columns}"
        return f"tile {self.rows or 'all'} x {self.columns or 'all'}"

    def holds(self, inner: "Granularity") -> bool:
        """Whether every group of `inner` lies in a group of this granularity."""
        pairs = ((self.rows, inner.rows), (self.columns, inner.columns))
        return all(own is None or (size is not None and own % size == 0) for own, size in pairs)

    def group(self, shape: Group) -> Group:
        """(rows, columns) of a group in a matrix of `shape`; ValueError if it does not divide."""
        size = (self.rows or shape[0], self.columns or shape[1])
        for what, length, part in zip(("row count", "row length"), shape, size, strict=True):
            if length % part:
                raise ValueError(f"{what} must be a multiple of {part} for {self}, not {length}")
        return size


TENSOR = Granularity(None, None)
CHANNEL = Granularity(1, None)


def block(size: int) -> Granularity:
    """`size` consecutive elements of a row."""
    return Granularity(1, size)


def tile(rows: int, columns: int) -> Granularity:
    """`rows` x `columns` elements of a matrix."""
    return Granularity(rows, columns)


def group_in(granularity: Granularity, moved: tuple[int, ...], shape: Group) -> Group:
    """Size of a group in a matrix of `shape`, made of an array of shape `moved`.

    Raises ValueError if it does not divide the matrix, or crosses the array's axis before the last.
    """
    rows = granularity.rows
    if rows is not None and len(moved) > 2 and moved[-2] % rows:
        raise ValueError(
            f"row count must be a multiple of {rows} for {granularity}, not {moved[-2]}"
        )
    return granularity.group(shape)


def parts(matrix: Array, group: Group) -> Array:
    """(groups of rows, rows, groups of columns, columns): the matrix cut into its groups."""
    rows, columns = group
    return matrix.reshape(matrix.shape[0] // rows, rows, matrix.shape[1] // columns, columns)


def reduce(matrix: Array, group: Group, function: Callable[..., Array]) -> Array:
    """function(..., axes) of every group of a matrix, one entry per group."""
    cut = parts(matrix, group)
    return function(cut[:, 0], -1) if group[0] == 1 else function(cut, (1, 3))


def spread(groups: Array) -> Array:
    """Entries of groups in a shape that broadcasts against `parts`."""
    return groups[:, None, :, None]


def expand(groups: Array, group: Group) -> Array:
    """The matrix in which every element holds its group's entry."""
    if group == (1, 1):
        return groups
    (rows, columns), (height, width) = groups.shape, group
    whole = namespace(groups).broadcast_to(spread(groups), (rows, height, columns, width))
    return whole.reshape(rows * height, columns * width)


def refine(groups: Array, outer: Group, inner: Group) -> Array:
    """Entries of groups of size `outer`, repeated for each group of size `inner` in them."""
    return expand(groups, (outer[0] // inner[0], outer[1] // inner[1]))


def in_axes(entries: Array, moved: tuple[int, ...], rows: int, axis: int) -> Array:
    """A matrix with one entry per group of `rows` rows, in the axes of the array.

    moved: shape of the array with `axis` moved to the end.
    """
    whole = entries.reshape(*_lead_axes(moved, rows), entries.shape[-1])
    return contiguous(axis_back(whole, axis))


def grid_shape(moved: tuple[int, ...], group: Group, axis: int) -> tuple[int, ...]:
    """Shape of the result of `in_axes`."""
    shape = _lead_axes(moved, group[0])
    shape.insert(axis % len(moved), moved[-1] // group[1])
    return tuple(shape)


def _lead_axes(moved: tuple[int, ...], rows: int) -> list[int]:
    """Axes before the last of an array with one entry for `rows` rows of the array `moved`."""
    lead = list(moved[:-1])
    if rows == prod(lead):
        return [1] * len(lead)
    lead[-1] //= rows
    return lead
