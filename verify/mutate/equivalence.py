"""Whether a mutant that no bench kills is the same unit: ABC proves it or finds a difference."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from ...synth.errors import SynthesisError
from ...util.runs import scratch
from ..formal import aig
from ..formal.aig import Aig, Builder
from ..formal.claim import prove
from ..formal.engine import Verdict, ask
from ..formal.facts import Fact, facts
from .copies import (
    NOTHING,
    Given,
    after_reset,
    allowed_by,
    begun,
    broken_by,
    counts,
    free_inputs,
    kept,
    nexts_of,
    number_of,
    outputs_of,
    owners_of,
    selected,
)
from .design import SELECT, Design, registers_of
from .first_block import RULED, FirstBlock, NoFirstBlockError
from .flow import Flow, NoPipelineError
from .reachable import reachable

STEP = "&r step.aig; &cec -m; print_status"
FLOW, FIRST = STEP.replace("step", "flow"), STEP.replace("step", "first")
SEQUENTIAL = "read sequence.aig; scorr; dprove; print_status"
_SLOT, _RUNNING = re.compile(r"_slot\d+_"), re.compile(r"_register_(running|partial)_")
"""Running sums: in slots, or in the last section of units without slots."""
_MOST_VALID = 4
"""Valid bits of which every combination is looked at by itself."""
_STEPS, _AT_ONCE = 32, 4096
"""Random steps that try whether registers are constant, and how many are done at once."""


@dataclass(frozen=True)
class Limits:
    """Seconds for each run of ABC: at first, and for the questions that this does not answer."""

    first: float
    longer: float


def decide(
    design: Design,
    number: int,
    directory: Path,
    limits: Limits,
    facts: Sequence[Fact] | None = None,
) -> tuple[Verdict, str]:
    """The verdict of "equivalent", and how it came about.

    First one step: from every state both go to the same state with the same outputs. The same with
    registers that hold nothing free to differ. Then that again for states of the unit that facts
    about it, its constants and what its queues reach allow, each proved here before it is assumed.
    Then outputs of a pipeline without loops, as functions of what enters: first whether a mask
    hides what the mutant makes. Then one step of a loop, of what enters it. Then states after a
    reset, where the first block begins a dot product. Then every allowed sequence of inputs: both
    start in one state, whatever it is, with a reset in the first cycle; payloads count while they
    are valid. What takes too long is asked again with the longer limit. facts: those of the unit
    when None. SynthesisError when ABC fails in the last question, or takes longer.
    """
    directory.mkdir(parents=True, exist_ok=True)
    graph = aig.read(design.aiger)
    graph = replace(graph, registers=registers_of(graph))
    rules, names = _assumed(design, graph, directory, limits.longer, facts)
    answered: set[str] = set()
    failed: dict[str, SynthesisError] = {}
    for limit, more in ((limits.first, ""), (limits.longer, ", in a longer time")):
        questions = _questions(graph, number, design.reset, rules, names, directory)
        for how, make, commands in questions:
            if how in answered:
                continue
            make(directory)
            try:
                verdict = ask(commands, directory, "the mutant", limit)
            except SynthesisError as error:
                failed[how] = error
                continue
            failed.pop(how, None)
            answered.add(how)
            if verdict is Verdict.PROVED or (commands, verdict) == (SEQUENTIAL, Verdict.REFUTED):
                return verdict, how + more
    if failed:
        raise failed.popitem()[1]
    return Verdict.UNDECIDED, ""


Question = tuple[str, Callable[[Path], None], str]
"""Words for a question, a function that writes its graph, and ABC's commands for it."""


def _questions(
    graph: Aig, number: int, reset: str, rules: Sequence[Aig], names: str, directory: Path
) -> Iterator[Question]:
    """The cheapest first."""
    idle = ", except registers that hold nothing"

    any_state = "one step from every state"
    yield any_state, lambda to: step(graph, number, to / "step.aig"), STEP
    yield any_state + idle, lambda to: waiting(graph, number, to / "step.aig"), STEP
    if rules:
        given, of = Given(rules, reset), f"{any_state} of {names}{idle}"
        yield of, lambda to: waiting(graph, number, to / "step.aig", given), STEP
    for of, masked in ((", where no mask hides them", True), ("", False)):
        with suppress(NoPipelineError):
            write_flow(graph, number, reset, directory / "flow.aig", masked=masked)
            yield f"outputs of what enters{of}", lambda _: None, FLOW
    with suppress(NoPipelineError):
        write_loop(graph, number, reset, directory / "flow.aig")
        yield "one step of a loop from every state, of what enters", lambda _: None, FLOW
    with suppress(NoFirstBlockError):
        question = FirstBlock(graph, number, Given(rules, reset))
        how = "every state after a reset, where the first block begins a product"
        yield how, lambda to: question.write(to / "first.aig"), FIRST
    how = "every allowed sequence from every state, after a reset"
    yield how, lambda to: sequence(graph, number, reset, to / "sequence.aig", rules), SEQUENTIAL


def _assumed(
    design: Design, graph: Aig, directory: Path, limit: float, given: Sequence[Fact] | None
) -> tuple[Sequence[Aig], str]:
    """Rules proved of the unit's states, and their names.

    They are facts about it that a seeded bug refutes, registers that hold constants, and states
    that registers of a module never reach.
    """
    of_unit = [fact for fact in facts() if fact.config == design.unit.config]
    held = [fact for fact in (of_unit if given is None else given) if _holds(fact, limit)]
    graphs = [fact.graph(directory / "fact", limit) for fact in held]
    names = [f"`{fact.name}`" for fact in held]
    rule = constants(graph)
    made = {
        "constants": [] if rule is None else [rule],
        "reachable states": reachable(graph, design.reset),
    }
    for name, candidates in made.items():
        if candidates and lasts(graph, candidates, design.reset, directory, limit):
            graphs += candidates
            names.append(name)
    return graphs, " and ".join(names)


def constants(graph: Aig) -> Aig | None:
    """The rule that registers which only ever take one value hold it while they are valid.

    Formats without special values have some, and narrow ones. None without any.
    """
    owners = owners_of(graph)
    builder, given, (state,) = begun(graph)
    known: dict[int, int] = {}
    for value in (aig.FALSE, aig.TRUE):
        left = {i: value for i, valid in enumerate(owners) if valid is not None and i not in known}
        kept = -1
        while len(left) != kept:
            kept = len(left)
            leaves = [(known | left).get(i, literal) for i, literal in enumerate(state)]
            nexts = nexts_of(graph, builder.copy(graph, [*selected(graph, 0, given), *leaves]))
            left = {i: value for i in left if nexts[i] == value}
        known |= left
    bits = {
        i: (valid, known[i]) for i, valid in enumerate(owners) if valid is not None and i in known
    }
    bits = _unrefuted(graph, bits)
    if not bits:
        return None
    places = sorted({*bits, *(valid for valid, _ in bits.values())})
    alone = Builder(len(places), 0)
    holds = {place: alone.input(i) for i, place in enumerate(places)}
    wrong = alone.either(
        alone.both(holds[valid], holds[i] ^ value) for i, (valid, value) in bits.items()
    )
    names = [graph.registers[i] or ("", 0) for i in places]
    return Aig(names, [], {("wrong", 0): wrong}, alone.ands)


def _unrefuted(graph: Aig, bits: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Constants that no random step refutes: register, its valid bit, value.

    A sum that goes round keeps what it held while it was not valid.
    """
    draw, all_ones = random.Random(0), (1 << _AT_ONCE) - 1
    for _ in range(_STEPS):
        inputs = [0 if n == SELECT else draw.getrandbits(_AT_ONCE) for n, _ in graph.inputs]
        state = [draw.getrandbits(_AT_ONCE) for _ in graph.nexts]
        for i, (valid, value) in bits.items():
            state[i] = state[i] | state[valid] if value else state[i] & ~state[valid]
        nodes = [0, *inputs, *state]
        for a, b in graph.ands:
            nodes.append((nodes[a >> 1] ^ -(a & 1)) & (nodes[b >> 1] ^ -(b & 1)))
        after = [(nodes[x >> 1] ^ -(x & 1)) & all_ones for x in graph.nexts]
        bits = {
            i: (valid, value)
            for i, (valid, value) in bits.items()
            if not after[valid] & (after[i] ^ -value)
        }
    return bits


def lasts(graph: Aig, rules: Sequence[Aig], reset: str, directory: Path, limit: float) -> bool:
    """Whether rules hold after a reset and from then on, which one step of the unit proves."""
    builder, given, (state,) = begun(graph)
    _, goes_on = allowed_by(graph, builder, state, given, Given(rules, reset))
    nexts = nexts_of(graph, builder.copy(graph, [*selected(graph, 0, given), *state]))
    still, _ = allowed_by(graph, builder, nexts, given, Given(rules, reset))
    builder.write(directory / "step.aig", [], builder.both(goes_on, still ^ 1))
    try:
        return ask(STEP, directory, "rules", limit) is Verdict.PROVED
    except SynthesisError:
        return False


def _holds(fact: Fact, limit: float) -> bool:
    if fact.name not in _proved:
        with scratch("mutate") as directory:
            _proved[fact.name] = prove(fact.claim, directory, limit).holds
    return _proved[fact.name]


_proved: dict[str, bool] = {}
"""True for facts that are proved, by name, in this process."""


def step(graph: Aig, number: int, path: Path) -> None:
    """Registers are inputs, and what comes next to them is an output."""
    builder, given, (state,) = begun(graph)
    right, wrong = (
        builder.copy(graph, [*selected(graph, which, given), *state]) for which in (0, number)
    )
    outputs = zip(outputs_of(graph, right).values(), outputs_of(graph, wrong).values(), strict=True)
    nexts = zip(nexts_of(graph, right), nexts_of(graph, wrong), strict=True)
    differ = [builder.differ(a, b) for pairs in (outputs, nexts) for a, b in pairs]
    builder.write(path, [], builder.either(differ))


def waiting(graph: Aig, number: int, path: Path, known: Given = NOTHING) -> None:
    """Write the question of `step`, but let registers of invalid sections differ.

    Registers of a section that the mutant loads otherwise may differ while the section's valid bit
    is 0. Both start in one state, and this relation lasts. Rules are assumed of the unit's own
    state, for which they are proved, not of the mutant's. A state that they call wrong can only be
    the one before a first reset. Outputs do not count there. The relation must hold after the
    reset, except of running sums, which no reset clears.
    """
    builder, given, (state, other) = begun(graph, 2)
    alike = [
        nexts_of(graph, builder.copy(graph, [*selected(graph, which, given), *state]))
        for which in (0, number)
    ]
    sums = _sums(graph)
    pairs = enumerate(zip(owners_of(graph), *alike, strict=True))
    loose = [valid if a != b and i not in sums else None for i, (valid, a, b) in pairs]
    bits = sorted({valid for valid in loose if valid is not None})[:_MOST_VALID]
    differ = []
    for values in product((aig.FALSE, aig.TRUE), repeat=len(bits)):  # far smaller graphs than all
        fixed = dict(zip(bits, values, strict=True))
        here = [fixed.get(i, own) for i, own in enumerate(state)]
        mutated = [
            own if valid is None else builder.choose(here[valid], own, another)
            for own, another, valid in zip(here, other, loose, strict=True)
        ]
        right, wrong = (
            builder.copy(graph, [*selected(graph, which, given), *leaves])
            for which, leaves in ((0, here), (number, mutated))
        )
        nexts = nexts_of(graph, right)
        allowed, goes_on = allowed_by(graph, builder, here, given, known)
        for name, value in (first := outputs_of(graph, right)).items():
            unlike = builder.differ(value, outputs_of(graph, wrong)[name])
            differ.append(builder.both(allowed, builder.both(unlike, counts(name[0], first))))
        pairs = enumerate(zip(nexts, nexts_of(graph, wrong), loose, strict=True))
        for i, (a, b, valid) in pairs:
            holds = allowed if i in sums else goes_on
            holds = holds if valid is None else builder.both(holds, nexts[valid])
            differ.append(builder.both(builder.differ(a, b), holds))
    builder.write(path, [], builder.either(differ))


def write_flow(graph: Aig, number: int, reset: str, path: Path, *, masked: bool = False) -> None:
    """Write whether outputs are other functions of what enters; NoPipelineError for other units.

    masked: write whether the mutant's cell makes something else where no mask hides outputs.
    """
    _flow(graph, number).write(path, reset, masked=masked)


def write_loop(graph: Aig, number: int, reset: str, path: Path) -> None:
    """Write whether one step of a loop is another one of what enters; NoPipelineError for units
    without a loop."""
    _flow(graph, number).write_loop(path, reset, _sums(graph))


def _flow(graph: Aig, number: int) -> Flow:
    numbers = [number_of(graph, which) for which in (0, number)]
    return Flow(graph, numbers, owners_of(graph))


def _sums(graph: Aig) -> set[int]:
    """Registers of running sums, which are read whether a result is valid or not."""
    slots, running = (
        {i for i, name in enumerate(graph.registers) if name and kind.search(name[0])}
        for kind in (_SLOT, _RUNNING)
    )
    return slots or running


def sequence(graph: Aig, number: int, reset: str, path: Path, rules: Sequence[Aig] = ()) -> None:
    """Inputs, then the state that both start with; a register that the first cycle is over.

    That cycle is a reset. Where the mutant makes something else of registers that it does not
    clear, the unit starts with the state after a reset in which it holds the same.

    rules: of the unit's states after a reset. A state that breaks one, which never comes, is
    replaced by one with zeros in the rule's registers, in both: induction would start from it.

    In units that `first_block` tells of, sequences whose first block after a reset, in each slot,
    lacks `in_first` do not count: registers tell which slots have begun, and that a block had none.
    """
    free, count = free_inputs(graph), len(graph.nexts)
    slots = _slots(free)
    builder = Builder(len(free) + count, 2 + slots + 2 * count)
    given = {name: builder.input(i) for i, name in enumerate(free)}
    start = [builder.input(len(free) + i) for i in range(count)]
    late, broken, *begun_in = (builder.input(builder.inputs + i) for i in range(2 + slots))
    pin = given[reset, 0]
    active_low = reset.endswith("n")
    given[reset, 0] = builder.both(pin, late) if active_low else builder.either((pin, late ^ 1))
    nexts, made = [], []
    base = builder.inputs + 2 + slots
    held = [[builder.input(base + place * count + i) for i in range(count)] for place in range(2)]
    breaks_rule = _broken(graph, builder, held[0], rules)
    for which, registers in zip((0, number), held, strict=True):
        ruled = [builder.both(x, breaks_rule.get(i, 0) ^ 1) for i, x in enumerate(registers)]
        state = [builder.choose(late, a, b) for a, b in zip(ruled, start, strict=True)]
        nodes = builder.copy(graph, [*selected(graph, which, given), *state])
        nexts += nexts_of(graph, nodes)
        made.append(outputs_of(graph, nodes))
    right_next, wrong_next = nexts[:count], nexts[count:]
    unlike = builder.either(
        builder.differ(right_next[i], wrong_next[i]) for i in kept(graph, reset)
    )
    another = builder.both(late ^ 1, unlike)
    like = after_reset(graph, builder, reset, given, start, wrong_next)
    right_next = [builder.choose(another, a, b) for a, b in zip(like, right_next, strict=True)]
    right, wrong = made
    differ = builder.either(
        builder.both(builder.differ(right[name], wrong[name]), counts(name[0], right))
        for name in right
    )
    runs, breaks, begins = given[reset, 0] ^ 1 ^ active_low, broken, []
    if slots:
        takes = builder.both(runs, builder.both(given["in_valid", 0], right["in_ready", 0]))
        slot = given.get(("in_slot", 0), aig.FALSE)
        for i, has_begun in enumerate(begun_in):
            here = builder.both(takes, slot ^ i ^ 1)
            lacks = builder.both(here, builder.both(has_begun ^ 1, given["in_first", 0] ^ 1))
            breaks = builder.either((breaks, lacks))
            begins.append(builder.both(runs, builder.either((has_begun, here))))
    nexts = [aig.TRUE, builder.both(late, breaks), *begins, *right_next, *wrong_next]
    builder.write(path, nexts, builder.both(late, builder.both(differ, breaks ^ 1)))


def _broken(
    graph: Aig, builder: Builder, state: Sequence[int], rules: Sequence[Aig]
) -> dict[int, int]:
    """Registers of rules, and literals of whether a state breaks one of them."""
    places = {name: i for i, name in enumerate(graph.registers) if name}
    broken: dict[int, int] = {}
    for rule in rules:
        wrong = broken_by(graph, builder, state, rule)
        for name in rule.inputs:
            broken[places[name]] = builder.either((broken.get(places[name], aig.FALSE), wrong))
    return broken


def _slots(free: Sequence[tuple[str, int]]) -> int:
    """Slots that a bit of the inputs tells apart; 0 without the rule of the first block."""
    if not set(free) >= RULED or ("in_slot", 1) in free:
        return 0
    return 2 if ("in_slot", 0) in free else 1
