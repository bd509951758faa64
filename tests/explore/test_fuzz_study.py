"""Study files from strangers: points, or ValueError in one line that names the file."""

import pytest
from hypothesis import given
from test_compare_study import MINE, STUDY

from fuzz import damaged, fuzz, misspelt, outcome
from mxdot.explore.compare import DEFAULT, load_extra, load_study
from mxdot.explore.run.sweep import LIMIT, expand, integers

SWEEPS = ("exact,aligned:6..25", "fixed:32..48/8:-12", "8..64", "0..24/8", "-3..3")


@pytest.fixture
def folder(tmp_path):
    for name in ("a.v", "b.v"):
        (tmp_path / name).write_text(f"module {name[0]}; endmodule")
    return tmp_path


def check(read, path, data):
    path.write_bytes(data)
    before = sorted(path.parent.iterdir())
    try:
        found = outcome(read, path, errors=ValueError)
    except AssertionError as error:
        raise AssertionError(data) from error
    assert sorted(path.parent.iterdir()) == before
    return found


@fuzz(60)
@given(misspelt((STUDY, DEFAULT.read_text(encoding="utf-8"), MINE)))
def test_texts(folder, text):
    study = check(load_study, folder / "study.toml", text.encode())
    if study is not None:
        assert study.title.isprintable()
        outcome(study.points, errors=ValueError)


@fuzz(30)
@given(damaged([STUDY.encode(), MINE.encode()]))
def test_files(folder, data):
    check(load_study, folder / "study.toml", data)
    check(load_extra, folder / "study.toml", data)


@fuzz(200)
@given(misspelt(SWEEPS))
def test_sweeps(text):
    texts = outcome(expand, text, "lanes", errors=ValueError)
    assert texts is None or 1 <= len(texts) <= LIMIT
    numbers = outcome(integers, text, "lanes", errors=ValueError)
    assert numbers is None or [int(each) for each in texts or ()] == numbers
