"""The other simulators: right units pass in them, wrong ones do not."""

import re

import numpy as np
import pytest

from failing_disk import fails_from
from mxdot.cli import main
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.formats import E2M1
from mxdot.sim.bench.bulk import Field, Layout, read_results, run
from mxdot.sim.dot.unit import layout, write_records
from mxdot.sim.engine import regression
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import run_unit
from mxdot.sim.engine.toolchain import BuildError
from mxdot.sim.engine.verilator import SimulationError
from mxdot.util.yosys import Netlist
from mxdot.verify.simulators import bitsliced, cxxrtl
from mxdot.verify.simulators.program import Program
from wrong_units import (
    dropped_sticky_bit,
    hangs_after_nan,
    lost_under_backpressure,
    never_ready,
    never_valid,
    unstable_result,
    wrong_verilog,
)

SMALL = DotConfig("e2m1", 4, "exact", 2)


def simulated(simulator, config, folder, **options):
    build = f"mxdot.verify.simulators.{simulator}:build"
    return run_unit(UnitJob("unit", config, 1, folder, bulk=2000, simulator=build, **options))


STATELESS = [
    SMALL,
    DotConfig("int3", 4, "int32", 2, out="int8_full:multiply:8", zero_points="ab"),
    QuantizeConfig("e2m1", 4, scales="e4m3"),
    QuantizeConfig("sm5,sm3", 4, micro=True),
    QuantizeConfig("e2m1,int4_symmetric", 4, "bfloat16", select=4),
]
STATEFUL = [
    DotConfig("e2m1,e3m2", 4, "fused:3", 4, interleave=3),
    QuantizeConfig("e2m1,e3m2", 4, scale_rule="floor,ceil", rounding="stochastic", beats=2),
    QuantizeConfig("e2m1", 4, rounding="stochastic", random="lfsr"),
    DotQuantizeConfig(SMALL, "e2m1", 4),
]


@pytest.mark.slow_except(7)
@pytest.mark.parametrize(
    ("simulator", "config"),
    [
        *(("cxxrtl", config) for config in STATELESS + STATEFUL),
        *(("bitsliced", config) for config in [*STATELESS, DotConfig("e2m1", 4, "fixed:20:-4")]),
    ],
    ids=str,
)
def test_a_unit_passes(simulator, config, tmp_path):
    """Under gaps and stalls, with every input and output that units have."""
    result = simulated(simulator, config, tmp_path)
    assert result.passed, (result.errors, result.report)
    assert result.compared >= (500 if config.kind == "dot-quantize" else 1800)
    assert (result.unit_share is not None) == (simulator == "bitsliced")


@pytest.mark.parametrize("config", STATEFUL, ids=str)
def test_a_unit_whose_items_share_state_is_not_dealt_to_many_runs(config, tmp_path):
    with pytest.raises(ValueError, match="cannot be bit-sliced: its items share state"):
        simulated("bitsliced", config, tmp_path)


@pytest.mark.slow
def test_processors_without_tables_of_three_inputs(tmp_path, monkeypatch):
    """Operations replace the instruction of AVX-512 on machines without it."""
    monkeypatch.setattr(bitsliced, "_FLAGS", (*bitsliced._FLAGS, "-mno-avx512f"))
    assert simulated("bitsliced", DotConfig("e3m2", 4, "aligned:4"), tmp_path).passed


@pytest.mark.parametrize("count", [1, 3, 600])
def test_few_items_are_dealt_to_fewer_runs(count, tmp_path):
    """Each result comes once, in its place, whatever share of the records a run has."""
    verilog = tmp_path / "unit.v"
    verilog.write_text(generate(SMALL))
    made = layout(SMALL)
    program = bitsliced.build("mxdot_dot", verilog, tmp_path / "build", made)
    rng = np.random.default_rng(count)
    a, b = rng.integers(0, 16, (2, count, 4), dtype=np.uint8)
    length = rng.integers(1, 4, count)
    last = np.isin(np.arange(count), np.cumsum(length) - 1)
    last[-1] = True
    first = np.append(True, last[:-1])
    records, results = tmp_path / "records", tmp_path / "results"
    write_records(records, a, b, 127, 127, 0, first, last, a_bits=4, b_bits=4)
    report = run(program, records, results, gap=100, stall=150)
    assert (report.blocks, report.results) == (count, last.sum())
    values = E2M1.decode(a) * E2M1.decode(b)
    sums = np.add.reduceat(values.sum(axis=1), np.flatnonzero(first))
    assert (read_results(results)[:, 0].view(np.float32) == sums.astype(np.float32)).all()


@pytest.mark.slow
def test_records_that_cannot_be_read_are_an_error(tmp_path, monkeypatch):
    """A folder can be opened, and no byte of it can be read; a file, up to the fifth block."""
    verilog = tmp_path / "unit.v"
    verilog.write_text(generate(SMALL))
    program = cxxrtl.build("mxdot_dot", verilog, tmp_path / "build", layout(SMALL))
    with pytest.raises(SimulationError, match=f"{tmp_path} cannot be read after 0 blocks"):
        run(program, tmp_path, tmp_path / "results")
    records, codes = tmp_path / "records", np.zeros((5, 4), np.uint8)
    write_records(records, codes, codes, 127, 127, 0, True, True, a_bits=4, b_bits=4)
    fails_from(monkeypatch, records.stat().st_size - 2, records, tmp_path)
    with pytest.raises(SimulationError, match=f"{records} cannot be read after 4 blocks"):
        run(program, records, tmp_path / "results")


@pytest.mark.slow_except(7)
@pytest.mark.parametrize("simulator", ["cxxrtl", "bitsliced"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dropped_sticky_bit, "results differ from the model's"),
        (unstable_result, "results differ from the model's"),
        (lost_under_backpressure, "deadlock: no transfer for 10000 cycles after "),
        # Its first block, which nobody takes, enters the unit in every cycle: results come where it
        # is a product's last.
        (
            never_ready,
            "(more results than dot products|no transfer for 10000 cycles) after 0 blocks",
        ),
        (never_valid, "deadlock: no transfer for 10000 cycles after "),
    ],
)
def test_a_wrong_unit_is_caught(wrong, message, simulator, tmp_path):
    config = DotConfig("e4m3", 4, "fused:13", 2)
    verilog = wrong_verilog(wrong, config, tmp_path)
    result = simulated(simulator, config, tmp_path, verilog=verilog)
    assert any(re.search(message, error) for error in result.errors), result.errors


def test_a_run_that_hangs_is_noticed_while_others_go_on(tmp_path):
    """One of 512, in its first block; the others have 1,000 each."""
    verilog, blocks = wrong_verilog(hangs_after_nan, SMALL, tmp_path), 512_000
    program = bitsliced.build("mxdot_dot", verilog, tmp_path / "build", layout(SMALL))
    codes, scales = np.zeros((blocks, 4), np.uint8), np.full(blocks, 127, np.uint8)
    scales[0] = 0xFF
    records = tmp_path / "records"
    write_records(records, codes, codes, scales, 127, 0, True, True, a_bits=4, b_bits=4)
    with pytest.raises(SimulationError, match="deadlock: no transfer for 50 cycles") as caught:
        run(program, records, tmp_path / "results", timeout=50)
    cycles = re.search(r"(\d+) cycles$", str(caught.value))
    assert cycles is not None
    assert 50 <= int(cycles[1]) <= 100


@pytest.mark.slow
def test_a_program_cut_short_is_built_again_beside_its_run(tmp_path):
    """A run keeps the program that it has a name of its own for."""
    verilog, own = tmp_path / "unit.v", tmp_path / "run" / "sim"
    verilog.write_text(generate(SMALL))
    arguments = ("mxdot_dot", verilog, tmp_path / "build", layout(SMALL))
    program = cxxrtl.build(*arguments)
    content = program.executable.read_bytes()
    program.executable.write_bytes(content[: len(content) // 2])
    assert cxxrtl.build(*arguments, executable=own).executable == own
    assert own.read_bytes() == program.executable.read_bytes() == content
    program.executable.unlink()
    records, codes = tmp_path / "records", np.zeros((5, 4), np.uint8)
    write_records(records, codes, codes, 127, 127, 0, True, True, a_bits=4, b_bits=4)
    assert run(Program(own), records, tmp_path / "results").results == 5


@pytest.mark.parametrize("build", [cxxrtl.build, bitsliced.build])
def test_verilog_that_yosys_refuses(build, tmp_path):
    verilog = tmp_path / "odd.v"
    verilog.write_text("module mxdot_dot (input wire clk; endmodule\n")
    with pytest.raises(BuildError, match="Yosys on "):
        build("mxdot_dot", verilog, tmp_path / "build", Layout(1, (), 1, (), restarts=True))


def test_a_port_of_another_width_is_refused():
    design = "struct p_unit : public module {\n\t/*input*/ value<8> p_in__a;\n};"
    assert "put(design.p_in__a, record, 3);" in cxxrtl.pins(
        "unit", design, Layout(1, (Field("in_a", 3, 8), Field("in_none", 0, 1)), 1, ())
    )
    with pytest.raises(ValueError, match="in_a must have 9 bits, not 8"):
        cxxrtl.pins("unit", design, Layout(1, (Field("in_a", 0, 9),), 1, ()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--simulator", "icarus"], "must be one of verilator, cxxrtl, bitsliced, not 'icarus'"),
        (["--simulator", "cxxrtl", "--waves"], "simulator must be verilator with --waves"),
        (["dot", "--simulator", "cxxrtl", "--traffic", "9"], "verilator with --traffic"),
        (["--simulator", "cxxrtl", "--netlist", "gates"], "verilator with --netlist"),
        (["dot", "--simulator", "bitsliced", "--interleave", "3"], "verilator or cxxrtl for"),
        (
            ["soak", "--simulator", "icarus"],
            "simulator must be one of verilator, cxxrtl, bitsliced",
        ),
        (["matmul", "--simulator", "cxxrtl"], "simulator must be verilator for matrix units"),
    ],
)
def test_what_it_does_not_do_is_refused(words, message, capsys):
    assert main(["sim", *words]) == 2
    assert message in capsys.readouterr().err


TWO = """
module two (input wire clk, input wire other, input wire in_valid, input wire in_a,
            output wire in_ready, output reg out_valid, output wire out_x);
  assign in_ready = 1'b1;
  %s
endmodule
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("always @(posedge other) out_valid <= in_valid; assign out_x = in_a;", "by the input clk"),
        ("always @(negedge clk) out_valid <= in_valid; assign out_x = in_a;", "by the input clk"),
        ("always @(posedge clk) out_valid <= in_valid; assign out_x = ~(out_x & in_a);", "loop"),
    ],
)
def test_circuits_that_cannot_be_sliced(body, message, tmp_path):
    verilog = tmp_path / "two.v"
    verilog.write_text(TWO % body)
    fields = (Field("in_a", 0, 1),), 1, (Field("out_x", 0, 1),)
    with pytest.raises(BuildError, match=message):
        bitsliced.build("two", verilog, tmp_path / "build", Layout(1, *fields, restarts=True))


def test_a_port_of_another_width_is_no_pin(tmp_path):
    netlist = Netlist("unit", {"in_a": ("input", [2, 3])}, [])
    with pytest.raises(ValueError, match="in_a must have 2 bits, not 3"):
        list(bitsliced.source(netlist, Layout(1, (Field("in_a", 0, 3),), 1, ())))


def test_the_command_line_runs_its_own_matrix(tmp_path, monkeypatch, capsys):
    """Bulk mode alone, beside the files of Verilator."""
    monkeypatch.chdir(tmp_path)
    jobs = []

    def keep(tasks, *_):
        jobs.extend(task.job for task in tasks)
        yield from ()

    monkeypatch.setattr(regression, "results", keep)
    with pytest.raises(KeyError):  # no results
        main(["sim", "--simulator", "cxxrtl", "--seed", "1"])
    assert {job.simulator for job in jobs} == {"mxdot.verify.simulators.cxxrtl:build"}
    assert {job.traffic for job in jobs} == {0}
    assert all(job.directory.parents[2].name == "sim-cxxrtl" for job in jobs)
    assert all("--simulator cxxrtl --seed 1" in job.repeat for job in jobs)
    assert {type(job.config).kind for job in jobs} == {"dot", "quantize", "dot-quantize"}
    assert main(["sim", "--simulator", "cxxrtl", "--list", "--full"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(jobs) + 50
