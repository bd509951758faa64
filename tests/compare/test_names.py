"""Names of units, data sets, files and titles, wherever a comparison writes them."""

import html
import io
import json
import shlex
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import refusal
from compare_fakes import Job
from compare_sample import sample
from mxdot.cli import main
from mxdot.cli.terminal import console
from mxdot.compare.studies import load_extra, load_study
from mxdot.compare.studies.outputs import plot, sections
from mxdot.compare.studies.report import render
from mxdot.compare.studies.session import synth_command
from mxdot.compare.studies.table import show
from mxdot.util.progress import display
from odd_names import ODD

PRINTABLE = [*(name for name in ODD if name.isprintable()), "$\\bad{$", "a_$x$", ":smile:"]
ALL = " ".join(name for name in PRINTABLE if not set("/#") & set(name))
UNPRINTABLE = [name for name in ODD if not name.isprintable()]


def toml(text: str) -> str:
    return json.dumps(text)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mac.v").write_text("module mac; endmodule\n")
    yield tmp_path
    assert not list(tmp_path.rglob("pwned"))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return sample(tmp_path_factory.mktemp("names"))


def named(comparison, name):
    """Everything that a user may name is called `name`."""
    rows = tuple(
        replace(row, unit=name, data=row.data and f"{name}.npz", flow=f"cells {name}")
        if not row.generated
        else replace(row, data=row.data and f"{name}.npz", flow=f"cells {name}")
        for row in comparison.rows
    )
    return replace(comparison, title=name, rows=rows, notes=(name,))


@pytest.mark.parametrize("name", PRINTABLE)
def test_the_report_holds_names_as_text(name, comparison):
    found = named(comparison, name)
    text = render(found)
    assert text.count("<script") == text.count("</script>") == 3
    assert f"<title>{html.escape(name)}</title>" in text
    data = text.split('<script id="data" type="application/json">')[1].split("</script>")[0]
    assert "<" not in data
    values = json.loads(data)
    assert values["title"] == values["notes"][0] == name
    assert {row["unit"] for row in values["rows"] if not row["generated"]} == {name}


@pytest.mark.parametrize("name", [ALL, "$\\bad{$ </script><script>x()</script>"])
def test_plots_hold_names_as_text(name, comparison):
    found = named(comparison, name)
    some = [row for row in found.rows if not row.generated or row.accumulator == "hopper"]
    some = [replace(row, data=f"{name}.npz") for row in some]
    files = plot(replace(found, rows=tuple(some)), Path("plots"))
    texts = {}
    for file in files:
        if file.suffix == ".svg":
            texts[file.stem] = "\n".join(t.text or "" for t in ET.parse(file).iter() if t.text)
    sections = next(text for stem, text in texts.items() if stem.startswith("sections"))
    assert f"\n{name}\n" in sections
    assert f"cells {name}" in sections
    lengths = next(text for stem, text in texts.items() if stem.startswith("error-length"))
    assert f"{name}.npz data" in lengths
    assert all(path.parent == Path("plots") for path in files)


@pytest.mark.parametrize("name", PRINTABLE)
def test_the_terminal_shows_names_as_they_are(name, comparison, capsys):
    found = named(comparison, name)
    show(console(400), found)
    shown = capsys.readouterr().out
    assert f" {name} " in shown
    assert f"cells {name}\n" in shown
    assert f"note: {name}\n" in shown
    assert f"{name}.npz" in shown


def test_progress_shows_names_as_they_are(folder, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    screen = console(120)
    screen.file = io.StringIO()
    job = Job("unit [/b] :smile:", folder / "log")
    with display(screen) as observer:
        observer.begin([job], 0)
        observer.start(job)
    assert "unit [/b] :smile:" in screen.file.getvalue()


@pytest.mark.parametrize("name", UNPRINTABLE)
def test_names_that_do_not_print_are_refused(name, folder):
    def refused(load, text, what):
        (folder / "study.toml").write_text(text)
        with pytest.raises(ValueError, match=f"{what} must be one line of printable text") as error:
            load(folder / "study.toml")
        assert "\n" not in str(error.value)

    def load_points(path):
        load_study(path).points()

    mine = '[[extra]]\nname = {}\nverilog = {}\ntop = "mac"\n'
    refused(load_extra, mine.format(toml(name), '"mac.v"'), "name")
    (folder / f"{name}.v").write_text("")
    refused(load_extra, mine.format('"m"', toml(f"{name}.v")), "verilog")
    refused(load_study, f"title = {toml(name)}", "title")
    np.savez(folder / "a.npz", a=np.ones((2, 8), np.float32))
    (folder / "a.npz").rename(folder / f"{name}.npz")
    refused(load_points, f"[[sweep]]\n[accuracy]\ndata = [{toml(f'{name}.npz')}]", "data")
    (folder / f"{name}.lib").write_text("")
    library = toml(f"{name}.lib")
    refused(load_points, f'[[sweep]]\n[cost]\nflow = "cells"\nliberty = {library}', "liberty")


@pytest.mark.parametrize("name", ["=cmd|x.npz", "+a.npz", "-a.npz", "@a.npz"])
@pytest.mark.parametrize("command", ["units", "errors"])
def test_a_data_set_begins_no_formula_of_a_spreadsheet(command, name, folder, capsys):
    np.savez(folder / "a.npz", a=np.ones((2, 32), np.float32))
    (folder / "a.npz").rename(folder / name)
    assert main(["compare", command, f"--data={name}", "-o", "out"]) == 2
    error = f"data must not begin a formula of a spreadsheet, as {name!r} does\n"
    assert capsys.readouterr().err == f"mxdot: error: {error}"
    assert not (folder / "out").exists()


def test_a_section_begins_no_formula_of_a_spreadsheet(comparison):
    rows = [replace(row, sections={"=1+1": 1.0, "(top)": 2.0}) for row in comparison.rows]
    found = {line["section"] for line in sections(rows).to_pylist()}
    assert found == {"\\=1+1", "(top)"}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("top", "top must be a Verilog identifier"),
        ("parameter", "the name of a parameter must be a Verilog identifier"),
        ("value", "parameter W must be a Verilog number"),
    ],
)
def test_an_extra_unit_is_refused_before_any_work(name, key, message, folder):
    keys = {"top": "mac", "parameter": "W", "value": "3"} | {key: name}
    (folder / "extra.toml").write_text(
        f'[[extra]]\nname = "mine"\nverilog = "mac.v"\ntop = {toml(keys["top"])}\n'
        f"parameters = {{ {toml(keys['parameter'])} = {toml(keys['value'])} }}\n"
    )
    with pytest.raises(ValueError, match=f"extra.toml: extra 'mine': {message}") as error:
        load_extra(folder / "extra.toml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [*(n for n in PRINTABLE if "/" not in n), "-v"])
def test_files_of_any_printable_name_stand_in_commands_as_one_word(name, folder):
    for suffix in ("v", "2.v"):
        (folder / f"{name}.{suffix}").write_text("module mac; endmodule\n")
    (folder / "extra.toml").write_text(
        f'[[extra]]\nname = "mine"\nverilog = [{toml(name + ".v")}, {toml(name + ".2.v")}]\n'
        'top = "mac"\n'
    )
    (unit,) = load_extra(Path("extra.toml"))
    words = shlex.split(synth_command(unit, None))
    assert [word.removeprefix("./") for word in words[1:3]] == [f"{name}.v", f"{name}.2.v"]
    assert words[3:] == [">", "unit.v", "&&", "mxdot", "synth", "unit.v", "--top", "mac"]
    assert not any(word.startswith("-v") for word in words)


def test_a_comparison_of_files_of_any_printable_name(folder, capsys):
    name, rng = f"{ALL},", np.random.default_rng(1)
    with (folder / f"{name}.npz").open("wb") as file:
        np.savez(file, a=rng.standard_normal((4, 64), np.float32), b=np.ones((2, 64), np.float32))
    words = ["--format", "e2m1", "--accumulator", "exact", "--lanes", "8", "--flow", "none"]
    words += ["--lengths", "32", "--count", "4", "--jobs", "1", "-o", f"out {name}"]
    words += ["--tensors", f"{name}.npz"]
    assert main(["compare", *words]) == 0
    shown = capsys.readouterr().out
    assert f"{name}.npz" in shown
    assert f"report: out {name}/report.html" in shown
    (row,) = json.loads((folder / f"out {name}" / "compare.json").read_text())["rows"]
    again = shlex.split(row["command"])
    assert f"{name}.npz" in again
    assert main([*again[1:], "--jobs", "1", "-o", "again"]) == 0
    (repeated,) = json.loads((folder / "again" / "compare.json").read_text())["rows"]
    assert repeated | {"seconds": 0} == row | {"seconds": 0}


@pytest.mark.parametrize("name", ODD)
def test_errors_of_the_command_line_are_one_line(name, capsys):
    for words in (
        ["compare", "--data", name],
        ["compare", "--study", f"{name}.toml"],
        ["compare", "--format", name],
        ["compare", "schemes", name],
        ["compare", "errors", "--data", f"{name}.npz"],
        ["compare", "--scheme", name],
        ["verilog", "--unit", name],
        ["synth", f"{name}/nix.v", "--top", "m"],
        ["verilog", "--top", name],
        ["verilog", name],
    ):
        assert refusal(capsys, *words).isprintable(), words


@pytest.mark.parametrize(
    "command",
    [
        "compare errors mxfp4 --data normal --rows 4 --length 32 --calibrate none",
        "compare units --flow none --data normal --lengths 4 --count 2 --format e2m1 --lanes 4",
    ],
    ids=["errors", "units"],
)
def test_output_directories_are_echoed_without_control_characters(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "-o", "a\x1b[2Jb\nc"]) == 0
    out = capsys.readouterr().out
    assert r"a\x1b[2Jb\nc/" in out
    assert "\x1b" not in out
    assert (tmp_path / "a\x1b[2Jb\nc").is_dir()
