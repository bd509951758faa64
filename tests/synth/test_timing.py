"""Static timing of our own: against values by hand, against ABC and, where it is, OpenSTA."""

import re
import shutil
from dataclasses import replace

import pytest

from liberty_texts import LIBRARY, numbered_netlist
from mxdot.synth import Flow, SynthesisError, asic, gates, measure, opensta
from mxdot.synth.delay_tables import Table
from mxdot.synth.flow import library_of
from mxdot.synth.liberty import merged, parse
from mxdot.synth.processes import PROCESSES
from mxdot.synth.static_timing import Surroundings, time_netlist


@pytest.fixture(scope="module")
def library():
    return parse(LIBRARY, "hand")


def netlist(*texts, **ports):
    return numbered_netlist(*texts, **ports)[0]


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


WIRES = """
  pulling_resistance_unit : "1kohm"; default_wire_load : "5k"; default_wire_load_mode : top;
  operating_conditions (slow) { tree_type : balanced_tree; } default_operating_conditions : slow;
  wire_load ("none") { capacitance : 9; resistance : 9; slope : 9; fanout_length (1, 9); }
  wire_load ("5k") { capacitance : 0.5; resistance : 0.1; slope : 4;
    fanout_length (3, 20); fanout_length (1, 10, 0.1, 0.2, 5); }
"""
"""One pin: 5 fF, 1 ps per fF."""


def with_wires(old="", new=""):
    """The library with its wire loads, in which `new` is in place of `old`."""
    assert old in WIRES
    return LIBRARY.replace("lu_table_template", WIRES.replace(old, new) + "lu_table_template", 1)


@pytest.mark.parametrize(("pins", "length"), [(0, 6), (1, 10), (2, 15), (3, 20), (5, 28)])
def test_wires_are_as_long_as_the_table_says(pins, length):
    wire = parse(with_wires(), "hand").wire_load
    assert wire is not None
    assert wire.name == "5k"
    assert wire.length(pins) == pytest.approx(length)
    assert wire.load(length) == pytest.approx(length / 2)


@pytest.mark.parametrize(
    ("tree", "first", "second"),
    [
        # n falls after a rises: 8 fF of pin and wire, 18 ps, slew 2.6; then y rises against the
        # 5 fF of its wire: 15 + 2.6 / 5.
        ("best_case_tree", 0, 0),
        # Of each wire its branch: 1 ps per fF of pin and wire, at y of the wire alone.
        ("balanced_tree", 6 + 8, 5),
        ("worst_case_tree", 6 + 8, 5),
    ],
)
def test_a_chain_with_wires(tree, first, second):
    library = parse(with_wires("balanced_tree", tree), "hand")
    found = time_netlist(netlist(["INV A=a Y=n", "INV A=n Y=y"]), library)
    assert found.delay_ps == pytest.approx(first + 18 + 15 + 2.6 / 5 + second)


def test_lengths_of_a_netlist_win_over_the_table():
    """Net n has 10 um, as in the table; y has none: 10 ps without a load, slew 2.6."""
    chain = netlist(["INV A=a Y=n", "INV A=n Y=y"])
    chain = replace(chain, lengths={chain.cells[0].pins["Y"][0]: 10.0})
    found = time_netlist(chain, parse(with_wires(), "hand"))
    # Of a the branch has no length; of n it takes 1 ps per fF of pin and wire.
    assert found.delay_ps == pytest.approx(18 + 8 + 10 + 2.6 / 5)


@pytest.mark.parametrize(
    ("tree", "wire"),
    [
        # 15 of length: 7.5 fF and 1.5 ps per fF, with the two pins of 1 fF at the net.
        ("best_case_tree", 0),
        ("balanced_tree", 0.75 * (3.75 + 1)),
        ("worst_case_tree", 1.5 * (7.5 + 2)),
    ],
)
def test_branches_of_a_wire(tree, wire):
    library = parse(with_wires("balanced_tree", tree), "hand")
    design = netlist(["DFF CK=clk D=d Q=q", "DFF CK=clk D=q Q=y", "DFF CK=clk D=q Q=z"],
                     inputs="clk d", outputs="y z")  # fmt: skip
    ends = {end.name: end.ps for end in time_netlist(design, library).ends}
    assert ends["c1.D"] == pytest.approx(30 + 9.5 + wire + 7)
    assert ends["c2.D"] == ends["c1.D"]


def test_loads_have_the_capacitance_of_wires():
    design = netlist(["INV A=a Y=n", "NAND2 A=n B=n Y=m", "NAND2 A=n B=m Y=y"])
    nets = [cell.pins["Y"][0] for cell in design.cells]
    found = []
    for text in (LIBRARY, with_wires()):
        timing = time_netlist(design, parse(text, "hand"))
        found.append([timing.loads.get(net, (0, 0))[0] for net in nets])
        assert timing.slews[nets[0]] > (0, 0)
    # n drives 3 pins, m one, y the output.
    assert found[0] == pytest.approx([3, 1, 0])
    assert [b - a for a, b in zip(*found, strict=True)] == pytest.approx([10, 5, 5])


@pytest.mark.parametrize("process", PROCESSES)
def test_processes_have_no_wires(process):
    assert library_of(Flow("cells", process=process)).wire_load is None


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"5k"; default', '"6k"; default', r"default_wire_load must .* \(none, 5k\), not '6k'"),
        ("mode : top", "mode : outer", "default_wire_load_mode must be one of .*, not 'outer'"),
        ("balanced_tree", "oak", "tree_type must be one of .*, not 'oak'"),
        ("1kohm", "1volt", "pulling_resistance_unit must be 1, 10 or 100 ohm or kohm, not '1volt'"),
        ("slope : 4", "slope : -4", "wire_load 5k: slope must be a number of at least 0, not '-4'"),
        (": 0.5", ": wide", "wire_load 5k: capacitance must be a number of at least 0, not 'wide'"),
        ("(3, 20)", "(3)", "wire_load 5k: fanout_length must be pins and a length, not '3'"),
        ("(3, 20)", "(1, 20)", "wire_load 5k must have a fanout_length, and one for each number"),
    ],
)  # fmt: skip
def test_wrong_wire_loads(old, new, error):
    with pytest.raises(SynthesisError, match=rf"^library hand.*{error}"):
        parse(with_wires(old, new), "hand")


def test_wire_loads_of_several_files():
    first, second = parse(with_wires(), "a"), parse(LIBRARY.replace("(hand)", "(b)"), "b")
    second = replace(second, cells={"X": second.cells["INV"]})
    assert merged([first, second]).wire_load == first.wire_load
    with pytest.raises(SynthesisError, match="library hand names the default wire load 5k, which"):
        merged([second, first])


def test_opensta_is_told_the_wire_load(monkeypatch, tmp_path):
    """It ignores a library's default since version 2.3.2."""
    text = gates.liberty_text().replace("cell (", WIRES + "cell (", 1)
    (tmp_path / "own.lib").write_text(text)
    scripts = []
    monkeypatch.setattr(opensta, "run_sta", lambda script, *_: scripts.append(script) or "")
    monkeypatch.setattr(asic, "sta_version", lambda: "OpenSTA 9")
    flow = Flow("cells", liberty=tmp_path / "own.lib", timing="opensta", sections=False)
    measure("module m(input a, output y); assign y = ~a; endmodule", "m", flow, cache_dir=tmp_path)
    assert re.search(r"^set_wire_load_model -name 5k$", scripts[0], re.M)


MIXED = """
module mixed (input clk, input [5:0] a, b, output [11:0] p, output reg [6:0] s);
  assign p = a * b;
  always @(posedge clk) s <= s ^ (a + b);
endmodule
"""
FLAT = MIXED.replace("always @(posedge clk) s <= s ^", "always @* s =")


@pytest.mark.parametrize("process", ["gt2n", "ihp"])
def test_as_abc_on_gates_alone(process, tmp_path):
    """Driver and load, no flip-flops."""
    own, abc = (
        measure(FLAT, "mixed", Flow("cells", process=process, timing=timing, sections=False),
                cache_dir=tmp_path)
        for timing in ("own", "abc")
    )  # fmt: skip
    assert own.area == abc.area
    assert own.delay_ps == pytest.approx(abc.delay_ps, rel=2e-3)


def test_as_opensta(tmp_path, capsys):
    """Flip-flops, driver and load."""
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
