"""Processes in studies, tables and the report."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from command_line import refusal
from mxdot.cli import main
from mxdot.compare.studies import Comparison, Row, load_study
from mxdot.compare.studies.flows import (
    Synthesis,
    flow_name,
    flow_options,
    flow_text,
    with_processes,
)
from mxdot.compare.studies.report import render
from mxdot.compare.studies.table import show
from mxdot.synth import Flow

UNIT = Row(
    unit="e4m3 exact x8 stages 4", generated=True, format="e4m3", accumulator="exact", lanes=8,
    stages=4, flow="gates", area=1000.0, area_unit="NAND2", area_nand2=1000.0,
)  # fmt: skip
ASAP7 = replace(UNIT, flow="asap7", area=87.5, area_unit="um2", delay_ps=812.0, fmax_mhz=1231.5)


@pytest.fixture
def comparison() -> Comparison:
    return Comparison("Both", (UNIT, ASAP7), (), 0.0)


def test_a_process_is_a_flow():
    found = Synthesis("gates,asap7,xilinx", target_ps=(500, 900)).flows()
    assert found == [
        Flow("gates"),
        Flow("cells", process="asap7", target_ps=500),
        Flow("cells", process="asap7", target_ps=900),
        Flow("xilinx", dsp=False),
    ]
    assert (flow_name(found[1]), flow_text(found[1])) == ("asap7", "asap7")  # type: ignore[arg-type]
    assert flow_options(found[1]) == "--process asap7 --target-ps 500"
    assert Flow.from_dict(found[1].to_dict()) == found[1]  # type: ignore[union-attr]


def test_processes_beside_flows_and_instead():
    assert with_processes(None, None) is None
    assert with_processes("xilinx", None) == "xilinx"
    assert with_processes(None, "gates,gt2n") == "gates,gt2n"
    assert with_processes("xilinx", "gt2n") == "xilinx,gt2n"
    with pytest.raises(ValueError, match=r"process must be one of gates, sky130, .*, not 'cells'"):
        with_processes(None, "cells")


def test_a_study_names_processes_and_a_library_of_several_files(tmp_path):
    study = tmp_path / "study.toml"
    cost = '[[sweep]]\n[cost]\nprocess = ["gates", "ihp"]\n'
    study.write_text(cost)
    assert load_study(study).synthesis == Synthesis("gates,ihp")
    study.write_text(cost + 'flow = "cells"\nliberty = ["a.lib", "b.lib"]\n')
    wanted = Synthesis("cells,gates,ihp", liberty=(tmp_path / "a.lib", tmp_path / "b.lib"))
    assert load_study(study).synthesis == wanted


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--process tsmc5", "process must be one of gates, sky130, ihp, asap7, gt2n, not 'tsmc5'"),
        ("--process asap7 --liberty a.lib", "liberty a.lib is not a file"),
        ("--process gates --target-ps 100", "target-ps is for flow cells or ecp5, not gates"),
        ("schemes mxfp4 --process asap7,gt2n", "flow must be one, with one target, for schemes"),
    ],
)
def test_refused_in_one_line(options, error, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert error in refusal(capsys, "compare", *options.split())


def test_arrays_are_not_fitted_in_a_process(capsys):
    assert main(["array", "--fit", "--process", "asap7"]) == 2
    assert "process and fit exclude each other" in capsys.readouterr().err


def test_a_table_of_gates_has_columns_of_the_processes(comparison):
    console = Console(file=io.StringIO(), width=200)
    show(console, comparison)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    head = next(line for line in lines if "NAND2" in line)
    assert "asap7 (um2)  asap7 (ps)  asap7 (MHz)" in head
    row = lines[lines.index(head) + 1].split()
    assert row[row.index("1,000") + 2 :][:3] == ["88", "812", "1,232"]
    assert lines[[line[:6] for line in lines].index("asap7:") + 1].split()[-2:] == ["Fmax", "(MHz)"]


def test_a_table_of_gates_leaves_out_several_targets_and_what_failed(comparison):
    def head(*rows):
        console = Console(file=io.StringIO(), width=200)
        show(console, replace(comparison, rows=rows))
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        return next(line for line in lines if "NAND2" in line)

    one = replace(ASAP7, target="900 ps")
    assert "asap7 (ps)" in head(UNIT, one)
    assert "asap7" not in head(UNIT, one, replace(ASAP7, target="1000 ps"))
    assert "asap7" not in head(UNIT, replace(one, status="target missed"))


def test_the_report_says_what_a_process_is(comparison):
    text = render(comparison)
    assert '"asap7":"7 nm: ASAP7, predictive FinFET' in text
