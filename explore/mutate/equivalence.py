"""Whether a mutant that no bench kills is the same unit: ABC proves it or finds a difference."""

import re
from contextlib import suppress
from itertools import product
from pathlib import Path

from ..cost.errors import SynthesisError
from ..formal import aig
from ..formal.aig import Aig, Builder
from ..formal.engine import Verdict, ask
from .design import SELECT, Design

STEP = "&r step.aig; &cec -m; print_status"
SEQUENTIAL = "read sequence.aig; scorr; dprove; print_status"
_PAYLOAD = re.compile(r"(out_|\w+_axis_\w+_t|\w+_axil_[rb])(?!valid|ready)\w+")
"""Outputs that belong to a stream, and what its `valid` begins with."""
_MOST_VALID = 4
"""Valid bits of which every combination is looked at by itself."""


def decide(design: Design, number: int, directory: Path, limit: float) -> tuple[Verdict, str]:
    """The verdict of "equivalent", and how it came about. limit: seconds for each run of ABC.

    First one step: from every state both go to the same state with the same outputs. The same with
    registers that hold nothing free to differ. Then any
    sequence of inputs: both start in one state, whatever it is, with a reset in the first cycle;
    payloads count while they are valid. SynthesisError when ABC then fails or takes longer.
    """
    directory.mkdir(parents=True, exist_ok=True)
    graph = aig.read(design.aiger)
    step(graph, number, directory / "step.aig")
    with suppress(SynthesisError):  # a step that takes too long says nothing of sequences
        if ask(STEP, directory, "the mutant", limit) is Verdict.PROVED:
            return Verdict.PROVED, "one step from every state"
    waiting(graph, number, directory / "step.aig")
    with suppress(SynthesisError):
        if ask(STEP, directory, "the mutant", limit) is Verdict.PROVED:
            return Verdict.PROVED, "one step from every state, but for registers that hold nothing"
    sequence(graph, number, design.reset, directory / "sequence.aig")
    verdict = ask(SEQUENTIAL, directory, "the mutant", limit)
    return verdict, "every sequence from every state, after a reset"


def _selected(graph: Aig, number: int, given: dict[tuple[str, int], int]) -> list[int]:
    """Literals of a copy's inputs; the mutant's number is fixed."""
    return [given[name] if name[0] != SELECT else (number >> name[1]) & 1 for name in graph.inputs]


def _outputs(graph: Aig, nodes: list[int]) -> dict[tuple[str, int], int]:
    return {name: nodes[x >> 1] ^ x & 1 for name, x in graph.outputs.items()}


def _nexts(graph: Aig, nodes: list[int]) -> list[int]:
    return [nodes[x >> 1] ^ x & 1 for x in graph.nexts]


def _free(graph: Aig) -> list[tuple[str, int]]:
    return [name for name in graph.inputs if name[0] != SELECT]


def step(graph: Aig, number: int, path: Path) -> None:
    """Registers are inputs, and what comes next to them is an output."""
    free, count = _free(graph), len(graph.nexts)
    builder = Builder(len(free) + count, 0)
    given = {name: builder.input(i) for i, name in enumerate(free)}
    state = [builder.input(len(free) + i) for i in range(count)]
    made = []
    for which in (0, number):
        nodes = builder.copy(graph, [*_selected(graph, which, given), *state])
        made.append([*_outputs(graph, nodes).values(), *_nexts(graph, nodes)])
    differ = builder.either(builder.differ(a, b) for a, b in zip(*made, strict=True))
    builder.write(path, [], differ)


def waiting(graph: Aig, number: int, path: Path) -> None:
    """As `step`, where registers of a section that the mutant loads otherwise may differ as long as
    the section's valid bit is 0: both start in one state, and this relation lasts."""
    free, count = _free(graph), len(graph.nexts)
    builder = Builder(len(free) + 2 * count, 0)
    given = {name: builder.input(i) for i, name in enumerate(free)}
    state = [builder.input(len(free) + i) for i in range(count)]
    other = [builder.input(len(free) + count + i) for i in range(count)]
    alike = [
        _nexts(graph, builder.copy(graph, [*_selected(graph, which, given), *state]))
        for which in (0, number)
    ]
    pairs = zip(_owners(graph), *alike, strict=True)
    loose = [valid if a != b else None for valid, a, b in pairs]
    bits = sorted({valid for valid in loose if valid is not None})[:_MOST_VALID]
    differ = []
    for values in product((aig.FALSE, aig.TRUE), repeat=len(bits)):  # far smaller graphs than all
        known = dict(zip(bits, values, strict=True))
        here = [known.get(i, own) for i, own in enumerate(state)]
        beside = [
            own if valid is None else builder.choose(here[valid], own, another)
            for own, another, valid in zip(here, other, loose, strict=True)
        ]
        right, wrong = (
            builder.copy(graph, [*_selected(graph, which, given), *leaves])
            for which, leaves in ((0, here), (number, beside))
        )
        nexts = _nexts(graph, right)
        for name, value in (first := _outputs(graph, right)).items():
            unlike = builder.differ(value, _outputs(graph, wrong)[name])
            differ.append(builder.both(unlike, _counts(name[0], first)))
        for a, b, valid in zip(nexts, _nexts(graph, wrong), loose, strict=True):
            counts = aig.TRUE if valid is None else nexts[valid]
            differ.append(builder.both(builder.differ(a, b), counts))
    builder.write(path, [], builder.either(differ))


def _owners(graph: Aig) -> list[int | None]:
    """Of each register the valid bit of its section, if it has one."""
    names = [name[0] if name else "" for name in graph.registers]
    valid = {name: i for i, name in enumerate(names) if name.endswith("_register_valid")}
    owners = [valid.get(re.sub(r"_register_\w+$", "_register_valid", name)) for name in names]
    return [None if owner == i else owner for i, owner in enumerate(owners)]


def sequence(graph: Aig, number: int, reset: str, path: Path) -> None:
    """Inputs, then the state that both start with; a register that the first cycle is over."""
    free, count = _free(graph), len(graph.nexts)
    builder = Builder(len(free) + count, 1 + 2 * count)
    given = {name: builder.input(i) for i, name in enumerate(free)}
    start = [builder.input(len(free) + i) for i in range(count)]
    late = builder.input(len(free) + count)
    pin = given[reset, 0]
    active_low = reset.endswith("n")
    given[reset, 0] = builder.both(pin, late) if active_low else builder.either((pin, late ^ 1))
    nexts, made = [aig.TRUE], []
    for place, which in enumerate((0, number)):
        base = len(free) + count + 1 + place * count
        state = [builder.choose(late, builder.input(base + i), start[i]) for i in range(count)]
        nodes = builder.copy(graph, [*_selected(graph, which, given), *state])
        nexts += _nexts(graph, nodes)
        made.append(_outputs(graph, nodes))
    right, wrong = made
    differ = builder.either(
        builder.both(builder.differ(right[name], wrong[name]), _counts(name[0], right))
        for name in right
    )
    builder.write(path, nexts, builder.both(late, differ))


def _counts(name: str, outputs: dict[tuple[str, int], int]) -> int:
    """When an output counts: a payload while its stream is valid, everything else always."""
    payload = _PAYLOAD.fullmatch(name)
    return aig.TRUE if payload is None else outputs.get((f"{payload[1]}valid", 0), aig.TRUE)
