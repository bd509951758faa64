"""Sections of a datapath, and the places of its registers.

A section is combinational; a register may stand after each section. The register of the running
value is always there. The other registers make the slowest stretch between two registers as fast as
the sections' delays allow, and give the other stretches slack.

Joined sections, those of a loop, stay together until every other place has a register. With
interleaved products a loop has registers like any other place: at most one per product, so that the
products keep the loop busy.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

SLACK = 0.75
"""Largest delay of other stretches, as a share of the slowest: synthesis upsizes everything that is
as slow, which costs more area than registers do."""


@dataclass(frozen=True)
class Section:
    """A combinational piece of a datapath.

    delay: in any unit; places registers and predicts no time. number: tells sections of one kind
    apart. holds: the register after the section holds the running value. loop: the running value
    passes through the section on its way round. joined: shares a cycle with the section before as
    long as registers have other places. parallel: reads nothing of the sections before, and runs in
    parallel to them. bits: approximate number of output bits; of places that are equal otherwise,
    registers take the one with the fewest. cuts: delays of the parts that `cut_finer` makes of the
    section; empty where it stays whole.
    """

    kind: str
    delay: int
    number: int | None = None
    holds: bool = False
    loop: bool = False
    joined: bool = False
    parallel: bool = False
    bits: int = 0
    cuts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Kind and number."""
        return self.kind if self.number is None else f"{self.kind}{self.number}"


@dataclass(frozen=True)
class Pipeline:
    """Sections in order, and the indices of the sections with a register after them."""

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
        """The sections that share the slowest cycle."""
        edges = [0, *(index + 1 for index in sorted(self.registered)), len(self.sections)]
        return max((self.sections[i:j] for i, j in pairwise(edges)), key=_stretch)

    @property
    def delay(self) -> int:
        """Delay of the slowest cycle, in the unit of the sections'."""
        return _stretch(self.slowest)

    @property
    def interval(self) -> int:
        """Cycles between two blocks of one dot product that wait for each other's result.

        Blocks that start a sum of their own are accepted every cycle.
        """
        loop = [i for i in self.registered if self.sections[i].loop]
        return max(1, len(loop))


def cut_finer(parts: tuple[Section, ...]) -> tuple[Section, ...]:
    """The same datapath with sections replaced by their parts, numbered by kind.

    Nothing is cut where the loop stays whole: it would be the slowest stretch in any case.
    """
    if not any(part.loop and part.cuts for part in parts):
        return parts
    cut, numbers = [], Counter[str]()
    for part in parts:
        for index, delay in enumerate(part.cuts):
            numbers[part.kind] += 1
            cut.append(
                replace(
                    part,
                    delay=delay,
                    number=numbers[part.kind],
                    holds=part.holds and index == len(part.cuts) - 1,
                    joined=part.joined or (part.loop and index > 0),
                    parallel=part.parallel and index == 0,
                    cuts=(),
                )
            )
        if not part.cuts:
            cut.append(part)
    return tuple(cut)


def stage_limits(parts: tuple[Section, ...]) -> tuple[int, int]:
    """The fewest and the most registers of these sections."""
    return sum(s.holds for s in parts), len(parts)


def place(parts: tuple[Section, ...], stages: int, interleave: int = 1) -> Pipeline:
    """The pipeline of `stages` registers with the fastest possible slowest stretch.

    interleave: products in flight. They take turns in a loop of as many registers, or of more where
    no other place is free. Raises ValueError for fewer stages than `stage_limits` allows.
    """
    least = stage_limits(parts)[0]
    if stages < least:
        raise ValueError(f"stages must be at least {least}, not {stages}")
    if interleave > 1:
        # A loop takes more registers only where places outside it run out.
        limits = range(min(interleave, len(parts)), len(parts) + 1)
        placements = (_places(parts, stages, limit) for limit in limits)
        registered = next(places for places in placements if places is not None)
        return Pipeline(parts, frozenset(registered))
    starts = [i for i, part in enumerate(parts) if not part.joined]
    groups = [range(i, j) for i, j in pairwise([*starts, len(parts)])]
    whole = [_together([parts[i] for i in group]) for group in groups]
    registered = {groups[i][-1] for i in _places_anywhere(whole, min(stages, len(whole)))}
    spare = stages - len(whole)
    for group in groups:  # registers without a place between groups go inside them
        inside = [parts[i] for i in group]
        if spare > 0 and len(group) > 1:
            cuts = _places_anywhere(inside, min(spare + 1, len(group)))
            registered |= {group[i] for i in cuts}
            spare -= len(cuts) - 1
    return Pipeline(parts, frozenset(registered))


def _together(group: list[Section]) -> Section:
    """One section that stands for sections of one cycle."""
    delay = sum(part.delay for part in group)
    loop = any(part.loop for part in group)
    return Section(group[0].kind, delay, holds=group[-1].holds, loop=loop, bits=group[-1].bits)


def _places_anywhere(parts: Sequence[Section], stages: int) -> set[int]:
    """`_places` without a limit for loops."""
    places = _places(parts, stages, stages)
    assert places is not None
    return places


def _places(parts: Sequence[Section], stages: int, in_loop: int) -> set[int] | None:
    """The sections with a register after them: `stages` in all, at most `in_loop` in each loop.

    Preferences, the strongest first: a fast slowest stretch; few registers in loops, which they
    slow; stretches of several sections below `SLACK` of the slowest; few bits in registers; late
    registers. None without enough places.
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
    """Delay of sections that share a cycle."""
    total = 0
    for part in parts:
        total = max(total, part.delay) if part.parallel else total + part.delay
    return total


def _in_loops(parts: Sequence[Section], places: set[int]) -> int:
    """Number of places that lie in loops."""
    return sum(parts[i].loop for i in places)


def _best(
    parts: Sequence[Section], stages: int, in_loop: int, reach: Sequence[int]
) -> set[int] | None:
    """The best places whose stretches begin within `reach`; None where no places fit."""
    # Cost and places of the best placement for each key: the last register's section, the number
    # of registers, and the number of registers in the last one's loop.
    cheapest: dict[tuple[int, int, int], tuple[int, int, int, tuple[int, ...]]]
    cheapest = {(-1, 0, 0): (0, 0, 0, ())}
    for end, last in enumerate(parts):
        for start in range(reach[end], end + 1):
            before = [key for key in cheapest if key[0] == start - 1 and key[1] < stages]
            for key in before:
                _, count, turns = key
                if turns + last.loop > in_loop:
                    continue
                loops, bits, late, places = cheapest[key]
                cost = loops + last.loop, bits + last.bits, late - end, (*places, end)
                # Another loop begins after the register of a running value.
                here = end, count + 1, 0 if last.holds else turns + last.loop
                cheapest[here] = min(cost, cheapest.get(here, cost))
    last = len(parts) - 1
    ends = [last] if parts[last].holds else range(reach[last] - 1, last + 1)
    costs = [cost for key, cost in cheapest.items() if key[0] in ends and key[1] == stages]
    return set(min(costs)[-1]) if costs else None


def _reach(parts: Sequence[Section], limit: int, joint: float) -> list[int]:
    """First section that can share a cycle with each section; the next section if none can.

    limit: largest delay of one section; joint: largest delay of several together.
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
