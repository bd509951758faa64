"""Switching activity by hand, the synthesised netlist against the golden model, energies."""

import json
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mxdot.cli import main
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.model.trace import FLAG_NAMES
from mxdot.sim.dot.item import predict
from mxdot.synth import Flow, SynthesisError, energy, gates, glitches, measure_netlist
from mxdot.synth.activity import Activity, pack, unpack
from mxdot.synth.component import component
from mxdot.synth.energy import kept_netlist, stimulus
from mxdot.synth.feed import REGRESSION, Feed, Run, batches
from mxdot.synth.flow import library_of
from mxdot.synth.glitches import TimedNetlist, simulate
from mxdot.synth.section_energy import by_section, flattened, section_of
from mxdot.synth.static_timing import time_netlist
from mxdot.util.yosys import Bit, Cell, Netlist

Cost3 = namedtuple("Cost3", "energy latency throughput")
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


@pytest.mark.slow_except(7)
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


def test_energy_of_gates(cache):
    config = UNIT
    options = {"cache_dir": cache, "streams": 32, "cycles": 20}
    found = energy(config, **options)
    assert energy(config, **options) == found  # from the cache, `seconds` and all
    assert found.blocks == found.cycles == 32 * 20
    assert set(found.parts) == {"gates", "registers", "clock"}
    assert found.per_product == pytest.approx(sum(found.parts.values()))
    assert found.per_product == found.per_block / 4
    cost, _ = measure_netlist(generate(config), "mxdot_dot", cache_dir=cache)
    assert found.parts["clock"] == 2 * cost.flipflops / 4
    assert (found.unit, found.clock_ps, found.milliwatts) == ("NAND2", None, None)
    assert 0.02 < found.activity < 0.5
    assert (
        found.per_block < cost.area + 2 * cost.flipflops
    )  # not everything switches in every cycle
    assert found.data == "normal"
    traffic = energy(config, data=REGRESSION, **options)
    assert traffic.data == "regression"
    assert traffic.parts["gates"] != found.parts["gates"]


FLOW = Flow("cells", process="ihp", effort="area", sections=False)
WORK: dict[str, Any] = {"streams": 8, "cycles": 16}
PARTS = ("switching", "internal", "clock", "leakage")


def test_energy_in_a_process(cache):
    found = energy(UNIT, FLOW, cache_dir=cache, **WORK)
    assert energy(UNIT, FLOW, cache_dir=cache, **WORK) == found  # from the cache
    assert (found.unit, found.has_internal, tuple(found.parts)) == ("fJ", True, PARTS)
    assert all(value > 0 for value in found.parts.values())
    assert found.per_product == pytest.approx(sum(found.parts.values()))
    cost, _ = measure_netlist(generate(UNIT), "mxdot_dot", FLOW, cache_dir=cache)
    period = cost.delay_ps
    assert period is not None
    assert found.glitches is not None
    assert found.milliwatts is not None
    assert (found.clock_ps, found.registers) == (period, cost.flipflops)
    assert found.milliwatts == pytest.approx(found.per_block / period)  # a block a cycle
    assert 0 < found.glitches < found.per_product
    assert 0 < found.error < found.per_product / 10
    idle = found.idle
    assert list(idle) == ["stalled", "waiting", "waiting, operands change", "zeros"]
    floor = (found.parts["clock"] + found.parts["leakage"]) * 4 / period
    assert idle["waiting"] == pytest.approx(floor, rel=0.2)
    assert idle["waiting"] < idle["waiting, operands change"] < found.milliwatts
    assert idle["stalled"] < idle["zeros"] < found.milliwatts


def test_gates_keep_a_waiting_unit_still(cache):
    plain = energy(UNIT, FLOW, cache_dir=cache, **WORK)
    gated = energy(replace(UNIT, gate_idle=True), FLOW, cache_dir=cache, **WORK)
    by_changes = [
        found.idle["waiting, operands change"] - found.idle["waiting"] for found in (plain, gated)
    ]
    assert 0 < by_changes[1] < by_changes[0] / 2
    assert plain.milliwatts is not None
    assert gated.milliwatts == pytest.approx(plain.milliwatts, rel=0.2)


@pytest.mark.slow
def test_a_slower_clock_leaks_longer_and_takes_less_power(cache):
    fast = energy(UNIT, FLOW, cache_dir=cache, **WORK)
    assert fast.clock_ps is not None
    assert fast.milliwatts is not None
    slow = energy(UNIT, FLOW, cache_dir=cache, clock_ps=2 * fast.clock_ps, **WORK)
    assert slow.parts["leakage"] == pytest.approx(2 * fast.parts["leakage"], rel=0.02)
    assert slow.parts["switching"] == pytest.approx(fast.parts["switching"])
    assert slow.milliwatts == pytest.approx(fast.milliwatts / 2, rel=0.05)
    least = f"{fast.clock_ps:.1f}"
    with pytest.raises(ValueError, match=f"clock_ps must be from {least} .* to 1e9, not 5"):
        energy(UNIT, FLOW, cache_dir=cache, clock_ps=5.0, **WORK)
    with pytest.raises(ValueError, match="clock_ps is for the flow cells, and must be None"):
        energy(UNIT, cache_dir=cache, clock_ps=5.0)


def test_a_netlist_with_delays_ends_each_cycle_like_one_without(cache):
    """All outputs of the simulation with glitches, against the one without delays."""
    _, netlist = measure_netlist(generate(UNIT), "mxdot_dot", FLOW, cache_dir=cache)
    library = library_of(FLOW)
    timed = TimedNetlist(netlist, library, time_netlist(netlist, library))
    run = Run(
        UNIT, Activity(netlist, library, 4), Feed(UNIT, batches(UNIT, REGRESSION, 3, 200), 3, 4)
    )
    outputs = [step() for step in (run.reset, *[run.cycle] * 39)]
    counts = simulate(timed, stimulus(timed, run), 0, 20_000.0, cache_dir=cache)
    want = np.stack(
        [np.hstack([unpack(words, 4) for words in out.values()]) for out in outputs[1:]], axis=1
    )
    varying = [isinstance(bit, int) for _, _, bit in netlist.outputs()]
    np.testing.assert_array_equal(counts.results[:, 1:], want[:, :, varying])
    assert 1000 < want.sum() < want.size - 1000


def test_energy_without_power_tables(cache, tmp_path):
    """A library without internal power spends capacitance alone, and the result says so."""
    liberty = tmp_path / "volts.lib"
    text = gates.liberty_text().replace("/* mxdot", "/* in \xb5m\xb2")
    text = text.replace('time_unit : "1ps"', 'nom_voltage : 2; time_unit : "1ps"')
    liberty.write_bytes(text.encode("latin-1"))  # as some vendors' are
    flow = Flow("cells", liberty=liberty, effort="area", sections=False)
    found = energy(UNIT, flow, cache_dir=cache, **WORK)
    assert not found.has_internal
    assert (found.parts["internal"], found.parts["leakage"]) == (0, 0)
    # 1 fF at 2 V per flip-flop and per buffer of the tree.
    pins = found.registers + found.clock_buffers
    assert found.parts["clock"] * 4 == pytest.approx(4 * pins)


def test_energy_of_a_users_tensors(cache, tmp_path):
    """Operands of zeros from a file take what blocks of zeros take."""
    zeros = np.zeros((4, 256), np.float32)
    np.savez(tmp_path / "own.npz", x=zeros, y=zeros)
    file = str(tmp_path / "own.npz")
    found = energy(UNIT, FLOW, cache_dir=cache, data=file, **WORK)
    assert found.data == file
    assert found.milliwatts == pytest.approx(found.idle["zeros"], rel=0.1)


def test_a_missing_compiler_is_one_line(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(glitches.shutil, "which", lambda name: None)
    with pytest.raises(SynthesisError, match=r"^g\+\+ not found; it compiles the simulation"):
        energy(UNIT, FLOW, cache_dir=cache, seed=9, **WORK)


def test_a_component_for_hwcomponents(cache, monkeypatch):
    """The file that AccelForge reads, with a stand-in for the package: it needs Python 3.12."""
    found = energy(UNIT, FLOW, cache_dir=cache, **WORK)
    cost, _ = measure_netlist(generate(UNIT), "mxdot_dot", FLOW, cache_dir=cache)
    package = ModuleType("hwcomponents")

    class ComponentModel:
        def __init__(self, leak_power, area):
            self.leak_power, self.area = leak_power, area

    vars(package).update(ActionCost=Cost3, ComponentModel=ComponentModel, action=lambda f: f)
    monkeypatch.setitem(sys.modules, "hwcomponents", package)
    scope = {}
    exec(component(UNIT, FLOW, cost, found), scope)
    unit = scope["MxdotE2m1Aligned6X4Stages4Ihp"]()
    assert unit.component_name[1] == "mxdot_e2m1_aligned_6_x4_stages_4_ihp"
    assert unit.area == pytest.approx(cost.area * 1e-12)
    assert cost.delay_ps is not None
    period = cost.delay_ps * 1e-12
    assert unit.leak_power * period == pytest.approx(found.parts["leakage"] * 4e-15)
    block = unit.compute()
    assert block.energy == pytest.approx((found.per_product - found.parts["leakage"]) * 4e-15)
    assert (block.latency, block.throughput) == pytest.approx((4 * period, 1 / period))
    assert unit.wait().energy + unit.leak_power * period == pytest.approx(
        found.idle["waiting"] * 1e-3 * period
    )
    assert unit.stall().energy < unit.compute_zeros().energy < block.energy
    with pytest.raises(ValueError, match="lanes must be 4, not 8"):
        scope["MxdotE2m1Aligned6X4Stages4Ihp"](lanes=8)
    generic = energy(UNIT, cache_dir=cache, streams=32, cycles=20)
    with pytest.raises(ValueError, match="not the flow gates"):
        component(UNIT, Flow(), cost, generic)


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


COMMAND = ("energy", "--format", "e2m1", "--accumulator", "aligned:6", "--lanes", "4")


@pytest.mark.slow
def test_the_command_says_what_a_product_costs(cache, capsys, tmp_path):
    words = [*COMMAND, "--process", "ihp", "--effort", "area", "--cache", str(cache)]
    file = tmp_path / "unit.py"
    assert main([*words, "--component", str(file)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[1:7]] == ["energy", *PARTS, "glitches"]
    assert lines[1][-3:] == ["fJ", "a", "product"]
    assert "class MxdotE2m1Aligned6X4Stages4Ihp(ComponentModel):" in file.read_text()
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["parts"].values()) == pytest.approx(found["per_product"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--process", "ihp", "--flow", "cells"], "flow and process exclude each other"),
        (["--process", "ihp", "--seed", "-1"], "seed must be from 0 to"),
        (["--flow", "xilinx"], "a netlist of cells is for the flows gates and cells, not xilinx"),
        (["--process", "tsmc"], "process must be one of"),
        (["--process", "gates", "--component", "unit.py"], "a component needs a process"),
        (["--process", "ihp", "--wires", "model", "--sections"], "effort must be area, without a"),
    ],
)
def test_bad_options_are_one_line(options, message, cache, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*COMMAND, *options, "--cache", str(cache)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert message in errors[0]
    assert not Path("unit.py").exists()


def test_energy_of_sections(cache):
    """Sections of a netlist that keeps them apart, which computes the same."""
    found = energy(UNIT, FLOW, cache_dir=cache, sections=True, **WORK)
    sections = found.sections
    assert {"(top)", "clock tree", "multiply", "align", "round"} <= set(sections)
    assert list(sections.values()) == sorted(sections.values(), reverse=True)
    assert sum(sections.values()) == pytest.approx(found.per_product, rel=0.2)
    flat = energy(UNIT, FLOW, cache_dir=cache, **WORK)
    assert flat.sections == {}
    assert flat.parts == found.parts


def test_a_netlist_of_sections_computes_what_the_flat_one_does(cache):
    cost, netlist = measure_netlist(generate(UNIT), "mxdot_dot", FLOW, cache_dir=cache)
    apart = kept_netlist(generate(UNIT), "mxdot_dot", FLOW, cost, 600)
    assert len({section_of(cell) for cell in apart.cells}) > 5
    library, results = library_of(FLOW), []
    for each in (netlist, apart):
        feed = Feed(UNIT, batches(UNIT, REGRESSION, 3, 200), 3, 4)
        run = Run(UNIT, Activity(each, library, 4), feed)
        results.append([run.reset(), *(run.cycle() for _ in range(39))])
    assert results[0] == results[1]


def test_instances_may_join_nets_of_the_top():
    """A net that passes through, a constant output, and one net at two outputs."""
    ports: dict[str, tuple[str, list[Bit]]] = {
        "a": ("input", [2]),
        "same": ("output", [2]),
        "low": ("output", ["0"]),
        "n": ("output", [5]),
        "m": ("output", [5]),
    }
    inner = Netlist("inner", ports, [Cell("g", "INV", {"A": [2], "Y": [5]})])
    pins: dict[str, list[Bit]] = {"a": [2], "same": [3], "low": [4], "n": [5], "m": [6]}
    top = Netlist(
        "t",
        {"a": ("input", [2]), "y": ("output", [3, 4, 5, 6, 7])},
        [Cell("part", "inner", pins), Cell("h", "INV", {"A": [6], "Y": [7]})],
    )
    flat = flattened({"": top, "t": top, "inner": inner})
    assert flat.ports == {"a": ("input", [2]), "y": ("output", [2, "0", 5, 5, 7])}
    assert [(cell.name, cell.pins) for cell in flat.cells] == [
        ("part.g", {"A": [2], "Y": [5]}),
        ("(top).h", {"A": [5], "Y": [7]}),
    ]
    assert by_section(flat.cells, [1.0, 2.0]) == {"part": 1.0, "(top)": 2.0}
