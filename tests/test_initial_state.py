"""Results after a reset are the same whatever registers held before it."""

import numpy as np
import pytest
from amaranth.hdl import Signal

from mxdot.hw.dot.unit import DotUnit
from mxdot.model import DotConfig, QuantizeConfig
from mxdot.sim.bench import bulk
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.unit import verilog_of
from mxdot.sim.kinds import kind_of
from wrong_units import breaks, wrong_verilog

DOT = DotConfig("e4m3", 4, "aligned:13", 4)
UNITS = {
    "dot": DOT,
    "interleaved": DotConfig("e2m1", 4, "exact", 6, interleave=3),
    "quantize": QuantizeConfig("e4m3", 4, beats=2),
}
SEEDS = range(1, 4)
ALONE, MIXED = (0, 0), (60, 100)
"""Gaps and stalls, in 1/256: none, or other ones for each seed."""


def results(config, directory, builds, streams=ALONE, verilog=None):
    """Words of the same items, for each seed of what Verilator's registers begin with."""
    job = UnitJob("initial", config, 1, directory, bulk=300, builds=builds, verilog=verilog)
    stream = kind_of(config).stream
    assert stream is not None
    unit = stream(job)
    build, batches = unit.build(verilog_of(job)), unit.batches()
    records, found = directory / "records", directory / "results"
    order = np.arange(sum(map(len, batches)))
    unit.write(records, batches, unit.arranged(batches, order))
    words = []
    for seed in SEEDS:
        gap, stall = streams
        bulk.run(build, records, found, gap=gap, stall=stall, seed=seed)
        words.append(bulk.read_results(found, unit.layout().words))
        assert len(words[-1]) >= len(order)  # codes leave in beats
    return words


@pytest.mark.parametrize("config", UNITS.values(), ids=UNITS)
def test_results_owe_nothing_to_the_initial_state(config, simulation_dir, tmp_path):
    builds = simulation_dir / f"initial-{config.kind}-{config.name}"
    for streams in (ALONE, MIXED):
        first, *others = results(config, tmp_path, builds, streams)
        assert all((other == first).all() for other in others)


@breaks(DotUnit)
def read_before_written(unit, m):
    """The result's lowest bits are those that c had when the result before left."""
    before = Signal(8, reset_less=True)
    with m.If(unit.o.valid & unit.o.ready):
        m.d.sync += before.eq(unit.i.payload.c)
    m.d.comb += unit.o.payload.result[:8].eq(before)


def test_a_register_that_is_read_before_it_is_written_is_caught(simulation_dir, tmp_path):
    verilog = wrong_verilog(read_before_written, DOT, tmp_path)
    builds = simulation_dir / "initial-wrong"
    first, *others = results(DOT, tmp_path, builds, verilog=verilog)
    assert any((other[0] != first[0]).any() for other in others)
    assert all((other[1:] == first[1:]).all() for other in others)
