"""Dot products in flight together: which slot has each, and whose block is sent next."""

from typing import NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Ints = NDArray[np.int64]

IN_TURN = 0.8
"""How often the slot after the last one has the next block."""


class Turns(NamedTuple):
    """The blocks of products in the order in which they are sent. place, step (blocks,): of each
    the place of its product, and its own in that; slot (products,)."""

    place: Ints
    step: Ints
    slot: Ints

    @classmethod
    def one_by_one(cls, lengths: Ints) -> Self:
        """Products of so many blocks, one after the other."""
        ends = np.cumsum(lengths)
        place = np.repeat(np.arange(len(lengths)), lengths)
        step = np.arange(len(place)) - np.repeat(ends - lengths, lengths)
        return cls(place, step, np.zeros(len(lengths), np.int64))

    @classmethod
    def mixed(cls, lengths: Ints, slots: int, rng: Generator) -> Self:
        """Each in the next slot that is free; slots take turns, and sometimes any has one."""
        if slots == 1:
            return cls.one_by_one(lengths)
        wanted = lengths.tolist()
        slot_of: list[int] = []
        sent: list[tuple[int, int]] = []
        open_in: dict[int, tuple[int, int]] = {}  # slot: product and block that come next
        slot = 0
        while len(slot_of) < len(wanted) or open_in:
            slot = (slot + 1) % slots if rng.random() < IN_TURN else int(rng.integers(slots))
            if slot not in open_in and len(slot_of) < len(wanted):
                open_in[slot] = len(slot_of), 0
                slot_of.append(slot)
            if slot in open_in:
                place, step = open_in.pop(slot)
                sent.append((place, step))
                if step + 1 < wanted[place]:
                    open_in[slot] = place, step + 1
        place, step = np.array(sent, np.int64).T
        return cls(place, step, np.array(slot_of, np.int64))

    def by_end(self) -> tuple[Ints, Self]:
        """The places of products in the order in which their last blocks, and so their results,
        come, (products,); and the same turns of products that are numbered in that order."""
        last = np.zeros(len(self.slot), np.int64)
        np.maximum.at(last, self.place, np.arange(len(self.place)))
        order = np.argsort(last)
        return order, self._replace(place=np.argsort(order)[self.place], slot=self.slot[order])
