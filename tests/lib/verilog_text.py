"""Modules, ports and names in the text of the generated Verilog."""

import re
from functools import cache
from pathlib import Path

from mxdot import hw
from mxdot.hw.verilog import generate, modules_of, without_remarks
from mxdot.hw.verilog.plan import KEYWORDS
from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.engine.toolchain import BuildError
from mxdot.sim.engine.verilator import lint

WAIVERS = Path(hw.__file__).parent / "verilator.vlt"
PORT = re.compile(r"  (input |output) wire +(?:\[(\d+):0\] +)?(\w+),?(?:  // .+)?")

QUICK = DotConfig("e2m1", 4, "fixed:24:-6")
"""A dot unit whose Verilog is soon there."""

KINDS = {
    "dot": DotConfig("e4m3,e5m2xe4m3,int8", 4, "hopper-promoted", 5, "bfloat16"),
    "quantize": QuantizeConfig(
        "e4m3,int8", 4, "bfloat16", "floor,ceil,even", "stochastic", "element", beats=2
    ),
    "dot-quantize": DotQuantizeConfig(QUICK, "e2m1", 4),
    "matmul": MatmulConfig(QUICK, 1, 1, 4, 7, initial_c=True),
}
"""A small unit of each kind."""

generated = cache(generate)
"""The Verilog of a configuration, of which tests of one process look at several sides."""

Ports = dict[str, tuple[str, int]]
"""(direction, width) of each port, in order."""


def modules(text: str) -> dict[str, str]:
    """The text of each module, by name."""
    by_name = modules_of(text)
    code = without_remarks(text)
    assert len(by_name) == code.count("endmodule") == len(re.findall(r"\bmodule\b", code))
    return by_name


def ports(module: str) -> Ports:
    """The ports of a module, which has one a line."""
    head = module[: module.index("\n);\n")].splitlines()[1:]
    lines = [PORT.fullmatch(line) for line in head]
    assert None not in lines, head
    named = [line.groups() for line in lines if line is not None]
    return {name: (direction.strip(), int(top or 0) + 1) for direction, top, name in named}


def header_ports(text: str) -> Ports:
    """The ports that the comment on top of the text lists."""
    head = text.split("\n\n", 1)[0]
    listed = re.findall(r"^// (in|out) +(?:\[(\d+):0\])? +(\w+) ", head, flags=re.M)
    directions = {"in": "input", "out": "output"}
    return {name: (directions[d], int(top or 0) + 1) for d, top, name in listed}


def body(module: str) -> str:
    """Text between the ports of a module and its end."""
    return module[module.index("\n);\n") + 4 : -len("endmodule\n")]


def undeclared(module: str) -> list[str]:
    """Names that the module reads or writes above their declarations, or without one."""
    known, missing = set(ports(module)), []
    for line in without_remarks(body(module)).splitlines():
        line = re.sub(r"^  \w+ \w+(?= \(\.|$)", "", line)  # an instance: its module and its name
        declared = re.match(r"  (?:wire|reg|localparam) (?:\[\d+:\d+\] )?(\w+)", line)
        known |= {declared[1]} if declared else set()
        read = re.findall(r"(?<![.'\w])[A-Za-z_]\w*", re.sub(r"\.\w+\(", "(", line))
        missing += [name for name in read if name not in known | KEYWORDS and name != "signed"]
    return missing


def check_names(text: str) -> None:
    """Every name is declared above its uses and comes from the design; none is escaped."""
    assert [name for module in modules(text).values() for name in undeclared(module)] == []
    assert re.findall(r"\b_\d+_\b|\b_*signal(?:_\d+)?\b|\\", without_remarks(text)) == []


def check_lint(text: str, top: str, directory: Path) -> None:
    """Verilator says nothing with the waivers, and the waivers hide no dead net.

    Without that of unused signals it may name inputs alone: what one of their readers ignores.
    """
    source, strict = directory / "unit.v", directory / "strict.vlt"
    source.write_text(text)
    strict.write_text(re.sub(r"^lint_off -rule UNUSEDSIGNAL$", "", WAIVERS.read_text(), flags=re.M))
    lines = text.splitlines()
    for rule, line, message in warnings(source, top, strict):
        assert rule == "UNUSEDSIGNAL", message
        assert lines[line - 1].startswith("  input "), message


def warnings(source: Path, top: str, waivers: Path) -> list[tuple[str, int, str]]:
    """(rule, line, message) of what Verilator warns of."""
    try:
        lint(source, top, waivers)
    except BuildError as error:
        told = re.findall(r"^%Warning-(\w+): [^:]+:(\d+):\d+: (.*)", str(error), re.M)
        if not told or re.search(r"^%Error(?!: Exiting due to)", str(error), re.M):
            raise
        return [(rule, int(line), message) for rule, line, message in told]
    return []


FULL_ROW = """module m_full_adder_4 (
  input  wire [3:0] a,
  input  wire [3:0] b,
  input  wire [3:0] c,
  output wire [3:0] sum,
  output wire [3:0] carry
);
  wire [3:0] half = a ^ b;
  assign sum = half ^ c;
  assign carry = (a & b) | (half & c);
endmodule
"""
"""A row of full adders, as units have them."""
