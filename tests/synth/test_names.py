"""Names in Liberty and Verilog files, and of them, that another tool would read as more."""

import json
import re

import pytest

from command_line import refusal
from mxdot.cli import main
from mxdot.synth import Flow, SynthesisError, asic, gates, measure, opensta, script, tools
from mxdot.synth.liberty import parse
from mxdot.synth.netlist import load
from mxdot.synth.scripts import latches
from odd_names import ODD

LATCH = "module m(input e, d, output reg q); always @* if (e) q = d; endmodule\n"
TEXT = gates.liberty_text().replace("library (gates)", "library (own)")


@pytest.fixture(autouse=True)
def nothing_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob("pwned"))


def quoted(name: str) -> str:
    """A Liberty string, which has no escapes."""
    return f'"{name}"'


def renamed(name: str, old: str = "cell (LATCH)", new: str = "cell (@)") -> str:
    """The library with `old` in place of `new`, in which @ is `name`."""
    text = TEXT.replace(old, new.replace("@", name))
    assert text != TEXT
    return text


def test_a_cell_cannot_command_yosys(tmp_path):
    """`techmap` runs what a wire _TECHMAP_DO_00_ of the file of latches says."""
    command = f"exec -- touch {tmp_path}/pwned".encode()
    wire = f"wire [{8 * len(command) - 1}:0] _TECHMAP_DO_00_ = {8 * len(command)}'h{command.hex()}"
    (tmp_path / "own.lib").write_text(renamed(quoted(f"{wire}; LATX")))
    message = r"own.lib, line \d+: the name of a cell must be a letter or _, then .* not \"wire"
    with pytest.raises(SynthesisError, match=message):
        measure(LATCH, "m", Flow("cells", liberty=tmp_path / "own.lib"), cache_dir=tmp_path)


@pytest.mark.parametrize(
    "name", [*(n for n in ODD if not re.search(r'"|\\$', n)), "", "$x", "1x", "a[b]"]
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cell (LATCH)", "cell (@)"),
        ("pin (G)", "pin (@)"),
        ('pin (Q) { direction : output; function : "IQ"; }\n  }', "pin (@) { } }"),
        ("cell (LATCH) {", "cell (@) { dont_use : true;"),
    ],
    ids=["cell", "input", "output", "unused cell"],
)
def test_names_of_cells_and_pins_are_refused(name, old, new):
    message = r"library x, line \d+: the name of a (cell|pin) must be a letter or _, .*, not "
    with pytest.raises(SynthesisError, match=message) as error:
        parse(renamed(quoted(name), old, new), "x")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["LAT-X1", "LAT+.v2$", "module", "L[3]"])
def test_names_that_verilog_must_escape_serve(name, tmp_path):
    text = renamed(quoted(name)).replace("pin (G)", "pin (reg)").replace('"G"', '"reg"')
    (tmp_path / "own.lib").write_text(text)
    flow = Flow("cells", liberty=tmp_path / "own.lib", timing="abc")
    found = measure(LATCH, "m", flow, cache_dir=tmp_path)
    assert found.extra["cells"] == {name: 1}
    assert f"\\{name} _TECHMAP_REPLACE_ (.\\D (D), .\\Q (Q), .\\reg (E));" in latches(
        parse(text, "own.lib")
    )


def test_a_pin_called_as_a_constant_is_a_pin():
    text = TEXT.replace("pin (A)", "pin (ones)").replace("!(A &", "!(ones &")
    assert parse(text, "x").nand2.name == "NAND2"


@pytest.mark.parametrize("name", [*ODD, "", "\\a ", "a%", "*"])
def test_names_of_a_design_are_identifiers(name):
    def refused(**options):
        with pytest.raises(ValueError, match=r"must be a Verilog identifier \(.*\), not ") as error:
            measure(**{"verilog": LATCH, "top": "m", "cache_dir": None} | options)
        assert "\n" not in str(error.value)

    refused(top=name)
    refused(parameters={name: 1})
    refused(black_boxes=[name])


@pytest.mark.parametrize(
    "value", [*ODD, *(f'"{name}"' for name in ODD if re.search(r'[\s;"]', name))]
)
def test_values_of_parameters_are_one_word(value):
    with pytest.raises(
        ValueError, match="W must be a Verilog number or a quoted string, not "
    ) as e:
        script(LATCH, "m", parameters={"W": value})
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "text", ["a#b", "a\\", "$(touch)", "`touch`", "[exec]", "!touch", "{}", "%"]
)
def test_a_string_is_a_string_to_yosys(text, tmp_path):
    verilog = 'module m #(parameter S = "") (output [63:0] y); assign y = S; endmodule\n'
    reading = script(verilog, "m", parameters={"S": f'"{text}"'}).partition("synth ")[0]
    (tmp_path / "design.v").write_text(verilog)
    tools.run_yosys(f"{reading}proc\nwrite_json out.json\n", tmp_path, "", 60)
    (_, bits) = load(tmp_path / "out.json")[""].ports["y"]
    assert int("".join(map(str, bits[::-1])), 2).to_bytes(8, "big").lstrip(b"\0") == text.encode()


IMPORT = "import {} function integer raise(integer s);\nlocalparam Q = raise(11);\n"


@pytest.mark.parametrize(
    "text",
    [
        IMPORT.format('"DPI-C"'),
        IMPORT.format('"DPI"'),
        IMPORT.format('"DP\rI-C"'),
        '`define C "DPI-C"\n`define I import\n' + IMPORT.format("`C").replace("import", "`I"),
        '`define S(x) `"x`"\n' + IMPORT.format("`S(DPI-C)"),
        '`include "{}/c.vh"\n',
    ],
    ids=["DPI-C", "DPI", "carriage return", "macro", "string of a macro", "include"],
)
def test_a_design_cannot_call_c_functions(text, tmp_path):
    """Yosys calls those of its own process, at once: this one would end it."""
    (tmp_path / "c.vh").write_text(IMPORT.format('"DPI-C"'))
    verilog = f"module m(output y);\n{text}assign y = Q; endmodule\n"
    refused(verilog.replace("{}", str(tmp_path)), tmp_path)


@pytest.mark.parametrize("yosys", tools.YOSYS)
def test_a_package_cannot_call_c_functions(yosys, tmp_path, monkeypatch):
    monkeypatch.setenv(tools.CHOICE, yosys)
    package = "package p;\n" + IMPORT.format('"DPI-C"') + "endpackage\n"
    refused(package + "module m(output y); assign y = p::Q; endmodule\n", tmp_path)


def refused(verilog, cache_dir):
    with pytest.raises(SynthesisError, match=r"mac\.v.*Found DPI function \\raise\.$") as error:
        measure(verilog, "m", cache_dir=cache_dir, source="mac.v", systemverilog=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "`ifndef SYNTHESIS\n" + IMPORT.format('"DPI-C"') + "`endif",
        '`define S(x) `"x`"\nlocalparam [63:0] S = `S(DPI);',
        '// import "DPI-C" function void f();',
        'localparam [63:0] S = "DPI-C";',
    ],
    ids=["not in synthesis", "string of a macro", "comment", "string"],
)
def test_a_design_that_calls_none_serves(text, tmp_path):
    verilog = f"module m(input a, b, output y);\n{text}\nassign y = a & b; endmodule\n"
    assert measure(verilog, "m", cache_dir=tmp_path).area > 0


@pytest.mark.parametrize("name", [name for name in ODD if not re.search(r"\s|\x1b", name)])
def test_opensta_is_told_no_names_of_the_design(name, tmp_path, monkeypatch):
    verilog = f"""module m(input \\{name} , input d, output reg \\q{name} );
      always @(posedge \\{name} ) \\q{name} <= d; endmodule\n"""
    (tmp_path / "own.lib").write_text(TEXT)
    seen = []

    def run_sta(script, directory, *_):
        seen.extend([script, (directory / "mapped.v").read_text()])
        return "worst slack 1.0"

    monkeypatch.setattr(opensta, "run_sta", run_sta)
    monkeypatch.setattr(asic, "sta_version", lambda: "OpenSTA 9")
    flow = Flow("cells", liberty=tmp_path / "own.lib", timing="opensta", sections=False)
    measure(verilog, "m", flow, cache_dir=tmp_path)
    (tcl, netlist) = seen
    assert re.search(r"^create_clock -name (n\d+) -period \S+ \[get_ports \1\]$", tcl, re.M)
    assert name not in tcl + netlist
    assert re.fullmatch(r"[\w\s.\[\]-]*", tcl)


@pytest.mark.parametrize("name", [f"{name}.v" for name in ODD if "/" not in name] + ["-v.v"])
def test_a_verilog_file_of_any_name(name, tmp_path, capsys):
    (tmp_path / name).write_text(LATCH)
    assert main(["synth", "--top", "m", "--json", "--", name]) == 0
    assert json.loads(capsys.readouterr().out)["extra"]["latches"] == 1
    said = refusal(capsys, "synth", "--top", "nix", "--", name)
    assert said.startswith("Yosys on ")
    assert said.endswith(": Module 'nix' not found!")
    assert "\x1b" not in said


@pytest.mark.parametrize("name", [name for name in ODD if "/" not in name])
def test_a_library_of_any_name(name, tmp_path, capsys):
    (tmp_path / "m.v").write_text(LATCH)
    (tmp_path / f"{name}.lib").write_text(TEXT)
    command = ["synth", "m.v", "--top", "m", "--flow", "cells", "--timing", "abc"]
    assert main([*command, "--liberty", f"{name}.lib"]) == 0
    capsys.readouterr()
    assert refusal(capsys, *command, "--liberty", f"{name}.nix")
