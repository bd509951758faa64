"""Static timing of our own: against values by hand, against ABC and, where it is, OpenSTA."""

import shutil

import pytest

from mxdot.explore.cost import Flow, SynthesisError, gates, measure
from mxdot.explore.cost.liberty import parse
from mxdot.explore.cost.netlist import Cell, Netlist
from mxdot.explore.cost.nldm import Table
from mxdot.explore.cost.static_timing import Surroundings, time_netlist

TABLES = """
    cell_rise (t) {{ values ("{0}, {1}", "{2}, {3}"); }}
    cell_fall (t) {{ values ("{0}, {1}", "{2}, {3}"); }}
    rise_transition (t) {{ values ("1, 3", "2, 4"); }}
    fall_transition (t) {{ values ("1, 3", "2, 4"); }}
"""
RISE = TABLES.format(10, 20, 12, 22)  # 10 + slew / 5 + load
SLOW = TABLES.format(30, 40, 30, 40)
LIBRARY = f"""
library (hand) {{
  time_unit : "1ps"; capacitive_load_unit (1, ff);
  lu_table_template (t) {{
    variable_1 : input_net_transition; variable_2 : total_output_net_capacitance;
    index_1 ("0, 10"); index_2 ("0, 10");
  }}
  cell (INV) {{
    area : 1;
    pin (A) {{ direction : input; capacitance : 2; rise_capacitance : 1; fall_capacitance : 3; }}
    pin (Y) {{ direction : output; function : "!A";
      timing () {{ related_pin : "A"; timing_sense : negative_unate; {RISE} }} }}
  }}
  cell (NAND2) {{
    area : 1;
    pin (A) {{ direction : input; capacitance : 1; }}
    pin (B) {{ direction : input; capacitance : 1; }}
    pin (Y) {{ direction : output; function : "!(A & B)";
      timing () {{ related_pin : "A"; timing_sense : negative_unate; {RISE} }}
      timing () {{ related_pin : "B"; timing_sense : negative_unate; {SLOW} }} }}
  }}
  cell (HALF) {{
    area : 1;
    pin (A) {{ direction : input; capacitance : 1; }}
    pin (B) {{ direction : input; capacitance : 1; }}
    pin (SN) {{ direction : output; function : "!(A ^ B)";
      timing () {{ related_pin : "CON"; timing_sense : negative_unate; {RISE} }} }}
    pin (CON) {{ direction : output; function : "!(A & B)";
      timing () {{ related_pin : "A"; timing_sense : negative_unate; {RISE} }} }}
  }}
  cell (DFF) {{
    area : 1; ff (IQ, IQN) {{ clocked_on : "CK"; next_state : "D"; }}
    pin (CK) {{ direction : input; capacitance : 1; clock : true; }}
    pin (D) {{ direction : input; capacitance : 1;
      timing () {{ related_pin : "CK"; timing_type : setup_rising;
        rise_constraint (scalar) {{ values ("5"); }}
        fall_constraint (scalar) {{ values ("7"); }} }} }}
    pin (Q) {{ direction : output; function : "IQ";
      timing () {{ related_pin : "CK"; timing_type : rising_edge; {SLOW} }} }}
  }}
}}
"""


@pytest.fixture(scope="module")
def library():
    return parse(LIBRARY, "hand")


def netlist(cells, inputs="a b", outputs="y"):
    """Cells as `INV A=a Y=y`; nets are numbers behind the scenes."""
    numbers = {}

    def net(name):
        return name if name in "01" else numbers.setdefault(name, len(numbers) + 2)

    found = []
    for index, line in enumerate(cells):
        kind, *pins = line.split()
        pairs = dict(pin.split("=") for pin in pins)
        found.append(Cell(f"c{index}", kind, {pin: [net(name)] for pin, name in pairs.items()}))
    ports = {name: ("input", [net(name)]) for name in inputs.split()}
    ports |= {name: ("output", [net(name)]) for name in outputs.split()}
    return Netlist("m", ports, found)


@pytest.mark.parametrize(
    ("x", "y", "value"),
    [(0, 0, 10), (10, 10, 22), (5, 5, 16), (2.5, 10, 20.5), (-5, 0, 9), (0, 20, 30), (20, 20, 34)],
)
def test_tables_are_linear_between_points_and_beyond(x, y, value):
    assert Table((0, 10), (0, 10), ((10, 20), (12, 22)))(x, y) == pytest.approx(value)


def test_a_chain_has_loads_of_each_edge_and_slews(library):
    chain = netlist(["INV A=a Y=n", "INV A=n Y=y"])
    # n rises against 1 fF: 11, slew 1.2; then y falls without a load: 10 + 0.24.
    # n falls against 3 fF: 13, slew 1.6; then y rises: 10 + 0.32.
    found = time_netlist(chain, library)
    nets = [chain.cells[0].pins["Y"][0], chain.cells[1].pins["Y"][0]]
    assert found.arrivals[nets[0]] == pytest.approx((11, 13))
    assert found.arrivals[nets[1]] == pytest.approx((13 + 10 + 1.6 / 5, 11 + 10 + 1.2 / 5))
    assert found.delay_ps == pytest.approx(23.32)
    assert found.worst is not None
    assert found.worst.name == "y"
    assert [cell for cell, _, _ in found.path(found.worst)] == ["INV", "INV"]


def test_the_latest_arc_counts_and_each_output_has_its_delay(library):
    two = netlist(["NAND2 A=a B=b Y=y", "INV A=y Y=z"], outputs="y z")
    found = time_netlist(two, library)
    delays = {end.name: end.ps for end in found.ends}
    assert delays == pytest.approx({"y": 33, "z": 33 + 10 + 1.6 / 5})


def test_driver_and_load(library):
    found = time_netlist(netlist(["INV A=a Y=y"]), library, Surroundings("INV", 10))
    # The driver: 10 + load less its own 10; a falls with 3, slew 1.6; the inverter: 20 + slew / 5.
    assert found.delay_ps == pytest.approx(3 + 20 + 1.6 / 5)


@pytest.mark.parametrize("carry", [" CON=c", ""])
def test_an_output_may_be_timed_from_another(carry, library):
    design = netlist([f"HALF A=a B=b SN=s{carry}"], outputs="s")
    assert time_netlist(design, library).delay_ps == pytest.approx(10 + 10 + 0.2)


def test_flipflops_begin_and_end_paths(library):
    design = netlist(
        ["DFF CK=clk D=d Q=q", "INV A=q Y=n", "DFF CK=clk D=n Q=y"], inputs="clk d", outputs="y"
    )
    found = time_netlist(design, library)
    ends = {end.name: (end.ps, end.setup_ps) for end in found.ends}
    # q: 30 + load, rise 1 and fall 3; the inverter drives 1 fF; setup 5 for a rise, 7 for a fall.
    assert ends["c2.D"] == pytest.approx((33 + 11 + 1.6 / 5 + 5, 5))
    assert ends["c0.D"] == pytest.approx((7, 7))
    assert ends["y"] == pytest.approx((30, 0))
    assert found.delay_ps == pytest.approx(49.32)


def test_constants_and_false_paths_take_no_time(library):
    design = netlist(["NAND2 A=a B=1 Y=n", "NAND2 A=n B=rst Y=y"], inputs="a rst")
    assert time_netlist(design, library).delay_ps == pytest.approx(30)
    found = time_netlist(design, library, is_false=lambda name: name == "rst")
    assert found.delay_ps == pytest.approx(11 + 10 + 1.2 / 5)
    assert time_netlist(netlist(["NAND2 A=0 B=1 Y=y"]), library).delay_ps == 0


def test_loops_and_missing_drivers(library):
    with pytest.raises(SynthesisError, match="combinational loop near c0"):
        time_netlist(netlist(["INV A=n Y=m", "INV A=m Y=n"]), library)
    with pytest.raises(SynthesisError, match="library hand has no cell BUF to drive inputs"):
        time_netlist(netlist([]), library, Surroundings("BUF"))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('values ("5")', 'values ("five")', "must hold numbers, not 'five'"),
        ('values ("5")', 'values ("nan")', "must hold numbers, not 'nan'"),
        ('values ("5")', 'values ("5, 6")', "must have 1 x 1 values, not 2"),
        ("rise_capacitance : 1", "rise_capacitance : x", "must hold numbers, not 'x'"),
    ],
)
def test_wrong_tables(old, new, error):
    wrong = parse(LIBRARY.replace(old, new), "hand")
    design = netlist(["DFF CK=clk D=d Q=q", "INV A=q Y=y"], inputs="clk d")
    with pytest.raises(SynthesisError, match=error):
        time_netlist(design, wrong)


MIXED = """
module mixed (input clk, input [5:0] a, b, output [11:0] p, output reg [6:0] s);
  assign p = a * b;
  always @(posedge clk) s <= s ^ (a + b);
endmodule
"""
FLAT = MIXED.replace("always @(posedge clk) s <= s ^", "always @* s =")


@pytest.mark.parametrize("process", ["gt2n", "ihp"])
def test_as_abc_on_gates_alone(process, tmp_path):
    """With driver and load, where there are no flip-flops."""
    own, abc = (
        measure(FLAT, "mixed", Flow("cells", process=process, timing=timing, sections=False),
                cache_dir=tmp_path)
        for timing in ("own", "abc")
    )  # fmt: skip
    assert own.area == abc.area
    assert own.delay_ps == pytest.approx(abc.delay_ps, rel=2e-3)


def test_as_opensta(tmp_path, capsys):
    """With flip-flops, driver and load."""
    if shutil.which("sta") is None:
        with capsys.disabled():
            print("\nOpenSTA is not installed here: timing was compared with ABC's alone")
        return
    own, sta = (
        measure(MIXED, "mixed", Flow("cells", process="gt2n", timing=timing, sections=False),
                cache_dir=tmp_path)
        for timing in ("own", "opensta")
    )  # fmt: skip
    assert sta.delay_ps is not None
    assert own.delay_ps == pytest.approx(sta.delay_ps, rel=1e-5)
    assert own.fmax_mhz == pytest.approx(1e6 / sta.delay_ps, rel=1e-5)


def test_the_generic_library_counts_levels():
    found = parse(gates.liberty_text(), "gates")
    chain = netlist(["XOR2 A=a B=b Y=n", "XOR2 A=n B=b Y=y"])
    assert time_netlist(chain, found).delay_ps == 200
