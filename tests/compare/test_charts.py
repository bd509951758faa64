"""Charts: one description, drawn as files and embedded in the report."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import lm_report
import pytest

from compare_sample import sample
from mxdot.compare.studies import charts, write
from mxdot.compare.studies.charts import clock_area
from mxdot.compare.studies.charts.cost import fastest
from mxdot.compare.studies.charts.error import bits
from mxdot.compare.studies.rows import Row
from mxdot.util.charts import Entry, Picture, save
from mxdot.util.charts.layers import axis, bars, lines, names_axis, panel, points, texts, thinned
from mxdot.util.charts.palette import BLUE, CIRCLE, DARK, GREY, LIGHT, config


def toy(title="toy", **options) -> Picture:
    values = [{"x": x, "y": x * x, "colour": BLUE, "shape": CIRCLE, "line": ""} for x in (1, 2, 3)]
    view = panel("the panel", axis("x"), axis("y"), lines(values), points(values))
    return Picture("toy", title, [view], legend=[Entry("squares", BLUE, CIRCLE)], **options)


def marks(path, kind: str) -> int:
    return sum(e.get("aria-roledescription") == kind for e in ET.parse(path).iter())


def test_a_picture_as_files(tmp_path):
    files = save(toy("A < B & C", caption="long " * 50), tmp_path / "toy")
    assert [path.name for path in files] == ["toy.png", "toy.svg"]
    text = "\n".join(e.text or "" for e in ET.parse(files[1]).iter())
    assert "A < B & C" in text
    assert "the panel" in text
    assert "squares" in text
    assert marks(files[1], "point") == 3 + 1  # and one of the legend
    again = save(toy("A < B & C", caption="long " * 50), tmp_path / "again")
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in again]


def test_names_of_files():
    assert toy(flow="gates for area", data="=my/Data.npz#a,b").file_name == (
        "toy-gates-for-area-my-data.npz-a-b"
    )
    one, two = (toy(data=f"{'deep/' * 60}{end}").file_name for end in "ab")
    assert one != two
    assert len(one) == len(two) <= 130


def test_panels_may_have_heights_of_their_own():
    assert toy(height=[70]).whole()["vconcat"][0]["concat"][0]["height"] == 70
    assert toy().parts()["heights"] == [250]


def test_layers_keep_what_they_read_with_the_digits_of_a_picture():
    value = {"x": 1 / 3, "y": 7, "text": "t", "unit": "u", "colour": BLUE, "format": "e4m3"}
    (short,) = texts([value])["data"]["values"]
    assert short == {"x": 0.333333, "y": 7, "format": "e4m3", "text": "t"}
    (bar,) = bars([value | {"x2": 2.0}])["data"]["values"]
    assert bar["unit"] == "u"
    assert "size" in points([value])["data"]["values"][0]
    assert names_axis(["b", "a"])["sort"] == ["b", "a"]


def test_names_that_would_cover_another_are_left_out():
    values = [{"x": 0, "y": y, "text": str(y)} for y in (0, 1, 5)]
    assert [value["y"] for value in thinned(values, 1, 2)] == [5, 1]
    beside = [{"x": 0, "y": 0}, {"x": 3, "y": 0}]
    assert len(thinned(beside, 1, 2)) == 2


def test_themes_differ_in_what_is_no_data():
    light, dark = config(LIGHT), config(DARK)
    assert light.keys() == dark.keys()
    assert light["background"] != dark["background"]
    assert light["axis"]["labelColor"] != dark["axis"]["labelColor"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return sample(tmp_path_factory.mktemp("compare"))


def test_a_chart_is_a_function_and_a_row(comparison, tmp_path, monkeypatch):
    """Files and report take a new chart from `CHARTS`."""
    monkeypatch.setattr(charts, "CHARTS", (*charts.CHARTS, lambda rows: [toy("Mine, of a row")]))
    files = write(comparison, tmp_path)
    assert tmp_path / "plots" / "toy.svg" in files.plots
    assert "Mine, of a row" in files.report.read_text()


def test_descriptions_are_strict_json_and_say_nothing_of_themes(comparison):
    found = charts.pictures(comparison.rows)
    text = json.dumps([picture.parts() for picture in found], allow_nan=False)
    assert '"config"' not in text
    assert {picture.name for picture in found} == {
        *("area-sqnr", "clock-area", "error-f", "error-length", "sections", "roofline")
    }


def test_every_unit_has_its_mark(comparison, tmp_path):
    found = {p.file_name: p for p in charts.pictures(comparison.rows)}
    (svg,) = save(found["clock-area-gates"], tmp_path / "d", ["svg"])
    assert marks(svg, "point") == 2 * 8 + 2 + len(found["clock-area-gates"].legend)


def test_a_curve_joins_what_no_other_unit_of_it_beats():
    """Whatever the stages and the products in flight; other units are grey and have no name."""
    units = (("exact", 1, "", 9, 90), ("exact", 4, "", 5, 99), ("exact", 2, "", 6, 120),
             ("exact", 8, " interleave 7", 2, 130), ("float32", 4, "", 8, 130))  # fmt: skip
    rows = [
        Row(f"e4m3 {rule} x8 stages {stages}{more}", True, "e4m3", rule, 8, stages, flow="asap7",
            delay_ps=100.0 * delay, area=float(area))
        for rule, stages, more, delay, area in units
    ]  # fmt: skip
    assert fastest(rows) == [rows[3], rows[1], rows[4], rows[0]]
    other = replace(rows[1], unit="e5m2 exact x8 stages 4", format="e5m2")
    (picture,) = clock_area([*rows, other])  # a format without a curve
    line, point, text = picture.panels[0]["layer"]
    ends = [(value["x"], value["y"]) for value in line["data"]["values"]]
    assert ends == [(5000, 130), (2000, 99), (1111.11, 90)]
    assert len(point["data"]["values"]) == 5
    assert [value["text"] for value in text["data"]["values"]] == ["exact"]
    assert [value["colour"] for value in point["data"]["values"]] == [GREY] + 4 * [BLUE]
    assert [entry.label for entry in picture.legend] == ["exact", "without a curve"]


def test_the_picture_of_training(tmp_path):
    """examples/lm_report.py: a line and a band for each variant, and bfloat16's own spread."""
    with (tmp_path / "losses.jsonl").open("w") as file:
        for variant, more in (("bfloat16", 0.0), ("mxfp8", 0.01)):
            for seed in (0, 1):
                steps = [[step, 3.0 - step / 100 + more + seed / 50] for step in (0, 50, 100)]
                run = {"variant": variant, "seed": seed, "validation": steps, "final": steps[-1][1]}
                run |= {"size": "medium", "parameters": 10}
                file.write(json.dumps(run | {"steps": {}}) + "\n")
    assert "| mxfp8 | 2 | 2.0200 | +0.0100 | 0.0000 | +0.0100 |" in lm_report.report(tmp_path)
    drawn = tmp_path / "losses.svg"
    assert "minus bfloat16, same seed" in drawn.read_text()
    assert marks(drawn, "area mark") == 2
    assert marks(drawn, "line mark") == 4


def test_the_fraction_bits_of_a_float32_running_value_are_drawn():
    for text, want in (("aligned:13", 13), ("fused:25", 25), ("aligned:13:float16", None)):
        assert bits(text) == want
    assert bits(None) is None
