"""The sections of a datapath and where its registers stand, as data.

A section is combinational; a register may stand after each one. Some registers are part of the
function: the one that holds the running value is always there. The others are chosen so that the
slowest stretch between two registers is as fast as it can be, by the sections' rough delays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Section:
    """`delay` is a rough number of gate levels: it places registers and predicts no time.

    `number` tells sections of one kind apart. `holds` marks the register after it as the running
    value's; `loop` marks sections through which that value passes on its way round. `joined` marks
    one that shares a cycle with the section before as long as registers have other places.
    """

    kind: str
    delay: int
    number: int | None = None
    holds: bool = False
    loop: bool = False
    joined: bool = False

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
    return Section(
        group[0].kind, delay, holds=group[-1].holds, loop=any(part.loop for part in group)
    )


def _places(parts: Sequence[Section], stages: int) -> set[int]:
    """The sections with a register after them, `stages` in all."""
    ends = range(1, len(parts) + 1)
    stretches = {sum(s.delay for s in parts[i:j]) for j in ends for i in range(j)}
    fits = (_cuts(parts, limit) for limit in sorted(stretches))
    cuts = next(cuts for cuts in fits if cuts is not None and len(cuts) <= stages)
    # What is left over comes late, where values are narrow, and last into a loop, which it slows.
    spare = [i for i in range(len(parts)) if i not in cuts]
    spare.sort(key=lambda i: (parts[i].loop, -i))
    return cuts | set(spare[: stages - len(cuts)])


def _cuts(parts: Sequence[Section], limit: int) -> set[int] | None:
    """The fewest registers, the mandatory ones included, with no stretch slower than `limit`."""
    cuts = {i for i, s in enumerate(parts) if s.holds}
    stretch = 0
    for i, section in enumerate(parts):
        if section.delay > limit:
            return None
        if stretch + section.delay > limit:
            cuts.add(i - 1)
            stretch = 0
        stretch = 0 if section.holds else stretch + section.delay
    return cuts
