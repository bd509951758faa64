"""The report in a real headless Chromium, on a machine that has one."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from compare_sample import sample
from mxdot.compare.studies.report import report

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

PROBE = """
<script>
{
const seen = { errors: [] };
addEventListener("error", (event) => seen.errors.push(event.message));
addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => seen.errors.push(event.blockedURI));
const all = (query) => [...document.querySelectorAll(query)];
const drawn = async (before) => {
  while ((document.documentElement.dataset.drawn ?? "0") === before) {
    await new Promise((done) => setTimeout(done, 50));
  }
  return document.documentElement.dataset.drawn;
};
const figure = (title) => all("figure").find((one) => one.textContent.startsWith(title));
const marks = (title, kind = "symbol") => [...figure(title)?.querySelectorAll(
  `.mark-${kind}.role-mark path`) ?? []];
const counts = () => Object.fromEntries(["Area and accuracy", "Depth and area",
  "Error and fraction bits", "Error and length"].map((title) => [title, marks(title).length]));
const column = (name) => {
  const heads = all("#table thead th").map((th) => th.textContent);
  const at = heads.findIndex((head) => head.startsWith(name));
  return all("#table tbody tr").map((tr) => tr.children[at].textContent);
};
const colour = (query) => getComputedStyle(document.querySelector(query)).backgroundColor;
const at = { bubbles: true, clientX: 200, clientY: 300 };
addEventListener("load", async () => {
  let turn = await drawn("0");
  seen.scheme = theme();
  seen.page = colour("body");
  seen.label = getComputedStyle(document.querySelector(".role-axis-label text")).fill;
  seen.width = [innerWidth, document.documentElement.scrollWidth];
  seen.sideways = all("body *").filter((one) => one.scrollWidth > one.clientWidth + 1
    && ["auto", "scroll"].includes(getComputedStyle(one).overflowX)).map((one) => one.className);
  seen.cut = all(".view").filter((one) => one.scrollWidth > one.clientWidth + 1).length;
  seen.counts = counts();
  seen.bars = new Set(marks("What the area", "rect").map((m) => m.__data__.datum.unit)).size;
  seen.titles = all("figure h2").map((h) => h.textContent);
  seen.first = document.querySelector("main").children[0].id;
  seen.title = document.querySelector("h1").textContent;
  seen.answers = all("#answer-cards article").map((card) => card.textContent);
  seen.rows = all("#table tbody tr").length;
  const wanted = "gates|null|e4m3 aligned:10 x8 stages 4".replace("null", "None");
  const mark = marks("Area and accuracy").find((m) => m.__data__.datum.unit === wanted);
  mark.dispatchEvent(new MouseEvent("mousemove", at));
  const tip = document.getElementById("tip");
  seen.tip = [tip.hidden, tip.textContent];
  seen.hot = all(".hot").length;
  mark.dispatchEvent(new MouseEvent("click", at));
  seen.details = document.getElementById("details").textContent;
  seen.tip_after = tip.hidden;
  const bar = marks("What the area", "rect").find((m) => m.__data__.datum.text === "align");
  bar.dispatchEvent(new MouseEvent("mousemove", at));
  seen.section = tip.textContent;
  seen.areas = column("area");
  all("#table th").find((th) => th.textContent.startsWith("area")).click();
  seen.areas_down = column("area");
  all("#table th").find((th) => th.textContent === "accumulator").click();
  seen.names = column("accumulator");
  all("#controls button").find((b) => b.textContent === "int8").click();
  turn = await drawn(turn);
  seen.without_int8 = [counts(), all("#answer-cards article").length];
  const themes = [];
  for (let i = 0; i < 3; i++) {
    document.getElementById("theme").click();
    turn = await drawn(turn);
    themes.push([document.getElementById("theme").textContent, colour("body")]);
  }
  seen.themes = themes;
  seen.failures = document.getElementById("failure-list").textContent;
  seen.notes = document.getElementById("notes").textContent;
  const box = document.createElement("pre");
  box.id = "seen";
  box.textContent = JSON.stringify(seen);
  document.body.append(box);
  parent.postMessage(seen, "*");
});
}
</script>
"""
# A window is never narrower than 500 pixels: the page is looked at in a frame.
FRAME = """<!DOCTYPE html><body><iframe src="report.html" width="375" height="800"></iframe><script>
addEventListener("message", (event) => {
  const box = document.createElement("pre");
  box.id = "seen";
  box.textContent = JSON.stringify(event.data);
  document.body.append(box);
});
</script>"""
DARK = "--blink-settings=preferredColorScheme=0"


def browse(page: Path, profile: Path, *options: str) -> str:
    command = [BROWSER or "", *FLAGS, f"--user-data-dir={profile}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def read(text: str) -> dict:
    found = re.search(r'<pre id="seen">(.*?)</pre>', text, flags=re.S)
    assert found, text[:2000]
    return json.loads(unescape(found[1]))


if BROWSER is not None:

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory):
        folder = tmp_path_factory.mktemp("report")
        made = sample(folder)
        more = [replace(row, flow="asap7") for row in made.rows if row.flow == "gates"]
        two = replace(made, rows=(*made.rows, *more))  # a choice of processes, by long names
        page = report(two, folder / "report.html")
        page.write_text(page.read_text().replace("<script id=", PROBE + "<script id=", 1))
        (folder / "frame.html").write_text(FRAME)
        return folder

    @pytest.fixture(scope="module")
    def see(folder):
        def see(name, *options):
            budget = "--virtual-time-budget=60000"
            return read(browse(folder / name, folder / "profile", "--dump-dom", budget, *options))

        return see

    @pytest.fixture(scope="module")
    def seen(see):
        return see("report.html", "--window-size=1280,900")

    @pytest.fixture(scope="module")
    def narrow(see):
        return see("frame.html", DARK)

    def test_it_draws_without_errors(seen):
        assert seen["errors"] == []
        assert seen["title"] == "A </script><b> & more"

    def test_every_picture_has_its_marks(seen):
        units = 2 * 8 + 1
        assert seen["counts"] == {
            "Area and accuracy": 2 * units,  # with the format, and by format
            "Depth and area": units + 1,
            "Error and fraction bits": 2 * 4,
            "Error and length": 2 * units,
        }
        assert seen["bars"] == units + 1
        assert seen["rows"] == units + 2
        assert len(seen["titles"]) == 6

    def test_the_answer_comes_first(seen):
        assert seen["first"] == "answers"
        assert len(seen["answers"]) == 2
        assert seen["answers"][0].startswith(
            "e4m38 lanes, 4 stages; gates; areas in NAND2; normal data"
            "The smallest that adds no visible loss:aligned:10"
        )
        assert "† not measured: aligned:5" in seen["answers"][0]

    def test_a_narrow_page_needs_no_scrolling_sideways(narrow):
        assert narrow["errors"] == []
        assert narrow["width"][0] == 375
        assert narrow["width"][1] <= 375
        assert narrow["sideways"] == []
        assert narrow["cut"] == 0
        assert narrow["counts"]["Area and accuracy"] == 2 * 17

    def test_themes(seen, narrow):
        light, dark = "rgb(255, 255, 255)", "rgb(18, 23, 29)"
        assert (seen["scheme"], seen["page"]) == ("light", light)
        assert (narrow["scheme"], narrow["page"]) == ("dark", dark)
        assert seen["label"] != narrow["label"]
        names = ["theme: light", "theme: dark", "theme: as the system"]
        assert seen["themes"] == [list(x) for x in zip(names, (light, dark, light), strict=True)]
        assert narrow["themes"] == [list(x) for x in zip(names, (light, dark, dark), strict=True)]

    def test_hovering_shows_the_unit_and_its_command(seen):
        hidden, text = seen["tip"]
        assert not hidden
        assert "e4m3 aligned:10 x8 stages 4" in text
        assert "mxdot compare --format e4m3 --accumulator aligned:10 --lanes 8 --stages 4" in text
        assert seen["hot"] >= 2
        assert seen["tip_after"]
        assert re.search(r"align[\d,]+ NAND2synthesisgates", seen["section"])

    def test_a_click_keeps_the_details(seen):
        assert "Measure it again" in seen["details"]
        assert "mxdot verilog --format e4m3 --accumulator aligned:10" in seen["details"]

    def test_the_table_sorts(seen):
        def number(text):
            return float(text.replace(",", "") or "inf")

        up, down = ([number(a) for a in seen[name]] for name in ("areas", "areas_down"))
        assert up == sorted(up)
        known = [area for area in down if area < float("inf")]
        assert known == sorted(known, reverse=True)
        assert down[-1] == float("inf")
        assert seen["names"].index("aligned:6") < seen["names"].index("aligned:10")

    def test_formats_can_be_hidden(seen):
        counts, answers = seen["without_int8"]
        assert counts["Error and fraction bits"] == 4
        assert counts["Depth and area"] == 9
        assert answers == 1

    def test_failures_and_notes(seen):
        assert "RuntimeError: synthesis failed" in seen["failures"]
        assert "left out e4m3 int32" in seen["notes"]

    def test_it_prints(tmp_path):
        page = report(sample(tmp_path), tmp_path / "report.html")
        browse(page, tmp_path / "profile", f"--print-to-pdf={tmp_path / 'report.pdf'}")
        assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
