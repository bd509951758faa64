"""Liberty files, Boolean functions of cells, and the generic library."""

import itertools
import re
from pathlib import Path

import pytest

from liberty_texts import SMALL
from mxdot.synth import SynthesisError, gates
from mxdot.synth.liberty import parse
from mxdot.synth.liberty_syntax import Function


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("!A", lambda a, b, c: not a),
        ("A'", lambda a, b, c: not a),
        ("(A*B)+C", lambda a, b, c: (a and b) or c),
        ("A B + C", lambda a, b, c: (a and b) or c),
        ("A+B C", lambda a, b, c: a or (b and c)),
        ("A B'", lambda a, b, c: a and not b),
        ("!(A ^ B & C)", lambda a, b, c: not ((a ^ b) and c)),
        ("!A&!B|C'", lambda a, b, c: (not a and not b) or not c),
        ("((A)')'", lambda a, b, c: a),
        ("1", lambda a, b, c: True),
        ("A & 0", lambda a, b, c: False),
    ],
)
def test_function(text, want):
    function = Function.parse(text)
    for bits in itertools.product((0, 1), repeat=3):
        values = dict(zip("ABC", bits, strict=True))
        assert function.evaluate(values, 1) == int(bool(want(*bits))), bits


def test_function_serves_many_cases_at_a_time():
    assert Function.parse("!(A & B)").evaluate({"A": 0b1010, "B": 0b1100}, 0b1111) == 0b0111


@pytest.mark.parametrize("text", ["", "A &", "(A", "A)", "A # B", "& A", "'"])
def test_function_refuses(text):
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is no Boolean function")):
        Function.parse(text)


@pytest.mark.parametrize("text", ["(" * 101 + "A" + ")" * 101, "!" * 5000 + "A", "A" + "'" * 101])
def test_function_refuses_deep_nesting(text):
    with pytest.raises(ValueError, match="a Boolean function must be nested at most 100 deep"):
        Function.parse(text)


def test_deep_groups_are_refused():
    with pytest.raises(SynthesisError, match="groups must be at most 50 deep in one another"):
        parse("library (x) {" * 3000, "x")


def test_a_string_holds_no_comment():
    text = SMALL.replace("  cell (LATX)", '  foo : "/*"; cell (LATX)')
    text = text.replace("  cell (NAND2_TINY)", '  foo : "*/"; bar : "//"; cell (NAND2_TINY)')
    assert parse(text, "x").cells == parse(SMALL, "x").cells


def test_a_comment_holds_no_string():
    text = SMALL.replace("  cell (LATX)", '/* " */ cell/*\n"*/(OTHER) {} // "\n  cell (LATX)')
    assert set(parse(text, "x").cells) == {*parse(SMALL, "x").cells, "OTHER"}


def test_a_comment_without_end_takes_the_rest():
    with pytest.raises(SynthesisError, match=r"library x, line .*the group library .*not closed"):
        parse(SMALL.replace("  cell (LATX)", "  /* cell (LATX)"), "x")


def test_library():
    library = parse(SMALL, "small.lib")
    assert (library.name, library.time_ps, library.capacitance_ff) == ("small", 10.0, 2.0)
    assert library.voltage == 1.1
    assert set(library.cells) == {"NAND2_X1", "NAND2_X2", "DFFRQ", "LATX"}
    assert library.nand2.name == "NAND2_X1"
    assert library.nand2.inputs == {"A": 1.5, "B": 1.5}


@pytest.mark.parametrize(
    ("unit", "capacitance_ff"),
    [("1.000e+00,pf", 1000.0), ("25E-1,ff", 2.5), ("1.,pf", 1000.0), (".5,pf", 500.0)],
)
def test_a_unit_with_an_exponent(unit, capacitance_ff):
    assert parse(SMALL.replace("2, ff", unit), "x").capacitance_ff == capacitance_ff


@pytest.mark.parametrize("unit", ["1V", "10mV", "1e-3V"])
def test_a_supply_in_units_of_voltage(unit):
    text = SMALL.replace("nom_voltage : 1.1", f'voltage_unit : "{unit}"; nom_voltage : 110')
    volts = {"1V": 1.0, "10mV": 0.01, "1e-3V": 1e-3}[unit]
    assert parse(text, "x").voltage == pytest.approx(110 * volts)


def test_flipflop_and_latch():
    cells = parse(SMALL, "small.lib").cells
    assert cells["DFFRQ"].is_flipflop
    assert cells["LATX"].is_latch
    assert not cells["LATX"].is_flipflop
    clear = cells["DFFRQ"].state["Q1"]
    assert [clear.evaluate({"D": d, "RN": r}, 1) for d, r in ((1, 1), (1, 0), (0, 1))] == [1, 0, 0]
    assert cells["DFFRQ"].state["Q1N"].evaluate({"D": 1, "RN": 0}, 1) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("area : 2.5", "area : big"), "cell NAND2_X1, line 9: area must be a number, not 'big'"),
        (
            ('"!(A B)"', '"!(A B"'),
            "library small.lib, cell NAND2_X2, line 8: '!(A B' is no Boolean function",
        ),
        (("cell (LATX) {", "cell (LATX {"), "line 20: the parenthesis after cell is not closed"),
        (('"10ps"', '"10 days"'), "time_unit must be a number of fs or ps or ns, not '10 days'"),
        *(
            (("area : 2.5", f"area : {text}"), f"line 9: area must be a number, not '{text}'")
            for text in ("nan", "inf", "1e999", "1_0")
        ),
        (("area : 2.5", "area : -2.5"), "line 9: area must be at least 0, not -2.5"),
        (('"10ps"', '"1.1.1ps"'), "time_unit must be a number of fs or ps or ns, not '1.1.1ps'"),
        *(
            (
                ("2, ff", f"{unit}"),
                f"capacitive_load_unit must be a number of ff or pf, not '{unit.replace(' ', '')}'",
            )
            for unit in ("1e, pf", "1e-400, pf", "1e308, pf")
        ),
        (
            ('"10ps"', '"10ps"; voltage_unit : "1kV"'),
            "voltage_unit must be a number of mv or v, not '1kV'",
        ),
        (('"10ps"', '"0ps"'), "time_unit must be a number of fs or ps or ns, not '0ps'"),
        (("library (small) {", "{"), "line 3: a statement cannot begin with '{'"),
    ],
)
def test_library_refuses(change, message):
    text = SMALL.replace(*change)
    assert text != SMALL
    with pytest.raises(SynthesisError, match=re.escape(message)):
        parse(text, "small.lib")


def test_library_that_breaks_off():
    text = SMALL[: SMALL.rindex("}")]
    with pytest.raises(SynthesisError, match="the group library of line 3 is not closed"):
        parse(text, "small.lib")


def test_not_a_library():
    with pytest.raises(SynthesisError, match="has no library group: this is not a Liberty file"):
        parse("", "empty.lib")
    with pytest.raises(SynthesisError, match=r"library x\.lib defines no cells"):
        parse("library (x) { }", "x.lib")
    with pytest.raises(SynthesisError, match=r"line 1: '\?{40}' must be followed by ':' or '\('"):
        parse("?" * 5000, "binary.lib")


def test_library_without_nand2():
    library = parse(SMALL.replace("!(A B)", "A B").replace("(A' + B')", "A + B"), "small.lib")
    with pytest.raises(SynthesisError, match="library small has no two-input NAND cell"):
        _ = library.nand2


def test_nand2_is_a_function_of_its_pins():
    """A cell may name an inner node, which nothing here knows."""
    text = SMALL.replace("(A' + B')", "!(A inner)")
    assert parse(text, "small.lib").nand2.name == "NAND2_X2"


def test_generic_library():
    cells = gates.library().cells
    assert {n: cells[n].area for n in ("INV", "NAND2", "AND2", "XOR2", "MUX2", "DFF", "DFFR")} == {
        "INV": 0.5,
        "NAND2": 1.0,
        "AND2": 1.5,
        "XOR2": 2.5,
        "MUX2": 3.0,
        "DFF": 6.0,
        "DFFR": 7.0,
    }
    assert gates.library().nand2.name == "NAND2"
    levels = {name: cell.levels for name, cell in cells.items() if cell.clock is None}
    assert [levels[n] for n in ("INV", "NAND2", "XOR2", "NAND3", "AOI22", "MUX2")] == [
        0,
        1,
        1,
        2,
        2,
        2,
    ]


def test_areas_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
    cells = re.findall(r"\| ([A-Z][A-Z0-9, ]+?)(?: \([a-z, ]+\))? \| ([\d.]+) (?=\|)", text)
    documented = {name: float(area) for names, area in cells for name in names.split(", ")}
    areas = {name: cell.area for name, cell in gates.library().cells.items()}
    assert documented == areas
