"""Glitches and power of small netlists, against values by hand."""

import numpy as np
import pytest

from liberty_texts import LIBRARY, numbered_netlist
from mxdot.synth import SynthesisError, tools
from mxdot.synth.delay_tables import Table
from mxdot.synth.glitches import TimedNetlist, simulate
from mxdot.synth.liberty import parse
from mxdot.synth.opensta import sta_power
from mxdot.synth.power import clock_tree, power
from mxdot.synth.static_timing import Surroundings, time_netlist

POWER = """
library (hand) {
  time_unit : "1ps"; capacitive_load_unit (1, ff); nom_voltage : 2; leakage_power_unit : "1uW";
  lu_table_template (t) { variable_1 : input_net_transition;
    variable_2 : total_output_net_capacitance; index_1 ("0, 10"); index_2 ("0, 10"); }
  power_lut_template (t) { variable_1 : input_transition_time; index_1 ("0, 10"); }
  cell (BUF) { area : 1; cell_leakage_power : 3;
    pin (A) { direction : input; capacitance : 1;
      internal_power () { rise_power (t) { values ("5, 5"); } } }
    pin (Y) { direction : output; function : "A"; timing () { related_pin : "A";
      timing_sense : positive_unate; cell_rise (t) { values ("4, 14", "4, 14"); }
      cell_fall (t) { values ("4, 14", "4, 14"); } } }
  }
  cell (XOR2) { area : 2; cell_leakage_power : 9;
    leakage_power () { when : "A & B"; value : 1; }
    leakage_power () { when : "!A & !B"; value : 2; }
    pg_pin (VSS) { pg_type : primary_ground; }
    pin (A) { direction : input; capacitance : 1; }
    pin (B) { direction : input; capacitance : 1; }
    pin (Y) { direction : output; function : "A ^ B";
      timing () { related_pin : "A B"; cell_rise (t) { values ("2, 2", "2, 2"); }
        cell_fall (t) { values ("2, 2", "2, 2"); } }
      internal_power () { related_pin : "A"; when : "B"; rise_power (s) { values ("10"); }
        fall_power (s) { values ("20"); } }
      internal_power () { related_pin : "A"; rise_power (s) { values ("100"); }
        fall_power (s) { values ("200"); } }
      internal_power () { related_pin : "A"; related_pg_pin : VSS;
        power (s) { values ("9999"); } }
      internal_power () { related_pin : "B"; power (s) { values ("1000"); } } }
  }
  cell (DFF) { area : 5; cell_leakage_power : 1;
    leakage_power () { when : "CK"; value : 4; } leakage_power () { when : "!CK"; value : 2; }
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
    pin (CK) { direction : input; clock : true; capacitance : 3;
      internal_power () { when : "D & !Q"; rise_power (s) { values ("50"); } }
      internal_power () { rise_power (s) { values ("7"); } fall_power (s) { values ("1"); } } }
    pin (D) { direction : input; capacitance : 1; }
    pin (Q) { direction : output; function : "IQ";
      timing () { related_pin : "CK"; timing_type : rising_edge;
        cell_rise (t) { values ("3, 3", "3, 3"); } cell_fall (t) { values ("3, 3", "3, 3"); } }
      internal_power () { related_pin : "CK"; power (s) { values ("30"); } } }
  }
}
"""


def timed(cells, inputs, text=POWER, outputs="y"):
    design, numbers = numbered_netlist(cells, inputs, outputs)
    library = parse(text, "hand")
    found = TimedNetlist(design, library, time_netlist(design, library))
    return found, {name: found.numbers[net] for name, net in numbers.items()}


def counted(design, rows, cache, skipped=1, period=1000.0, vcd=None):
    """Simulate one stream; a row has a digit per input bit, without the clock."""
    bits = np.array([[[int(digit) for digit in row] for row in rows]], np.uint8)
    return simulate(design, bits, skipped, period, cache_dir=cache, vcd=vcd)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One simulator for all tests of this file: it is compiled once."""
    return tmp_path_factory.mktemp("cache")


HAZARD = ("BUF A=a Y=n", "XOR2 A=a B=n Y=y")
"""y pulses for the buffer's 5 ps on each change of a; an XOR2 takes 2 ps."""


def test_a_pulse_longer_than_the_delay_passes_and_is_a_glitch(cache):
    design, net = timed(HAZARD, "a")
    counts = counted(design, "0110", cache)
    assert counts.cycles == 3
    assert (counts.changes[net["n"]], counts.settled[net["n"]]) == (2, 2)
    assert (counts.changes[net["y"]], counts.settled[net["y"]]) == (4, 0)
    assert counts.results[0, :, 0].tolist() == [0, 0, 0, 0]


def test_a_pulse_shorter_than_the_delay_does_not_pass(cache):
    slow = POWER.replace('"2, 2", "2, 2"', '"6, 6", "6, 6"')
    design, net = timed(HAZARD, "a", slow)
    counts = counted(design, "0110", cache)
    assert (counts.changes[net["n"]], counts.changes[net["y"]]) == (2, 0)


def test_energy_by_hand(cache):
    """n drives 1 fF at 2 V: 2 fJ a change; y drives nothing."""
    design, _ = timed(HAZARD, "a")
    counts = counted(design, "0110", cache)
    spent = power(design, counts)
    buffer, xor = 0, 1  # in order
    assert spent.switching[[buffer, xor]] * 3 == pytest.approx([2 * 2.0, 0])
    # a rises: y rises by A where B is 0 (100), and falls by B (1000). a falls: y rises by A
    # where B is 1 (10), and falls by B (1000). Every change of y is a glitch.
    assert spent.internal[xor] * 3 == pytest.approx(100 + 1000 + 10 + 1000)
    assert spent.glitches[[buffer, xor]] * 3 == pytest.approx([0, 2110])
    assert spent.internal[buffer] * 3 == pytest.approx(5)  # one rise of its input
    # Ends of cycles: a = n = 1 twice, 0 once.
    assert spent.leakage_nw == pytest.approx([3000, (1 + 1 + 2) / 3 * 1000])


def test_energy_in_other_units_of_voltage(cache):
    """Internal energies are in fF (1 mV)^2."""
    text = POWER.replace("nom_voltage : 2;", 'voltage_unit : "1mV"; nom_voltage : 2000;')
    volts, millivolts = (
        power(design, counted(design, "0110", cache))
        for design, _ in (timed(HAZARD, "a"), timed(HAZARD, "a", text))
    )
    assert millivolts.switching == pytest.approx(volts.switching)
    assert millivolts.internal == pytest.approx(volts.internal * 1e-6)
    assert millivolts.leakage_nw == pytest.approx(volts.leakage_nw)
    tree = clock_tree(timed([f"DFF CK=clk D=d Q=q{i}" for i in range(20)], "clk d", text, "q0")[0])
    assert tree.energy_fj == pytest.approx(3 * (4 + 5e-6))


def test_a_flipflop_by_hand(cache):
    design, net = timed(["DFF CK=clk D=d Q=y"], "clk d")
    assert [name for name, _ in design.inputs] == ["d"]
    counts = counted(design, "01100", cache)
    # y follows d one cycle later: 0 0 1 1 0.
    assert counts.results[0, :, 0].tolist() == [0, 0, 1, 1, 0]
    assert (counts.changes[net["y"]], counts.settled[net["y"]]) == (2, 2)
    spent = power(design, counts)
    # Before the four edges d, y are 00, 10, 11, 01: the second is `D & !Q`. d is stable at falls,
    # where d, y are 10, 11, 01, 00: one of them is `D & !Q`, which has no energy for a fall.
    assert spent.clock_internal[0] * 4 == pytest.approx(50 + 3 * 7 + 3 * 1)
    assert spent.clock_switching[0] == pytest.approx(3 * 2.0**2)
    assert spent.internal[0] * 4 == pytest.approx(2 * 30)
    assert spent.leakage_nw[0] == pytest.approx(3000)  # both levels of the clock


def test_a_clock_tree_by_hand():
    """20 flip-flops hang at 2 buffers, and these at one: each takes 1 fF at 2 V and 5 fJ a rise."""
    design, _ = timed([f"DFF CK=clk D=d Q=q{i}" for i in range(20)], "clk d", outputs="q0")
    tree = clock_tree(design)
    assert (tree.cell, tree.buffers) == ("BUF", 3)
    assert tree.energy_fj == pytest.approx(3 * (4 + 5))
    assert tree.leakage_nw == pytest.approx(3 * 3000)
    single, _ = timed(["DFF CK=clk D=d Q=y"], "clk d")
    assert clock_tree(single).buffers == 0


def test_transitions_as_vcd(cache, tmp_path):
    design, _ = timed(HAZARD, "a")
    counted(design, "0110", cache, vcd=tmp_path / "run.vcd")
    text = (tmp_path / "run.vcd").read_text()
    head, _, body = text.partition("$enddefinitions $end\n")
    assert "$timescale 1 fs $end" in head
    assert "$scope module c1 $end" in head
    # n2 is a, n3 is n, n4 is y: a pulse of 5 ps after 2 ps, in cycles 0 and 2.
    assert " ".join(body.split()) == (
        '#0 $dumpvars 0! 0" 0# $end 1! #2000 1# #5000 1" #7000 0# #2000000 0! #2002000 1# '
        '#2005000 0" #2007000 0# #3000000'
    )


@pytest.mark.parametrize(
    ("cells", "inputs", "message"),
    [
        (["DFF CK=a D=b Q=y", "DFF CK=b D=a Q=z"], "a b", "activity needs one clock, not a, b"),
        (["BUF A=clk Y=n", "DFF CK=n D=d Q=y"], "clk d", "c1 is no flip-flop that the rising edge"),
    ],
)
def test_circuits_that_are_refused(cells, inputs, message):
    with pytest.raises(SynthesisError, match=message):
        timed(cells, inputs)


def test_a_cell_with_too_many_pins_is_refused():
    names = [f"A{i}" for i in range(13)]
    pins = " ".join(f"pin ({n}) {{ direction : input; }}" for n in names)
    wide = f'cell (WIDE) {{ area : 1; {pins} pin (Y) {{ direction : output; function : "A0"; }} }}'
    text = POWER.replace("cell (BUF)", f"{wide} cell (BUF)")
    line = "WIDE Y=y " + " ".join(f"{name}=a" for name in names)
    with pytest.raises(SynthesisError, match="WIDE must have at most 12 inputs and variables, not"):
        timed([line], "a", text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('when : "D & !Q"', 'when : "D &"', "cell|line .*'D &' is no Boolean function"),
        ("value : 4", "value : four", "value must be a number, not 'four'"),
        ('values ("50")', 'values ("fifty")', "rise_power must hold numbers, not 'fifty'"),
    ],
)
def test_malformed_power_is_an_error(old, new, message):
    library = parse(POWER.replace(old, new, 1), "hand")
    with pytest.raises(SynthesisError, match=message):
        print(library.cells["DFF"].power)


def test_a_condition_on_an_unknown_pin_is_an_error(cache):
    design, _ = timed(HAZARD, "a", POWER.replace('when : "B"', 'when : "E"'))
    with pytest.raises(SynthesisError, match="cell XOR2 has no pin E"):
        power(design, counted(design, "01", cache))


def test_a_library_without_power_spends_capacitance_alone(cache):
    design, _ = timed(["INV A=a Y=n", "INV A=n Y=y"], "a", LIBRARY)
    counts = counted(design, "0101", cache)
    spent = power(design, counts)
    assert not design.library.has_power
    # n drives 2 fF on average of rise and fall; 1 V, for the library names no voltage.
    assert spent.switching * 3 == pytest.approx([3 * 1.0, 0])
    assert not spent.internal.any()
    assert not spent.leakage_nw.any()


def test_tables_of_arrays_are_tables_of_numbers():
    table = Table((0, 4, 10), (0, 10), ((10, 20), (11, 25), (12, 22)))
    points = np.random.default_rng(1).uniform(-5, 20, (50, 2))
    single = [table(x, y) for x, y in points.tolist()]
    np.testing.assert_allclose(table.at(points[:, 0], points[:, 1]), single)
    assert Table((0,), (0,), ((7,),)).at(np.zeros(2), np.zeros(2)).tolist() == [7, 7]


REPORT = """Group                       Internal       Switching         Leakage           Total
Sequential           1.0e-04 1.9e-05 1.8e-07 1.5e-04  16.5%
Total                4.5e-04 5.5e-04 6.5e-07 9.2e-04 100.0%
"""


@pytest.mark.parametrize("report", [REPORT, "nothing"])
def test_power_by_opensta(report, tmp_path, monkeypatch):
    """A stand-in for the program: the script that it is given, and its report read."""
    program = tmp_path / "any-sta"
    program.write_text(f"#!/bin/sh\necho \"$@\" > words\ncat <<'END'\n{report}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv(tools.STA, str(program))
    design, _ = numbered_netlist(["DFF CK=clk D=d Q=y"], "clk d")

    def ask():
        return sta_power(
            design, parse(POWER, "hand"), tmp_path, libraries=["cells.lib"],
            around=Surroundings(), period_ps=500.0, vcd="run.vcd", source="d", limit=60,
        )  # fmt: skip

    if report == "nothing":
        with pytest.raises(SynthesisError, match="OpenSTA on d reports no power: nothing"):
            ask()
        return
    assert ask() == pytest.approx({"internal": 0.45, "switching": 0.55, "leakage": 6.5e-4})
    script = (tmp_path / "script.tcl").read_text()
    assert "create_clock -name n2 -period 500 [get_ports n2]" in script
    assert script.index("link_design mapped") < script.index("read_vcd -scope mapped run.vcd")
    assert "c0 (" in (tmp_path / "mapped.v").read_text()
