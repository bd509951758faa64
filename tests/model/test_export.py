"""Exports in C and Sail, compiled or interpreted, against the model.

A rule takes 100,000 hostile dot products in C, `MXDOT_FULL=1` a million; Sail takes 400 and 10,000.
`MXDOT_SEED=n` draws others.
"""

import os
import subprocess

import numpy as np
import pytest

from command_line import refusal
from compare import FULL
from exports import BLOCKS, RULES, STRICT, Compiled, differing, expected
from mxdot.cli import main
from mxdot.model import element_format
from mxdot.model.accumulators import MACHINES, Aligned, accumulator
from mxdot.model.export import LANGUAGES, default_name, export, parameters
from mxdot.model.export.program import specialised
from mxdot.model.formats import IntegerFormat
from mxdot.model.products import Pair
from sail_subset import load

SEED = int(os.environ.get("MXDOT_SEED", "1"))
EACH = [(rule, *pair) for rule, pairs in RULES.items() for pair in pairs]
PIECE = 50_000


@pytest.mark.parametrize(("rule", "a", "b", "block"), EACH, ids=str)
def test_c_is_the_model(rule, a, b, block, tmp_path):
    compiled, count = None, 1_000_000 if FULL else 100_000
    pieces = count // len(RULES[rule]) // PIECE
    for piece in range(pieces):
        want = expected(rule, a, b, block, PIECE, SEED + piece)
        compiled = compiled or Compiled(rule, a, b, tmp_path, want.cases)
        assert differing(want, compiled.results(want.cases)) == []


@pytest.mark.parametrize(("rule", "a", "b", "block"), EACH, ids=str)
def test_sail_is_the_model(rule, a, b, block):
    want = expected(rule, a, b, block, 10_000 if FULL else 400, SEED + 100)
    name = default_name(accumulator(rule), element_format(a), element_format(b))
    function = load(export("sail", rule, a, b))[name]
    results = [function(*row, BLOCKS, block, c) for *row, c in _as_integers(want.cases)]
    assert differing(want, np.array(results)) == []


def _as_integers(cases):
    """Operands of each dot product as integers, element 0 lowest, and the bits of c."""
    sides = [
        _joined(cases.a.codes, cases.a.format.bits),
        _joined(cases.b.codes, cases.b.format.bits),
        _joined(cases.a.scales, 8),
        _joined(cases.b.scales, 8),
        cases.c.view(np.uint32).tolist(),
    ]
    return zip(*sides, strict=True)


def _joined(codes, bits):
    return [sum(code << bits * i for i, code in enumerate(row)) for row in codes.tolist()]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x + 1 == 2", "brackets are missing"),
        ("x + 1", "bool expected, not int"),
        ("{ return x == 1; }", "a semicolon at the end of a block"),
        ("not(x)", "not"),
        ("y == 1", "y"),
        ("unsigned(x) == 1", "bits expected, not int"),
        ("(x & 1) == 1", "x & \\(1\\) has int and int"),
    ],
)
def test_the_interpreter_refuses_what_sail_refuses(body, message):
    with pytest.raises((SyntaxError, TypeError, KeyError), match=message):
        load(f"val f : int -> bool\nfunction f(x) = {body}\n")


def test_headers_go_together_in_one_program_of_c_plus_plus(tmp_path):
    names = {"one": "rvbna:8", "two": "hopper-promoted"}
    for name, rule in names.items():
        (tmp_path / f"{name}.h").write_text(export("c", rule, "e4m3", name=name))
    text = '#include "one.h"\n#include "two.h"\n#include "one.h"\nint main() { return 0; }\n'
    (tmp_path / "both.cc").write_text(text)
    command = ["g++", "-std=c++17", *STRICT, "-Wno-unused-function", "both.cc", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_no_header_needs_128_bits():
    assert "__int128" not in "".join(export("c", rule, a, b) for rule, a, b, _ in EACH)


def test_a_wrong_rule_is_noticed(tmp_path):
    want = expected("aligned:13", "e4m3", "e4m3", 32, 1000, SEED)
    wrong = Compiled("aligned:12", "e4m3", "e4m3", tmp_path, want.cases)
    assert differing(want, wrong.results(want.cases))


def test_other_parameters_make_another_program():
    pair = Pair(element_format("e4m3"), element_format("e4m3"))
    program = specialised(parameters(accumulator("aligned:13"), pair), "dot")
    names = {function.name for function in program.functions}
    assert "aligned" in names
    assert not names & {"fused", "tree", "promoted", "dot_fixed"}
    assert program.constants["FRACTION_BITS"] == 13


@pytest.mark.parametrize("machine", MACHINES.values(), ids=str)
def test_every_machine_is_exported(machine):
    a, b = min(machine.pairs, key=str)
    assert export("c", machine, a, b)


def test_a_subclass_has_no_rule_of_its_parent():
    class Other(Aligned):
        pass

    with pytest.raises(ValueError, match="must have its class Other in RULES of"):
        export("c", Other(13), "e4m3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--c --accumulator hoper", "accumulator must be one of exact, aligned:F[:R]"),
        ("--c --accumulator int32", "accumulator int32 takes integer formats only"),
        ("--c --format e4m3,e5m2", "format must be one format or pair, not 'e4m3,e5m2'"),
        ("--c --name int", "name must be no reserved word of C, not 'int'"),
        ("--c --name class", "name must be no reserved word of C, not 'class'"),
        ("--sv --name module", "name must be no reserved word of SystemVerilog, not 'module'"),
        ("--sail --name forall", "name must be no reserved word of Sail, not 'forall'"),
        ("--sail --name 2x", "name must be lower-case letters, digits and _, not '2x'"),
        ("", "one of the arguments --c --sv --sail is required"),
        ("--c --sv", "argument --sv: not allowed with argument --c"),
        ("--c -o .", "output must be a file, not the directory ."),
    ],
)
def test_refusals_are_one_line(arguments, message, capsys):
    assert refusal(capsys, "export", *arguments.split()).startswith(message)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_command_writes_what_the_function_gives(language, capsys, tmp_path):
    path = tmp_path / "rule"
    arguments = [
        "export",
        f"--{language}",
        "--format",
        "e5m2xe4m3",
        "--accumulator",
        "fixed:48:-20",
    ]
    assert main([*arguments, "-o", str(path)]) == 0
    assert capsys.readouterr().out == (
        f"{path}: mxdot_fixed_48_m20_e5m2xe4m3, e5m2xe4m3 fixed:48:-20\n"
    )
    assert main(arguments) == 0
    text = export(language, "fixed:48:-20", "e5m2", "e4m3")
    assert capsys.readouterr().out == text == path.read_text()


def test_integers_of_two_bits():
    two = IntegerFormat("two", 2, -1, 1, symmetric=True)
    assert "mxdot_exact_two" in export("c", "exact", two)


def test_integers_that_do_not_need_all_their_bits_are_refused():
    narrow = IntegerFormat("narrow", 8, -64, 63, 5, symmetric=True)
    message = "^format must be a float, or two's complement that needs all its bits, not narrow$"
    with pytest.raises(ValueError, match=message):
        export("c", "exact", narrow)
