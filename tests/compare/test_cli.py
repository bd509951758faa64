"""`mxdot compare` as a user meets it: what it prints, writes, and says of bad input."""

import csv
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import of_process, run
from mxdot.cli import main

SMALL = ["--lanes", "4", "--data", "normal", "--lengths", "32,64", "--count", "8", "--jobs", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(*arguments, status=0):
    assert main(["compare", *arguments]) == status


def test_accuracy_alone(folder, capsys):
    words = ["--format", "e4m3", "--accumulator", "exact,aligned:6..8/2", "--flow", "none", *SMALL]
    compare(*words, "-o", "out")
    shown = capsys.readouterr().out
    assert "[3/3] done" in shown
    assert "report: out/report.html" in shown
    rows = list(csv.DictReader((folder / "out" / "compare.csv").read_text().splitlines()))
    assert [row["accumulator"] for row in rows] == ["exact", "aligned:6", "aligned:8"]
    assert {row["status"] for row in rows} == {"ok"}
    compare(*words, "-o", "out")
    assert "3 of 3 results are there already" in capsys.readouterr().out


@pytest.mark.slow
def test_cost_and_an_extra_unit_through_the_same_flow(folder, capsys):
    (folder / "mac.v").write_text(
        "module mac #(parameter W = 4) (input clk, input [W-1:0] a, b, output reg [2*W-1:0] y);\n"
        "always @(posedge clk) y <= y + a * b;\nendmodule\n"
    )
    (folder / "extra.toml").write_text(
        '[[extra]]\nname = "plain MAC"\nverilog = "mac.v"\ntop = "mac"\nparameters = { W = 8 }\n'
        '[[extra]]\nname = "broken"\nverilog = "mac.v"\ntop = "nothing"\n'
    )
    words = ["--format", "e2m1", "--accumulator", "aligned:4", "--extra", "extra.toml", *SMALL]
    words += ["--no-energy"]
    compare(*words, "-o", "out", status=1)
    shown = capsys.readouterr().out
    assert "FAILED broken (gates):" in shown
    rows = json.loads((folder / "out" / "compare.json").read_text())["rows"]
    mine, plain, broken = rows
    assert mine["area"] > plain["area"] > 100
    assert mine["sections"]["multiply"] > 0
    assert (plain["flipflops"], plain["status"], broken["status"]) == (16, "ok", "failed")
    assert plain["command"] == "mxdot synth mac.v --top mac --parameter W=8 --flow gates"


@pytest.mark.slow
def test_the_command_below_the_table_repeats_the_netlist_at_a_clock(folder, capsys):
    words = ["--format", "e2m1", "--accumulator", "fixed:12:-2", "--lanes", "4", "--data", "none"]
    compare(*words, "--clock", "500MHz", "--process", "asap7", "--no-energy", "--jobs", "1")
    shown = capsys.readouterr().out.splitlines()
    (row,) = json.loads((folder / "build/compare/compare.json").read_text())["rows"]
    assert "--effort balanced --aim-ps " in row["synthesis"]
    assert f"  {row['synthesis']}" in shown
    assert main(shlex.split(row["verilog"])[1:]) == 0
    capsys.readouterr()
    assert main([*shlex.split(row["synthesis"])[1:], "--cache", "another", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert (cost["area"], cost["delay_ps"]) == (row["area"], row["delay_ps"])


def test_a_study_file(folder, capsys):
    (folder / "study.toml").write_text(
        'title = "Mine"\n[[sweep]]\nformat = "e2m1"\naccumulator = "exact"\nlanes = [4, 8]\n'
        "[cost]\nflow = 'none'\n[accuracy]\nlengths = [32]\ncount = 8\n"
    )
    compare("--study", "study.toml", "--data", "uniform", "-o", "out")
    content = json.loads((folder / "out" / "compare.json").read_text())
    assert content["title"] == "Mine"
    assert [(row["lanes"], row["data"]) for row in content["rows"]] == [
        (4, "uniform"),
        (8, "uniform"),
    ]


def test_tensors_of_a_file(folder):
    rng = np.random.default_rng(0)
    np.savez(
        folder / "t.npz",
        a=rng.standard_normal((4, 64), dtype=np.float32),
        b=rng.standard_normal((4, 64), dtype=np.float32),
    )
    words = ["--format", "e4m3", "--accumulator", "exact", "--flow", "none", "--lanes", "4"]
    compare(
        *words,
        "--tensors",
        "t.npz",
        "--name",
        "a",
        "b",
        "--lengths",
        "64",
        "--count",
        "4",
        "-o",
        "o",
    )
    (row,) = json.loads((folder / "o" / "compare.json").read_text())["rows"]
    assert row["data"] == "t.npz#a,b"


def test_find_narrowest(folder, capsys):
    compare("find", "--sqnr", "40", "--format", "e2m1", *SMALL, "-o", "out")
    shown = capsys.readouterr().out
    assert "Narrowest accumulators: 40 dB, at lengths 32, 64" in shown
    assert "to compare what they cost: mxdot compare --format e2m1 --accumulator aligned:" in shown
    assert len(json.loads((folder / "out" / "narrowest.json").read_text())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--format e9m9", "formats must be one of "),
        ("--accumulator aligned:9..6", "accumulator: a range must run upwards, not '9..6'"),
        ("--format e4m3 --accumulator int32", "accumulator int32 takes integer formats only"),
        ("--lanes 3", "lanes must be one of 4, 8, 16, 32, 64, 128, not 3"),
        ("--flow asic", "flow must be one of gates, sky130, ihp,"),
        ("--flow cells", "flow cells needs a cell library: --liberty FILE"),
        ("--flow cells --liberty no.lib", "liberty no.lib is not a file"),
        ("--format e4m3 --target-ps 100", "target-ps is for flow cells or ecp5, not gates"),
        ("--target-levels 0", "target_levels must be at least 1, not 0"),
        ("--effort most", "effort must be one of"),
        ("--data weird", "data must be one of normal, "),
        ("--flow none --data none", "flow none and data none leave nothing to measure"),
        ("--tensors no.npz", "error: no.npz: no such file\n"),
        ("find --sqnr 40 --tensors no.npy", "error: no.npy: no such file\n"),
        ("find --sqnr 40 --tensors folder", "error: folder: no such file\n"),
        ("find --sqnr 40 --tensors /dev/null", "error: /dev/null: must be a file .npz, .npy, "),
        ("--name a", "name needs a file of tensors: --tensors FILE"),
        ("--lengths 0", "lengths must be from 1 to 1048576, not 0"),
        ("--count 0", "count must be from 1 to 1000000, not 0"),
        ("--seed -1", "seed must be from 0 to "),
        ("--encoder 41", "encoder must be from 0 to 40, not 41"),
        ("find --match int32", "match: accumulator int32 takes integer formats only"),
        ("find --sqnr 40 --encoder 1", "encoder must be 0 with find narrowest, not 1"),
        ("--study no.toml", "no.toml cannot be read: No such file or directory"),
        ("--extra no.toml", "no.toml cannot be read: No such file or directory"),
        ("--study no.toml --format e4m3", "format and study exclude each other"),
        ("--study no.toml --no-c", "no-c and study exclude each other"),
        ("find", "find narrowest needs a target: --sqnr DB or --match ACCUMULATOR"),
        ("find --match best", "accumulator must be one of"),
        ("find --sqnr 40 --data none", "find narrowest needs data: --data"),
        ("--sort size", "sort must be one of area, delay, sqnr, total, not 'size'"),
        ("--jobs 0", "jobs must be from 1 to 1024, not 0"),
        (f"-o {__file__}", "output must be a directory that can be written, not "),
        (f"-o {__file__}/a/b", "output must be a directory that can be written, not "),
        ("--flow none --effort foo", "effort has no effect with --flow none"),
        ("--flow none --liberty x.lib", "liberty has no effect with --flow none"),
        ("--flow none --target-ps 9", "target-ps has no effect with --flow none"),
        ("--flow none --clock 1GHz", "clock has no effect with --flow none"),
        ("schemes mxfp4 --flow none --wires model", "wires has no effect with --flow none"),
        ("find --sqnr 20 --no-energy", "no-energy has no effect without --clock"),
        ("find --sqnr 20 --match exact", "sqnr and match exclude each other: both are targets"),
        ("columns --json a.npy", "error: json must end with .json, not a.npy"),
        (f"columns --json {__file__}/a.json", "json must be a file in a directory, and "),
    ],
)
def test_bad_input_is_one_clear_line(folder, capsys, arguments, message):
    compare(*arguments.split(), status=2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("mxdot: error: ")
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_an_encoder_without_its_packages_is_one_clear_line(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    compare("--encoder", "1", status=2)
    assert capsys.readouterr() == (
        "",
        (
            "mxdot: error: the encoder needs the packages of mxdot[real] (torch is missing): "
            "pip install 'mxdot[real]'\n"
        ),
    )
    assert list(folder.iterdir()) == []


def test_a_cell_library_that_is_none(folder, capsys):
    (folder / "x.lib").write_text("this is no library")
    words = ["--format", "e2m1", "--accumulator", "exact", "--flow", "cells", "--liberty", "x.lib"]
    compare(*words, *SMALL, status=1)
    assert "FAILED e2m1 exact x4 stages 4 (cells x): " in capsys.readouterr().out


def test_a_fresh_search_takes_no_kept_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(1).standard_normal((4, 64), np.float32)
    np.savez("my,file.npz", x, x)
    words = ["compare", "find", "--sqnr", "5", "--format", "e2m1", "--lanes", "4", "--jobs", "1"]
    words += ["--tensors", "my,file.npz", "--lengths", "32", "--count", "4"]

    def times():
        status, out, _ = run(capsys, *words)
        assert status == 0
        kept = [json.loads(path.read_text()) for path in Path("build/compare/results").iterdir()]
        return out, sorted(result["finished"] for result in kept)

    out, first = times()
    assert "--tensors my,file.npz" in " ".join(out.split())
    assert "--data" not in out
    assert times()[1] == first
    words.append("--fresh")
    assert min(times()[1]) > max(first)


def test_characters_that_the_output_lacks_are_replaced(tmp_path):
    words = ["compare", "errors", "mxfp4", "--rows", "4", "--length", "32", "--data", "normal"]
    words = ["-m", "mxdot.cli", *words, "-o", str(tmp_path)]
    status, out, err = of_process(*words, PYTHONIOENCODING="latin-1")
    assert (status, err) == (0, "")
    assert "? no scheme of as few bits has better products" in out


def test_a_plan_of_fresh_runs_deletes_nothing(tmp_path, capsys):
    words = "compare --format e2m1 --accumulator exact --lanes 4 --data normal --lengths 32"
    command = [*words.split(), "--count", "8", "--flow", "none", "-o", str(tmp_path), "--jobs", "1"]
    assert run(capsys, *command)[0] == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    assert kept
    status, said, _ = run(capsys, *command, "--fresh", "--dry-run")
    assert status == 0
    assert "1 to do" in said
    assert {path: path.read_bytes() for path in (tmp_path / "results").iterdir()} == kept
