"""Adders of generated units as cells of a library: which cells, and what the netlist computes."""

import re

import numpy as np
import pytest

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.synth import Flow, measure_netlist
from mxdot.synth.activity import Activity, pack, unpack
from mxdot.synth.adders import FULL, AdderCell, adder_cell, with_cells
from mxdot.synth.flow import library_of
from verilog_text import FULL_ROW

HALF_BIT = """module m_half_adder_1 (
  input  wire a,
  input  wire b,
  output wire sum,
  output wire carry
);
  assign sum = a ^ b;
  assign carry = a & b;
endmodule
"""
TOP = """module m (input [3:0] a, b, c, output [3:0] s, k, output hs, hk);
  m_full_adder_4 row (.a(a), .b(b), .c({c[3:1], CONSTANT}), .sum(s), .carry(k));
  m_half_adder_1 bit0 (.a(a[0]), .b(b[1]), .sum(hs), .carry(hk));
endmodule
"""
DESIGN = TOP.replace("CONSTANT", "c[0]") + FULL_ROW + HALF_BIT
CELLS = {
    "asap7": (
        AdderCell("FAx1_ASAP7_75t_R", ("B", "A", "CI"), "SN", "CON", True, True),
        AdderCell("HAxp5_ASAP7_75t_R", ("A", "B"), "SN", "CON", True, True),
    ),
    "sky130": (
        AdderCell("sky130_fd_sc_hd__fa_1", ("A", "B", "CIN"), "SUM", "COUT", False, False),
        AdderCell("sky130_fd_sc_hd__ha_1", ("A", "B"), "SUM", "COUT", False, False),
    ),
    "ihp": (None, None),
    "gt2n": (None, None),
}


@pytest.mark.parametrize("process", CELLS)
def test_adder_cells_by_their_functions(process):
    library = library_of(Flow.of_process(process))
    assert (adder_cell(library, 3), adder_cell(library, 2)) == CELLS[process]


@pytest.mark.parametrize("process", ["asap7", "sky130"])
@pytest.mark.parametrize(("constant", "full"), [("c[0]", 4), ("1'b1", 3)])
def test_rows_become_cells_that_add(constant, full, process, tmp_path):
    flow = Flow.of_process(process, sections=False)
    verilog = TOP.replace("CONSTANT", constant) + FULL_ROW + HALF_BIT
    cost, netlist = measure_netlist(verilog, "m", flow, cache_dir=tmp_path)
    names = [cell.name for cell in CELLS[process] if cell]
    assert [cost.extra["cells"].get(name) for name in names] == [full, 1]
    a, b, c = np.random.default_rng(1).integers(0, 16, (3, 200))
    got = simulated(netlist, library_of(flow), {"a": a, "b": b, "c": c})
    c = c | 1 if constant == "1'b1" else c
    np.testing.assert_array_equal(got["s"], a ^ b ^ c)
    np.testing.assert_array_equal(got["k"], (a & b) | (a & c) | (b & c))
    np.testing.assert_array_equal(got["hs"] + 2 * got["hk"], (a & 1) + (b >> 1 & 1))


def simulated(netlist, library, inputs):
    """Outputs, as integers, of a netlist without flip-flops."""
    activity = Activity(netlist, library, 200)
    bits = {name: pack((x[:, None] >> np.arange(4) & 1).astype(bool)) for name, x in inputs.items()}
    outputs = activity.cycle(bits)
    return {
        name: unpack(words, 200) @ (1 << np.arange(len(words))) for name, words in outputs.items()
    }


def test_what_only_looks_like_a_row_stays(tmp_path):
    library = library_of(Flow.of_process("asap7"))
    text, cells = with_cells(DESIGN, library)
    assert FULL in text
    assert "FAx1_ASAP7_75t_R" in cells
    ripple = DESIGN.replace("(a & b) | (half & c)", "(a | b) & (half | c)")
    text, cells = with_cells(ripple, library)
    assert ripple[ripple.index("module m_full") : ripple.index("module m_half")] in text
    assert FULL not in text
    assert with_cells(DESIGN, library_of(Flow.of_process("ihp"))) == (DESIGN, "")
    assert with_cells(FULL_ROW.replace("m_full", "full"), library)[1] == ""


def test_generated_units_have_such_rows():
    verilog = generate(DotConfig("e2m1", 4, "aligned:8"), "mxdot_dot")
    text, cells = with_cells(verilog, library_of(Flow.of_process("sky130")))
    rows = re.findall(r"^module \w+_(?:full|half)_adder_\d+ ", verilog, re.M)
    assert len(re.findall(r" bits \[\d+:0\] ", text)) == len(rows) > 2
    assert "fa_1" in cells
    assert "ha_1" in cells


def test_loose_gates_when_asked_for(tmp_path):
    flow = Flow.of_process("sky130", adders=False, sections=False)
    cost, _ = measure_netlist(DESIGN, "m", flow, cache_dir=tmp_path)
    assert not [name for name in cost.extra["cells"] if name.endswith(("fa_1", "ha_1"))]
