"""The report in a real headless Chromium, on a machine that has one."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from compare_sample import sample

from mxdot.explore.compare.report import report

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
const seen = { errors: [] };
addEventListener("error", (event) => seen.errors.push(event.message));
addEventListener("securitypolicyviolation", (event) => seen.errors.push(event.blockedURI));
addEventListener("load", () => {
  const all = (query) => [...document.querySelectorAll(query)];
  const count = (name) => all(`#plot-${name} .mark, #plot-${name} .bar`).length;
  const counts = () => Object.fromEntries(
    ["front", "delay", "bits", "length", "sections"].map((name) => [name, count(name)]));
  const column = (name) => {
    const heads = all("#table thead th").map((th) => th.textContent);
    const at = heads.findIndex((head) => head.startsWith(name));
    return all("#table tbody tr").map((tr) => tr.children[at].textContent);
  };
  seen.counts = counts();
  seen.title = document.querySelector("h1").textContent;
  seen.answers = all("#answer-table tbody tr").map((tr) => tr.textContent);
  seen.rows = all("#table tbody tr").length;
  const mark = all("#plot-front .mark")[2];
  mark.dispatchEvent(new MouseEvent("mousemove", { clientX: 300, clientY: 300 }));
  const tip = document.getElementById("tip");
  seen.tip = [tip.hidden, tip.textContent];
  seen.hot = all(".hot").length;
  mark.dispatchEvent(new MouseEvent("mouseleave"));
  seen.tip_after = tip.hidden;
  mark.dispatchEvent(new MouseEvent("click"));
  seen.details = document.getElementById("details").textContent;
  seen.areas = column("area");
  all("#table th").find((th) => th.textContent.startsWith("area")).click();
  seen.areas_down = column("area");
  all("#table th").find((th) => th.textContent === "accumulator").click();
  seen.names = column("accumulator");
  all("#controls button").find((b) => b.textContent === "int8").click();
  seen.without_int8 = [counts(), all("#answer-table tbody tr").length];
  const quality = document.getElementById("choose-quality");
  quality.selectedIndex = 1;
  quality.dispatchEvent(new Event("change"));
  seen.axis = all("#plot-front .title").map((t) => t.textContent);
  seen.failures = document.getElementById("failure-list").textContent;
  seen.notes = document.getElementById("notes").textContent;
  const box = document.createElement("pre");
  box.id = "seen";
  box.textContent = JSON.stringify(seen);
  document.body.append(box);
});
</script>
"""


def browse(page: Path, profile: Path, *options: str) -> str:
    command = [BROWSER or "", *FLAGS, f"--user-data-dir={profile}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


if BROWSER is not None:

    @pytest.fixture(scope="module")
    def seen(tmp_path_factory):
        folder = tmp_path_factory.mktemp("report")
        page = report(sample(folder), folder / "report.html")
        text = page.read_text()
        page.write_text(text.replace("<script id=", PROBE + "<script id=", 1))
        text = browse(page, folder / "profile", "--dump-dom", "--virtual-time-budget=5000")
        found = re.search(r'<pre id="seen">(.*?)</pre>', text, flags=re.S)
        assert found, text[:2000]
        return json.loads(unescape(found[1]))

    def test_it_draws_without_errors(seen):
        assert seen["errors"] == []
        assert seen["title"] == "A </script><b> & more"

    def test_every_plot_has_its_marks(seen):
        units = 2 * 8 + 1
        assert seen["counts"] == {
            "front": units,
            "delay": units + 1,
            "bits": 2 * 4,
            "length": 2 * units,
            "sections": units + 1,
        }
        assert seen["rows"] == units + 2

    def test_hovering_shows_the_unit_and_its_command(seen):
        hidden, text = seen["tip"]
        assert not hidden
        assert "e4m3 aligned:10 x8 stages 4" in text
        assert "mxdot compare --format e4m3 --accumulator aligned:10 --lanes 8 --stages 4" in text
        assert seen["hot"] >= 4
        assert seen["tip_after"]

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

    def test_what_to_build(seen):
        assert len(seen["answers"]) == 2
        assert seen["answers"][0].startswith("e4m3aligned:6")
        assert "† not measured: aligned:5" in seen["answers"][0]

    def test_formats_can_be_hidden(seen):
        counts, answers = seen["without_int8"]
        assert counts["front"] == 8
        assert answers == 1

    def test_the_other_sqnr(seen):
        assert "SQNR, with format (dB)" in seen["axis"]

    def test_failures_and_notes(seen):
        assert "RuntimeError: synthesis failed" in seen["failures"]
        assert "left out e4m3 int32" in seen["notes"]

    def test_it_prints(tmp_path):
        page = report(sample(tmp_path), tmp_path / "report.html")
        browse(page, tmp_path / "profile", f"--print-to-pdf={tmp_path / 'report.pdf'}")
        assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
