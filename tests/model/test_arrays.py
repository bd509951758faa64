"""Arrays cut into pieces."""

import pytest

from mxdot.model.arrays import chunks


@pytest.mark.parametrize(
    ("rows", "limits", "lengths"),
    [
        (5, [(8, 4)], [2, 2, 1]),
        (4, [(8, 4)], [2, 2]),
        (3, [(100, 4)], [3]),
        (2, [(3, 4)], [1, 1]),
        (2, [(8, 0)], [2]),
        (4, [(8, 2), (9, 4)], [2, 2]),
        (2, [(2, 1)], [2]),
        (0, [(8, 4)], []),
    ],
)
def test_chunks(rows, limits, lengths):
    got = list(chunks(rows, *limits))
    assert [part.stop - part.start for part in got] == lengths
    assert [place for part in got for place in range(part.start, part.stop)] == list(range(rows))
