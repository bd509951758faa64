"""The sections of a datapath and where its registers stand, as data.

A section is combinational; a register may stand after each one. Some registers are part of the
function: the one that holds the running value is always there. The others are chosen so that the
slowest stretch between two registers is as fast as it can be, by the sections' delays, and the
others have slack.
Sections that are joined, as a loop's, stay together until all other places have a register; where
products are interleaved, a loop has registers like any other place, as many as there are products
that keep it busy.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

SLACK = 0.75
"""Of the slowest stretch: synthesis sizes up what is as slow, for more area than registers take."""


@dataclass(frozen=True)
class Section:
    """`delay`, in any unit, places registers and predicts no time.

    `number` tells sections of one kind apart. `holds` marks the register after it as the running
    value's; `loop` marks sections through which that value passes on its way round. `joined` marks
    one that shares a cycle with the section before as long as registers have other places. `beside`
    marks one that takes nothing from the sections before it, and runs while they do. `bits` is
    about how many leave it: between places that are equal otherwise registers go where it is least.
    `cuts` are the delays of the parts into which it can be cut (`cut_finer`), none where it cannot.
    """

    kind: str
    delay: int
    number: int | None = None
    holds: bool = False
    loop: bool = False
    joined: bool = False
    beside: bool = False
    bits: int = 0
    cuts: tuple[int, ...] = ()

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
    def slowest(self) -> tuple[Section, ...]:
        """The sections that share a cycle and take longest, by their delays."""
        edges = [0, *(index + 1 for index in sorted(self.registered)), len(self.sections)]
        return max((self.sections[i:j] for i, j in pairwise(edges)), key=_stretch)

    @property
    def interval(self) -> int:
        """Cycles between two blocks of one dot product that wait for each other's result.

        Blocks that start a sum of their own are accepted every cycle.
        """
        loop = [i for i in self.registered if self.sections[i].loop]
        return max(1, len(loop))


def cut_finer(parts: tuple[Section, ...]) -> tuple[Section, ...]:
    """The same datapath with each section that can be cut in its parts, numbered by kind.

    Only where a loop's are among them: it would be the slowest stretch else, whatever is cut.
    """
    if not any(part.loop and part.cuts for part in parts):
        return parts
    found, numbers = [], Counter[str]()
    for part in parts:
        for index, delay in enumerate(part.cuts):
            numbers[part.kind] += 1
            found.append(
                replace(
                    part,
                    delay=delay,
                    number=numbers[part.kind],
                    holds=part.holds and index == len(part.cuts) - 1,
                    joined=part.joined or (part.loop and index > 0),
                    beside=part.beside and index == 0,
                    cuts=(),
                )
            )
        if not part.cuts:
            found.append(part)
    return tuple(found)


def stage_limits(parts: tuple[Section, ...]) -> tuple[int, int]:
    """The fewest and the most registers that these sections can have."""
    return sum(s.holds for s in parts), len(parts)


def place(parts: tuple[Section, ...], stages: int, interleave: int = 1) -> Pipeline:
    """The pipeline of `stages` registers whose slowest stretch is as fast as it can be.

    interleave: products in flight, which take turns in a loop of as many registers, or of more
    where other places are taken.
    """
    least = stage_limits(parts)[0]
    if stages < least:
        raise ValueError(f"stages must be at least {least}, not {stages}")
    if interleave > 1:
        # Where there are not so many places outside, more go inside, but no more than must.
        limits = range(min(interleave, len(parts)), len(parts) + 1)
        found = (_places(parts, stages, limit) for limit in limits)
        registered = next(places for places in found if places is not None)
        return Pipeline(parts, frozenset(registered))
    starts = [i for i, part in enumerate(parts) if not part.joined]
    groups = [range(i, j) for i, j in pairwise([*starts, len(parts)])]
    whole = [_together([parts[i] for i in group]) for group in groups]
    registered = {groups[i][-1] for i in _some_places(whole, min(stages, len(whole)))}
    spare = stages - len(whole)
    for group in groups:  # registers that find no place between them go into groups
        inside = [parts[i] for i in group]
        if spare > 0 and len(group) > 1:
            cuts = _some_places(inside, min(spare + 1, len(group)))
            registered |= {group[i] for i in cuts}
            spare -= len(cuts) - 1
    return Pipeline(parts, frozenset(registered))


def _together(group: list[Section]) -> Section:
    """Sections that share a cycle, as one."""
    delay = sum(part.delay for part in group)
    loop = any(part.loop for part in group)
    return Section(group[0].kind, delay, holds=group[-1].holds, loop=loop, bits=group[-1].bits)


def _some_places(parts: Sequence[Section], stages: int) -> set[int]:
    """`_places` without a limit for loops."""
    places = _places(parts, stages, stages)
    assert places is not None
    return places


def _places(parts: Sequence[Section], stages: int, in_loop: int) -> set[int] | None:
    """The sections with a register after them, `stages` in all, in each loop at most `in_loop`.

    The slowest stretch is as fast as it can be; then few registers are in a loop, which they slow;
    then stretches of several sections are below `SLACK` of the slowest if there are places for it;
    then registers hold few bits, and are late. None when there are not so many places.
    """
    ends = range(1, len(parts) + 1)
    stretches = sorted({_stretch(parts[i:j]) for j in ends for i in range(j)})

    def best(limit: int, joint: float) -> set[int] | None:
        return _best(parts, stages, in_loop, _reach(parts, limit, joint))

    first = bisect_left(stretches, True, key=lambda limit: best(limit, limit) is not None)
    if first == len(stretches):
        return None
    slowest = stretches[first]
    places, eased = (best(slowest, joint * slowest) for joint in (1, SLACK))
    assert places is not None
    return eased if eased and _in_loops(parts, eased) <= _in_loops(parts, places) else places


def _stretch(parts: Sequence[Section]) -> int:
    """What sections take that share a cycle."""
    total = 0
    for part in parts:
        total = max(total, part.delay) if part.beside else total + part.delay
    return total


def _in_loops(parts: Sequence[Section], places: set[int]) -> int:
    """How many of the places a running value passes."""
    return sum(parts[i].loop for i in places)


def _best(
    parts: Sequence[Section], stages: int, in_loop: int, reach: Sequence[int]
) -> set[int] | None:
    """The best of the places with stretches that begin within `reach`; None without any."""
    # The best that ends with a register after `end`, the last of `count` and of `turns` in its
    # loop: what it costs, and where.
    found: dict[tuple[int, int, int], tuple[int, int, int, tuple[int, ...]]]
    found = {(-1, 0, 0): (0, 0, 0, ())}
    for end, last in enumerate(parts):
        for start in range(reach[end], end + 1):
            before = [key for key in found if key[0] == start - 1 and key[1] < stages]
            for key in before:
                _, count, turns = key
                if turns + last.loop > in_loop:
                    continue
                loops, bits, late, places = found[key]
                cost = loops + last.loop, bits + last.bits, late - end, (*places, end)
                # Behind the register of a running value another loop begins.
                here = end, count + 1, 0 if last.holds else turns + last.loop
                found[here] = min(cost, found.get(here, cost))
    last = len(parts) - 1
    ends = [last] if parts[last].holds else range(reach[last] - 1, last + 1)
    some = [cost for key, cost in found.items() if key[0] in ends and key[1] == stages]
    return set(min(some)[-1]) if some else None


def _reach(parts: Sequence[Section], limit: int, joint: float) -> list[int]:
    """For each section the first with which it can share a cycle; one more where it cannot be.

    limit: of a section alone; joint: of several.
    """
    first = []
    for end in range(len(parts)):
        start = end + 1
        while start and (start > end or not parts[start - 1].holds):
            if _stretch(parts[start - 1 : end + 1]) > (limit if start > end else joint):
                break
            start -= 1
        first.append(start)
    return first
