"""The writer of tables: what is written reads back as it was."""

import csv
import json
import math
from dataclasses import dataclass, field

import pyarrow.parquet
import pytest

from mxdot.util.tables import flat_columns, lines, records, write_csv, write_json, write_parquet


@dataclass
class Thing:
    name: str
    good: bool
    area: float | None = field(default=None, metadata={"doc": "its area", "unit": "um2"})
    count: int | None = None
    parts: list[int] = field(default_factory=list)


THINGS = [
    Thing('a "b", c', True, 0.1 + 0.2, 3, [1, 2]),
    Thing("", False, math.inf, None),
    Thing("=1", True, 1e22, 2**62, [3]),
]


def test_csv_reads_back(tmp_path):
    path = write_csv(tmp_path / "t.csv", records(Thing, THINGS))
    table = list(csv.DictReader(path.read_text().splitlines()))
    assert list(table[0]) == ["name", "good", "area", "count"] == list(flat_columns(Thing))
    assert [line["name"] for line in table] == [thing.name for thing in THINGS]
    assert [float(line["area"]) for line in table] == [thing.area for thing in THINGS]
    assert [line["count"] for line in table] == ["3", "", str(2**62)]
    assert [line["good"] for line in table] == ["true", "false", "true"]


def test_parquet_says_what_columns_mean(tmp_path):
    parts = {"parts": lambda numbers: [{"n": n} for n in numbers]}
    path = write_parquet(tmp_path / "t.parquet", records(Thing, THINGS, parts))
    table = pyarrow.parquet.read_table(path)
    assert table.schema.field("area").metadata == {b"description": b"its area", b"unit": b"um2"}
    assert table.column("parts").to_pylist() == [[{"n": 1}, {"n": 2}], [], [{"n": 3}]]
    assert table.column("area").to_pylist()[1] == math.inf


def test_lines_may_lack_values(tmp_path):
    table = lines(["a", "b"], [{"a": 1, "c": 3}, {"b": 2.5}])
    assert write_csv(tmp_path / "l.csv", table).read_text() == '"a","b"\n1,\n,2.5\n'
    assert write_csv(tmp_path / "e.csv", lines(["a"], [])).read_text() == '"a"\n'


def test_json_is_strict(tmp_path):
    path = write_json(tmp_path / "t.json", {"x": [math.inf, -math.inf, 1.5], "y": None})
    assert json.loads(path.read_text()) == {"x": ["inf", "-inf", 1.5], "y": None}


def test_a_value_of_another_type_is_refused():
    with pytest.raises((TypeError, ValueError)):
        records(Thing, [Thing("a", True, count="many")])  # type: ignore[arg-type]
