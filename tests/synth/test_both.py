"""The effort `both`: what its netlists compute, and its parts alone."""

import numpy as np
import pytest

from mxdot.model import DotConfig
from mxdot.synth import Flow, measure_netlist, script
from mxdot.synth.activity import Activity, pack, unpack
from mxdot.synth.adders import FULL, adder_cell, inverted_adders, inverted_map
from mxdot.synth.asic import surroundings
from mxdot.synth.both import Loose, gate_of, islands
from mxdot.synth.flow import library_of
from mxdot.synth.opensta import RESET
from mxdot.synth.sizing import SPEED, Circuit, sized
from mxdot.synth.static_timing import time_netlist
from mxdot.synth.variants import Choices
from mxdot.util.yosys import Bit, Cell, Netlist
from mxdot.verify.formal import netlists
from mxdot.verify.formal.claim import Claim, prove
from mxdot.verify.formal.engine import Verdict
from verilog_text import FULL_ROW

SUM = (
    """module m (input [3:0] a, b, c, d, output [6:0] y);
  wire [3:0] s, k, t, l;
  m_full_adder_4 first (.a(a), .b(b), .c(c & d), .sum(s), .carry(k));
  m_full_adder_4 second (.a(s), .b({k[2:0], 1'b1}), .c(d), .sum(t), .carry(l));
  assign y = t + {l, 1'b0} + {k[3], 4'b0};
endmodule
"""
    + FULL_ROW
)


@pytest.fixture(scope="module", params=["asap7", "sky130"])
def mapped(request, tmp_path_factory):
    """Library, cost and netlist of SUM."""
    flow = Flow.of_process(request.param, effort="both", sections=False)
    directory = tmp_path_factory.mktemp("both")
    return flow, *measure_netlist(SUM, "m", flow, cache_dir=directory)


def test_netlists_add(mapped):
    """All 2^16 inputs."""
    flow, cost, netlist = mapped
    cases = np.arange(1 << 16)
    names = ("a", "b", "c", "d")
    digits = {name: cases >> 4 * place & 15 for place, name in enumerate(names)}
    bits = {n: pack((x[:, None] >> np.arange(4) & 1).astype(bool)) for n, x in digits.items()}
    words = Activity(netlist, library_of(flow), len(cases)).cycle(bits)
    result = unpack(words["y"], len(cases)) @ (1 << np.arange(7))
    a, b, c, d = digits.values()
    np.testing.assert_array_equal(result, a + b + (c & d) + d + 1)
    assert cost.extra["effort"] == "both"
    assert cost.area == pytest.approx(
        sum(library_of(flow).cells[x.type].area for x in netlist.cells)
    )


def test_sizes_are_timed_as_the_whole_is(mapped):
    """The arrays have the delay of `time_netlist`; pins and sizes change no function."""
    flow, cost, netlist = mapped
    library, around = library_of(flow), surroundings(flow)
    choices = Choices(library)
    circuit = Circuit(netlist, choices, around, RESET.fullmatch)
    assert circuit.time() == pytest.approx(cost.delay_ps)
    options = netlist, choices, around, RESET.fullmatch
    loose = Circuit(sized(*options, target_ps=10 * cost.delay_ps), *options[1:])
    again = sized(*options)
    assert loose.area <= circuit.area
    after = Circuit(again, *options[1:])
    delay = time_netlist(again, library, around, RESET.fullmatch).delay_ps
    assert after.time() == pytest.approx(delay)
    assert after.area * delay**SPEED <= circuit.area * cost.delay_ps**SPEED * (1 + 1e-9)


@pytest.mark.slow
def test_a_unit_equals_its_verilog(tmp_path, monkeypatch):
    """In every cycle after a reset, proved; a spoilt netlist is refuted."""

    def cells_of(text, top, process):
        flow = Flow.of_process(process, effort="both", sections=False)
        return measure_netlist(text, top, flow, cache_dir=tmp_path)[1], library_of(flow)

    monkeypatch.setattr(netlists, "cells_of", cells_of)
    config = DotConfig("e2m1", 4, "exact", 1, status=False)
    claim = Claim(
        "both", "", lambda: netlists.with_netlist(config, "asap7"), netlists.differ,
        netlists.BUG, netlists.equivalent, state="registers of 0",
    )  # fmt: skip
    result = prove(claim, tmp_path, 300)
    assert (result.verdict, result.bug) == (Verdict.PROVED, Verdict.REFUTED)


def chain(length):
    """Full adders, each of which reads sum and carry of the one before it."""
    cells = []
    for i in range(length):
        pins: dict[str, list[Bit]] = {"a": [3 * i + 2], "b": [3 * i + 3], "c": [3 * i + 4]}
        pins |= {"sum": [3 * i + 5], "carry": [3 * i + 6]}
        cells.append(Cell(f"adder{i}", FULL, pins))
    ports: dict[str, tuple[str, list[Bit]]]
    ports = {"x": ("input", [2, 3, 4, *(3 * i + 7 for i in range(length - 1))])}
    return Netlist("m", ports, cells)


def test_kinds_of_adders_alternate():
    assert inverted_adders(chain(5)) == {"adder1", "adder3"}
    assert inverted_adders(Netlist("m", {}, [])) == set()


@pytest.mark.parametrize(
    ("process", "inverts"), [("asap7", True), ("sky130", False), ("ihp", False)]
)
def test_only_cells_that_invert_both_outputs_take_inverted_inputs(process, inverts):
    assert bool(inverted_map(library_of(Flow.of_process(process)))) == inverts


@pytest.mark.parametrize("process", ["asap7", "sky130"])
@pytest.mark.parametrize("bits", [2, 3])
@pytest.mark.parametrize("latest", [0, 1])
def test_loose_gates_add_as_the_cell_does(process, bits, latest):
    library = library_of(Flow.of_process(process))
    adder = adder_cell(library, bits)
    assert adder is not None
    maker = Loose.of(adder, library)
    assert maker is not None
    pins: dict[str, list[Bit]]
    pins = {pin: [place + 2] for place, pin in enumerate((*adder.inputs, adder.sum, adder.carry))}
    cell = Cell("adder", adder.name, pins)
    gates, _ = maker.gates(cell, bits + 3, adder.inputs[latest])
    ports: dict[str, tuple[str, list[Bit]]]
    ports = {
        "x": ("input", [pins[pin][0] for pin in adder.inputs]),
        "y": ("output", [pins[adder.sum][0], pins[adder.carry][0]]),
    }
    inputs = {"x": pack(np.arange(1 << bits)[:, None] >> np.arange(bits) & 1 > 0)}
    whole, loose = (
        Activity(Netlist("m", ports, cells), library, 1 << bits).cycle(inputs)["y"]
        for cells in ([cell], gates)
    )
    np.testing.assert_array_equal(unpack(whole, 1 << bits), unpack(loose, 1 << bits))
    assert len(gates) == bits


def test_gates_by_function():
    library = library_of(Flow.of_process("asap7"))
    assert gate_of(library, "!(a&b)") == ("NAND2x1_ASAP7_75t_R", ("A", "B", "Y"))
    assert gate_of(library, "a&b&c^d") is None


def test_islands_end_at_other_cells():
    def gate(name, inputs, output):
        pins = {pin: [net] for pin, net in zip("AB", inputs, strict=True)}
        return Cell(name, "$_AND_", pins | {"Y": [output]})

    cells = [gate("a", (2, 3), 4), gate("b", (4, 3), 5), gate("c", (9, 3), 10)]
    cells.append(Cell("flop", "$_DFF_P_", {"C": [6], "D": [5], "Q": [9]}))
    assert dict(islands(Netlist("m", {}, cells))) == {"group0": {"a", "b"}, "group1": {"c"}}


def test_both_is_for_cells():
    with pytest.raises(
        ValueError, match=r"^effort must be area or speed for the flow gates, not both$"
    ):
        Flow(effort="both")
    with pytest.raises(ValueError, match=r"^script must be of another effort than both, which"):
        script(SUM, "m", Flow.of_process("asap7", effort="both"))
