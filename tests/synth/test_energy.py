"""Switching activity by hand, the synthesised netlist against the golden model, the proxy."""

import numpy as np
import pytest

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.model.trace import FLAG_NAMES
from mxdot.sim.dot.item import predict
from mxdot.synth import Flow, SynthesisError, energy, gates, measure_netlist
from mxdot.synth.activity import Activity, pack, unpack
from mxdot.synth.energy import REGRESSION, Feed, Run, batches

UNIT = DotConfig("e2m1", 4, "aligned:6")
INTEGER = DotConfig("int4", 4, "int32", out="int8_full:shift", scales="u2", zero_points="ab")
MICRO = DotConfig("int4", 4, "aligned:6", micro=True)
INTERLEAVED = DotConfig("e2m1", 4, "aligned:6", 9, interleave=3)
TOGGLE = """
module toggle (input clk, input [1:0] a, output reg q, output y);
  always @(posedge clk) q <= a[0] & a[1];
  assign y = a[0] ^ a[1];
endmodule
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for all tests of this file: a unit is synthesised once."""
    return tmp_path_factory.mktemp("cache")


def activity(text: str, top: str, cache, streams: int) -> Activity:
    _, netlist = measure_netlist(text, top, cache_dir=cache)
    return Activity(netlist, gates.library(), streams)


def test_changes_of_a_small_circuit(cache):
    run = activity(TOGGLE, "toggle", cache, 2)
    inputs = [[0, 0], [0b11, 0], [0b11, 0b01], [0b11, 0b01], [0, 0]]  # a[0], a[1] of both streams
    outputs = [run.cycle({"a": words}) for words in inputs]
    assert [out["y"] for out in outputs] == [[0], [0b11], [0b10], [0b10], [0]]
    assert [out["q"] for out in outputs] == [[0], [0], [0], [0b01], [0b01]]
    changes = dict(zip(run.drivers, run.changes, strict=True))
    assert changes == {"DFF": 1, "AND2": 2, "XOR2": 2 + 1 + 1}
    run.clear()
    run.cycle({"a": [0, 0]})
    assert (run.cycles, dict(zip(run.drivers, run.changes, strict=True))["DFF"]) == (1, 1)


def test_pack_is_undone_by_unpack():
    bits = np.random.default_rng(1).random((13, 5)) < 0.5
    words = pack(bits)
    assert len(words) == 5
    assert words[2] == sum(int(bit) << row for row, bit in enumerate(bits[:, 2]))
    np.testing.assert_array_equal(unpack(words, 13), bits)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input a, b, output reg y); always @* if (a) y = b;", "LATCH is none"),
        (
            "input a, b, output reg x, y); always @(posedge a) x <= b; always @(posedge b) y <= a;",
            "activity needs one clock, not a, b",
        ),
        (
            "input a, b, d, output reg y); wire c = a & b; always @(posedge c) y <= d;",
            "is clocked by logic, not by an input of the top",
        ),
    ],
)
def test_circuits_without_one_clock(text, message, cache):
    with pytest.raises(SynthesisError, match=message):
        activity(f"module m ({text} endmodule", "m", cache, 1)


@pytest.mark.parametrize("config", [UNIT, INTEGER, MICRO, INTERLEAVED], ids=str)
def test_netlist_computes_what_the_model_does(cache, config):
    """The gates after synthesis, fed with the regression's traffic, to the last bit and flag."""
    streams, cycles = 64, 60
    run = activity(generate(config), "mxdot_dot", cache, streams)
    products = batches(config, REGRESSION, 3, streams * cycles)
    feed = Feed(config, products, 3, streams)
    unit = Run(config, run, feed)
    unit.reset()
    results: list[list[int]] = [[] for _ in range(streams)]
    flags: list[list[int]] = [[] for _ in range(streams)]
    for _ in range(cycles):
        outputs = unit.cycle()
        valid = unpack(outputs["out_valid"], streams)[:, 0]
        words = unpack(outputs["out_result"], streams) @ (
            1 << np.arange(config.out.bits, dtype=np.int64)
        )
        raised = np.hstack([unpack(outputs[f"out_{name}"], streams) for name in FLAG_NAMES])
        codes = raised @ (1 << np.arange(len(FLAG_NAMES)))
        for stream in np.flatnonzero(valid):
            results[stream].append(int(words[stream]))
            flags[stream].append(int(codes[stream]))
    want = [predict(config, batch) for batch in products]
    want_results = np.concatenate([part.result for part in want])
    want_flags = np.concatenate([part.flags for part in want])
    compared = 0
    for stream, own in enumerate(feed.products):
        count = min(len(own), len(results[stream]))
        assert results[stream][:count] == want_results[own[:count]].tolist()
        assert flags[stream][:count] == want_flags[own[:count]].tolist()
        compared += count
    assert compared > 500


def test_energy_proxy(cache):
    config = UNIT
    options = {"cache_dir": cache, "streams": 32, "cycles": 20}
    found = energy(config, **options)
    assert energy(config, **options) == found  # from the cache, `seconds` and all
    assert found.blocks == found.cycles == 32 * 20
    assert found.per_block == pytest.approx(found.gates + found.registers + found.clock)
    assert found.per_product == found.per_block / 4
    cost, _ = measure_netlist(generate(config), "mxdot_dot", cache_dir=cache)
    assert found.clock == 2 * cost.flipflops
    assert 0.02 < found.activity < 0.5
    assert found.per_block < cost.area + found.clock  # not everything switches in every cycle
    assert found.data == "normal"
    traffic = energy(config, data=REGRESSION, **options)
    assert traffic.data == "regression"
    assert traffic.gates != found.gates


def test_energy_by_capacitance(cache, tmp_path):
    """A change of a net takes 2 fJ per reader at 1 fF per pin and 2 V."""
    liberty = tmp_path / "volts.lib"
    text = gates.liberty_text().replace("/* mxdot", "/* in \xb5m\xb2")
    text = text.replace('time_unit : "1ps"', 'nom_voltage : 2; time_unit : "1ps"')
    liberty.write_bytes(text.encode("latin-1"))  # as some vendors' are
    config = UNIT
    flow = Flow("cells", liberty=liberty, effort="area", timing="abc", sections=False)
    found = energy(config, flow, cache_dir=cache, streams=16, cycles=16)
    cost, _ = measure_netlist(generate(config), "mxdot_dot", flow, cache_dir=cache)
    assert found.unit == "fJ"
    assert found.clock == pytest.approx(2 * cost.flipflops * 2.0)
    assert found.gates > 0


@pytest.mark.parametrize("config", [INTEGER, MICRO], ids=str)
def test_energy_of_units_with_side_inputs(cache, config):
    found = energy(config, cache_dir=cache, streams=32, cycles=20)
    assert found.blocks > 0
    assert 0.02 < found.activity < 0.5


def test_energy_needs_cells(cache):
    with pytest.raises(ValueError, match="is for the flows gates and cells, not xilinx"):
        energy(UNIT, Flow("xilinx"), cache_dir=cache)
    with pytest.raises(ValueError, match="streams must be from 1 to 65536, not 0"):
        energy(UNIT, cache_dir=cache, streams=0)
