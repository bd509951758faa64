"""The search of the narrowest accumulator finds what listing them all would."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from checkpoint_files import make
from compare_fakes import FAKES, broken
from compare_sample import Quiet, swept
from mxdot.cli import main
from mxdot.compare.accuracy import evaluate
from mxdot.compare.studies import Sampling, Study, Target, processes, search
from mxdot.compare.studies.narrowest import (
    AS_GOOD_DB,
    Search,
    SearchTask,
    measure_command,
    smallest,
)
from mxdot.compare.studies.table import show_found
from mxdot.compare.studies.tasks import Instruments

SAMPLING = Sampling((32, 256), 64)


def task(family, target, fmt="e4m3", data="normal", **more) -> SearchTask:
    return SearchTask(family, fmt, 32, data, target, SAMPLING, Instruments(), **more)


@given(st.integers(-50, 50), st.integers(0, 100), st.integers(-60, 160))
def test_smallest_of_a_threshold(low, span, threshold):
    asked = []

    def meets(n):
        asked.append(n)
        return n >= threshold

    high = low + span
    expected = None if threshold > high else max(low, threshold)
    assert smallest(low, high, meets) == expected
    assert all(low <= n <= high for n in asked)
    assert len(asked) <= math.ceil(math.log2(span + 1)) + 4


def test_smallest_looks_below_a_turn_that_is_not_sharp():
    assert smallest(0, 20, lambda n: n in (9, 10) or n >= 12) == 9


def test_smallest_scans_where_the_highest_does_not_meet():
    assert smallest(0, 20, lambda n: n in (2, 8, 9, 10), scans=True) == 8
    assert smallest(0, 20, lambda n: n > 12, scans=True) == 13
    assert smallest(0, 20, lambda n: n == 0, scans=True) == 0
    assert smallest(0, 20, lambda n: False, scans=True) is None
    assert smallest(0, 20, lambda n: n == 8) is None


def test_errors_of_the_format_may_cancel_those_of_the_accumulator():
    """The widest misses the target that the accumulator to match defines."""
    target = Target(match="aligned:6", quality="total")
    few = Sampling((8,), 2, seed=2)
    what = SearchTask("aligned", "int8", 8, "normal", target, few, Instruments())
    assert not Search(what).meets("aligned:64")
    assert Search(what).found().accumulator == "aligned:5"


@pytest.mark.parametrize("family", ["aligned", "fused"])
@pytest.mark.parametrize(
    "target", [Target(40), Target(match="aligned:12"), Target(20, quality="total")]
)
def test_the_smallest_f_is_what_listing_finds(family, target):
    found = Search(task(family, target)).found()
    listed = [n for n in range(30) if Search(task(family, target)).meets(f"{family}:{n}")]
    assert found.accumulator == f"{family}:{listed[0]}"
    assert found.next_narrower == f"{family}:{listed[0] - 1}"
    assert listed == list(range(listed[0], 30))
    assert found.evaluations < 12


@pytest.mark.parametrize("fmt", ["e4m3", "int8"])
def test_no_narrower_register_meets_the_target(fmt):
    search = Search(task("fixed", Target(40), fmt))
    found = search.found()
    assert found.accumulator is not None
    _, width, lsb = found.accumulator.split(":")
    assert search.meets(found.accumulator)
    narrower = [f"fixed:{int(width) - 1}:{n}" for n in range(int(lsb) - 12, int(lsb) + 13)]
    assert not any(search.meets(rule) for rule in narrower)
    assert search.meets(f"fixed:{int(width) + 1}:{lsb}")


def test_what_is_found_is_as_good_as_the_accumulator_to_match():
    found = Search(task("aligned", Target(match="float32"))).found()

    def sqnr(rule):
        results = evaluate(rule, "e4m3", "normal", SAMPLING.lengths, seed=1, count=64)
        return [min(a.sqnr_accumulator_db, 150) for a in results]

    pairs = zip(sqnr(found.accumulator), sqnr("float32"), strict=True)
    assert all(own >= other - AS_GOOD_DB for own, other in pairs)


def test_a_target_that_none_meets():
    found = Search(task("aligned", Target(200), data="outliers")).found()
    assert found.accumulator is found.next_narrower is None
    assert found.sqnr_db is not None
    assert 100 < found.sqnr_db < 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "find narrowest needs a target: --sqnr DB or --match ACCUMULATOR"),
        ({"sqnr_db": 40.0, "match": "float32"}, "sqnr and match exclude each other"),
        ({"sqnr_db": -3.0}, "sqnr must be from 0 to 400 dB, not -3"),
        ({"sqnr_db": math.nan}, "sqnr must be from 0 to 400 dB, not nan"),
        ({"match": "best"}, "accumulator must be one of"),
        ({"sqnr_db": 40.0, "quality": "good"}, "quality must be one of accumulator, total"),
    ],
)
def test_a_target_that_is_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        Target(**arguments)


def test_a_study_is_searched_and_kept(tmp_path, capsys):
    study = Study("t", (swept("e4m3", "exact", "8"),), data=("normal",), sampling=SAMPLING)
    observer = Quiet()
    tools = replace(FAKES, evaluate=evaluate)
    found = search(study, Target(40), tmp_path, processes(2), observer, tools)
    assert [f.family for f in found] == ["aligned", "fused", "fixed"]
    assert search(study, Target(40), tmp_path, processes(2), observer, tools) == found
    assert observer.begun == []
    assert json.loads((tmp_path / "narrowest.json").read_text())[0] == found[0].to_dict()
    lines = (tmp_path / "narrowest.csv").read_text().splitlines()
    assert len(lines) == 4
    show_found(Console(width=160), found)
    shown = capsys.readouterr().out
    assert found[0].accumulator in shown
    command = measure_command(found)
    assert command is not None
    assert command in shown
    assert command.endswith(" --lengths 32,256 --count 64")
    mine = replace(found[0], count=256, seed=1)
    assert "--count" not in str(measure_command([mine]))
    assert str(measure_command([replace(mine, seed=7)])).endswith(" --seed 7")
    odd = measure_command([replace(found[0], data="my data.npz")])
    assert odd is not None
    assert "--data 'my data.npz' " in odd


def test_a_search_that_fails_says_why(tmp_path, capsys):
    study = Study("t", (swept("e4m3", "exact", "8"),), data=("normal",), sampling=SAMPLING)
    tools = replace(FAKES, evaluate=broken)
    found = search(study, Target(40), tmp_path, processes(1), Quiet(), tools)
    assert [f.error for f in found] == ["ArithmeticError: no number"] * 3
    assert measure_command(found) is None
    show_found(Console(width=160), found)
    assert "ArithmeticError: no number" in capsys.readouterr().out


def test_a_format_that_the_accumulator_to_match_does_not_take_is_refused(tmp_path):
    study = Study("t", (swept("int8,e4m3", "exact", "8"),), data=("normal",))
    with pytest.raises(ValueError, match="match: accumulator int32 takes integer formats only"):
        search(study, Target(match="int32"), tmp_path, processes(1), Quiet(), FAKES)
    assert list(tmp_path.iterdir()) == []


def test_a_search_needs_data(tmp_path):
    study = Study("t", (swept("e4m3", "exact", "8"),), data=())
    with pytest.raises(ValueError, match="find narrowest needs data: --data"):
        search(study, Target(40), tmp_path, processes(1), Quiet(), FAKES)


@pytest.mark.parametrize(
    ("fmt", "note"),
    [
        ("e4m3", "their e4m3 codes under their e8m0 scales, one per 32 elements"),
        ("e5m2", "their values, quantised to e5m2 in blocks of 32"),
    ],
)
def test_a_checkpoint(tmp_path, monkeypatch, capsys, fmt, note):
    path = make("mxfp8-quantized", tmp_path)
    monkeypatch.chdir(tmp_path)
    options = ["--sqnr", "20", "--lengths", "64", "--count", "8", "-o", str(tmp_path / "out")]
    assert main(["compare", "find", "--format", fmt, "--tensors", path.name, *options]) == 0
    printed = capsys.readouterr().out
    assert f"weights of {path.name}: {note}" in printed
    assert "none is accurate" not in printed
