"""Whether a pipeline and its mutant make the same of what enters.

A section's registers hold, or take a function of the section before it. So after a reset, while
its valid bit is 1, they are a function of inputs that entered together. The mutant's are one of
the same inputs, unless it changes when registers hold. Without loops, one question without
registers is left: whether outputs are alike functions of inputs. A smaller one may do: whether all
outputs are masked wherever the mutant's cell makes something else. With a loop, the question is
whether one step from each of its states is alike, where it takes what entered.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from ..formal import aig
from ..formal.aig import Aig, Builder
from .copies import PAYLOAD, counts

Bit = tuple[str, int]
ENTER = ("in_valid", 0)
"""The input that says that others enter."""


class NoPipelineError(ValueError):
    """The question would say nothing of this unit, or of this mutant."""


class Flow:
    """Unit and mutant as nodes of one graph, from one state.

    sides: by unit and mutant, next values of registers and outputs. state: literals of registers.
    owners: number of the valid bit of each register, None for valid bits and registers without one.
    """

    def __init__(
        self,
        graph: Aig,
        selected: Sequence[dict[Bit, int]],
        owners: Sequence[int | None],
    ) -> None:
        free = [name for name in graph.inputs if name not in selected[0]]
        count = len(graph.nexts)
        self.builder, self.free = Builder(2 * (len(free) + count), 0), len(free)
        literals = [self.builder.input(i) for i in range(self.builder.inputs)]
        self.given = dict(zip(free, literals, strict=False))
        given, rest = self.given, literals[len(free) :]
        self.state, self.other, entered = rest[:count], rest[count : 2 * count], rest[2 * count :]
        self.entered = dict(zip(given.values(), entered, strict=True))
        self.owners = owners
        self.nexts: list[list[int]] = []
        self.outputs: list[dict[Bit, int]] = []
        copies: list[list[int]] = []
        for fixed in selected:
            leaves = [fixed.get(name, given.get(name, 0)) for name in graph.inputs]
            nodes = self.builder.copy(graph, [*leaves, *self.state])
            self.nexts.append([nodes[x >> 1] ^ x & 1 for x in graph.nexts])
            self.outputs.append({k: nodes[x >> 1] ^ x & 1 for k, x in graph.outputs.items()})
            copies.append(nodes)
        self.differs = self._where(graph, copies)
        self.enters = given.get(ENTER, aig.FALSE)
        self.number = {literal >> 1: i for i, literal in enumerate(self.state)}
        self.members = {
            valid: [i for i, owner in enumerate(owners) if owner == valid]
            for valid, owner in enumerate(owners)
            if owner is None
        }

    def _where(self, graph: Aig, copies: Sequence[list[int]]) -> int:
        """1 where the mutant's cell makes something else of the same inputs."""
        pairs = list(zip(*copies, strict=True))
        first = len(pairs) - len(graph.ands)
        places = [
            pair
            for pair, ways in zip(pairs[first:], graph.ands, strict=True)
            if not _is_gone(pair) and any(_is_gone(pairs[way >> 1]) for way in ways)
        ]
        roots = (pairs[x >> 1] for x in (*graph.nexts, *graph.outputs.values()))
        places += filter(_is_gone, roots)
        return self.builder.either(self.builder.differ(*pair) for pair in places)

    def write(self, path: Path, reset: str, *, masked: bool = False) -> None:
        """Write the question: one output, 1 where both differ. NoPipelineError without one.

        All outputs are of one section. The output is 1 too where they count while it is not valid.

        masked: ask less, whether the mutant's cell differs where no output is masked. A mask is a
        term that all outputs that may differ have in common: each has one value where it is 0.
        """
        self._check_cleared(self._resets(reset))
        straight = self._straight()
        for valid in self.members.keys() - straight.keys():
            self._before(valid, self._load(valid))  # raises with the reason
            raise NoPipelineError("a loop")
        self._check_control(load for load, _ in straight.values())
        (right, wrong), asked = self._made(straight)
        names = self._payload()
        seen = [[outputs[name] for name in names] for outputs in self.outputs]
        section = self._section(chain(*seen), "outputs")
        if section is not None:
            valid = self.builder.either({counts(name, self.outputs[0]) for name, _ in names})
            asked.append(self.builder.both(valid, self.state[section] ^ 1))
        if masked:
            self._check_cell(straight)
        *first, differs = self._with([*seen[0], self.differs], right)
        pairs = [*zip(first, self._with(seen[1], wrong), strict=True)]
        if masked:
            asked.append(self.builder.both(differs, self._shown(pairs)))
        else:
            asked += [self.builder.differ(*pair) for pair in pairs]
        self.builder.write(path, [], self.builder.either(asked))

    def write_loop(self, path: Path, reset: str, sums: set[int]) -> None:
        """Write the question about a loop: one output, 1 where both differ. NoPipelineError without
        one.

        Sections before the loop hold, while they are valid, what they make of inputs that entered.
        From one state of the loop, both must make the same outputs and the same next state.
        Registers that the mutant changes may differ while they are invalid, except `sums`, the
        running sums. Sums must be alike after a reset from one state, too, whatever sections hold
        before it.
        """
        straight = self._straight()
        if not straight:
            raise NoPipelineError("nothing before a loop")
        resets = self._resets(reset)
        self._check_cleared(resets)
        made, asked = self._made(straight)
        before = {literal: self.number[literal >> 1] for literal in made[0]}
        if sums & {*before.values()}:
            raise NoPipelineError("a sum before the loop")
        loose = self._loose(sums, {i for own, i in before.items() if made[0][own] != made[1][own]})
        control = self._control()
        read = self._registers([*control[0], *(load for load, _ in straight.values())])
        if control[0] != control[1] or read & loose:
            raise NoPipelineError("another control")
        loop = [i for i, v in enumerate(self.owners) if v is not None and v not in straight]
        asked += self._one_step(loop, loose, made)
        unlike = (self.builder.differ(self.nexts[0][i], self.nexts[1][i]) for i in sums)
        asked.append(self.builder.both(resets, self.builder.either(unlike)))
        self.builder.write(path, [], self.builder.either(asked))

    def _one_step(
        self, loop: Sequence[int], loose: set[int], made: Sequence[dict[int, int]]
    ) -> list[int]:
        """Literals of whether one step makes other registers of the loop, or other outputs.

        loose: registers that may differ while they are invalid. made: what sections before hold.
        """
        names = self._payload()
        roots = [
            [*(nexts[i] for i in loop), *(outputs[name] for name in names)]
            for nexts, outputs in zip(self.nexts, self.outputs, strict=True)
        ]
        before = {self.owners[self.number[literal >> 1]] for literal in made[0]}
        if len(self._sections(chain(*roots)) & before) > 1:
            raise NoPipelineError("a loop that takes several sections")
        sides = []
        for side, taken in enumerate(made):
            here = self._with([*taken.values()], self.entered)
            entered, known = dict(zip(taken, here, strict=True)), {}
            for own in entered.keys() | {self.state[i] for i in loose}:
                i = self.number[own >> 1]
                owner = self.owners[i]
                assert owner is not None
                idle = self.other[i] if side and i in loose else own
                known[own] = self.builder.choose(self.state[owner], entered.get(own, own), idle)
            sides.append(self._with(roots[side], known))
        differ = [self.builder.differ(*pair) for pair in zip(*sides, strict=True)]
        for place, i in enumerate(loop):
            owner = self.owners[i]
            if owner is not None and i in loose:
                differ[place] = self.builder.both(differ[place], self.nexts[0][owner])
        return differ

    def _resets(self, reset: str) -> int:
        """The literal that is 1 in a reset."""
        return self.given[reset, 0] ^ reset.endswith("n")

    def _check_cell(self, straight: dict[int, tuple[int, int | None]]) -> None:
        """The mutant's cell reads one section, or inputs that enter in the same cycle."""
        self._section([self.differs], "the mutant's cell")
        later = chain(
            *(self.members[valid] for valid, (_, of) in straight.items() if of is not None)
        )
        changed = any(self.nexts[0][i] != self.nexts[1][i] for i in later)
        if changed and self._reads_inputs([self.differs]):
            raise NoPipelineError("a cell of later inputs")

    def _check_cleared(self, resets: int) -> None:
        """A reset clears valid bits."""
        valid = {owner for owner in self.owners if owner is not None}
        nexts = self._with([self.nexts[0][v] for v in valid], {resets: aig.TRUE})
        if any(literal != aig.FALSE for literal in nexts):
            raise NoPipelineError("valid bits that a reset does not clear")

    def _loose(self, sums: set[int], loose: set[int]) -> set[int]:
        """Registers that may differ while they are invalid: `loose`, and all that are made of one
        or that the mutant changes."""
        read = {
            i: self._registers([self.nexts[0][i], self.nexts[1][i]]) - {i}
            for i, owner in enumerate(self.owners) if owner is not None and i not in sums
        }  # fmt: skip
        loose = loose | {i for i in read if self.nexts[0][i] != self.nexts[1][i]}
        while more := {i for i, of in read.items() if i not in loose and of & loose}:
            loose |= more
        return loose

    def _registers(self, literals: Iterable[int]) -> set[int]:
        """Registers that literals depend on."""
        return {self.number[node] for node in self._cone(literals) if node in self.number}

    def _straight(self) -> dict[int, tuple[int, int | None]]:
        """Load and the section before of sections that take inputs or each other, in order."""
        found: dict[int, tuple[int, int | None]] = {}
        for valid, members in self.members.items():
            with suppress(NoPipelineError):
                if members:
                    load = self._load(valid)
                    found[valid] = load, self._before(valid, load)
        straight: dict[int, tuple[int, int | None]] = {}
        while ready := [
            valid
            for valid, (_, before) in found.items()
            if valid not in straight and (before is None or before in straight)
        ]:
            straight |= {valid: found[valid] for valid in ready}
        return straight

    def _shown(self, pairs: Iterable[Sequence[int]]) -> int:
        """1 where no mask hides outputs."""
        masks = [
            self._terms(right) & self._terms(wrong)
            | self._terms(right ^ 1) & self._terms(wrong ^ 1)
            for right, wrong in pairs
            if right != wrong
        ]
        shared = set.intersection(*masks) if masks else set()
        if not shared:
            raise NoPipelineError("no mask")
        return self.builder.either(literal ^ 1 for literal in shared) ^ 1

    def _terms(self, literal: int) -> set[int]:
        """Literals that are 1 wherever this one is."""
        terms: set[int] = set()
        left = [literal]
        while left:
            term = left.pop()
            if term not in terms:
                terms.add(term)
                left += () if term & 1 else self._pair(term) or ()
        return terms

    def _check_control(self, loads: Iterable[int]) -> None:
        """Valid bits, handshakes and loads are alike and do not depend on data."""
        control = self._control()
        if control[0] != control[1]:
            raise NoPipelineError("another control")
        if self._sections([*control[0], *loads]) - {None}:
            raise NoPipelineError("control that depends on data")

    def _control(self) -> list[list[int]]:
        """Valid bits and registers without a section that come next, and handshakes, of both."""
        return [
            [*(nexts[v] for v in self.members),
             *(x for name, x in outputs.items() if not PAYLOAD.fullmatch(name[0]))]
            for nexts, outputs in zip(self.nexts, self.outputs, strict=True)
        ]  # fmt: skip

    def _payload(self) -> list[Bit]:
        """Outputs that belong to a stream."""
        return [name for name in self.outputs[0] if PAYLOAD.fullmatch(name[0])]

    def _load(self, valid: int) -> int:
        """The literal that lets most of a section's registers take new values."""
        selects = Counter(
            load for i in self.members[valid]
            for load in [self._select(self.nexts[0][i], self.state[i])] if load is not None
        )  # fmt: skip
        if not selects:
            raise NoPipelineError("registers that never hold")
        return selects.most_common(1)[0][0]

    def _select(self, literal: int, own: int) -> int | None:
        """The select of a multiplexer whose other way is `own`; None for anything else."""
        pair = self._pair(literal)
        if pair is None:
            return None
        if literal & 1 == 0 and own in pair:  # takes 0
            return sum(pair) - own ^ 1
        if literal & 1 and own ^ 1 in pair:  # takes 1
            return sum(pair) - (own ^ 1) ^ 1
        for way in pair if literal & 1 else ():
            held = self._pair(way)
            if way & 1 and held is not None and own in held:
                return sum(held) - own ^ 1
        return None

    def _pair(self, literal: int) -> tuple[int, int] | None:
        place = (literal >> 1) - self.builder.inputs - self.builder.registers - 1
        return self.builder.ands[place] if place >= 0 else None

    def _before(self, valid: int, load: int) -> int | None:
        """The section that a section's registers take, None for inputs."""
        roots = [self.nexts[side][i] for side in (0, 1) for i in self.members[valid]]
        taken = self._with(roots, {load: aig.TRUE})
        if None in self._sections(taken):
            raise NoPipelineError("registers without a valid bit")
        before = self._section(taken, "registers")
        if before == valid:
            raise NoPipelineError("a loop")
        return before

    def _made(
        self, straight: dict[int, tuple[int, int | None]]
    ) -> tuple[list[dict[int, int]], list[int]]:
        """Functions of inputs that registers hold while they are valid, by their literals, in unit
        and mutant; and whether a section becomes valid though none entered.

        straight: loads and sections before, in order.
        """
        made: list[dict[int, int]] = [{}, {}]
        appears = []
        for valid, (load, before) in straight.items():
            members = self.members[valid]
            own = [self.state[i] for i in members]
            for nexts, known in zip(self.nexts, made, strict=True):
                roots = [nexts[i] for i in members]
                if self._with(roots, {load: aig.FALSE}) != own:
                    raise NoPipelineError("registers that do not hold")
                taken = self._with(self._with(roots, {load: aig.TRUE}), known)
                known |= zip(own, taken, strict=True)
            appears.append(self._appears(valid, before, load))
        return made, appears

    def _appears(self, valid: int, before: int | None, load: int) -> int:
        """Whether a section becomes valid though it neither holds nor takes something valid."""
        comes = self.enters if before is None else self.state[before]
        holds = self.builder.both(load ^ 1, self.state[valid])
        good = self.builder.either((holds, self.builder.both(load, comes)))
        return self.builder.both(self.nexts[0][valid], good ^ 1)

    def _section(self, literals: Iterable[int], what: str) -> int | None:
        """The one section that literals depend on; None where they read inputs, or registers
        without a section."""
        cone = [*literals]
        of = self._sections(cone)
        if len(of) > 1:
            raise NoPipelineError(f"{what} of several sections")
        if of and self._reads_inputs(cone):
            raise NoPipelineError(f"{what} of a section and inputs")
        return next(iter(of), None)

    def _sections(self, literals: Iterable[int]) -> set[int | None]:
        """Sections of the registers that literals depend on; None for registers without one."""
        return {self.owners[i] for i in self._registers(literals)}

    def _reads_inputs(self, literals: Iterable[int]) -> bool:
        """Whether literals depend on inputs of this cycle."""
        return any(0 < node <= self.free for node in self._cone(literals))

    def _cone(self, literals: Iterable[int]) -> list[int]:
        """Nodes that literals depend on, in the order of the graph."""
        seen: set[int] = set()
        left = [literal >> 1 for literal in literals]
        while left:
            node = left.pop()
            if node not in seen:
                seen.add(node)
                left += [x >> 1 for x in self._pair(2 * node) or ()]
        return sorted(seen)

    def _with(self, literals: Sequence[int], known: dict[int, int]) -> list[int]:
        """Literals where some literals have other values."""
        new = {literal >> 1: value ^ literal & 1 for literal, value in known.items()}
        for node in self._cone(literals):
            if node not in new:
                pair = self._pair(2 * node)
                ways = [new[x >> 1] ^ x & 1 for x in pair or ()]
                new[node] = self.builder.both(*ways) if ways else 2 * node
        return [new[literal >> 1] ^ literal & 1 for literal in literals]


def _is_gone(pair: tuple[int, int]) -> bool:
    """True for both ways of the multiplexer between a cell and its mutant.

    They differ, and one of them is a constant.
    """
    return pair[0] != pair[1] and min(pair) <= aig.TRUE
