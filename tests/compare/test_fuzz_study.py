"""Study files from strangers: points, or ValueError in one line that names the file."""

import os

import pytest
from hypothesis import given

from compare_sample import MINE, STUDY
from fuzz import damaged, fuzz, misspelt, outcome, refusal
from mxdot.compare.studies import DEFAULT, extra, load_extra, load_study
from mxdot.util.data.sets import data_set
from mxdot.util.keys import data_digest
from mxdot.util.sweep import LIMIT, expand, integers

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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_what_is_no_file(folder, name):
    os.mkfifo(folder / "pipe")
    mine = folder / "mine.toml"
    mine.write_text(f'[[extra]]\nname="x"\nverilog=["a.v", "{name}"]\ntop="a"')
    for read, path in (
        (load_study, folder / name),
        (load_extra, folder / name),
        (load_extra, mine),
    ):
        with pytest.raises(ValueError, match="must be a regular file, not a pipe") as error:
            read(path)
        refusal(error.value)
    for data in ("pipe.npz#a", "pipe.safetensors#a"):
        (folder / data.partition("#")[0]).symlink_to(name)
        with pytest.raises(ValueError, match="must be a regular file, not a pipe"):
            data_set(str(folder / data))
        with pytest.raises(OSError, match="must be a regular file, not a pipe"):
            data_digest(str(folder / data))


def test_verilog_that_fills_the_memory(folder, monkeypatch):
    monkeypatch.setattr(extra, "LARGEST_VERILOG", 100)
    table = '[[extra]]\nname="x%d"\nverilog=[%s]\ntop="a"\n'
    path = folder / "mine.toml"
    path.write_text(table % (1, '"a.v", "b.v"') + table % (2, '"a.v"'))
    assert len(load_extra(path)) == 2
    for text in (table % (1, '"a.v", ' * 9), "".join(table % (i, '"a.v"') for i in range(9))):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"a.v cannot be read: it must have at most \d+ bytes"):
            load_extra(path)


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
