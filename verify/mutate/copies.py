"""Copies of a graph of mutants: the unit and one of them from states, under rules about these."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..formal import aig
from ..formal.aig import Aig, Builder
from .design import SELECT

PAYLOAD = re.compile(r"(out_|\w+_axis_\w+_t|\w+_axil_[rb])(?!valid|ready)\w+")
"""Outputs that belong to a stream, and what its `valid` begins with."""


@dataclass(frozen=True)
class Given:
    """Knowledge about states after a reset.

    rules: graphs of facts over registers, with one output that is 1 for a wrong state. reset: name
    of the unit's reset.
    """

    rules: Sequence[Aig] = ()
    reset: str = ""


NOTHING = Given()


def number_of(graph: Aig, number: int) -> dict[tuple[str, int], int]:
    """Inputs that say which mutant lives."""
    return {name: number >> name[1] & 1 for name in graph.inputs if name[0] == SELECT}


def selected(graph: Aig, number: int, given: dict[tuple[str, int], int]) -> list[int]:
    """Literals of a copy's inputs; the mutant's number is fixed."""
    known = given | number_of(graph, number)
    return [known[name] for name in graph.inputs]


def outputs_of(graph: Aig, nodes: list[int]) -> dict[tuple[str, int], int]:
    """Literals of a copy's outputs. nodes: those of the copy."""
    return {name: nodes[x >> 1] ^ x & 1 for name, x in graph.outputs.items()}


def nexts_of(graph: Aig, nodes: list[int]) -> list[int]:
    """Literals of what comes next to the registers of a copy."""
    return [nodes[x >> 1] ^ x & 1 for x in graph.nexts]


def free_inputs(graph: Aig) -> list[tuple[str, int]]:
    """Inputs of the unit itself."""
    return [name for name in graph.inputs if name[0] != SELECT]


def begun(
    graph: Aig, states: int = 1
) -> tuple[Builder, dict[tuple[str, int], int], list[list[int]]]:
    """A graph that has the unit's inputs, and states of its registers as inputs; their literals."""
    free, count = free_inputs(graph), len(graph.nexts)
    builder = Builder(len(free) + states * count, 0)
    literals = [builder.input(i) for i in range(builder.inputs)]
    starts = range(len(free), len(literals), count)
    given = dict(zip(free, literals, strict=False))
    return builder, given, [literals[start : start + count] for start in starts]


def cleared(graph: Aig, reset: str) -> dict[int, int]:
    """Registers that a reset sets, and to what."""
    builder, given, (state,) = begun(graph)
    given[reset, 0] = aig.FALSE if reset.endswith("n") else aig.TRUE
    nexts = nexts_of(graph, builder.copy(graph, [*selected(graph, 0, given), *state]))
    return {i: after for i, after in enumerate(nexts) if after in (aig.FALSE, aig.TRUE)}


def kept(graph: Aig, reset: str) -> set[int]:
    """Registers that hold every combination of values after some reset.

    They keep theirs while all registers that it clears are clear, and no input is valid.
    """
    builder, given, (state,) = begun(graph)
    nexts = _idle(graph, builder, reset, given, state)
    known = cleared(graph, reset)
    return {i for i, literal in enumerate(state) if i not in known and nexts[i] == literal}


def after_reset(
    graph: Aig,
    builder: Builder,
    reset: str,
    given: dict[tuple[str, int], int],
    state: Sequence[int],
    others: Sequence[int],
) -> list[int]:
    """A state that the unit has after a reset, in which `kept` registers hold `others`.

    state: that of the other registers before the reset, if it does not clear them.
    """
    mine = kept(graph, reset)
    before = [others[i] if i in mine else literal for i, literal in enumerate(state)]
    return _idle(graph, builder, reset, given, before)


def _idle(
    graph: Aig,
    builder: Builder,
    reset: str,
    given: dict[tuple[str, int], int],
    state: Sequence[int],
) -> list[int]:
    """State after a reset, from one whose cleared registers are clear, while no input is valid."""
    given = {name: aig.FALSE if name[0].endswith("valid") else x for name, x in given.items()}
    given[reset, 0] = aig.FALSE if reset.endswith("n") else aig.TRUE
    known = cleared(graph, reset)
    before = [known.get(i, literal) for i, literal in enumerate(state)]
    return nexts_of(graph, builder.copy(graph, [*selected(graph, 0, given), *before]))


def allowed_by(
    graph: Aig,
    builder: Builder,
    state: Sequence[int],
    given: dict[tuple[str, int], int],
    known: Given,
) -> tuple[int, int]:
    """Whether outputs of a state count, and whether what comes next to its registers does.

    ValueError for a rule about another unit's registers.
    """
    if not known.rules:
        return aig.TRUE, aig.TRUE
    allowed = builder.either(broken_by(graph, builder, state, rule) for rule in known.rules) ^ 1
    resets = given[known.reset, 0] ^ known.reset.endswith("n")  # active low
    return allowed, builder.either((allowed, resets))


def broken_by(graph: Aig, builder: Builder, state: Sequence[int], rule: Aig) -> int:
    """Whether a state breaks a rule. ValueError for a rule about another unit's registers."""
    literals = {name: literal for name, literal in zip(graph.registers, state, strict=True) if name}
    missing = [name for name in rule.inputs if name not in literals]
    if missing:
        raise ValueError(f"register of a fact must be one of the unit's, not {missing[0][0]!r}")
    nodes = builder.copy(rule, [literals[name] for name in rule.inputs])
    return builder.either(outputs_of(rule, nodes).values())


def owners_of(graph: Aig) -> list[int | None]:
    """Valid bit of each register's section, if it has one."""
    names = [name[0] if name else "" for name in graph.registers]
    valid = {name: i for i, name in enumerate(names) if name.endswith("_register_valid")}
    others = [i for i, name in enumerate(names) if name.endswith("_valid") and name not in valid]
    last = others[0] if len(others) == 1 else None  # the last section's has the output's name
    sections = [re.sub(r"_register_\w+$", "_register_valid", name) for name in names]
    owners = [
        valid.get(section, last if section != name else None)
        for section, name in zip(sections, names, strict=True)
    ]
    return [None if owner == i else owner for i, owner in enumerate(owners)]


def counts(name: str, outputs: dict[tuple[str, int], int]) -> int:
    """Literal of whether an output counts: a payload while its stream is valid, others always."""
    payload = PAYLOAD.fullmatch(name)
    return aig.TRUE if payload is None else outputs.get((f"{payload[1]}valid", 0), aig.TRUE)
