"""Bins of features, and which of them values hit."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Bins = Sequence[object]
Hits = list[set[object]]


def present(indices: NDArray[np.uint8], label: Callable[[int], object]) -> Hits:
    """The labels of the indices that occur in each row."""
    rows = indices.reshape(len(indices), -1)
    seen = np.zeros((len(rows), int(rows.max(initial=0)) + 1), np.bool_)
    np.put_along_axis(seen, rows.astype(np.intp), True, axis=1)
    labels = [label(i) for i in range(seen.shape[1])]
    return [{labels[i] for i in np.flatnonzero(row)} for row in seen]


def range_of(starts: Mapping[str, int], value: float) -> str:
    """The name of the range that holds `value`, of ranges by where they start, in order."""
    return [name for name, start in starts.items() if value >= start][-1]
