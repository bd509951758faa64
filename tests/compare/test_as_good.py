"""`mxdot compare find` at a clock: which accumulators are ranked, and in what order."""

import math
from dataclasses import replace

import pytest

from command_line import refusal
from compare_fakes import FAKES, measure_at_clock
from compare_sample import Quiet, swept
from mxdot.compare.accuracy import evaluate
from mxdot.compare.studies import Sampling, Study, Target, compare, processes, shipped
from mxdot.compare.studies.as_good import rank, widest
from mxdot.compare.studies.clock_task import clock_task
from mxdot.compare.studies.flows import Synthesis
from mxdot.compare.studies.tasks import Instruments
from mxdot.model import accumulator
from mxdot.model.accumulators import PRESETS
from mxdot.util.jobs import DryRun
from mxdot.util.progress import duration

SAMPLING = Sampling((32, 256), 16)


STUDY = Study(
    "t",
    (swept("e4m3", lanes="32"),),
    synthesis=Synthesis("asap7", clock=(1000.0,)),
    data=("normal", "outliers"),
    sampling=SAMPLING,
)
TOOLS = type(FAKES)(measure=measure_at_clock, evaluate=evaluate)


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranked")
    return rank(STUDY, Target(match="aligned:12"), folder, processes(1), Quiet(), tools=TOOLS)


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
    assert not kinds & set(PRESETS)  # hopper is as good, but a machine
    assert math.isinf(next(r for r in ranking.rows if r.accumulator == "exact").sqnr_accumulator_db)


def test_a_dry_run_counts_the_units_that_may_follow_as_compare_does(tmp_path):
    lists = replace(processes(1), only_lists=True)
    with pytest.raises(DryRun) as plan:
        rank(STUDY, Target(match="hopper"), tmp_path, lists, Quiet(), tools=TOOLS)
    names = "hopper,aligned:13,fused:13,fixed:32:-16,exact,float32"
    study = replace(STUDY, sweeps=(swept("e4m3", names, "32"),))
    with pytest.raises(DryRun) as units:
        compare(study, tmp_path, lists, Quiet(), tools=TOOLS)
    assert plan.value.then == (
        "at most 6 units at the clock (hopper, aligned:F, fused:F, fixed:W:L, exact, float32): "
        f"about {duration(sum(task.weight for task in units.value.tasks))}"
    )


def test_other_options_of_a_sweep_stay(tmp_path):
    sweep = swept("e4m3", lanes="8", stages="5,6", status=False)
    study = replace(STUDY, sweeps=(sweep, swept("e4m3", lanes="16")), data=("normal",))
    study = replace(study, sampling=Sampling((32,), 4))
    match = Target(match="aligned:12")
    found = rank(study, match, tmp_path, processes(1), Quiet(), tools=TOOLS)
    rows = [row for row in found.rows if row.accumulator == "exact"]
    assert {(row.lanes, row.stages) for row in rows if row.lanes == 8} == {(8, 5), (8, 6)}
    assert [row.options for row in rows if row.lanes == 8] == ["no-status"] * 2
    assert [row.options for row in rows if row.lanes == 16] == [""]


@pytest.mark.slow
def test_what_comes_with_the_package_takes_no_time(tmp_path):
    lists = replace(processes(1), only_lists=True)
    with pytest.raises(DryRun) as plan:
        rank(STUDY, Target(match="exact"), tmp_path, lists, Quiet())
    counted = sum(shipped.find(task) is None for task in clocked(tmp_path, "exact,float32"))
    assert plan.value.then.startswith(f"at most {3 + counted} units ")


def clocked(folder, names):
    points = replace(STUDY, sweeps=(swept("e4m3", names, "32"),)).points()
    tasks = [clock_task(point, folder, Instruments()) for point in points]
    return {task.key: task for task in tasks if task is not None}.values()


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
