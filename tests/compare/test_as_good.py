"""`mxdot compare find` at a clock: which accumulators are ranked, and in what order."""

import math

import pytest

from command_line import refusal
from compare_fakes import FAKES, measure_at_clock
from compare_sample import Quiet, swept
from mxdot.compare.accuracy import evaluate
from mxdot.compare.studies import Sampling, Study, Target, processes
from mxdot.compare.studies.as_good import rank, widest
from mxdot.compare.studies.flows import Synthesis
from mxdot.model import accumulator

SAMPLING = Sampling((32, 256), 16)


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    study = Study(
        "t",
        (swept("e4m3", lanes="32"),),
        synthesis=Synthesis("asap7", clock=(1000.0,)),
        data=("normal", "outliers"),
        sampling=SAMPLING,
    )
    tools = type(FAKES)(measure=measure_at_clock, evaluate=evaluate)
    folder = tmp_path_factory.mktemp("ranked")
    return rank(study, Target(match="aligned:12"), folder, processes(1), Quiet(), tools=tools)


def test_all_that_is_ranked_is_as_good(ranking):
    goals = {
        (row.data, a["length"]): a["sqnr_accumulator_db"] - 1
        for row in ranking.rows
        if row.accumulator == "aligned:12"
        for a in row.lengths
    }
    assert len(goals) == 4
    for row in ranking.rows:
        for a in row.lengths:
            assert a["sqnr_accumulator_db"] >= goals[row.data, a["length"]], row.accumulator


def test_every_kind_that_is_good_enough_is_there(ranking):
    names = [str(row.accumulator) for row in ranking.rows]
    kinds = {name.partition(":")[0] for name in names}
    assert {"exact", "float32", "aligned", "fused", "fixed"} <= kinds
    assert "int32" not in kinds  # takes no FP8
    assert math.isinf(next(r for r in ranking.rows if r.accumulator == "exact").sqnr_accumulator_db)


def test_the_matched_row_and_units_at_the_clock(ranking):
    assert ranking.matched is not None
    assert ranking.matched.accumulator == "aligned:12"
    for row in ranking.rows:
        assert row.clock_mhz == 1000.0
        assert row.status == "target missed" or row.slack_ps >= 0


def test_a_register_that_holds_what_all_hold():
    registers = [accumulator(text) for text in ("fixed:32:-16", "fixed:30:-20", "fixed:20:-3")]
    assert str(widest(registers)) == "fixed:37:-20"
    assert str(widest([accumulator("aligned:9"), accumulator("aligned:11")])) == "aligned:11"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--clock", "1GHz"], "clock needs --process with it"),
        (["--process", "asap7"], "process needs --clock with it"),
        (["--clock", "1GHz", "--process", "gates"], "clock is for process sky130, ihp"),
        (["--clock", "soon", "--process", "asap7"], "clock must be a frequency"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = "--match", "exact", "--format", "e4m3"
    assert message in refusal(capsys, "compare", "find", *options, *words)
