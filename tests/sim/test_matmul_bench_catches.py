"""The bench of the matrix unit: wrong units and wrong models must make it fail, and say why."""

import os
from pathlib import Path

import pytest
from amaranth.hdl import Mux, Value

from compare import FULL
from mxdot.hw.matmul.array import DotArray
from mxdot.hw.matmul.control import Control, GroupLoop
from mxdot.hw.matmul.operand import Initial, Operand
from mxdot.hw.matmul.registers import Counters, Registers
from mxdot.hw.matmul.results import Sender
from mxdot.hw.matmul.unit import MatmulUnit
from mxdot.hw.pipeline import SectionChain
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.bench.bulk import simulate
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.unit import UnitResult
from mxdot.sim.matmul import unit as matmul_unit
from mxdot.sim.matmul.unit import BulkRun
from wrong_units import breaks, run_none_of, run_one_of, run_small

UNIT = MatmulConfig(
    DotConfig("e2m1", 4, "aligned:13", 3, interleave=3),
    rows=2,
    columns=1,
    depth=4,
    c_bytes=3,
    initial_c=True,
    keep_b=True,
)
"""With all that a matrix unit can have; tiles take turns in groups of two, or of three at the end
of a row."""
DEEP = MatmulConfig(DotConfig("int8", 4, "int32", out="float16"), 1, 1, 512 if FULL else 32)
"""With nothing of that."""
SQUARE = MatmulConfig(DotConfig("e2m1", 4, "aligned:13", 2), 2, 2, 4)


@breaks(DotArray)
def one_result_for_all(array, m):
    first, second = array.o.payload.result
    m.d.comb += second.eq(first)


@breaks(DotArray)
def result_of_the_other_column(array, m):
    m.d.comb += array.o.payload.result[2].eq(array.o.payload.result[1])


@breaks(Operand)
def gaps_are_taken(operand, m):
    if operand.side == "a":
        m.d.comb += operand.errors.keep.eq(0)


@breaks(Operand)
def long_packets_are_taken(operand, m):
    if operand.side == "b":
        m.d.comb += operand.errors.late_last.eq(0)


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
    m.d.sync += counters.values.WAIT_D.eq(0)


@breaks(Operand)
def no_step_is_the_last(operand, m):
    m.d.sync += operand.marks.ends.eq(0)


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
    with m.If(registers.busy & bus.arvalid & bus.arready & (bus.araddr == 0)):
        m.d.sync += bus.rdata.eq(0)


@breaks(Registers)
def stalled_responses_change(registers, m):
    with m.If(registers.bus.bvalid & ~registers.bus.bready):
        m.d.sync += registers.bus.bresp.eq(0)


@breaks(Initial)
def beats_are_discarded(source, m):
    with m.If(source.s.tvalid & source.s.tready & ~source.job.running):
        m.d.comb += source.discarded.eq(1)


@breaks(GroupLoop)
def groups_of_three(loop, m):
    with m.If(~loop.row_last):
        m.d.comb += loop.size.eq(3)


def one_running_value(patch, when):
    take_turns = MatmulUnit._take_turns

    def without_slots(self, m, a, step, *rest):
        take_turns(self, m, a, step, *rest)
        with m.If(when(m)):
            m.d.comb += step.slot.eq(0)

    patch.setattr(MatmulUnit, "_take_turns", without_slots)


def waiting(patch, when, wrong):
    """Whether a register has a block of the same tile is as `wrong(row, index)` says."""
    right, wait, chosen = SectionChain._on_its_way, SectionChain._wait, {}

    def with_choice(self, m, *rest):
        chosen[self] = when(m)
        wait(self, m, *rest)

    def on_its_way(self, index, token):
        return Mux(chosen[self], wrong(self, index), right(self, index, token))

    patch.setattr(SectionChain, "_wait", with_choice)
    patch.setattr(SectionChain, "_on_its_way", on_its_way)


def waits_for_no_tile(patch, when):
    waiting(patch, when, lambda row, index: 0)


def waits_for_every_tile(patch, when):
    waiting(patch, when, lambda row, index: Value.cast(row.registers[index].valid))


def full_buffer_is_not_kept(patch, when):
    steps_of_b = Operand._steps_of_b

    def of_less_than_all(self, m):
        steps, fits = steps_of_b(self, m)
        return steps, fits & ~(when(m) & (steps == 2 * self.config.depth))

    patch.setattr(Operand, "_steps_of_b", of_less_than_all)


WRONG = [
    *(one_result_for_all, gaps_are_taken, long_packets_are_taken, formats_are_not_checked),
    *(every_access_is_fine, never_at_an_end, lost_cycles, stalled_beats_change),
    *(stalled_reads_change, reads_while_busy_are_zero, stalled_responses_change),
    *(beats_are_discarded, groups_of_three, one_running_value, waits_for_no_tile),
    *(waits_for_every_tile, full_buffer_is_not_kept, no_step_is_the_last),
]
"""All in one unit."""


def test_right_unit_passes(simulation_dir, tmp_path):
    result = run_none_of(WRONG, UNIT, tmp_path, simulation_dir, traffic=30, bulk=50)
    assert result.errors == []
    assert result.passed
    assert (result.mismatches, result.coverage) == (0, 100.0)


@pytest.mark.parametrize(
    ("wrongs", "messages"),
    [
        (
            [
                *(gaps_are_taken, long_packets_are_taken, formats_are_not_checked),
                *(reads_while_busy_are_zero, every_access_is_fine),
            ],
            [
                "fault packet a keep: STATUS has [], wanted a_keep alone",
                "fault packet b late_last: STATUS has",
                "fault unknown format: STATUS has []",
                "fault reads while busy: ID is 0x00000000",
                "a read of 0x44 was accepted",
            ],
        ),
        (
            [beats_are_discarded, stalled_responses_change],
            [
                "DISCARDED_D is",
                "the pins show",
                "the response to a write changed before it was taken",
            ],
        ),
        (
            [lost_cycles, waits_for_every_tile, full_buffer_is_not_kept],
            ["CYCLES is", "its parts are", "wanted at most 0", "STATUS has b_early_last"],
        ),
        (
            [waits_for_no_tile, stalled_reads_change, no_step_is_the_last],
            [
                "results differ from the model's",
                "TAIL is 0, wanted from 3 to",
                "block 0: scale_a 0x",
                "the response to a read changed before it was taken",
            ],
        ),
        ([never_at_an_end], ["busy after"]),
        ([stalled_beats_change], ["a beat of C changed before it was taken"]),
    ],
)
def test_wrong_units_are_caught(wrongs, messages, simulation_dir, tmp_path):
    """Several at a time where each has a message of its own."""
    result = run_one_of(WRONG, wrongs, UNIT, tmp_path, simulation_dir, traffic=20)
    lines = [*result.errors, *result.report.splitlines()]
    for message in messages:
        assert any(message in line for line in lines), lines


@pytest.mark.parametrize(
    ("wrong", "results"), [(one_result_for_all, 20), (groups_of_three, 80), (one_running_value, 20)]
)
def test_wrong_results_are_caught_in_bulk(wrong, results, simulation_dir, tmp_path):
    options = {"traffic": 0, "bulk": results}
    result = run_one_of(WRONG, wrong, UNIT, tmp_path, simulation_dir, **options)
    assert result.mismatches > 0
    assert "results differ from the model's" in result.errors[0]


def test_a_result_in_another_place_is_caught(simulation_dir, tmp_path):
    wrong = result_of_the_other_column
    options = {"traffic": 0, "bulk": 20}
    result = run_one_of([wrong], wrong, SQUARE, tmp_path, simulation_dir, **options)
    assert "results differ from the model's" in result.errors[0]


def test_a_packet_of_another_length_names_its_product(simulation_dir, tmp_path, monkeypatch):
    def cut(build, path, *arguments, **options):
        counts = simulate(build, path, *arguments, **options)
        os.truncate(path.with_name(f"{path.name}.c"), 0)
        return counts

    monkeypatch.setattr(matmul_unit, "simulate", cut)
    result = run_none_of(WRONG, UNIT, tmp_path, simulation_dir, traffic=0, bulk=20)
    (error,) = result.errors
    product = "bulk, product 0 (wide), (M, N, K) = (2, 2, 192)"
    assert error.startswith(f"{product}: {tmp_path}/bulk0.c: 0 bytes of C, wanted "), error


@pytest.mark.parametrize(("bulk", "recorded"), [(20, True), (5001, False)])
def test_waves_of_each_product_are_recorded(bulk, recorded, tmp_path, monkeypatch):
    def run_bulk(*_, waves, **options):
        files.append(waves)
        if waves is not None:
            waves.touch()
        return BulkRun(bytes(SQUARE.bytes_of("c", product.tiles(SQUARE))), {}, 0, 1.0)

    files: list[Path | None] = []
    job = UnitJob("unit", SQUARE, 1, tmp_path, traffic=0, bulk=bulk, waves=True)
    product = matmul_unit.bulk_products(job)[0]
    monkeypatch.setattr(matmul_unit, "run_bulk", run_bulk)
    monkeypatch.setattr(matmul_unit, "bulk_products", lambda _: [product] * 2)
    monkeypatch.setattr(matmul_unit, "build_matmul", lambda *_, **__: None)
    result = UnitResult("unit", "")
    matmul_unit.run(job, lambda _: None, result)
    paths = [tmp_path / "bulk0.fst", tmp_path / "bulk1.fst"]
    assert files == (paths if recorded else [None, None])
    assert result.mismatches > 0
    assert (f"waves: {paths[0]}" in result.report.splitlines()) == recorded


def test_a_wrong_result_is_located(simulation_dir, tmp_path):
    options = {"traffic": 0, "bulk": 20, "predictor": "wrong_predictors:one_product_off"}
    result = run_none_of(WRONG, UNIT, tmp_path, simulation_dir, **options)
    assert not result.passed
    assert result.mismatches > 0
    for text in (
        f"seed 1, unit small: {UNIT}",
        "C[0, 0]: tile (0, 0), row 0, column 0; 1 results differ",
        "block 0: scale_a 0x",
        "got  0x",
        "want 0x",
        "repeat with: mxdot sim --seed 1",
    ):
        assert text in result.report


def test_right_unit_of_deep_buffers_passes(simulation_dir, tmp_path):
    result = run_small(DEEP, tmp_path, simulation_dir / "matmul-deep", traffic=20, bulk=20)
    assert result.errors == []
    assert (result.mismatches, result.coverage) == (0, 100.0)
