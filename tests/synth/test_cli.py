"""mxdot synth: any Verilog file, tables and JSON, errors of one line."""

import json
import os
from pathlib import Path

import pytest

from command_line import refusal
from mxdot.cli import main
from mxdot.synth import script

FOREIGN = """\
// a FIR tap that nobody generated
`define ROUND 1
module tap #(parameter W = 4, parameter [W-1:0] K = 3) (
  input wire clk_i, rst_ni, input wire signed [W-1:0] x, output reg signed [2*W-1:0] y);
  wire signed [2*W-1:0] p;
  mul #(.W(W)) product (.a(x), .b(K), .p(p));
  always @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) y <= 0;
    else y <= y + p + `ROUND;
endmodule
module mul #(parameter W = 1) (input signed [W-1:0] a, b, output signed [2*W-1:0] p);
  assign p = a * b;
endmodule
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("tap.v")
    path.write_text(FOREIGN)
    return path


def test_table(foreign, capsys):
    assert main(["synth", str(foreign), "--top", "tap"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    assert names[:5] == ["tap:", "area", "flip-flops", "depth", "sections"]
    assert set(names[5:]) == {"product", "(top)"}
    assert "NAND2" in lines[1]
    assert lines[2].split()[1] == "8,"
    assert list(Path("build/synth").rglob("*.cost.json.gz"))


def test_json_with_parameters(foreign, capsys):
    small = ["synth", str(foreign), "--top", "tap", "--json"]
    assert main(small) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*small, "--parameter", "W=8", "--parameter", "K=8'd77"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert (first["flipflops"], second["flipflops"]) == (8, 16)
    assert second["area"] > first["area"]


def test_script(foreign, capsys):
    assert main(["synth", str(foreign), "--top", "tap", "--flow", "xilinx", "--script"]) == 0
    assert "synth_xilinx" in capsys.readouterr().out
    assert main(["synth", str(foreign), "--top", "tap", "--script"]) == 0
    assert capsys.readouterr().out == script(FOREIGN, "tap")
    assert not Path("build").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nix.v", "--top", "tap"], "nix.v cannot be read: No such file or directory"),
        (["tap.v", "--top", "nix"], "Yosys on tap.v: Module 'nix' not found!"),
        (["tap.v", "--top", "a-b"], "top must be a Verilog identifier (letters, digits, "),
        (["bad.v", "--top", "m"], "Yosys on bad.v: bad.v:1: syntax error, unexpected"),
        (["tap.v", "--top", "tap", "--flow", "cells"], "the flow cells needs a library"),
        (["pipe", "--top", "tap"], "pipe cannot be read: it must be a regular file, not a pipe"),
        (["/dev/zero", "--top", "tap"], "/dev/zero cannot be read: it must be a regular file, "),
        (["tap.v", "--top", "tap", "--flow", "asic"], "flow must be one of gates, cells, xilinx, "),
        (
            ["tap.v", "--top", "tap", "--timing", "auto"],
            "timing must be one of own, opensta, abc, not 'auto'\n",
        ),
        (
            ["tap.v", "--top", "tap", "--effort", "balanced"],
            "effort must be area or speed for the flow gates, not balanced\n",
        ),
        (
            ["tap.v", "--top", "tap", "--flow", "cells", "--liberty", "x.lib"],
            "the Liberty file x.lib cannot be read: No such file or directory",
        ),
        (["tap.v", "--top", "tap", "--parameter", "W"], "parameter must be NAME=VALUE, not 'W'"),
        (["tap.v", "--top", "tap", "--target-levels", "2"], "target_levels of 2 cannot be met"),
        (["tap.v", "--top", "tap", "--limit", "0"], "limit must be more than 0 seconds, not 0"),
    ],
)
def test_errors(foreign, arguments, message, capsys):
    os.mkfifo("pipe")
    Path("bad.v").write_text("module m (input a output b); endmodule\n")
    assert f"{refusal(capsys, 'synth', *arguments)}\n".startswith(message)
