"""Whether a dot unit and its mutant are alike when the first block after a reset has `in_first`.

By this rule of the input no block goes on with the running value from before a reset. Registers of
that value may differ until a step has come to their section. From there on the states are alike,
and stay so: the mutant may load what the unit holds if this is what it would load. A proof by
induction shows that this lasts.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ..formal import aig
from ..formal.aig import Aig, Builder
from .copies import (
    Given,
    allowed_by,
    counts,
    free_inputs,
    nexts_of,
    outputs_of,
    owners_of,
    selected,
)

Inputs = dict[tuple[str, int], int]
RULED = {("in_valid", 0), ("in_first", 0)}
"""Inputs of units with this rule."""
_MARK = re.compile(r"(\w+_register)_(?:starts|first)")
_MOST, _LARGE = 8, 1000
"""Registers and inputs whose values are told apart, at most; ANDs of a rule that is tried."""


class NoFirstBlockError(ValueError):
    """The unit has no such rule, or the mutant changes other registers."""


class Step(NamedTuple):
    """Literals of what comes next to registers, and of outputs."""

    nexts: list[int]
    outputs: dict[tuple[str, int], int]


class FirstBlock:
    """The question, of one output, 1 where unit and mutant part.

    loop: registers that may differ until a step has come to their section. held: registers that may
    differ while their section holds nothing, with its valid bit. last: valid bit of the loop.
    before: valid bits of the sections before it. marks: valid bits of those that know the first
    block, and the registers that say so, the nearest to the loop first.
    """

    def __init__(self, graph: Aig, number: int, known: Given) -> None:
        free, count = free_inputs(graph), len(graph.nexts)
        if not set(free) >= RULED or ("in_slot", 0) in free:
            raise NoFirstBlockError("another input")
        self.graph, self.number, self.known = graph, number, known
        self.builder = Builder(2 * (len(free) + count) + 1, 0)
        literals = iter([self.builder.input(i) for i in range(self.builder.inputs)])
        self.now, self.later = ({name: next(literals) for name in free} for _ in range(2))
        self.own, self.other = ([next(literals) for _ in range(count)] for _ in range(2))
        self.seen = next(literals)
        active_low = known.reset.endswith("n")
        self.resets = self.now[known.reset, 0] ^ active_low
        self.runs: Inputs = {(known.reset, 0): aig.FALSE ^ active_low}
        self.names = [name[0] if name else "" for name in graph.registers]
        self.takers = self._takers()
        self._sort()

    def _sort(self) -> None:
        """Find the sections of the registers that the mutant loads otherwise."""
        right, wrong = (self._nexts(which, self.own, self.now) for which in (0, self.number))
        owners = owners_of(self.graph)
        changed = [i for i, (a, b) in enumerate(zip(right, wrong, strict=True)) if a != b]
        if any(self.names[i].endswith("valid") for i in changed):
            raise NoFirstBlockError("another control")
        sections = {owners[i] for i in changed} - {None}
        ends = [v for v in sections if v is not None and sections <= {v, *self._upstream(v)}]
        if len(ends) != 1:
            raise NoFirstBlockError("no section is the last")
        (self.last,) = ends
        self.before = sorted(self._upstream(self.last))
        self.loop = {i for i in changed if owners[i] in (self.last, None)}
        self.held = {i: v for i in changed if (v := owners[i]) is not None and v != self.last}
        marked = [(match[1], i) for i, n in enumerate(self.names) if (match := _MARK.fullmatch(n))]
        marks = [(self.names.index(f"{section}_valid"), i) for section, i in marked]
        marks = [(valid, i) for valid, i in marks if valid in self.before]
        self.marks = sorted(marks, key=lambda mark: -len(self._upstream(mark[0])))
        lasts = {
            i for i, n in enumerate(self.names)
            if n.endswith("_register_last") and owners[i] == self.last
        }  # fmt: skip
        bits = {self.last, *self.before, *(i for _, i in self.marks), *lasts}
        self.bits = sorted(bits)
        self.ready = [name for name in self.now if name[0].endswith("ready")]
        if len(self.bits) + len(self.ready) > _MOST:
            raise NoFirstBlockError("too many sections")

    def _takers(self) -> dict[int, set[int]]:
        """Valid bits by the one of the section whose block they take, where no other has one."""
        valid = [i for i, name in enumerate(self.names) if name.endswith("_register_valid")]
        given = self.now | self.runs | {("in_valid", 0): aig.FALSE}
        takers = {}
        for place in valid:
            fixed = dict.fromkeys(valid, aig.FALSE) | {place: aig.TRUE}
            nexts = self._nexts(0, [fixed.get(i, x) for i, x in enumerate(self.own)], given)
            takers[place] = {i for i in valid if i != place and nexts[i] != aig.FALSE}
        return takers

    def _upstream(self, valid: int) -> set[int]:
        """Valid bits of the sections before this one."""
        upstream: set[int] = set()
        left = [valid]
        while left:
            taker = left.pop()
            new = {place for place, takers in self.takers.items() if taker in takers} - upstream
            upstream |= new
            left += new
        return upstream - {valid}

    def write(self, path: Path) -> None:
        """Write the question."""
        wrong = [x for values in self._cases() for x in self._parts(*values)]
        self.builder.write(path, [], self.builder.either(wrong))

    def _cases(self) -> Iterator[tuple[dict[int, int], Inputs]]:
        """Values of the registers and inputs that are told apart: far smaller graphs than all."""
        names = [*self.bits, *self.ready]
        for values in product((aig.FALSE, aig.TRUE), repeat=len(names)):
            count = len(self.bits)
            yield (
                dict(zip(self.bits, values[:count], strict=True)),
                dict(zip(self.ready, values[count:], strict=True)),
            )

    def _parts(self, bits: dict[int, int], ready: Inputs) -> Iterator[int]:
        """Literals that are 1 where unit and mutant part in a case."""
        both, either = self.builder.both, self.builder.either
        now = self.now | ready
        own = self._forced([bits.get(i, x) for i, x in enumerate(self.own)])
        allowed, _ = allowed_by(self.graph, self.builder, own, now, self.known)
        right = self._step(0, own, now)
        takes = both(now["in_valid", 0], right.outputs["in_ready", 0])
        if not bits[self.last]:  # no step has come to the loop
            ruled = either((takes ^ 1, self.seen, now["in_first", 0]))
            good = both(allowed, both(ruled, self._waits(own, self.seen)))
            wrong = self._step(self.number, self._mutated(own, of_loop=True), now)
            yield from (both(good, x) for x in self._parted(right, wrong))
            comes = right.nexts[self.last]
            yield from (both(both(good, comes), x) for x in self._unlike_loops(right, wrong, now))
            seen = both(self.resets ^ 1, either((self.seen, takes)))
            yield both(both(good, comes ^ 1), self._waits(right.nexts, seen) ^ 1)
        state = self._mutated(own, of_loop=False)
        good = allowed
        for values in product((aig.FALSE, aig.TRUE), repeat=len(self.ready)):
            inputs = now | self.runs | dict(zip(self.ready, values, strict=True))
            good = both(good, self._agree(own, state, inputs))
        wrong = self._step(self.number, state, now)
        yield from (both(good, x) for x in self._parted(right, wrong))
        runs = both(good, self.resets ^ 1)
        yield from (both(runs, x) for x in self._unlike_loops(right, wrong, now))
        # The first reset, of a state of which no rule tells anything.
        own = [bits.get(i, x) for i, x in enumerate(self.own)]
        right, wrong = (self._step(which, own, now) for which in (0, self.number))
        yield from (both(self.resets, x) for x in self._unlike(right, wrong))
        yield from (both(self.resets, right.nexts[i]) for i in (self.last, *self.before))

    def _forced(self, state: list[int]) -> list[int]:
        """A state with the values that rules leave for single registers, which are constants."""
        places = {name: i for i, name in enumerate(self.graph.registers) if name}
        forced = list(state)
        for rule in self.known.rules:
            if len(rule.ands) > _LARGE:
                continue
            for name in rule.inputs:
                i = places[name]
                for value in (aig.FALSE, aig.TRUE):
                    tried = {i: value}
                    leaves = [tried.get(places[n], forced[places[n]]) for n in rule.inputs]
                    nodes = self.builder.copy(rule, leaves)
                    if self.builder.either(outputs_of(rule, nodes).values()) == aig.TRUE:
                        forced[i] = value ^ 1
        return forced

    def _step(self, which: int, state: Sequence[int], given: Inputs) -> "Step":
        leaves = [*selected(self.graph, which, given), *state]
        nodes = self.builder.copy(self.graph, leaves)
        return Step(nexts_of(self.graph, nodes), outputs_of(self.graph, nodes))

    def _nexts(self, which: int, state: Sequence[int], given: Inputs) -> list[int]:
        return self._step(which, state, given).nexts

    def _mutated(self, own: list[int], *, of_loop: bool) -> list[int]:
        """The mutant's state where registers differ that may."""
        state = list(own)
        for i, valid in self.held.items():
            state[i] = self.builder.choose(own[valid], own[i], self.other[i])
        for i in self.loop if of_loop else ():
            state[i] = self.other[i]
        return state

    def _waits(self, state: list[int], seen: int) -> int:
        """No block is under way that goes on with the running value from before a reset.

        It is past all sections that know the first block, or it is the first one, or none came.
        """
        both, either = self.builder.both, self.builder.either
        marked = {valid for valid, _ in self.marks}
        fine = [state[valid] for valid in self.before if valid not in marked]
        none = either(fine) ^ 1
        for valid, mark in self.marks:
            fine.append(both(none, both(state[valid], state[mark])))
            none = both(none, state[valid] ^ 1)
        return both(either([*fine, both(none, seen ^ 1)]), either((seen, none)))

    def _parted(self, right: "Step", wrong: "Step") -> Iterator[int]:
        """Differences of outputs that count, and of registers outside the loop."""
        for name, value in right.outputs.items():
            unlike = self.builder.differ(value, wrong.outputs[name])
            yield self.builder.both(unlike, counts(name[0], right.outputs))
        yield from self._unlike(right, wrong)

    def _unlike(self, right: "Step", wrong: "Step") -> Iterator[int]:
        for i, (a, b) in enumerate(zip(right.nexts, wrong.nexts, strict=True)):
            if i not in self.loop:
                holds = right.nexts[self.held[i]] if i in self.held else aig.TRUE
                yield self.builder.both(holds, self.builder.differ(a, b))

    def _unlike_loops(self, right: "Step", wrong: "Step", given: Inputs) -> Iterator[int]:
        """Differences of the loop's registers after a step, and possible ones after the next."""
        yield from (self.builder.differ(right.nexts[i], wrong.nexts[i]) for i in self.loop)
        goes_on, _ = allowed_by(self.graph, self.builder, right.nexts, given, self.known)
        agree = self._agree(right.nexts, wrong.nexts, self.later | self.runs)
        yield self.builder.both(goes_on, agree ^ 1)

    def _agree(self, own: list[int], state: list[int], given: Inputs) -> int:
        """Both load the same into the loop's registers."""
        right, wrong = self._nexts(0, own, given), self._nexts(self.number, state, given)
        return self.builder.either(self.builder.differ(right[i], wrong[i]) for i in self.loop) ^ 1
