"""The files of a comparison, their columns and colours."""

import csv
import io
import json
import math
from dataclasses import fields
from pathlib import Path

import pyarrow.parquet
import pytest

from compare_sample import sample
from mxdot.cli import main
from mxdot.compare.studies import Comparison, Row
from mxdot.compare.studies.outputs import export
from mxdot.model import DotConfig
from mxdot.model.accumulators import KINDS
from mxdot.model.pipeline.sections import dot_sections
from mxdot.util.charts.palette import SECTIONS, family, format_colours, grouped
from mxdot.util.tables import flat_columns, flat_type

ROOT = Path(__file__).parents[2]
INF = math.inf


@pytest.fixture(scope="module")
def comparison(tmp_path_factory) -> Comparison:
    return sample(tmp_path_factory.mktemp("compare"))


def test_files(comparison, tmp_path):
    written = export(comparison, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in written)
    table = list(csv.DictReader(io.StringIO((tmp_path / "compare.csv").read_text())))
    assert list(table[0]) == list(flat_columns(Row))
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
    types = {name: str(table.schema.field(name).type) for name in flat_columns(Row)}
    assert set(types.values()) == {"bool", "int64", "double", "string"}


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
        assert (flat_type(Row, column.name) is None) == (column.name in ("sections", "lengths"))


def test_the_command_explains_every_column(capsys):
    assert main(["compare", "columns"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip(" `") for line in lines[2:]] == [c.name for c in fields(Row)]
    assert (
        lines[2 + 9] == "| `flow` | str |  | how the unit was synthesised; empty for not at all |"
    )
    assert main(["compare", "columns", "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)
    assert columns[9]["meaning"] == "how the unit was synthesised; empty for not at all"


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
        "float16",
        "bfloat16",
        "aligned:6:float16",
        "int32",
        "rvbna:32",
        "hopper-promoted",
        "ada",
    ]
    assert {text.partition(":")[0] for text in texts} >= {
        name for name, kind in KINDS.items() if kind.examples
    }
    for text in texts:
        fmt = "int8" if text == "int32" else "e4m3"
        config = DotConfig(fmt, 32, text, out="bfloat16")
        names = {section.name for section in dot_sections(config)}
        assert {name.rstrip("0123456789") for name in names} <= stems


def test_families_and_colours():
    assert [family(t) for t in ("fixed:8:0", "hopper", None)] == ["fixed", "preset", "other"]
    assert list(format_colours(["e4m3", None, "int8", "e4m3"])) == ["e4m3", "int8"]
