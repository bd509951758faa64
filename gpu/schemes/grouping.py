"""Groups of a matrix (rows, columns) of one size, and one entry for each."""

from collections.abc import Callable

from torch import Tensor

from ...model.schemes.grouping import Group


def reduce(matrix: Tensor, group: Group, function: Callable[..., Tensor]) -> Tensor:
    """function(..., dim=) of every group of a matrix, one entry for each."""
    rows, columns = group
    parts = matrix.reshape(matrix.shape[0] // rows, rows, matrix.shape[1] // columns, columns)
    return function(parts, dim=(1, 3))


def expand(groups: Tensor, group: Group) -> Tensor:
    """The matrix in which every group of `group` holds its entry."""
    rows, columns = group
    if rows > 1:
        groups = groups.repeat_interleave(rows, dim=0)
    return groups.repeat_interleave(columns, dim=1) if columns > 1 else groups


def refine(groups: Tensor, outer: Group, inner: Group) -> Tensor:
    """Entries of groups of size `outer`, one for each group of size `inner` in them."""
    return expand(groups, (outer[0] // inner[0], outer[1] // inner[1]))
