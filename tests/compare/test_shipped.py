"""Results that come with the package: when they count, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest

from compare import generator
from compare_fakes import FAKES, measure_at_clock
from compare_sample import Quiet, swept
from mxdot.compare.studies import DEFAULT, Sampling, Study, compare, load_study, processes, shipped
from mxdot.compare.studies.clock_task import clock_task
from mxdot.compare.studies.flows import Synthesis
from mxdot.compare.studies.study import QUESTIONS
from mxdot.compare.studies.tasks import Instruments
from mxdot.util.jobs import execute
from mxdot.util.store import Store

STUDY = Study(
    "t",
    (swept("e2m1", "exact", "4"),),
    synthesis=Synthesis("asap7", clock=(1000.0,)),
    data=("normal",),
    sampling=Sampling((32,), 4),
)


@pytest.fixture
def task(tmp_path):
    (point,) = STUDY.points()
    task = clock_task(point, tmp_path, Instruments())
    assert task is not None
    return task


@pytest.fixture
def record(task, monkeypatch):
    """The record of a result with the areas of a stand-in; the package holds it alone."""
    made = execute(replace(task, tools=replace(FAKES, measure=measure_at_clock)))
    assert made.ok, made.error
    record = shipped.record_of(task, replace(made, finished=1764158400.0), "1.2.3")
    holds(monkeypatch, record)
    return record


def holds(monkeypatch, record):
    monkeypatch.setattr(shipped, "records", lambda: [record])
    shipped._by_question.cache_clear()


def found(task):
    outcome = shipped.find(task)
    assert outcome is not None
    return outcome


@pytest.fixture(autouse=True)
def forgotten():
    yield
    shipped._by_question.cache_clear()


def test_a_result_that_counts_says_who_measured_it_and_when(task, record, tmp_path):
    outcome = found(task)
    assert outcome.key == task.key
    assert outcome.value["area"] == record["value"]["area"]
    assert outcome.value["clock"]["measured"] == "mxdot 1.2.3 on 2025-11-26"
    observer = Quiet()
    comparison = compare(STUDY, tmp_path, processes(1), observer)
    assert observer.begun == ["e2m1 exact x4: normal"]  # no synthesis
    (row,) = comparison.rows
    assert (row.area, row.measured) == (record["value"]["area"], "mxdot 1.2.3 on 2025-11-26")


@pytest.mark.parametrize("part", ["verilog", "library", "flow"])
def test_a_result_of_something_else_does_not_count(part, task, record, monkeypatch):
    holds(monkeypatch, record | {part: "0" * 64, "code": "of another version"})
    assert shipped.find(task) is None


def test_other_code_that_writes_the_same_verilog_changes_nothing(task, record, monkeypatch):
    holds(monkeypatch, record | {"code": "of another version"})
    assert shipped.find(task) is not None


def test_another_question_has_no_result(task, record):
    assert shipped.find(replace(task, period_ps=900.0)) is None
    assert shipped.find(replace(task, free=("stages",))) is None


def test_an_energy_of_another_model_is_left_out(task, record, monkeypatch):
    assert found(task).value["energy"] == record["value"]["energy"]
    holds(monkeypatch, record | {"energy": "0" * 64})
    value = found(task).value
    assert "energy" not in value
    assert value["energy_error"] == shipped.STALE
    assert "energy_error" not in found(replace(task, energy=False)).value


def test_what_is_kept_already_stays(task, record, tmp_path):
    store = Store(tmp_path)
    own = replace(found(task), value={"area": 1.0})
    store.put(own)
    shipped.seed([task], store)
    assert store.get(task.key) == own


@pytest.mark.slow
def test_a_result_drawn_at_random_is_measured_again(tmp_path):
    """Another seed, MXDOT_SEED, draws another one."""
    record = generator("shipped").choice(np.array(shipped.records()))
    assert shipped.measured_again(record, tmp_path) == {}


def test_what_differs_is_named(record, tmp_path):
    differing = shipped.measured_again(record, tmp_path)
    assert differing["area"][0] == record["value"]["area"] != differing["area"][1]


def test_the_file_answers_the_default_comparison_and_the_questions():
    """`python tools/shipped_results.py` measures what is missing."""
    tools = Instruments()
    points = [point for path in (DEFAULT, QUESTIONS) for point in load_study(path).points()]
    tasks = [clock_task(point, DEFAULT.parent, tools) for point in points]
    held = {shipped.question(record["question"]) for record in shipped.records()}
    assert {shipped.question(task.described) for task in tasks if task} >= held
