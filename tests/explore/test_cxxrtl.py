"""The second simulator, CXXRTL: right units pass in it, wrong ones do not."""

import pytest
from amaranth.hdl import Signal

from mxdot.cli import main
from mxdot.explore.cxxrtl.build import build, pins
from mxdot.hw.arithmetic.shift import ShiftRight
from mxdot.hw.dot.unit import DotUnit
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.sim.bench.layout import Field, Layout
from mxdot.sim.engine import regression
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.toolchain import BuildError
from mxdot.sim.engine.unit import run_unit
from wrong_units import breaks

SMALL = DotConfig("e2m1", 4, "exact", 2)


def simulated(config, folder, **options):
    simulator = "mxdot.explore.cxxrtl.build:build"
    return run_unit(UnitJob("unit", config, 1, folder, bulk=2000, simulator=simulator, **options))


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        DotConfig("e2m1,e3m2", 4, "fused:3", 4, interleave=3),
        DotConfig("int3", 4, "int32", 2, out="int8_full:multiply:8", zero_points="ab"),
        QuantizeConfig("e2m1,e3m2", 4, scale_rule="floor,ceil", rounding="stochastic", beats=2),
        QuantizeConfig("e2m1", 4, scales="e4m3"),
        QuantizeConfig("sm5,sm3", 4, micro=True),
        DotQuantizeConfig(SMALL, "e2m1", 4),
    ],
    ids=str,
)
def test_a_unit_passes(config, tmp_path):
    """Under gaps and stalls, with every input and output that units have."""
    result = simulated(config, tmp_path)
    assert result.passed, (result.errors, result.report)
    assert result.compared >= (500 if config.kind == "dot-quantize" else 1800)


@breaks(ShiftRight)
def lost_sticky_bit(shift, m):
    m.d.comb += shift.sticky.eq(0)


@breaks(DotUnit)
def unstable_result(unit, m):
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    with m.If(count == 0):
        m.d.comb += unit.o.payload.result[0].eq(1)


@breaks(DotUnit)
def lost_when_stalled(unit, m):
    m.d.comb += unit.i.ready.eq(1)


@breaks(DotUnit)
def never_ready(unit, m):
    m.d.comb += unit.i.ready.eq(0)


@breaks(DotUnit)
def never_valid(unit, m):
    m.d.comb += unit.o.valid.eq(0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lost_sticky_bit, "results differ from the model's"),
        (unstable_result, "results differ from the model's"),
        (lost_when_stalled, "deadlock: no transfer for 10000 cycles after "),
        (never_ready, "more results than dot products after 0 blocks, 1 results"),
        (never_valid, "deadlock: no transfer for 10000 cycles after "),
    ],
)
def test_a_wrong_unit_is_caught(wrong, message, tmp_path):
    config = DotConfig("e4m3", 4, "fused:13", 2)
    verilog = tmp_path / "wrong.v"
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        verilog.write_text(generate(config))
    result = simulated(config, tmp_path, verilog=verilog)
    assert any(message in error for error in result.errors), result.errors


def test_verilog_that_yosys_refuses(tmp_path):
    verilog = tmp_path / "odd.v"
    verilog.write_text("module mxdot_dot (input wire clk; endmodule\n")
    with pytest.raises(BuildError, match="Yosys on "):
        build("mxdot_dot", verilog, tmp_path / "build", Layout(1, (), 1, ()))


def test_a_port_of_another_width_is_refused():
    design = "struct p_unit : public module {\n\t/*input*/ value<8> p_in__a;\n};"
    assert "put(design.p_in__a, record, 3);" in pins(
        "unit", design, Layout(1, (Field("in_a", 3, 8), Field("in_none", 0, 1)), 1, ())
    )
    with pytest.raises(ValueError, match="in_a must have 9 bits, not 8"):
        pins("unit", design, Layout(1, (Field("in_a", 0, 9),), 1, ()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--simulator", "icarus"], "simulator must be one of verilator, cxxrtl, not 'icarus'"),
        (["--simulator", "cxxrtl", "--waves"], "simulator must be verilator with --waves"),
        (["dot", "--simulator", "cxxrtl", "--traffic", "9"], "verilator with --traffic"),
        (["--simulator", "cxxrtl", "--netlist", "gates"], "verilator with --netlist"),
        (["matmul", "--simulator", "cxxrtl"], "simulator must be verilator for matrix units"),
    ],
)
def test_what_it_does_not_do_is_refused(words, message, capsys):
    assert main(["sim", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_command_line_runs_its_own_matrix(tmp_path, monkeypatch, capsys):
    """Bulk mode alone, beside the files of Verilator."""
    monkeypatch.chdir(tmp_path)
    jobs = []
    monkeypatch.setattr(regression, "run_jobs", lambda made, *_: jobs.extend(made) or [])
    with pytest.raises(KeyError):  # no results
        main(["sim", "--simulator", "cxxrtl", "--seed", "1"])
    assert {job.simulator for job in jobs} == {"mxdot.explore.cxxrtl.build:build"}
    assert {job.traffic for job in jobs} == {0}
    assert all(job.directory.parent.name == "sim-cxxrtl" for job in jobs)
    assert all("--simulator cxxrtl --seed 1" in job.repeat for job in jobs)
    assert {type(job.config).kind for job in jobs} == {"dot", "quantize", "dot-quantize"}
    assert main(["sim", "--simulator", "cxxrtl", "--list", "--full"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(jobs) + 50
