"""The Verilog that the writer makes equals the RTLIL that Amaranth writes: proven by Yosys and ABC.

Both designs stand side by side with the same inputs. From registers that are all 0, with a reset in
the first cycle, no sequence of inputs of any length makes an output differ afterwards. ABC finds by
itself which registers and nets correspond, and proves it by induction. Amaranth's RTLIL has passed
through nothing of ours: neither the modules of hw/hierarchy.py nor Yosys's clean-up.
"""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Signal

from mxdot.hw import generate
from mxdot.hw.arithmetic.adders import AdderTree
from mxdot.hw.arithmetic.multiply import Multiplier, Square
from mxdot.hw.dot.block import BlockSum
from mxdot.hw.matmul.results import Drain
from mxdot.hw.verilog import TOPS, modules_text, without_remarks
from mxdot.model import DotConfig, QuantizeConfig
from mxdot.model.pipeline.widths import Widths
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.synth.tools import run_yosys
from small_circuits import DESIGNS
from verilog_bench import Around
from verilog_text import KINDS, modules, ports

LIMIT = 600  # seconds
SCRIPT = """
read_rtlil own.il
read_verilog written.v both.v
hierarchy -check -top both
proc
flatten
setattr -unset init w:*
memory_map
opt_clean
techmap
opt_clean
dffunmap
setundef -init -zero
aigmap
opt_clean
write_aiger -zinit both.aig
"""


def is_same(design: Elaboratable, signals: list[Signal], text: str, directory: Path) -> bool:
    """Whether `design` with the ports `signals` is the first module of `text`."""
    top, module = next(iter(modules(text).items()))
    named = {signal.name: (signal, None) for signal in signals}
    own = rtlil.convert(design, name="own", ports=named, emit_src=False)
    (directory / "own.il").write_text(own)
    (directory / "written.v").write_text(text)
    (directory / "both.v").write_text(side_by_side("own", top, module))
    run_yosys(SCRIPT, directory, "the Verilog", LIMIT)
    package = importlib.util.find_spec("pyosys")
    assert package is not None
    assert package.origin is not None
    done = subprocess.run(
        [Path(package.origin).with_name("yosys-abc"), "-c",
         "read both.aig; lcorr; scorr; dprove; print_status"],
        cwd=directory, capture_output=True, text=True, check=True, timeout=LIMIT,
    )  # fmt: skip
    (status,) = re.findall(r"^Status = (-?\d)", done.stdout, re.M)
    assert status in "01", done.stdout  # neither proven nor refuted
    return status == "1"


def side_by_side(own: str, written: str, module: str) -> str:
    """A module `both` with both designs, whose output tells that outputs of them differ."""
    sides = ports(module)
    inputs = {name: width for name, (side, width) in sides.items() if side == "input"}
    outputs = {name: width for name, (side, width) in sides.items() if side == "output"}
    clock = next((name for name in inputs if name in ("clk", "aclk")), None)
    lines = [f"  input wire [{width - 1}:0] {name}," for name, width in inputs.items()]
    lines = ["module both (", *lines, "  output wire differ", ");"]
    reset, late = "", "1'b1"
    if clock is not None:
        reset = next(name for name in inputs if name in ("rst", "aresetn"))
        late = "started"
        first = f"{reset} & started" if reset == "aresetn" else f"{reset} | ~started"
        lines += [
            "  reg started;",
            f"  always @(posedge {clock}) started <= 1'b1;",
            f"  wire first_{reset} = {first};",
        ]
    for name in (own, written):
        pins = [f".{p}({f'first_{p}' if p == reset else p})" for p in inputs]
        pins += [f".{port}({name}_{port})" for port in outputs]
        lines += [f"  wire [{width - 1}:0] {name}_{port};" for port, width in outputs.items()]
        lines.append(f"  {name} unit_{name} ({', '.join(pins)});")
    differ = " | ".join(f"({own}_{port} != {written}_{port})" for port in outputs)
    return "\n".join([*lines, f"  assign differ = {late} & ({differ});", "endmodule", ""])


UNITS = {
    **KINDS,
    "matmul": MatmulConfig(DotConfig("e2m1", 4, "exact", 1, status=False), 1, 1, 4),
    "aligned": DotConfig("e2m1", 4, "aligned:3", 2),
    "exact": DotConfig("e2m1", 4, "exact", 1, status=False),
    "fixed": DotConfig("e2m1", 4, "fixed:24:-8", out="bfloat16"),
    "float32": DotConfig("e2m1", 4, "float32", 3),
    "promoted": DotConfig("e2m1", 4, "hopper-promoted", 5),
    "integers": DotConfig(
        "int4", 4, "int32", out="int4_full:shift", scales="u2", zero_points="ab", stages=2
    ),
    "shift registers": QuantizeConfig(
        "e5m2", 4, "float16", "ceil", "stochastic", random="lfsr", stages=6
    ),
}


def unit_is_same(name: str, text: str, directory: Path) -> bool:
    unit = TOPS[type(UNITS[name])](UNITS[name])
    return is_same(unit, [signal for signal, _, _ in unit.ports], text, directory)


@pytest.mark.slow_except(7)
@pytest.mark.parametrize("name", UNITS)
def test_units(name, tmp_path):
    assert unit_is_same(name, generate(UNITS[name]), tmp_path)


@pytest.mark.parametrize("name", DESIGNS)
def test_operators_and_registers(name, tmp_path):
    design = Around(DESIGNS[name]())
    text = Around(DESIGNS[name]()).verilog(name)
    assert is_same(design, list(design.signals.values()), text, tmp_path)


PLAIN = {
    "product": lambda: Multiplier(4, 4),
    "square": lambda: Square(13),
    "terms": lambda: AdderTree(4, 4, 7),
    "total": lambda: BlockSum(Widths(DotConfig("e2m1", 4, "fixed:24:-8"))),
}
"""Components that `--target fpga` writes with `+` and `*`. Amaranth's RTLIL has full adders."""


@pytest.mark.parametrize("name", PLAIN)
def test_sums_and_products_as_operators(name, tmp_path):
    design, plain = Around(PLAIN[name]()), Around(PLAIN[name]())
    text = modules_text(plain, "plain", plain.signals, plain=True)
    assert "full_adder" not in text
    assert is_same(design, list(design.signals.values()), text, tmp_path)


def test_a_register_in_parts_that_takes_one_operator(tmp_path):
    """A counter from 4 down, one of whose bits is a register of its own for Yosys."""
    design = Around(Drain(5, 8))
    text = Around(Drain(5, 8)).verilog("drain")
    assert is_same(design, list(design.signals.values()), text, tmp_path)


# A proof that cannot fail proves nothing ----------------------------------------------------------


@pytest.mark.parametrize(("right", "wrong"), [(" + ", " - "), (" & ", " | "), ("~|", "|")])
@pytest.mark.slow_except(3)
def test_a_wrong_operator_of_a_unit_is_found(right, wrong, tmp_path):
    text = without_remarks(generate(UNITS["aligned"]))
    assert right in text
    assert not unit_is_same("aligned", text.replace(right, wrong, 1), tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("count_register <= 4'd5", "count_register <= 4'd4"),
        ("if (en) count_register", "if (!en) count_register"),
        (".rst(rst | clear)", ".rst(rst)"),
        ("held == 3'd3", "held == 3'd2"),
    ],
    ids=["reset value", "enable", "reset", "condition"],
)
def test_a_wrong_register_is_found(right, wrong, tmp_path):
    text = Around(DESIGNS["registers"]()).verilog("registers")
    assert right in text
    design = Around(DESIGNS["registers"]())
    signals = list(design.signals.values())
    assert not is_same(design, signals, text.replace(right, wrong), tmp_path)
