"""The bench of the matrix unit: wrong units and wrong models must make it fail, and say why."""

import pytest
from amaranth.hdl import Mux, Signal, Value

from compare import FULL
from mxdot.hw.matmul.array import DotArray
from mxdot.hw.matmul.control import Control
from mxdot.hw.matmul.counters import Counters
from mxdot.hw.matmul.operand import Operand
from mxdot.hw.matmul.receive import Receiver
from mxdot.hw.matmul.registers import Registers
from mxdot.hw.matmul.send import Sender
from mxdot.hw.matmul.unit import MatmulUnit
from mxdot.hw.pipeline import Row
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from wrong_units import breaks, run_one_of, run_small, run_wrong

CONFIG = MatmulConfig(DotConfig("e4m3", 4, "aligned:13", 2), rows=2, columns=2, depth=4, c_bytes=3)
TURNS = MatmulConfig(DotConfig("e2m1", 4, "aligned:13", 3, interleave=3), 2, 1, 4, initial_c=True)
"""Tiles take turns in groups of two, or of three at the end of a row."""
KEEPS_B = MatmulConfig(DotConfig("e2m1", 4, "aligned:13", 2), 2, 1, 4, keep_b=True)


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
def reads_while_busy_are_zero(registers, m):
    bus = registers.bus
    with m.If(registers.busy & bus.arvalid & bus.arready & (bus.araddr < 0x24)):
        m.d.sync += bus.rdata.eq(0)


@breaks(Registers)
def stalled_responses_change(registers, m):
    with m.If(registers.bus.bvalid & ~registers.bus.bready):
        m.d.sync += registers.bus.bresp.eq(0)


@breaks(Receiver)
def beats_are_discarded(receiver, m):
    with m.If(receiver.s.tvalid & receiver.s.tready & ~receiver.running):
        m.d.comb += receiver.discarded.eq(1)


def groups_of_three(patch):
    patch.setattr(MatmulConfig, "group", 3)


def one_running_value(patch, when):
    take_turns = MatmulUnit._take_turns

    def without_slots(self, m, a, step, *rest):
        take_turns(self, m, a, step, *rest)
        with m.If(when(m)):
            m.d.comb += step.slot.eq(0)

    patch.setattr(MatmulUnit, "_take_turns", without_slots)


def waiting(patch, when, wrong):
    """Whether a register has a block of the same tile is as `wrong(row, index)` says."""
    right, wait, chosen = Row._on_its_way, Row._wait, {}

    def with_choice(self, m, *rest):
        chosen[self] = when(m)
        wait(self, m, *rest)

    def on_its_way(self, index, token):
        return Mux(chosen[self], wrong(self, index), right(self, index, token))

    patch.setattr(Row, "_wait", with_choice)
    patch.setattr(Row, "_on_its_way", on_its_way)


def waits_for_no_tile(patch, when):
    waiting(patch, when, lambda row, index: 0)


def waits_for_every_tile(patch, when):
    waiting(patch, when, lambda row, index: Value.cast(row.registers[index].valid))


def full_buffer_is_not_kept(patch):
    steps_of_b = Operand._steps_of_b

    def of_less_than_all(self, m):
        steps, fits = steps_of_b(self, m)
        return steps, fits & (steps != 2 * self.config.depth)

    patch.setattr(Operand, "_steps_of_b", of_less_than_all)


DEEP = 512 if FULL else 128

WRONG_TURNS = [one_running_value, waits_for_no_tile, waits_for_every_tile]


def test_wrong_groups_are_caught(simulation_dir, tmp_path):
    result = run_wrong(groups_of_three, TURNS, tmp_path, simulation_dir, traffic=20)
    assert any("results differ from the model's" in error for error in result.errors), result.errors


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (one_running_value, "results differ from the model's"),
        (waits_for_no_tile, "results differ from the model's"),
        (waits_for_every_tile, "wanted at most 0"),
    ],
)
def test_wrong_turns_are_caught(wrong, message, simulation_dir, tmp_path):
    result = run_one_of(WRONG_TURNS, wrong, TURNS, tmp_path, simulation_dir, traffic=20)
    assert any(message in error for error in result.errors), result.errors


def test_b_that_is_not_kept_is_caught(simulation_dir, tmp_path):
    result = run_wrong(full_buffer_is_not_kept, KEEPS_B, tmp_path, simulation_dir, traffic=20)
    assert any("STATUS has b_early_last" in error for error in result.errors), result.errors


def test_right_turns_pass(simulation_dir, tmp_path):
    result = run_small(TURNS, tmp_path, simulation_dir / "matmul-turns", traffic=20, bulk=20)
    assert result.errors == []
    assert result.passed
    assert (result.mismatches, result.coverage) == (0, 100.0)


WRONG = [
    *(swapped_results, gaps_are_taken, long_packets_are_taken, formats_are_not_checked),
    *(every_access_is_fine, never_at_an_end, lost_cycles, stalled_beats_change),
    *(stalled_reads_change, reads_while_busy_are_zero, stalled_responses_change),
    beats_are_discarded,
]
"""All in one unit."""


@pytest.mark.parametrize(
    ("wrongs", "messages"),
    [
        (
            [swapped_results, lost_cycles],
            ["results differ from the model's", "CYCLES is", "its parts are"],
        ),
        (
            [gaps_are_taken, long_packets_are_taken, formats_are_not_checked],
            [
                "fault packet a keep: STATUS has [], wanted a_keep alone",
                "fault packet b late_last: STATUS has",
                "fault unknown format: STATUS has []",
            ],
        ),
        ([never_at_an_end], ["busy after"]),
        ([every_access_is_fine], ["a read of 0x", "was accepted"]),
        (
            [stalled_beats_change, stalled_reads_change],
            [
                "a beat of C changed before it was taken",
                "the response to a read changed before it was taken",
            ],
        ),
        ([reads_while_busy_are_zero], ["fault reads while busy: ID is 0x00000000"]),
        (
            [stalled_responses_change, beats_are_discarded],
            [
                "the response to a write changed before it was taken",
                "DISCARDED_B is",
                "the pins show",
            ],
        ),
    ],
)
def test_wrong_units_are_caught(wrongs, messages, simulation_dir, tmp_path):
    """Several at a time where each has a message of its own."""
    result = run_one_of(WRONG, wrongs, CONFIG, tmp_path, simulation_dir, traffic=20)
    for message in messages:
        assert any(message in error for error in result.errors), result.errors


def test_a_wrong_result_is_located(simulation_dir, tmp_path):
    options = {"traffic": 20, "predictor": "wrong_predictors:one_product_off"}
    result = run_small(CONFIG, tmp_path, simulation_dir / "matmul", **options)
    assert not result.passed
    assert result.mismatches > 0
    for text in (
        f"seed 1, unit small: {CONFIG}",
        "C[0, 0]: tile (0, 0), row 0, column 0; 1 results differ",
        "block 0: scale_a 0x",
        "got  0x",
        "want 0x",
        "repeat with: mxdot sim --seed 1",
    ):
        assert text in result.report


def test_right_unit_passes(simulation_dir, tmp_path):
    result = run_small(CONFIG, tmp_path, simulation_dir / "matmul", traffic=30, bulk=50)
    assert result.errors == []
    assert result.passed
    assert (result.mismatches, result.coverage) == (0, 100.0)


def test_right_unit_of_deep_buffers_passes(simulation_dir, tmp_path):
    deep = MatmulConfig(DotConfig("int8", 4, "int32", out="float16"), 1, 1, DEEP)
    result = run_small(deep, tmp_path, simulation_dir / "matmul-deep", traffic=20, bulk=20)
    assert result.errors == []
    assert (result.mismatches, result.coverage) == (0, 100.0)
