"""Mutants: the bench kills wrong ones, ABC proves the others equal, and what is left is told."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import evidence
import pytest

from here import HERE
from mxdot.cli import main
from mxdot.hw.matmul.registers import Counters
from mxdot.hw.verilog import default_top, generate
from mxdot.model import QuantizeConfig
from mxdot.sim.engine import regression, regression_units
from mxdot.sim.engine.unit import UnitResult
from mxdot.synth.errors import SynthesisError
from mxdot.util.jobs import DryRun
from mxdot.verify.command import Session
from mxdot.verify.formal import aig, matmul
from mxdot.verify.formal.claim import Claim
from mxdot.verify.formal.engine import Verdict, ask
from mxdot.verify.formal.observer import component
from mxdot.verify.mutate import bench, design, equivalence, parts, rows, rtlil, tasks
from mxdot.verify.mutate import run as command
from mxdot.verify.mutate.equivalence import Limits
from mxdot.verify.mutate.flow import NoPipelineError
from mxdot.verify.mutate.score import Fate, MutantOutcome, score
from mxdot.verify.small_units import UNITS, Unit

LIMIT = 60  # seconds
LIMITS = Limits(LIMIT, LIMIT)
UNIT = Unit("small", QuantizeConfig("e2m1", 4, "bfloat16", stages=2), 1000, 2000)
COUNT = 14


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return design.make(UNIT, COUNT, 1, tmp_path_factory.mktemp("mutants"))


def judged(made, directory):
    """Outcomes of all mutants."""
    outcomes = []
    for mutant in made.mutants:
        outcome = tasks.simulated(made, mutant.number, 1, directory / "builds")
        if outcome.fate is not Fate.KILLED:
            outcome = tasks.proved(made, mutant, directory / "proof", LIMITS)
        outcomes.append(outcome)
    return outcomes


@pytest.fixture(scope="module")
def outcomes(made, tmp_path_factory):
    return judged(made, tmp_path_factory.mktemp("judged"))


def test_units_have_the_counts_of_mxdot_sim_of_a_single_unit():
    counts = {(unit.many, unit.traffic) for unit in UNITS}
    assert counts == {(regression_units.BULK, regression.TRAFFIC)}


def test_each_mutant_is_killed_or_proved_equal(outcomes):
    fates = Counter(outcome.fate for outcome in outcomes)
    assert fates[Fate.KILLED] >= COUNT / 2
    assert fates[Fate.EQUIVALENT] > 0
    assert fates.total() == COUNT


def test_outputs_of_what_enters_are_alike_for_equal_mutants_alone(made, outcomes, tmp_path):
    graph = aig.read(made.aiger)
    graph = replace(graph, registers=design.registers_of(graph))
    alike = set()
    for mutant, outcome in zip(made.mutants, outcomes, strict=True):
        for masked in (True, False):
            with suppress(NoPipelineError):
                file = tmp_path / "flow.aig"
                equivalence.write_flow(graph, mutant.number, made.reset, file, masked=masked)
                if ask(equivalence.FLOW, tmp_path, mutant.text, LIMIT) is Verdict.PROVED:
                    alike.add(outcome.fate)
    assert alike == {Fate.EQUIVALENT}


@pytest.mark.slow
def test_a_bench_that_sees_nothing_leaves_survivors(made, outcomes, tmp_path, monkeypatch):
    """ABC finds each mutant that the bench kills to be another unit."""
    passed = UnitResult(UNIT.name, "", compared=1)
    monkeypatch.setattr(bench, "run", lambda *_: passed)
    blind = judged(made, tmp_path)
    killed = {outcome.text for outcome in outcomes if outcome.fate is not Fate.EQUIVALENT}
    survived = {o.text: o.by for o in blind if o.fate is Fate.SURVIVED}
    assert set(survived) == killed
    assert set(survived.values()) == {"another unit, says ABC"}
    assert score(blind) == 0


@pytest.fixture
def mutate(tmp_path, monkeypatch):
    """Runs the command for the small unit alone, in this process."""
    monkeypatch.setattr(tasks, "BUILD", tmp_path / "build")
    monkeypatch.setattr(command, "subjects", lambda: [tasks.of_unit(UNIT)])

    def mutate(count=4, backend=HERE, only="", **options):
        session = Session(tmp_path, backend, **options)
        sample = tasks.Sample(count, 1)
        return command.run(only, sample, LIMITS, session, list_only=False, markdown=False)

    return mutate


def test_an_interrupted_run_goes_on(mutate, monkeypatch, capsys):
    """Mutants that were judged stay judged, by the bench and by proofs; `fresh` begins anew."""
    ran, proved = [], []

    def run(made, number, *_):
        ran.append(number)
        if ran.count(3) == 1 and number == 3:
            raise KeyboardInterrupt
        return UnitResult(
            UNIT.name,
            "",
            compared=1,
            errors=["wrong"] * (number in (1, 2)),
            mismatches=number in (1, 2),
        )

    def decide(made, number, *_):
        proved.append(number)
        if len(proved) == 2:
            raise KeyboardInterrupt
        return Verdict.PROVED, "how"

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.setattr(equivalence, "decide", decide)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            mutate()
    assert mutate() == 0
    assert ran == [0, 0, 0, 1, 2, 3, 3, 3, 3, 4, 4, 4]  # three stages, one of what is killed
    assert proved == [3, 4, 4]
    shown = "small: 4 mutants, killed by bulk 2; equivalent 2, survived 0: score 100.0%"
    assert shown in capsys.readouterr().out
    assert mutate() == 0
    assert shown in capsys.readouterr().out
    assert len(ran), len(proved) == (12, 3)
    with pytest.raises(DryRun) as plan:
        mutate(backend=replace(HERE, only_lists=True))
    assert (len(plan.value.tasks), plan.value.kept) == (0, 5)
    assert mutate(fresh=True) == 0
    assert (len(ran), len(proved)) == (12 + 11, 3 + 2)


def test_a_run_that_fails_of_the_machine_kills_no_mutant(mutate, monkeypatch, capsys):
    """It fails without a wrong result, once; or the unit fails likewise."""
    ran, proved = [], (Verdict.PROVED, "how")

    def run(made, number, *_):
        ran.append(number)
        return UnitResult(UNIT.name, "", compared=1, errors=["killed"] * (ran.count(2) == 1))

    monkeypatch.setattr(bench, "run", lambda made, number, *_: run(made, number))
    monkeypatch.setattr(equivalence, "decide", lambda *_: proved)
    assert mutate(2) == 0
    assert "killed by none; equivalent 2, survived 0" in capsys.readouterr().out

    def full(made, number, *_):
        errors = ["disk full"] if number or 1 in ran else []
        ran.append(number)
        return UnitResult(UNIT.name, "", compared=1, errors=errors)

    ran.clear()
    monkeypatch.setattr(bench, "run", full)
    with pytest.raises(RuntimeError, match=r"^small itself fails bulk: disk full$"):
        mutate(2, fresh=True)


def test_a_design_moves_with_its_folder_and_is_made_anew_when_it_is_cut(tmp_path, monkeypatch):
    sample, begun = tasks.Sample(2, 1), []
    make = design.make
    monkeypatch.setattr(design, "make", lambda *given: begun.append(given) or make(*given))
    monkeypatch.setattr(tasks, "BUILD", tmp_path / "build")
    text = tasks.designed(UNIT, sample).verilog.read_text()
    (tmp_path / "build").rename(tmp_path / "moved")
    monkeypatch.setattr(tasks, "BUILD", tmp_path / "moved")
    moved = tasks.designed(UNIT, sample)
    assert moved.verilog.is_relative_to(tmp_path / "moved")
    assert moved.aiger.is_file()
    assert len(begun) == 1
    moved.verilog.write_text(text[:-100])
    assert tasks.designed(UNIT, sample).verilog.read_text() == text
    assert len(begun) == 2


def test_a_unit_that_fails_by_itself_is_refused(mutate, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult(UNIT.name, "", errors=["wrong"]))
    with pytest.raises(RuntimeError, match=r"^small itself fails bulk: wrong$"):
        mutate()


def test_a_subject_that_fails_by_itself_stops_no_other(mutate, monkeypatch, capsys):
    bad = replace(UNIT, name="bad")
    monkeypatch.setattr(command, "subjects", lambda: [tasks.of_unit(bad), tasks.of_unit(UNIT)])

    def run(made, number, *_):
        errors = ["wrong"] * (made.unit.name == "bad" or number > 0)
        return UnitResult(made.unit.name, "", compared=1, errors=errors, mismatches=number)

    monkeypatch.setattr(bench, "run", run)
    assert mutate(2) == 1
    out, err = capsys.readouterr()
    assert out.startswith("small: 2 mutants, killed by bulk 2; ")
    assert "not judged: bad itself fails bulk: wrong\n2 mutants, score 100.0%\n" in err


def test_mutants_are_of_every_operator_and_the_same_each_time(made, tmp_path):
    assert {mutant.operator for mutant in made.mutants} == {
        "inverted net", "stuck net", "swapped operator", "off by one", "dropped sticky bits",
        "handshake term",
    }  # fmt: skip
    again = design.make(UNIT, COUNT, 1, tmp_path / "again")
    assert again.mutants == made.mutants
    assert again.verilog.read_text() == made.verilog.read_text()
    assert design.make(UNIT, COUNT, 2, tmp_path / "other").mutants != made.mutants


@pytest.fixture(scope="module")
def counting():
    """The matrix unit with a digit of a counter inverted where another one is 1: in 2^28 bytes."""
    (matmul,) = (unit for unit in UNITS if unit.name == "matmul")
    text, top = generate(matmul.config, default_top(matmul.config)), default_top(matmul.config)
    inside = rtlil.cells(rows.body(rows.whole(text, top), f"{top}_counters_3"))
    (adder,) = (c for c in inside if "DISCARDED_A_" in c.ports.get("A", "") and c.type == "$add")
    options = "-mode cnot1 -port A -portbit 28 -ctrlbit 31"
    cell = f"$flatten\\counters.{adder.name}"
    mutant = design.Mutant(1, "inverted net", "", "A[28] inverted", "", cell, f"mutate {options}")
    return design.Design(matmul, (mutant,), text, Path(), Path(), "aresetn")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdict", "fate", "by"),
    [
        (Verdict.UNDECIDED, Fate.KILLED, "proof `counters`"),
        (Verdict.REFUTED, Fate.KILLED, "proof `counters`"),
        (Verdict.PROVED, Fate.EQUIVALENT, "how"),
    ],
)
def test_a_survivor_is_killed_by_a_proof(verdict, fate, by, counting, tmp_path, monkeypatch):
    """By the row about the module that it changes, unless the whole unit is the same."""
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult("matmul", "", compared=1))
    monkeypatch.setattr(equivalence, "decide", lambda *_: (verdict, "how"))
    (outcome,) = judged(counting, tmp_path)
    assert (outcome.fate, outcome.by) == (fate, by)


@pytest.mark.parametrize(
    "rule",
    [
        lambda m, p: p.clear & ~p.clear,  # nothing is wrong with a mutant
        lambda m, p: p.clear,  # something is wrong with the unit as it is
    ],
)
def test_a_row_that_does_not_tell_them_apart_kills_nothing(rule, counting, tmp_path):
    claim = Claim("odd", "", lambda: component(Counters(3)), rule)
    (mutant,) = counting.mutants
    assert rows.killer(counting, mutant, tmp_path, LIMIT, [claim]) is None


def test_a_row_about_another_module_is_not_asked(counting, tmp_path):
    (mutant,) = counting.mutants
    wider = Claim("odd", "", lambda: component(Counters(4)), lambda m, p: p.values.CYCLES != 0)
    assert rows.killer(counting, mutant, tmp_path, LIMIT, [wider]) is None
    top = replace(mutant, cell=mutant.cell.replace("$flatten\\counters.", ""))
    assert rows.killer(counting, top, tmp_path, LIMIT) is None


@pytest.mark.slow
def test_a_row_about_a_whole_unit_speaks_of_modules_around_its_array(counting, tmp_path):
    """An error that is raised while the beat still waits."""
    config, top = counting.unit.config, default_top(counting.unit.config)
    inside = rtlil.cells(rows.body(rows.whole(counting.original, top), f"{top}_receiver_3_3"))
    cell = next(c for c in inside if c.type == "$and" and c.ports.get("B") == "\\o_ready")
    name = f"$flatten\\operand_b.$flatten\\receiver.{cell.name}"
    options = "mutate -mode const1 -port B -portbit 0"
    mutant = design.Mutant(1, "stuck net", "", "B[0] stuck at 1", "", name, options)

    def rule(m, p):
        return p.told_errors_b_keep & ~(p.s_axis_b_tvalid & p.s_axis_b_tready)

    claim = Claim("told", "", lambda: matmul.without_registers(config), rule)
    assert rows.killer(counting, mutant, tmp_path, LIMIT, [claim]) == "told"
    known = rows._by_module([claim])
    assert {"receiver_3_3", "step_buffer_24_8", "loop"} <= known.keys()
    assert not any("dot_unit" in name for name in known)


def test_an_operator_of_ours_is_killed_by_a_proof(counting, tmp_path):
    """One and the same change, found again in the module by itself."""
    (mutant,) = counting.mutants
    mine = replace(mutant, operator="swapped operator", what="add becomes $sub", command="")
    assert rows.killer(counting, mine, tmp_path, LIMIT) == "counters"
    unknown = replace(mine, what="add becomes $mul")
    assert rows.killer(counting, unknown, tmp_path, LIMIT) is None


def test_what_takes_too_long_is_asked_again(made, outcomes, tmp_path, monkeypatch):
    """With the longer limit, after all questions have had the first one."""
    equal = next(
        mutant.number
        for mutant, outcome in zip(made.mutants, outcomes, strict=True)
        if outcome.by == "one step from every state"
    )
    asked, right = [], equivalence.ask

    def slow(commands, directory, source, limit):
        asked.append(limit)
        if limit < LIMIT:
            raise SynthesisError("took longer")
        return right(commands, directory, source, limit)

    monkeypatch.setattr(equivalence, "ask", slow)
    how = "one step from every state, in a longer time"
    assert equivalence.decide(made, equal, tmp_path, Limits(1, LIMIT)) == (Verdict.PROVED, how)
    assert asked[-2:] == [1, LIMIT]
    assert set(asked) == {1, LIMIT}
    with pytest.raises(SynthesisError, match="took longer"):
        equivalence.decide(made, equal, tmp_path, Limits(1, 2))


def test_a_part_without_its_python_is_left_out_or_refused(mutate, monkeypatch, capsys):
    odd = tasks.of_part(parts.Part("odd", (), (), python="no/python"))
    line = f"odd needs {parts.checkout()}/no/python: make venv-gpu"
    monkeypatch.setattr(command, "subjects", lambda: [odd])
    with pytest.raises(ValueError, match=f"^{line}$"):
        mutate(only="odd")
    assert mutate() == 0
    assert capsys.readouterr().err.startswith(f"left out: {line}\n0 mutants")


def test_the_score_leaves_equal_mutants_out():
    fates = [Fate.KILLED] * 3 + [Fate.SURVIVED, Fate.EQUIVALENT]
    assert score(MutantOutcome("x", "", fate, "", 0.0) for fate in fates) == 75


def test_the_command_says_who_survived(mutate, monkeypatch, capsys):
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult(UNIT.name, "", compared=1))
    monkeypatch.setattr(equivalence, "decide", lambda *_: (Verdict.REFUTED, "how"))
    assert mutate(2) == 1
    out, err = capsys.readouterr()
    assert out.count("survived small: ") == 2
    assert out.count("; another unit, says ABC\n") == 2
    assert err.endswith("2 mutants, score 0.0%: the goal of 99% is missed\n")
    assert evidence.told(out.splitlines()) == {
        "mutants small": {"mutants": 2, "equal": 0, "survived": 2}
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--only", "nothing"],
            "only must be part of a subject's name (see --list), not 'nothing'",
        ),
        (["--count", "1"], "count must be from 2 to 5000, not 1"),
        (["--seed", "-1"], "seed must be from 0 to 2147483647, not -1"),
        (["--limit", "0"], "limit must be above 0, not 0"),
        (["--longer", "10"], "longer must be at least limit, 20, not 10"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message, capsys):
    assert main(["verify", "mutate", *arguments]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"


def test_registers_whose_outputs_mutants_change_keep_their_names():
    change = "mutate -mode inv -cell c -port Q -portbit 1 -wire sum_register_rows -wirebit 21"
    other = "mutate -mode inv -cell c -port A -portbit 0"
    rename = "rename -enumerate -pattern sum_register_rows_changed21_% w:$auto$mutate*"
    assert [*design.named([other, change])] == [change, rename, other]
    names = [("sum_register_rows_changed21_0", 0), ("sum_register_valid", 0), None]
    graph = aig.Aig([], [], {}, [], names)
    assert design.registers_of(graph) == [("sum_register_rows", 21), *names[1:]]
