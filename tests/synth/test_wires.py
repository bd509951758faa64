"""Wires by model and by placement: lengths by hand, the placer, flows with wires."""

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from mxdot.cli import main
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.synth import Flow, SynthesisError, energy, measure, measure_netlist, tools, wires
from mxdot.synth.asic import Asic
from mxdot.synth.flow import digest_of, library_of
from mxdot.synth.processes import PROCESSES
from mxdot.synth.scripts import Design
from mxdot.synth.static_timing import time_netlist
from mxdot.util.yosys import Bit, Cell, Netlist

ASAP7 = Flow.of_process("asap7", effort="area", sections=False)
UNIT = DotConfig("e2m1", 4, "aligned:6")
INV, DFF = "INVx1_ASAP7_75t_R", "DFFHQNx1_ASAP7_75t_R"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def library():
    return library_of(replace(ASAP7, wires="model"))


@pytest.fixture
def four():
    """Net 3 joins three cells, net 4 two, net 5 a cell and a port; net 2 is an input, 6 a clock."""
    cells = [
        Cell("a", INV, {"A": [2], "Y": [3]}),
        Cell("b", INV, {"A": [3], "Y": [4]}),
        Cell("c", INV, {"A": [3], "Y": [7]}),
        Cell("d", DFF, {"CLK": [6], "D": [4], "QN": [5]}),
        Cell("e", DFF, {"CLK": [6], "D": [7], "QN": [8]}),
    ]
    ports: dict[str, tuple[str, list[Bit]]] = {
        "x": ("input", [2]),
        "clk": ("input", [6]),
        "y": ("output", [5, 8]),
    }
    return Netlist("m", ports, cells)


@pytest.mark.parametrize(
    ("points", "length"),
    [
        ([(0, 0)], 0),
        ([(1, 1), (4, 5)], 3 + 4),
        ([(0, 0), (3, 0), (3, 4), (0, 4)], 3 + 4 + 3),
        ([(0, 0), (10, 0), (5, 1), (5, 1)], 6 + 6),
    ],
)
def test_a_net_is_a_shortest_tree(points, length):
    assert wires.tree_length(np.array(points, float)) == pytest.approx(length)


def test_the_model_by_hand(monkeypatch, four, library):
    monkeypatch.setattr(wires, "REACH", 2.0)
    monkeypatch.setattr(wires, "GROWTH", 0.5)
    monkeypatch.setattr(wires, "SPREAD", 1.0)
    # 100 cells in 50 um: a pitch of 5 um, times 2, times 10, times 3 other cells of the net.
    assert wires.modelled(4, 100, 50.0) == pytest.approx(300)
    area = 3 * 0.04374 + 2 * 0.29160
    side = (area / 0.7) ** 0.5
    assert wires.core_side(four, library) == pytest.approx(side)
    found = wires.with_lengths(four, library, "model", PROCESSES["asap7"], 1.0)
    assert found.lengths == pytest.approx({3: 4 * side, 4: 2 * side, 7: 2 * side})


def test_units_of_a_micrometre(library):
    wire = library.wire_load
    assert wire is not None
    assert wire.load(10) == pytest.approx(1.73)  # ASAP7 counts fF, and ps
    # 10 um have 323 ohm: 0.323 ps per fF, which are 1.73 of wire and 1 of the pin.
    assert wire.delay(10.0, 1, 1.0, 0.0) == pytest.approx(0.323 * 2.73)
    sky130 = library_of(Flow.of_process("sky130", wires="placed")).wire_load
    assert sky130 is not None
    assert sky130.load(10) == pytest.approx(1.72e-3)  # pF
    assert sky130.delay(10.0, 1, 1e-3, 0.0) == pytest.approx(8.93e-3 * (1.72 + 1) * 1e-3)  # ns


@pytest.mark.slow
def test_wires_load_nets_and_leave_areas(cache):
    text, top = generate(UNIT), "mxdot_dot"
    plain = measure(text, top, ASAP7, cache_dir=cache)
    cost, netlist = measure_netlist(text, top, replace(ASAP7, wires="model"), cache_dir=cache)
    assert (cost.area, cost.flipflops) == (plain.area, plain.flipflops)
    assert (cost.delay_ps or 0.0) > (plain.delay_ps or 0.0) > 0.0
    assert "wires" not in plain.extra
    assert cost.extra["wires"] == "model"
    assert cost.extra["core_area"] == pytest.approx(cost.area / 0.7)
    assert netlist.lengths is not None
    assert cost.extra["wire_um"] == pytest.approx(sum(netlist.lengths.values()))
    limit = replace(ASAP7, wires="model", target_ps=10 * round(cost.delay_ps or 0.0))
    assert measure(text, top, limit, cache_dir=cache).extra["wires"] == "model"
    again, kept = measure_netlist(text, top, replace(ASAP7, wires="model"), cache_dir=cache)
    assert (again, kept.lengths) == (cost, netlist.lengths)
    loads = [
        time_netlist(netlist, library_of(flow)).loads
        for flow in (ASAP7, replace(ASAP7, wires="model"))
    ]
    net, length = max(netlist.lengths.items(), key=lambda item: item[1])
    assert loads[1][net][0] - loads[0][net][0] == pytest.approx(0.173 * length)


@pytest.mark.slow
def test_energy_with_wires(cache):
    work = {"streams": 4, "cycles": 12, "sections": True}
    flow = replace(ASAP7, wires="model")
    plain, wired = (energy(UNIT, each, cache_dir=cache, **work) for each in (ASAP7, flow))
    assert "wires" not in plain.to_dict()
    assert wired.to_dict()["wires"] == "model"
    assert wired.parts["switching"] > 1.1 * plain.parts["switching"]
    assert wired.sections["align"] > plain.sections["align"]


@pytest.mark.slow
def test_an_energy_of_other_wires_is_another(cache, monkeypatch):
    work = {"streams": 4, "cycles": 12, "clock_ps": 20_000.0, "cache_dir": cache}
    flow, process = replace(ASAP7, wires="model"), PROCESSES["asap7"]
    plain = digest_of(ASAP7)
    thin = energy(UNIT, flow, **work)
    monkeypatch.setitem(PROCESSES, "asap7", replace(process, wire_ff=2 * process.wire_ff))
    assert energy(UNIT, flow, **work).parts["switching"] > 1.1 * thin.parts["switching"]
    assert digest_of(ASAP7) == plain


PROGRAM = """#!/bin/sh
if [ "$1" = -c ]; then echo 9.9; exit 0; fi
{action}
"""


def placer(path, action, monkeypatch):
    """A stand-in for the Python that has Coriolis."""
    path.write_text(PROGRAM.format(action=action))
    path.chmod(0o755)
    monkeypatch.setenv(tools.CORIOLIS, str(path))


def test_lengths_of_a_placement(four, library, tmp_path, monkeypatch):
    job = tmp_path / "seen.json"
    centres = "[[0,0],[1,0],[0,3],[5,0],[0,3]]"
    placer(tmp_path / "python", f"cp $2 {job}; echo '{centres}' > $3", monkeypatch)
    found = wires.with_lengths(four, library, "placed", PROCESSES["asap7"], 60.0)
    assert found.lengths == {3: 1 + 3, 4: 4, 7: 0}
    seen = json.loads(job.read_text())
    assert seen["row"] == 0.27
    assert [kind for kind, _ in seen["cells"]] == [0, 0, 0, 1, 1]
    assert [sorted(pins) for _, pins in seen["cells"]][3] == [-1, 4, 5]  # without the clock
    assert seen["kinds"][0][0] == pytest.approx(0.04374 / 0.27)


def test_the_tool_of_a_placement_has_its_version(cache, tmp_path, monkeypatch):
    centres = "import json; print([[0, 0]] * len(json.load(open('job.json'))['cells']))"
    placer(tmp_path / "python", f'{sys.executable} -c "{centres}" > $3', monkeypatch)
    text = "module m(input a, b, output y); assign y = ~(a & b); endmodule"
    plain = measure(text, "m", ASAP7, cache_dir=cache)
    for limit in (None, 1000):
        flow = replace(ASAP7, wires="placed", target_ps=limit)
        assert measure(text, "m", flow, cache_dir=cache).tool == f"{plain.tool}; coriolis-eda 9.9"


@pytest.mark.parametrize("effort", ["balanced", "speed"])
def test_sections_are_not_mapped_for_a_delay_with_wires(effort, tmp_path):
    flow = replace(ASAP7, wires="model", effort=effort)
    run = Asic(Design(generate(UNIT), "mxdot_dot", (), False, "m.v"), flow, tmp_path, 60.0)
    with pytest.raises(ValueError, match=f"^effort must be area, .* with wires, not {effort}$"):
        run.kept(effort, 100.0)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("echo no memory; exit 3", "Coriolis on m ended with status 3: no memory"),
        ("echo '[[0,0]]' > $3", "Coriolis on m placed 1 of 5 cells"),
    ],
)
def test_a_placement_that_fails(action, error, four, library, tmp_path, monkeypatch):
    placer(tmp_path / "python", action, monkeypatch)
    with pytest.raises(SynthesisError, match=f"^{error}$"):
        wires.with_lengths(four, library, "placed", PROCESSES["asap7"], 60.0)


@pytest.mark.skipif(not os.environ.get(tools.CORIOLIS), reason="needs Coriolis: MXDOT_CORIOLIS")
def test_coriolis_places_all_cells_in_the_core(cache):
    flow = replace(ASAP7, wires="placed")
    cost, netlist = measure_netlist(generate(UNIT), "mxdot_dot", flow, cache_dir=cache)
    library = library_of(flow)
    side = cost.extra["core_area"] ** 0.5
    centres = wires.placed(netlist, library, PROCESSES["asap7"], side, 60.0)
    assert centres.min() > 0
    assert centres.max() < side + 0.27
    assert len(np.unique(centres, axis=0)) == len(netlist.cells)
    model = wires.with_lengths(netlist, library, "model", PROCESSES["asap7"], 1.0)
    assert model.lengths is not None
    assert sum(model.lengths.values()) == pytest.approx(cost.extra["wire_um"], rel=0.3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--wires", "drawn"], "wires must be one of model, placed, not 'drawn'"),
        (["--wires", "model", "--process", "gates"], "wires need a process of sky130, ihp"),
        (["--wires", "model", "--timing", "abc"], "timing must be own with wires, not abc"),
        (["--wires", "placed"], "Coriolis is not installed for /nowhere: wires placed needs"),
    ],
)
def test_refused_in_one_line(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(tools.CORIOLIS, "/nowhere")
    (tmp_path / "m.v").write_text("module m(input a, output y); assign y = ~a; endmodule")
    process = [] if "--process" in options else ["--process", "asap7"]
    words = ["synth", str(tmp_path / "m.v"), "--top", "m", "--cache", str(tmp_path)]
    assert main([*words, *process, *options]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.slow
def test_the_result_names_its_wires(cache, tmp_path, capsys):
    (tmp_path / "m.v").write_text(generate(UNIT))
    words = ["synth", str(tmp_path / "m.v"), "--top", "mxdot_dot", "--process", "asap7"]
    assert main([*words, "--wires", "model", "--effort", "area", "--cache", str(cache)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mxdot_dot in asap7 with wires (model): ")
    assert [line.split()[0] for line in lines[1:6]] == [
        "area",
        "flip-flops",
        "core",
        "wires",
        "depth",
    ]
