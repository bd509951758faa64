"""The bench of the matrix unit: wrong units and wrong models must make it fail, and say why."""

from pathlib import Path

import pytest
from amaranth.hdl import Signal

from mxdot.hw.matmul.array import DotArray
from mxdot.hw.matmul.control import Control
from mxdot.hw.matmul.counters import Counters
from mxdot.hw.matmul.receive import Receiver
from mxdot.hw.matmul.registers import Registers
from mxdot.hw.matmul.send import Sender
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.unit import UnitResult, run_unit
from wrong_units import breaks

CONFIG = MatmulConfig(DotConfig("e4m3", 4, "aligned:13", 2), rows=2, columns=2, depth=4, c_bytes=3)


def run(directory: Path, builds: Path, config: MatmulConfig = CONFIG, **options) -> UnitResult:
    repeat = "mxdot sim --seed 1"
    job = UnitJob("matmul", config, 1, directory, builds=builds, repeat=repeat, **options)
    return run_unit(job)


def run_wrong(wrong, builds: Path, directory: Path, **options) -> UnitResult:
    verilog = directory / "wrong.v"
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        verilog.write_text(generate(CONFIG))
    return run(directory, builds / f"matmul-{wrong.__name__}", verilog=verilog, **options)


@breaks(DotArray)
def swapped_results(array, m):
    result = array.o.payload.result
    swapped = Signal.like(result[0])
    m.d.comb += swapped.eq(result[1])
    m.d.comb += result[2].eq(swapped)


@breaks(Receiver)
def gaps_are_taken(receiver, m):
    m.d.comb += receiver.errors.keep.eq(0)


@breaks(Receiver)
def long_packets_are_taken(receiver, m):
    m.d.comb += receiver.errors.late_last.eq(0)


@breaks(Control)
def formats_are_not_checked(control, m):
    m.d.comb += control.refused.bad_format.eq(0)


@breaks(Registers)
def every_access_is_fine(registers, m):
    m.d.sync += registers.bus.rresp.eq(0)


@breaks(Sender)
def never_at_an_end(sender, m):
    m.d.sync += sender.m.tlast.eq(0)


@breaks(Counters)
def lost_cycles(counters, m):
    m.d.sync += counters.values.WAIT_A.eq(0)


@breaks(Sender)
def stalled_beats_change(sender, m):
    with m.If(sender.m.tvalid & ~sender.m.tready):
        m.d.sync += sender.m.tdata.eq(~sender.m.tdata)


@breaks(Registers)
def stalled_reads_change(registers, m):
    with m.If(registers.bus.rvalid & ~registers.bus.rready):
        m.d.sync += registers.bus.rdata[31].eq(~registers.bus.rdata[31])  # no bit of STATUS


@breaks(Registers)
def stalled_responses_change(registers, m):
    with m.If(registers.bus.bvalid & ~registers.bus.bready):
        m.d.sync += registers.bus.bresp.eq(0)


@breaks(Receiver)
def beats_are_discarded(receiver, m):
    with m.If(receiver.s.tvalid & receiver.s.tready & ~receiver.running):
        m.d.comb += receiver.discarded.eq(1)


@pytest.mark.parametrize(
    ("wrong", "messages"),
    [
        (swapped_results, ["results differ from the model's"]),
        (gaps_are_taken, ["fault packet a keep: STATUS has [], wanted a_keep alone"]),
        (long_packets_are_taken, ["fault packet b late_last: STATUS has"]),
        (formats_are_not_checked, ["fault unknown format: STATUS has []"]),
        (every_access_is_fine, ["a read of 0x", "was accepted"]),
        (never_at_an_end, ["busy after"]),
        (lost_cycles, ["CYCLES is", "its parts are"]),
        (stalled_beats_change, ["a beat of C changed before it was taken"]),
        (stalled_reads_change, ["the response to a read changed before it was taken"]),
        (stalled_responses_change, ["the response to a write changed before it was taken"]),
        (beats_are_discarded, ["DISCARDED_B is", "the pins show"]),
    ],
)
def test_wrong_unit_is_caught(wrong, messages, simulation_dir, tmp_path):
    result = run_wrong(wrong, simulation_dir, tmp_path, traffic=20)
    assert not result.passed
    for message in messages:
        assert any(message in error for error in result.errors), result.errors


def test_a_wrong_result_is_located(simulation_dir, tmp_path):
    options = {"traffic": 20, "predictor": "wrong_predictors:one_product_off"}
    result = run(tmp_path, simulation_dir / "matmul", **options)
    assert not result.passed
    assert result.mismatches > 0
    for text in (
        f"seed 1, unit matmul: {CONFIG}",
        "C[0, 0]: tile (0, 0), row 0, column 0; 1 results differ",
        "block 0: scale_a 0x",
        "got  0x",
        "want 0x",
        "repeat with: mxdot sim --seed 1",
    ):
        assert text in result.report


def test_right_unit_passes(simulation_dir, tmp_path):
    result = run(tmp_path, simulation_dir / "matmul", traffic=100, bulk=200)
    assert result.errors == []
    assert result.passed
    assert (result.mismatches, result.coverage) == (0, 100.0)


def test_right_unit_of_deep_buffers_passes(simulation_dir, tmp_path):
    deep = MatmulConfig(DotConfig("int8", 4, "int32", out="float16"), 1, 1, depth=512)
    result = run(tmp_path, simulation_dir / "matmul-deep", deep, traffic=20, bulk=20)
    assert result.errors == []
    assert (result.mismatches, result.coverage) == (0, 100.0)
