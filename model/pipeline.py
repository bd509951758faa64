"""The sections of a datapath and where its registers stand, as data.

A section is combinational; a register may stand after each one. Some registers are part of the
function: the one that holds the running value is always there. The others are chosen so that the
slowest stretch between two registers is as fast as it can be, by the sections' rough delays.
Sections that are joined, as a loop's, stay together until all other places have a register.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Section:
    """`delay` is a rough number of gate levels: it places registers and predicts no time.

    `number` tells sections of one kind apart. `holds` marks the register after it as the running
    value's; `loop` marks sections through which that value passes on its way round. `joined` marks
    one that shares a cycle with the section before as long as registers have other places. `bits`
    is about how many leave it: between places that are equal otherwise registers go where it is
    least.
    """

    kind: str
    delay: int
    number: int | None = None
    holds: bool = False
    loop: bool = False
    joined: bool = False
    bits: int = 0

    @property
    def name(self) -> str:
        """Its kind and number."""
        return self.kind if self.number is None else f"{self.kind}{self.number}"


@dataclass(frozen=True)
class Pipeline:
    """Sections in order, and the indices of those with a register after them."""

    sections: tuple[Section, ...]
    registered: frozenset[int]

    @property
    def latency(self) -> int:
        """Cycles from accepting a dot product's last block to its result being valid."""
        return len(self.registered)

    @property
    def path(self) -> str:
        """The sections by name, a bar for each register."""
        return " ".join(
            section.name + (" |" if index in self.registered else "")
            for index, section in enumerate(self.sections)
        )

    @property
    def interval(self) -> int:
        """Cycles between two blocks of one dot product that wait for each other's result.

        Blocks that start a sum of their own are accepted every cycle.
        """
        loop = [i for i in self.registered if self.sections[i].loop]
        return max(1, len(loop))


def stage_limits(parts: tuple[Section, ...]) -> tuple[int, int]:
    """The fewest and the most registers that these sections can have."""
    return sum(s.holds for s in parts), len(parts)


def place(parts: tuple[Section, ...], stages: int) -> Pipeline:
    """The pipeline of `stages` registers whose slowest stretch is as fast as it can be."""
    least = stage_limits(parts)[0]
    if stages < least:
        raise ValueError(f"stages must be at least {least}, not {stages}")
    starts = [i for i, part in enumerate(parts) if not part.joined]
    groups = [range(i, j) for i, j in pairwise([*starts, len(parts)])]
    whole = [_together([parts[i] for i in group]) for group in groups]
    registered = {groups[i][-1] for i in _places(whole, min(stages, len(whole)))}
    spare = stages - len(whole)
    for group in groups:  # registers that find no place between them go into groups
        inside = [parts[i] for i in group]
        if spare > 0 and len(group) > 1:
            cuts = _places(inside, min(spare + 1, len(group)))
            registered |= {group[i] for i in cuts}
            spare -= len(cuts) - 1
    return Pipeline(parts, frozenset(registered))


def _together(group: list[Section]) -> Section:
    """Sections that share a cycle, as one."""
    delay = sum(part.delay for part in group)
    loop = any(part.loop for part in group)
    return Section(group[0].kind, delay, holds=group[-1].holds, loop=loop, bits=group[-1].bits)


def _places(parts: Sequence[Section], stages: int) -> set[int]:
    """The sections with a register after them, `stages` in all.

    The slowest stretch is as fast as it can be; then few registers are in a loop, which they slow,
    then they hold few bits, and are late.
    """
    ends = range(1, len(parts) + 1)
    stretches = sorted({sum(s.delay for s in parts[i:j]) for j in ends for i in range(j)})
    first = bisect_left(stretches, True, key=lambda limit: _best(parts, stages, limit) is not None)
    best = _best(parts, stages, stretches[first])
    assert best is not None
    return best


def _best(parts: Sequence[Section], stages: int, limit: int) -> set[int] | None:
    """The best of the places with no stretch slower than `limit`; None when there are none."""
    reach = _reach(parts, limit)
    # The best that ends with a register after `end`, the last of `count`: what it costs, and where.
    found: dict[tuple[int, int], tuple[int, int, int, tuple[int, ...]]] = {(-1, 0): (0, 0, 0, ())}
    for end, last in enumerate(parts):
        for start in range(reach[end], end + 1):
            for count in range(stages):
                before = found.get((start - 1, count))
                if before is not None:
                    loops, bits, late, places = before
                    cost = loops + last.loop, bits + last.bits, late - end, (*places, end)
                    found[end, count + 1] = min(cost, found.get((end, count + 1), cost))
    last = len(parts) - 1
    ends = [last] if parts[last].holds else range(reach[last] - 1, last + 1)
    best = min((found[end, stages] for end in ends if (end, stages) in found), default=None)
    return None if best is None else set(best[-1])


def _reach(parts: Sequence[Section], limit: int) -> list[int]:
    """For each section the first with which it can share a cycle; one more where it cannot be."""
    first = []
    for end in range(len(parts)):
        start, stretch = end + 1, 0
        while start and (start > end or not parts[start - 1].holds):
            stretch += parts[start - 1].delay
            if stretch > limit:
                break
            start -= 1
        first.append(start)
    return first
