"""Mutants: the bench kills wrong ones, ABC proves the others equal, and what is left is told."""

import ast
from collections import Counter

import pytest

from mxdot.explore.cost.cache import Cache
from mxdot.explore.formal import aig
from mxdot.explore.formal.engine import Verdict
from mxdot.explore.mutate import __main__ as command
from mxdot.explore.mutate import bench, design, equivalence, model, python_source
from mxdot.explore.mutate.score import Fate, Outcome, judged, score
from mxdot.explore.mutate.subjects import Unit
from mxdot.model import QuantizeConfig
from mxdot.sim.engine.unit import UnitResult

LIMIT = 60  # seconds
UNIT = Unit("small", QuantizeConfig("e2m1", 4, "bfloat16", stages=2), 1000, 2000)
COUNT = 24


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return design.make(UNIT, COUNT, 1, tmp_path_factory.mktemp("mutants"))


@pytest.fixture(scope="module")
def outcomes(made, tmp_path_factory):
    directory = tmp_path_factory.mktemp("judged")
    cache, told = Cache(directory / "results"), []
    found = judged(made, 1, directory, cache, LIMIT, told.append)
    assert told == found
    return found, directory, cache


def test_each_mutant_is_killed_or_proved_equal(outcomes):
    fates = Counter(outcome.fate for outcome in outcomes[0])
    assert fates[Fate.KILLED] >= COUNT / 2
    assert fates[Fate.EQUIVALENT] > 0
    assert fates.total() == COUNT


def test_what_was_judged_is_kept(made, outcomes, monkeypatch):
    found, directory, cache = outcomes
    monkeypatch.setattr(bench, "run", None)
    assert judged(made, 1, directory, cache, LIMIT, lambda outcome: None) == found


def test_a_bench_that_sees_nothing_leaves_survivors(made, outcomes, tmp_path, monkeypatch):
    """And what the bench kills, ABC finds to be another unit."""
    passed = UnitResult(UNIT.name, "", compared=1)
    monkeypatch.setattr(bench, "run", lambda *_: passed)
    found = judged(made, 1, tmp_path, Cache(tmp_path / "results"), LIMIT, lambda outcome: None)
    killed = {outcome.text for outcome in outcomes[0] if outcome.fate is not Fate.EQUIVALENT}
    survived = {o.text: o.by for o in found if o.fate is Fate.SURVIVED}
    assert set(survived) == killed
    assert set(survived.values()) == {"another unit, says ABC"}
    assert score(found) == 0


def test_a_unit_that_fails_by_itself_is_refused(made, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult(UNIT.name, "", errors=["wrong"]))
    with pytest.raises(RuntimeError, match=r"^small itself fails bulk: wrong$"):
        judged(made, 1, tmp_path, Cache(tmp_path), LIMIT, lambda outcome: None)


def test_mutants_are_of_every_operator_and_the_same_each_time(made, tmp_path):
    assert {mutant.operator for mutant in made.mutants} == {
        "inverted net", "stuck net", "swapped operator", "off by one", "dropped sticky bits",
        "handshake term",
    }  # fmt: skip
    again = design.make(UNIT, COUNT, 1, tmp_path / "again")
    assert again.mutants == made.mutants
    assert again.verilog.read_text() == made.verilog.read_text()
    assert design.make(UNIT, COUNT, 2, tmp_path / "other").mutants != made.mutants


def test_an_unreachable_state_is_equal_in_sequences_alone(made, tmp_path):
    """Two registers that are always alike: either may stand for the other, once both are reset."""
    graph = aig.Aig(
        inputs=[("d", 0), ("rst", 0), (design.SELECT, 0)],
        nexts=[12, 12],
        outputs={("q", 0): 19},
        ands=[(5, 2), (10, 6), (8, 7), (17, 15)],  # d & ~rst; q = mutant ? second : first
    )
    verdicts = []
    for number in (0, 1):
        equivalence.step(graph, number, tmp_path / "step.aig")
        verdicts.append(equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT))
    assert verdicts == [Verdict.PROVED, Verdict.REFUTED]
    equivalence.sequence(graph, 1, "rst", tmp_path / "sequence.aig")
    assert equivalence.ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is Verdict.PROVED


@pytest.mark.parametrize(("output", "verdict"), [("out_x", Verdict.PROVED), ("x", Verdict.REFUTED)])
def test_a_register_that_holds_nothing_may_differ(output, verdict, tmp_path):
    """The mutant loads it in every cycle; an output that always counts tells."""
    graph = aig.Aig(
        inputs=[("d", 0), ("in_valid", 0), (design.SELECT, 0)],
        nexts=[19, 4],
        outputs={(output, 0): 8, ("out_valid", 0): 10},
        ands=[(7, 5), (13, 2), (12, 8), (17, 15)],  # loads = in_valid | mutant
        registers=[("s_register_x", 0), ("s_register_valid", 0)],
    )
    equivalence.step(graph, 1, tmp_path / "step.aig")
    assert equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT) is Verdict.REFUTED
    equivalence.waiting(graph, 1, tmp_path / "step.aig")
    assert equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT) is verdict


SOURCE = '''
def f(x: int | None = 3) -> int:
    """Doc."""
    if x < 2 and not x:
        raise ValueError("x must be 1 + 1")
    return -x + 5
'''


def test_mutants_of_python_change_one_expression():
    found = python_source.sample(SOURCE, 100, "seed")
    assert Counter(change.operator for change in found) == {
        "swapped operator": 1, "swapped comparison": 1, "swapped condition": 1,
        "dropped sign or negation": 2, "off by one": 6,
    }  # fmt: skip
    texts = {change.text for change in found} | {ast.unparse(ast.parse(SOURCE))}
    assert len(texts) == len(found) + 1
    assert all("x must be 1 + 1" in text and "x: int | None" in text for text in texts)
    assert python_source.sample(SOURCE, 4, "seed") == found[:4]


@pytest.mark.parametrize(
    ("tests", "fate"),
    [(("test_blocks", "test_quantize"), Fate.KILLED), (("test_trace",), Fate.SURVIVED)],
)
def test_a_mutant_of_the_model(tests, fate, tmp_path):
    part = model.Part("rules", ("scale_rules.py",), tests)
    cache = Cache(tmp_path / "results")
    (found,) = model.judged(part, 1, 1, tmp_path, cache, lambda outcome: None)
    assert found.fate is fate, found


def test_the_score_leaves_equal_mutants_out():
    fates = [Fate.KILLED] * 3 + [Fate.SURVIVED, Fate.EQUIVALENT]
    assert score(Outcome("x", "", fate, "", 0.0) for fate in fates) == 75


def test_the_command_says_who_survived(monkeypatch, capsys):
    outcome = Outcome("odd", "stuck net: x", Fate.SURVIVED, "another unit, says ABC", 1.0)

    def judge(args, cache, tell):
        tell(outcome)
        return [outcome]

    monkeypatch.setattr(command, "subjects", lambda: [command.Subject("odd", "odd unit", judge)])
    assert command.main([]) == 1
    out, err = capsys.readouterr()
    assert "survived odd: stuck net: x; another unit, says ABC" in out
    assert err == "1 mutants, score 0.0%: the goal of 99% is missed\n"


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
    ],
)
def test_bad_arguments_are_one_line(arguments, message, capsys):
    assert command.main(arguments) == 2
    assert capsys.readouterr().err == f"mutate: error: {message}\n"
