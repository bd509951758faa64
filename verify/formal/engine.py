"""Decides whether an observer ever says wrong: Yosys makes an AIG, ABC proves or refutes it."""

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from ...synth.tools import run_abc, run_yosys
from . import aig
from .observer import CASE, ObservedUnit, Observer, Rule, bench


def _script(passes: str, write: str) -> str:
    """Yosys script that makes the graph of a subject and its observer."""
    return f"""
read_rtlil observer.il
read_verilog subject.v both.v
hierarchy -check -top both
proc
flatten
{passes}
{write} -symbols both.aig
"""


SCRIPT = _script(aig.PASSES, "write_aiger")
# Registers begin at 0, where the text does not say other. Nothing is simplified, for that makes two
# designs less alike.
FROM_ZERO = _script(
    aig.passes("opt_clean", "opt_clean"), "setundef -init -zero\nwrite_aiger -zinit"
)
COMBINATIONAL = "read both.aig; ifraig; iprove; print_status"
# An invariant that holds after the reset and in every next cycle is found, and then checked.
# Registers start with any value: `undc` makes inputs of what Yosys leaves open.
SEQUENTIAL = "read both.aig; logic; undc; strash; pdr; print_status"
# Registers of the observer and of the subject that are alike become one before.
CORRESPONDING = SEQUENTIAL.replace("pdr", "scorr; pdr")
# No more than that, and induction over one cycle: for a rule of a few registers of a wide unit.
BY_CYCLE = SEQUENTIAL.replace("pdr", "scorr; dprove")

# No invariant, the first cycles alone; frame 0 is the reset.
FIRST_CYCLES = SEQUENTIAL.replace("pdr", "bmc3 -F {frames}")

# One case of some cycles, in which little is alike except the result: without sweeping.
CASE_OF_CYCLES = "read case.aig; sat -C 0; print_status"
CYCLES = "read case.aig; ifraig; iprove; print_status"


class Verdict(Enum):
    """Answer to a question."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


def decide(
    subject: ObservedUnit,
    rule: Rule,
    directory: Path,
    limit: float,
    cases: Iterable[int] | None = None,
    sequential: str = SEQUENTIAL,
) -> Verdict:
    """Whether `rule` never says wrong, whatever the inputs, from any state after one reset, or
    in the subject's `cycles` from any state. cases: those of the subject to decide, all when None.
    sequential: what ABC does about any number of cycles.

    SynthesisError when a tool fails or takes longer than `limit` seconds, ModuleNotFoundError
    without pyosys.
    """
    build(subject, rule, directory, limit)
    if subject.cycles:
        return _cycles(subject, directory, limit, cases)
    commands = sequential if subject.clock else COMBINATIONAL
    return ask(commands, directory, "the subject", limit)


def decide_first(
    subject: ObservedUnit, rule: Rule, directory: Path, limit: float, cycles: int
) -> Verdict:
    """Whether `rule` says wrong in none of the first `cycles` after any state and one reset.

    Errors as `decide`'s.
    """
    build(subject, rule, directory, limit)
    log = run_abc(FIRST_CYCLES.format(frames=cycles + 1), directory, "the subject", limit)
    if f"No output asserted in {cycles + 1} frames." in log:
        return Verdict.PROVED
    return Verdict.REFUTED if " was asserted in frame " in log else Verdict.UNDECIDED


def build(
    subject: ObservedUnit, rule: Rule, directory: Path, limit: float, script: str = SCRIPT
) -> Path:
    """The graph of a subject and its observer, both.aig in `directory`; errors as `decide`'s.

    script: SCRIPT, or FROM_ZERO.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "observer.il").write_text(Observer(subject, rule).rtlil())
    (directory / "subject.v").write_text(subject.text)
    (directory / "both.v").write_text(bench(subject))
    run_yosys(script, directory, "the subject", limit)
    return directory / "both.aig"


def _cycles(
    subject: ObservedUnit, directory: Path, limit: float, cases: Iterable[int] | None
) -> Verdict:
    """The verdict of all cases, one by one until one is not proved."""
    graph = aig.read(directory / "both.aig")
    commands = CASE_OF_CYCLES if subject.cases else CYCLES
    for number in range(max(1, subject.cases)) if cases is None else cases:
        aig.unroll(graph, subject.cycles, {CASE: number}, directory / "case.aig")
        verdict = ask(commands, directory, "the subject", limit)
        if verdict is not Verdict.PROVED:
            return verdict
    return Verdict.PROVED


def ask(commands: str, directory: Path, source: str, limit: float) -> Verdict:
    """Run ABC's commands in `directory`: the verdict of `print_status`. Errors as in `decide`.

    RuntimeError when it says nothing.
    """
    log = run_abc(commands, directory, source, limit)
    status = re.findall(r"^Status = (-?\d)", log, re.M)
    if not status:
        raise RuntimeError(f"ABC said no status: {log.strip().splitlines()[-1:]}")
    return {"1": Verdict.PROVED, "0": Verdict.REFUTED}.get(status[-1], Verdict.UNDECIDED)
