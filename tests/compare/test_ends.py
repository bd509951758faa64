"""Answers at the ends of their sweeps say so; those of the study of widths do not lie there."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from compare_fakes import FAKES, Record
from compare_sample import Quiet
from mxdot.compare.accuracy import evaluate
from mxdot.compare.studies import WIDTHS, Row, compare, load_study, processes
from mxdot.compare.studies.answers import Answer, answers
from mxdot.compare.studies.extra import load_extra
from mxdot.compare.studies.report import render
from mxdot.compare.studies.session import Comparison
from mxdot.compare.studies.table import show

FLOAT32 = 141.0
ROOT = Path(__file__).parents[2]


def row(accumulator: str, area: float, sqnr: float, **more) -> Row:
    """A unit that adds a tenth of a dB to its format's own error below 45 dB."""
    given = {"unit": f"e4m3 {accumulator} x8 stages 4", "generated": True, "flow": "gates"}
    given |= {"lanes": 8, "stages": 4, "data": "normal", "format": "e4m3", "area": area}
    given |= {"sqnr_format_db": 26.0, "sqnr_total_db": 26.0 if sqnr >= 45 else 25.8}
    return Row(**given | {"accumulator": accumulator, "sqnr_accumulator_db": sqnr} | more)


EXACT = [row("exact", 300, math.inf), row("float32", 400, FLOAT32)]


def aligned(*bits: int) -> list[Row]:
    """7 dB and 10 gates a bit: 7 bits are not seen, 20 are as good as float32."""
    return [row(f"aligned:{f}", 50 + 10 * f, 7.0 * f) for f in bits]


def only(rows) -> Answer:
    (answer,) = answers(rows)
    return answer


def test_an_answer_between_measured_ones_is_an_answer():
    answer = only([*EXACT, *aligned(0, 6, 7, 19, 20)])
    assert answer.units["no visible loss"].accumulator == "aligned:7"
    assert answer.units["as good as float32"].accumulator == "aligned:20"
    assert answer.unmeasured == {}


def test_the_narrowest_that_was_measured():
    answer = only([*EXACT, *aligned(7, 20)])
    assert answer.unmeasured == {
        "smallest": ["aligned:6"],
        "no visible loss": ["aligned:6"],
        "as good as float32": ["aligned:19"],
    }


def test_a_sweep_that_stops_before_it_is_good_enough():
    """The study chose exact for E4M3, because it measured no F above 18."""
    answer = only([*EXACT, *aligned(0, 6, 7, 18)])
    assert answer.units["as good as float32"].accumulator == "exact"
    assert answer.unmeasured == {"as good as float32": ["aligned:19"]}


def test_another_family_that_stops_before_it_is_good_enough():
    rows = [*EXACT, *aligned(0, 6, 7, 19, 20)]  # as good as float32: 250
    assert only([*rows, row("fused:12", 260, 90)]).unmeasured == {}
    assert only([*rows, row("fused:12", 240, 90)]).unmeasured == {
        "as good as float32": ["fused:13"]
    }


def test_registers_that_wrap_are_another_family():
    """They have less error here, but no wider saturating one was measured either."""
    rows = [*EXACT, row("fixed:32:-16", 100, 90), row("fixed:33:-16:wrap", 110, 95)]
    assert only(rows).unmeasured["as good as float32"] == [
        "fixed:33:-16",
        "fixed:33:-17",
        "fixed:34:-16:wrap",
        "fixed:34:-17:wrap",
    ]


def test_no_answer_at_all():
    answer = only(aligned(0, 1, 2))
    assert list(answer.units) == ["smallest"]
    assert answer.unmeasured == {"no visible loss": ["aligned:3"]}  # nothing says what float32 does


def test_a_register_has_two_ends():
    register = row("fixed:32:-16", 100, 130)
    rows = [*EXACT, register, row("fixed:31:-16", 98, 30)]
    assert only(rows).unmeasured == {
        "smallest": ["fixed:30:-16", "fixed:30:-15"],
        "no visible loss": ["fixed:31:-15"],
        "as good as float32": ["fixed:33:-16", "fixed:33:-17"],
    }
    rows += [row("fixed:31:-15", 99, 40)]
    assert "no visible loss" not in only(rows).unmeasured


def test_widths_that_there_are_not():
    assert "smallest" not in only([row("aligned:0", 1, 9)]).unmeasured
    assert "smallest" not in only([row("fixed:2:0", 1, 9)]).unmeasured
    assert only([row("aligned:64", 1, 9)]).unmeasured["smallest"] == ["aligned:63"]
    assert "no visible loss" not in only([row("aligned:64", 1, 9)]).unmeasured


def test_units_of_other_options_are_other_sweeps():
    odd = row("aligned:6", 40, 42.0, unit="e4m3 aligned:6 x8 stages 4 no status")
    answer = only([*EXACT, *aligned(0, 6, 7, 19, 20), odd])
    assert answer.unmeasured["smallest"] == ["aligned:5 no status"]


def test_an_extra_unit_is_in_no_sweep():
    mine = row("aligned:6", 10, 150.0, generated=False, unit="mine")
    assert only([*EXACT, *aligned(0, 6, 7, 19, 20), mine]).unmeasured == {}


@pytest.fixture
def comparison():
    rows = (*EXACT, *aligned(0, 6, 7, 18))
    return Comparison("Ends", rows, (), 0.0)


def test_the_table_says_so(comparison, capsys):
    show(Console(width=200), comparison)
    shown = capsys.readouterr().out
    assert re.search(r"^e4m3 +aligned:0 0.17x +aligned:7 0.40x +exact† 1.00x", shown, re.M)
    assert "among those not measured: e4m3 x8 as good as float32: aligned:19\n" in shown
    show(Console(width=200), replace(comparison, rows=(*EXACT, *aligned(0, 6, 7, 19, 20))))
    assert "†" not in capsys.readouterr().out


def test_the_report_says_so(comparison):
    assert '"unmeasured":{"as good as float32":["aligned:19"]}' in render(comparison)


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """The answers of the study of widths: its own accuracy, and areas that grow with the width."""
    tools = replace(FAKES, measure=measure, evaluate=evaluate)
    study = load_study(WIDTHS)
    found = compare(study, tmp_path_factory.mktemp("default"), processes(2), Quiet(), tools=tools)
    assert not found.failed
    return answers(found.rows)


def measure(verilog: str, top: str, flow, **options) -> Record:
    """About the areas of units of 32 lanes."""
    bits = re.search(r"aligned:(\d+)", verilog)
    area = 19000.0 + 500 * int(bits[1]) if bits else 40000.0
    return Record({"area": area, "unit": "NAND2", "nand2": area})


@pytest.mark.slow
def test_no_answer_of_the_study_of_widths_lies_at_the_end_of_its_sweep(default):
    assert {(answer.format, answer.data) for answer in default} == {
        (fmt, data) for fmt in ("e4m3", "e5m2", "int8") for data in ("normal", "outliers", "real")
    }
    for answer in default:
        assert set(answer.unmeasured) <= {"smallest"}, answer


def test_the_answers_of_the_study_of_widths(default):
    found = {
        (answer.format, answer.data): [
            answer.units[wish].accumulator for wish in ("no visible loss", "as good as float32")
        ]
        for answer in default
    }
    assert found == {
        ("e4m3", "normal"): ["aligned:8", "aligned:20"],
        ("e4m3", "outliers"): ["aligned:8", "aligned:21"],
        ("e4m3", "real"): ["aligned:7", "aligned:20"],
        ("e5m2", "normal"): ["aligned:6", "aligned:20"],
        ("e5m2", "outliers"): ["aligned:7", "aligned:21"],
        ("e5m2", "real"): ["aligned:7", "aligned:21"],
        ("int8", "normal"): ["aligned:10", "aligned:12"],
        ("int8", "outliers"): ["aligned:10", "aligned:12"],
        ("int8", "real"): ["aligned:10", "aligned:12"],
    }


def test_the_study_of_the_documentation_is_one(tmp_path):
    text = (ROOT / "docs" / "compare.md").read_text()
    study, extra = re.findall(r"```toml\n(.*?)```", text, re.S)
    (tmp_path / "study.toml").write_text(study)
    points = load_study(tmp_path / "study.toml").points()
    assert len({point.unit.name for point in points}) == 6
    assert {point.clock_ps for point in points} == {1000.0}
    for file in ("mac.v", "tree.v"):
        (tmp_path / file).write_text("module m; endmodule")
    (tmp_path / "study.toml").write_text(extra)
    (unit,) = load_extra(tmp_path / "study.toml")
    assert unit.name == "our MAC array"
