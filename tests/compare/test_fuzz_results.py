"""Stored results and tables: damaged files are as if not there, odd text comes back as it was."""

import csv
import json
import os
from dataclasses import asdict, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from fuzz import WORDS, damaged, fuzz, misspelt, outcome
from mxdot.synth.measure import Cache
from mxdot.util.store import Outcome, Store
from mxdot.util.tables import records, write_csv, write_json, write_parquet

KEY = "job-0123"
GOOD = Outcome(KEY, "e4m3 exact x8", {"area": 12.5, "rows": [1, None, "x"]}, None, 1.5, 1e9)
FAILED = Outcome(KEY, "e4m3 exact x8", None, "too deep", 0.5, 1e9)
TEXTS = [json.dumps(asdict(each), indent=1) + "\n" for each in (GOOD, FAILED)]
text = st.one_of(st.sampled_from(WORDS), st.text())


def kept(folder, data):
    store = Store(folder)
    store.path(KEY).write_bytes(data)
    found = store.get(KEY)
    if found is not None:
        assert found.key == KEY
        assert isinstance(found.label, str)
        assert found.ok or isinstance(found.error, str)
        assert f"{found.seconds:.1f} {found.finished:.1f}"
        store.put(found)
        assert repr(store.get(KEY)) == repr(found)  # NaN is not itself
    assert [each.name for each in folder.iterdir()] == [f"{KEY}.json"]


@fuzz(100)
@given(damaged([each.encode() for each in TEXTS]))
def test_stored_bytes(tmp_path, data):
    kept(tmp_path, data)


@fuzz(100)
@given(misspelt(TEXTS))
def test_stored_texts(tmp_path, data):
    kept(tmp_path, data.encode())


@fuzz(100)
@given(text)
def test_keys(tmp_path, key):
    """No key leads out of the directory."""
    store = Store(tmp_path / "results")
    path = outcome(store.path, key, errors=ValueError)
    assert path is None or path.parent == store.directory


@pytest.mark.parametrize(
    "odd",
    [
        "[" * 10_000,
        '{"seconds": ' + "9" * 5000 + "}",
        TEXTS[0].replace("1.5", '"long"'),
        TEXTS[0].replace("1.5", "NaN"),
        TEXTS[0].replace("null,\n", "7,\n"),
        TEXTS[0].replace('"e4m3 exact x8"', "[]"),
    ],
    ids=["nested", "endless number", "time of text", "no time", "error of 7", "label of a list"],
)
def test_a_result_that_is_none(tmp_path, odd):
    assert odd not in TEXTS
    store = Store(tmp_path)
    store.path(KEY).write_text(odd)
    assert store.get(KEY) is None


@pytest.mark.timeout(60)
def test_a_result_that_is_no_file(tmp_path):
    store = Store(tmp_path)
    os.mkfifo(store.path(KEY))
    assert store.get(KEY) is None


@fuzz(60)
@given(st.data())
def test_cache(tmp_path, data):
    cache, value = Cache(tmp_path), {"area": 1.5, "cells": ["A", None]}
    key = cache.key("x")
    cache.write(key, "area", value)
    (path,) = tmp_path.rglob("*.gz")
    path.write_bytes(data.draw(damaged([path.read_bytes()])))
    assert cache.read(key, "area") in (None, value)


@dataclass(frozen=True)
class Row:
    name: str
    count: int | None
    size: float | None


rows = st.builds(
    Row,
    text.map(lambda each: each.encode(errors="ignore").decode().replace("\0", "")),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
)


@fuzz(60)
@given(st.lists(rows, max_size=4))
def test_tables(tmp_path, content):
    table = records(Row, content)
    path = write_parquet(tmp_path / "t.parquet", table)
    assert [Row(**line) for line in parquet.read_table(path).to_pylist()] == content
    with write_csv(tmp_path / "t.csv", table).open(encoding="utf-8", newline="") as file:
        lines = [
            Row(
                line["name"],
                int(line["count"]) if line["count"] else None,
                float(line["size"]) if line["size"] else None,
            )
            for line in csv.DictReader(file)
        ]
    assert lines == content
    dicts = [asdict(row) for row in content]
    back = json.loads(write_json(tmp_path / "t.json", dicts).read_text(encoding="utf-8"))
    sizes = [row.pop("size") for row in back]
    assert [None if size is None else float(size) for size in sizes] == [r.size for r in content]
    assert back == [{"name": row.name, "count": row.count} for row in content]
