"""Results after a reset are the same whatever registers held before it."""

import numpy as np
import pytest
from amaranth.hdl import Signal

from mxdot.hw.dot.unit import DotUnit
from mxdot.model import DotConfig, QuantizeConfig
from mxdot.sim.bench import bulk
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.stream_unit import stream_unit_of
from wrong_units import breaks, choose, right_verilog, verilog_of_any

DOT = DotConfig("e4m3", 4, "aligned:13", 4)
UNITS = {
    "dot": DOT,
    "interleaved": DotConfig("e2m1", 4, "exact", 6, interleave=3),
    "quantize": QuantizeConfig("e4m3", 4, beats=2),
}
SEEDS = range(1, 4)
ALONE, MIXED = (0, 0), (60, 100)
"""Gaps and stalls, in 1/256: none, or other ones for each seed."""


@breaks(DotUnit)
def read_before_written(unit, m):
    """The result's lowest bits are those that c had when the result before left."""
    before = Signal(8, reset_less=True)
    with m.If(unit.o.valid & unit.o.ready):
        m.d.sync += before.eq(unit.i.payload.c)
    m.d.comb += unit.o.payload.result[:8].eq(before)


def results(name, directory, builds, streams=ALONE, *, wrong=False):
    """Words of the same items, for each seed of what Verilator's registers begin with."""
    config, verilog = UNITS[name], directory / "unit.v"
    wrongs = (read_before_written,) if config == DOT else ()
    verilog.write_text(verilog_of_any(wrongs, config) if wrongs else right_verilog(config))
    choose(int(wrong), directory)
    builds /= f"initial-{name}"
    job = UnitJob("initial", config, 1, directory, bulk=300, builds=builds, verilog=verilog)
    stream = stream_unit_of(config)
    assert stream is not None
    unit = stream(job)
    build, batches = unit.build(verilog), unit.batches()
    records, results = directory / "records", directory / "results"
    order = np.arange(sum(map(len, batches)))
    unit.write(records, batches, unit.arranged(batches, order))
    words = []
    for seed in SEEDS:
        gap, stall = streams
        bulk.run(build, records, results, gap=gap, stall=stall, seed=seed)
        words.append(bulk.read_results(results, unit.layout().words))
        assert len(words[-1]) >= len(order)  # codes leave in beats
    return words


@pytest.mark.parametrize("name", UNITS)
def test_results_owe_nothing_to_the_initial_state(name, simulation_dir, tmp_path):
    for streams in (ALONE, MIXED):
        first, *others = results(name, tmp_path, simulation_dir, streams)
        assert all((other == first).all() for other in others)


def test_a_register_that_is_read_before_it_is_written_is_caught(simulation_dir, tmp_path):
    first, *others = results("dot", tmp_path, simulation_dir, wrong=True)
    assert any((other[0] != first[0]).any() for other in others)
    assert all((other[1:] == first[1:]).all() for other in others)
