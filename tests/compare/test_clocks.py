"""Comparisons at a clock: what users write, which rows come of it, and what is said of them."""

from dataclasses import fields, replace
from typing import Any

import pytest
from rich.console import Console

from compare_fakes import FAKES, measure_at_clock
from compare_sample import Quiet, swept
from mxdot.compare.studies import Row, Sampling, Study, Sweep, compare, load_study, processes
from mxdot.compare.studies.charts import pictures
from mxdot.compare.studies.clock_table import crossings, equals, estimates, show_clocked, words
from mxdot.compare.studies.clock_task import ClockTask, clock_task
from mxdot.compare.studies.clocks import clock_list, clock_option, clock_text
from mxdot.compare.studies.flows import Synthesis
from mxdot.compare.studies.pareto import is_equal, marked
from mxdot.compare.studies.session import netlist_command
from mxdot.compare.studies.units import Generated
from mxdot.model import DotConfig
from mxdot.synth import Flow
from mxdot.util.charts import save

SAMPLING = Sampling((32,), 4)


CLOCKED = replace(FAKES, measure=measure_at_clock)


def study(sweep: Sweep, *clocks: float, process: str = "asap7") -> Study:
    return Study("Clocks", (sweep,), (), Synthesis(process, clock=clocks), ("normal",), SAMPLING)


def rows_of(tmp_path, *arguments, **options) -> tuple[Any, ...]:
    found = compare(study(*arguments, **options), tmp_path, processes(1), Quiet(), tools=CLOCKED)
    return found.rows


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("1GHz", (1000,)),
        ("1000MHz,1 ghz,1000ps", (1000,)),
        ("200MHz,750ps", (5000, 750)),
        ("100..300/100MHz", (10000, 5000, 3333.333)),
        ("1.25GHz", (800,)),
    ],
)
def test_clocks(text, periods):
    assert clock_list(text) == periods
    for period in periods:
        assert clock_list(clock_option(period)) == (period,)


@pytest.mark.parametrize("text", ["1", "GHz", "0MHz", "21GHz", "0.5MHz", "-1GHz", "1GHz x"])
def test_no_clocks(text):
    with pytest.raises(ValueError, match=f"clock must be a frequency .* not '{text}'"):
        clock_list(text)


def test_clocks_in_words():
    assert [clock_text(p) for p in (1000, 5000, 800, 3333.333)] == [
        "1 GHz", "200 MHz", "1.25 GHz", "300 MHz",
    ]  # fmt: skip


@pytest.mark.parametrize("flow", ["gates", "xilinx", "asap7,gates"])
def test_a_clock_needs_a_process_with_delays(flow):
    with pytest.raises(ValueError, match="clock is for process sky130, ihp, asap7, gt2n, not"):
        Synthesis(flow, clock=(1000.0,)).flows()


def test_a_clock_and_a_target_exclude_each_other():
    with pytest.raises(ValueError, match="clock and target-ps exclude each other"):
        Synthesis("asap7", clock=(1000.0,), target_ps=(500,)).flows()


@pytest.mark.parametrize("effort", ["area", "balanced"])
def test_an_effort_that_the_search_chooses_is_refused_with_a_clock(effort):
    message = f"effort must be speed or both with a clock, which chooses .* itself, not {effort}"
    with pytest.raises(ValueError, match=message):
        Synthesis("asap7", clock=(1000.0,), effort=effort).flows()
    for effort_taken in ("speed", "both"):
        assert Synthesis("asap7", clock=(1000.0,), effort=effort_taken).flows()


def test_each_row_is_the_unit_that_was_found(tmp_path):
    exact, slow = rows_of(tmp_path, swept("e4m3", "exact", "32"), 1000.0, 5000.0)
    assert (exact.target, exact.clock_mhz, slow.target) == ("1 GHz", 1000.0, "200 MHz")
    assert exact.interleave > 1
    assert exact.latency == exact.stages > slow.stages
    assert slow.interleave == 1
    assert exact.area > slow.area
    assert 0 <= exact.slack_ps < 1000
    assert exact.area_error is not None
    assert exact.syntheses <= 8
    assert exact.short_name == "exact"
    assert exact.energy is not None
    assert exact.command == (
        "mxdot compare --format e4m3 --accumulator exact --lanes 32 --process asap7 --clock 1GHz "
        "--data normal --lengths 32 --count 4 --seed 1"
    )
    assert f"--stages {exact.stages} --interleave {exact.interleave}" in exact.verilog


def test_a_second_run_measures_nothing(tmp_path):
    what = study(swept("e4m3", "exact", "32"), 1000.0)
    first, second = Quiet(), Quiet()
    for observer in (first, second):
        found = compare(what, tmp_path, processes(1), observer, tools=CLOCKED)
    assert first.begun
    assert second.begun == []
    third = Quiet()
    again = compare(what, tmp_path, processes(1), third, tools=CLOCKED, fresh=True)
    assert third.begun == first.begun
    assert again.rows[0].area == found.rows[0].area


def test_what_cannot_meet_a_clock_says_what_it_reaches_and_what_binds_it(tmp_path):
    (row,) = rows_of(tmp_path, swept("e4m3", "float32", "32"), 1000.0)
    assert row.status == "target missed"
    assert row.error == (
        "1 GHz is missed: the fastest unit that was found reaches 653 MHz, and section accumulate "
        "is slowest; no stages and products in flight of this accumulator meet it"
    )
    assert f"MISSED e4m3 float32: {row.error}" in list(words([row]))


def test_options_that_are_given_stay_and_the_change_that_helps_is_named(tmp_path):
    (row,) = rows_of(tmp_path, swept("e4m3", "exact", "32", "4", interleave="1"), 1000.0)
    assert (row.stages, row.interleave, row.status) == (4, 1, "target missed")
    free, *_ = rows_of(tmp_path, swept("e4m3", "exact", "32"), 1000.0)
    helps = f"--stages {free.stages} --interleave {free.interleave} meets it with {free.area:,.0f}"
    assert "the loop of the running value (distance approach" in row.error
    assert f"; {helps} um2" in row.error
    assert "--stages 4" in row.command


def test_a_key_is_of_the_question_and_not_of_default_stages(tmp_path):
    point, other = (
        study(swept("e4m3", "exact", "32", stages), 1000.0).points()[0] for stages in (None, "4")
    )
    keys = {
        ClockTask(p.unit, "asap7", 1000.0, p.free, True, tmp_path, CLOCKED).key
        for p in (point, other)
        if isinstance(p.unit, Generated)
    }
    assert len(keys) == 2  # four stages that are given are another question


def test_wires_reach_every_synthesis_and_name_the_row(tmp_path):
    wires = replace(
        study(swept("e4m3", "exact", "32"), 1000.0),
        synthesis=Synthesis("asap7", clock=(1000.0,), wires="model"),
    )
    seen = []

    def measured(text, top, flow, **options):
        seen.append(flow.wires)
        return measure_at_clock(text, top, flow, **options)

    tools = replace(FAKES, measure=measured)
    (point,) = wires.points()
    task = clock_task(point, tmp_path, tools)
    assert task is not None
    task.run()
    assert set(seen) == {"model"}
    (row,) = compare(wires, tmp_path, processes(1), Quiet(), tools=CLOCKED).rows
    assert row.flow == "asap7 with wires (model)"
    assert "--process asap7 --wires model --clock 1GHz" in str(row.command)
    assert task.label == "e4m3 exact x32: asap7 with wires (model) at 1 GHz"
    assert task.described["wires"] == "model"
    without = replace(task, wires=None)
    assert "wires" not in without.described
    assert without.key != task.key


def test_wires_need_a_process(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        '[[sweep]]\nformat = "e4m3"\naccumulator = "exact"\nprocess = "gates,asap7"\n'
        '[cost]\nwires = "model"\n'
    )
    flows = [point.flow for point in load_study(path).points() if point.flow]
    assert {flow.process: flow.wires for flow in flows} == {None: None, "asap7": "model"}
    path.write_text(path.read_text().replace(",asap7", ""))
    with pytest.raises(
        ValueError, match="wires are for process sky130, ihp, asap7, gt2n, which no"
    ):
        load_study(path).points()


def at(accumulator: str, area: float, mhz: float = 1000.0, *, lanes: int = 32, **more: Any) -> Row:
    given: dict[str, Any] = {"unit": f"e4m3 {accumulator} x{lanes} stages 4", "generated": True}
    given |= {"format": "e4m3", "accumulator": accumulator, "lanes": lanes, "stages": 4}
    given |= {"flow": "asap7", "target": clock_text(1e6 / mhz), "clock_mhz": mhz}
    given |= {"area": area, "area_error": 10.0, "data": "normal"}
    given |= {"sqnr_total_db": 20.0, "sqnr_accumulator_db": 40.0}
    return Row(**(given | more))


def test_a_command_takes_100_columns_at_most():
    flow = Flow.of_process(
        "sky130", effort="balanced", aim_ps=12345, wires="placed", sections=False
    )
    unit = Generated(DotConfig("e4m3", 32, "exact"))
    row = at("exact", 1000, synthesis=netlist_command(unit, flow))
    lines = "\n".join(words([row])).split("\n")
    assert max(map(len, lines)) <= 100
    assert lines[0].endswith(" \\")
    assert "".join(lines).replace(" \\   ", "").strip() == row.synthesis


def test_areas_whose_error_bars_overlap_are_equal_everywhere():
    near, far = at("fixed:32:-16", 1019), at("exact", 1021)
    best = at("aligned:8", 1000)
    assert is_equal(best, near)
    assert not is_equal(best, far)
    marks = {row.accumulator: row.pareto_total for row in marked([best, near, far])}
    assert marks == {"aligned:8": "front", "fixed:32:-16": "near", "exact": None}
    assert "= e4m3: aligned:8 and fixed:32:-16 are equal within their error bars" in list(
        words([best, near, far])
    )


def test_units_in_other_stages_are_peers_at_a_clock():
    one, two = at("aligned:8", 1000), at("exact", 1500, stages=9)
    assert [row.pareto_total for row in marked([one, two])] == ["front", None]
    about = {field.name: field.metadata["doc"] for field in fields(Row)}["pareto_total"]
    assert "of the same stages without a clock" in about
    assert "within 3% or, at a clock, the error bars" in about


def test_crossing_points_in_words():
    rows = [at("aligned:8", 1000, 500), at("exact", 1100, 500)]
    rows += [at("aligned:8", 1400, 700), at("exact", 1410, 700)]  # equal: decides nothing
    rows += [at("aligned:8", 1700, 900), at("exact", 1500, 900)]
    assert crossings(rows) == [
        "asap7 e4m3: up to 500 MHz aligned:8 is smaller, from 900 MHz on exact"
    ]
    assert crossings(rows[:4]) == []


def test_units_of_other_lanes_do_not_cross():
    less = [at("exact", 700, mhz, lanes=16) for mhz in (500, 900)]
    rows = [at("exact", 1000, 500), at("exact", 1500, 900)]
    rows += [at("aligned:8", 1100, 500), at("aligned:8", 1200, 900)]
    assert crossings(rows + less) == [
        "asap7 e4m3 x32: up to 500 MHz exact is smaller, from 900 MHz on aligned:8"
    ]


def test_options_that_differ_cross_as_accumulators_do():
    plain = {mhz: f"e4m3 exact x32 stages 4 delays asap7{mhz}" for mhz in (500, 900)}
    rows = [at("exact", 1000, 500, unit=plain[500]), at("exact", 1500, 900, unit=plain[900])]
    bare = "e4m3 exact x32 stages 4 no-status"
    rows += [at("exact", 1100, 500, unit=bare), at("exact", 1200, 900, unit=bare)]
    assert crossings(rows) == [
        "asap7 e4m3: up to 500 MHz exact is smaller, from 900 MHz on exact no-status"
    ]


def test_units_of_other_lanes_are_no_rivals(capsys):
    rows = [at("exact", 1500), at("aligned:8", 1000)]
    rows += [at("exact", 1005, lanes=16), at("aligned:8", 500, lanes=16)]
    assert equals(rows) == []
    show_clocked(Console(width=200), rows)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()[2:6]]
    assert [(line[1], line[4]) for line in shown] == [
        ("16", "1.00"), ("32", "1.00"), ("16", "2.01"), ("32", "1.50"),
    ]  # fmt: skip
    rows[2] = at("exact", 505, lanes=16, error="slow", status="target missed")
    rows.append(at("fixed:32:-16", 505, lanes=16, verilog="mxdot verilog"))
    lines = list(words(rows))
    assert "= e4m3 x16: aligned:8 and fixed:32:-16 are equal within their error bars" in lines
    assert "MISSED e4m3 x16 exact: slow" in lines


def test_the_table(capsys):
    rows = [at("exact", 1500.4, latency=5, interleave=3, energy=101.26, energy_unit="fJ")]
    rows += [at("aligned:8", 1000, energy=90.0, energy_spread=1.5), at("fixed:32:-16", 1015)]
    show_clocked(Console(width=200), rows)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("asap7 at 1 GHz, e4m3, 32 lanes: stages 4")
    names = [line.split()[:2] for line in shown[2:5]]
    assert names == [["=", "aligned:8"], ["=", "fixed:32:-16"], ["exact", "1,500"]]
    assert "1,500 ±10" in shown[4]
    assert "5 (5 ns)" in shown[4]
    assert "90 ±1.5" in shown[2]


def test_clocks_of_a_study_file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        '[[sweep]]\nformat = "e4m3"\naccumulator = "exact"\nprocess = "sky130"\nclock = "200MHz"\n'
        '[[sweep]]\nformat = "int8"\naccumulator = "int32"\nstages = 4\n'
        '[cost]\nprocess = "asap7"\nclock = ["1GHz", 500]\n'
    )
    with pytest.raises(ValueError, match="clock must be a frequency"):
        load_study(path)
    path.write_text(path.read_text().replace(", 500", ', "500MHz"'))
    points: tuple[Any, ...] = tuple(load_study(path).points())
    assert [(p.unit.format, p.flow.process, p.clock_ps, p.free) for p in points] == [
        ("e4m3", "sky130", 5000.0, ("stages", "interleave")),
        ("int8", "asap7", 1000.0, ("interleave",)),
        ("int8", "asap7", 2000.0, ("interleave",)),
    ]


def test_curves_of_area_and_energy_against_the_clock(tmp_path):
    rows = [
        at(rule, area + mhz, mhz, energy=50.0 + mhz / 100, energy_unit="fJ")
        for rule, area in (("exact", 1500), ("aligned:8", 1000))
        for mhz in (100, 500, 1000)
    ]
    named = {picture.name: picture for picture in pictures(rows)}
    assert {"clock-curves-area", "clock-curves-energy"} <= set(named)
    (panel,) = named["clock-curves-area"].panels
    values = panel["layer"][1]["data"]["values"]
    assert sorted((v["x"], v["y"]) for v in values) == sorted((r.clock_mhz, r.area) for r in rows)
    for picture in named.values():
        save(picture, tmp_path / picture.file_name)
    assert not {"clock-curves-area"} & {p.name for p in pictures([rows[0], rows[3]])}


def test_stages_that_buy_no_clock_are_noted_with_the_option_that_helps(tmp_path):
    what = replace(study(swept("e4m3", "exact,fixed:32:-16", "32", "4")), data=())
    found = compare(what, tmp_path, processes(1), Quiet(), tools=FAKES)
    (note,) = found.notes
    assert note.startswith("e4m3 exact x32 stages 4: 4 stages are no faster than 2: the loop of")
    assert "--interleave 2 to 15" in note


def test_estimates_come_before_anything_is_measured(tmp_path, capsys):
    what = study(swept("e4m3", "exact,float32", "32"), 1000.0)
    options = {"tools": CLOCKED, "before": estimates(Console(width=200))}
    found = compare(what, tmp_path, processes(1), Quiet(), **options)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("estimate  e4m3 exact x32: asap7 at 1 GHz: about ")
    assert " um2 in " in first
    assert second == (
        "estimate  e4m3 float32 x32: asap7 at 1 GHz: missed, about 653 MHz in 7 stages, 1 in flight"
    )
    assert [row.status for row in found.rows] == ["ok", "target missed"]
    compare(what, tmp_path, processes(1), Quiet(), **options)
    assert capsys.readouterr().out == ""


def test_equals_need_not_be_the_smallest():
    rows = [at("exact", 1515), at("aligned:8", 1000), at("aligned:13", 1500), at("int32", 1501)]
    rows[3] = replace(rows[3], format="int8")
    assert [[row.accumulator for row in group] for group in equals(rows)] == [
        ["aligned:13", "exact"]
    ]
