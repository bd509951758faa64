"""Dot products in flight together: groups of as many as a unit has slots, taking turns."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def shorter_first(lengths: Ints, slots: int) -> Ints:
    """The order in which products of so many blocks are sent, as indices (n,): that of `lengths`
    (n,), but in a group the shorter ones, whose results come first, come first."""
    return np.lexsort((lengths, np.arange(len(lengths)) // slots))


def in_turns(lengths: Ints, slots: int) -> tuple[Ints, Ints]:
    """Of all blocks in the order in which they are sent: the place of their product, and their own
    place in it."""
    ends = np.cumsum(lengths)
    place = np.repeat(np.arange(len(lengths)), lengths)
    step = np.arange(len(place)) - np.repeat(ends - lengths, lengths)
    turn = np.lexsort((place, step, place // slots))
    return place[turn], step[turn]
