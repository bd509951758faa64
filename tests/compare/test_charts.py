"""Charts: one description, drawn as files and embedded in the report."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import lm_report
import pytest

from compare_sample import sample
from mxdot.compare.studies import charts, write
from mxdot.compare.studies.charts import clock_area
from mxdot.compare.studies.charts.common import Decibels, fitted
from mxdot.compare.studies.charts.cost import fastest
from mxdot.compare.studies.charts.error import bits
from mxdot.compare.studies.charts.labels import WIDTH, Axis, joined, labels
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


def named(layers):
    """Names in the texts of layers, a set per text."""
    texts = [value["text"] for layer in layers for value in layer["data"]["values"]]
    return [set(text.replace("\n", " ").replace(" ", "").split(",")) for text in texts]


def test_every_point_has_a_name():
    marks = [{"x": x, "y": y, "text": f"{x}-{y}"} for x in range(1, 9) for y in (1, 5, 9)]
    layers = labels(marks, Axis(0, 10), Axis(0, 10), 250)
    assert set().union(*named(layers)) == {mark["text"] for mark in marks}
    assert len(named(layers)) == len(marks)


def test_close_points_share_a_name():
    marks = [{"x": 5 + i / 100, "y": 5, "text": f"aligned:{i}"} for i in range(6)]
    marks += [{"x": 5, "y": 5.01, "text": "exact"}, {"x": 1, "y": 1, "text": "float32"}]
    layers = labels(marks, Axis(0, 10), Axis(0, 10), 250)
    assert sorted(map(len, named(layers))) == [1, 7]
    assert joined(["aligned:6", "exact", "aligned:8"]) == ["aligned:6,8, exact"]
    assert joined([f"aligned:{i}" for i in range(10, 16)]) == ["aligned:10,11,12,", "13,14,15"]


def test_names_cover_no_other_name_and_no_point():
    marks = [{"x": x, "y": x % 3, "text": f"fused:{x}"} for x in range(12)]
    x, y, height = Axis(-1, 12), Axis(-1, 3), 250
    boxes = []
    for layer in labels(marks, x, y, height, words=[2.5]):
        mark = layer["mark"]
        for value in layer["data"]["values"]:
            lines = value["text"].split("\n")
            width, half = 5 * max(map(len, lines)), 5 * len(lines)
            left = x.share(value["x"]) * WIDTH + mark["dx"]
            left -= width * {"left": 0, "center": 0.5, "right": 1}[mark["align"]]
            middle = (1 - y.share(value["y"])) * height + mark["dy"]
            boxes.append((left, middle - half, left + width, middle + half))
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        for point in marks:
            px, py = x.share(point["x"]) * WIDTH, (1 - y.share(point["y"])) * height
            assert not (a[0] < px < a[2] and a[1] < py < a[3])


def test_axes_fit_what_they_show():
    assert fitted([100, 200]) == (92, 208)
    low, high = fitted([7])
    assert low < 7 < high
    scale = Decibels([40.0, 60.0, float("inf"), None])
    assert scale.domain[0] > 35
    assert 60 < scale.at(float("inf")) < scale.domain[1] < 65
    assert scale.at(-float("inf")) == scale.domain[0]
    assert scale.layers
    assert not Decibels([40.0, 60.0]).layers


def test_captions_say_what_is_drawn(comparison):
    """No word of a curve, a front or a dashed line where none is drawn."""
    for picture in charts.pictures(comparison.rows):
        kinds = {
            (layer["mark"]["type"], "strokeDash" in layer["mark"])
            for view in picture.panels
            for layer in view["layer"]
            if layer["data"]["values"] and "detail" in layer["encoding"]
        }
        if picture.name == "clock-area":
            assert ("Curves" in picture.caption) == (("line", False) in kinds)
        if picture.name == "area-sqnr":
            assert ("Lines" in picture.caption) == (("line", False) in kinds)
        if picture.name == "error-f":
            assert ("Solid line" in picture.caption) == (("line", False) in kinds)
            assert "Dashed line" not in picture.caption  # one unit is no line


def test_the_lines_of_several_fused_units_are_in_the_caption(comparison):
    fused = next(row for row in comparison.rows if row.accumulator == "fused:13" and row.data)
    more = replace(fused, accumulator="fused:15", unit="e4m3 fused:15 x8 stages 4")
    (picture,) = (
        p
        for p in charts.pictures([*comparison.rows, more])
        if p.name == "error-f" and p.data == fused.data
    )
    assert "Dashed line: fused." in picture.caption
