"""Claims that the assertions of `mxdot verilog --assertions` hold, as Yosys reads them."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from amaranth.hdl import Const, Module, Value

from ...hw.hierarchy import used
from ...hw.verilog import TOPS, generate
from ...hw.verilog.assertions import KNOWN, assertions, names_of
from ...model import DotConfig, DotQuantizeConfig, QuantizeConfig
from ...model.units import MatmulConfig, UnitConfig
from ...synth.tools import run_yosys
from . import aig
from .claim import Claim
from .engine import CORRESPONDING, Verdict, ask
from .observer import SUBJECT, ObservedUnit, Rule, connected
from .streams import READY_TOO_SOON
from .units import NO_ROOM

READ = """
read_verilog subject.v
read_verilog -formal -sv assertions.sv
read_verilog both.v
hierarchy -check -top both
proc
flatten
async2sync
chformal -lower
"""
WRITE = f"""
{aig.PASSES}
write_aiger -symbols both.aig
"""
# Registers begin as X, which goes on as in a simulator; inputs are known.
THROUGH_X = """
opt_clean
xprop -assume-def-inputs
opt
chformal -assume -remove
"""
SEQUENTIAL = CORRESPONDING.replace("scorr", "orpos; scorr")
# PDR says nothing about a graph without registers, when those that are alike have gone.
TRIVIAL = SEQUENTIAL.replace("pdr", "dprove")
BOUND = re.compile(r"^bind (\w+) (.*?;)$", re.M | re.S)
CHECK = re.compile(r"^ +(\w+): assert \(.*?\);\n", re.M | re.S)

RING_TOO_SOON = ("assign i_ready = ", "assign i_ready = i_valid | ")
"""The bug of units whose blocks have several beats: a beat is taken where there is no room."""
_DOT = {"formats": "e2m1", "lanes": 4}
UNITS: dict[str, tuple[UnitConfig, tuple[str, str]]] = {
    "dot": (DotConfig(**_DOT, accumulator="fixed:12:-3", stages=2), READY_TOO_SOON),
    "dot-loop": (DotConfig(**_DOT, accumulator="fused:3", stages=3), READY_TOO_SOON),
    "dot-i2": (DotConfig(**_DOT, accumulator="fused:3", stages=2, interleave=2), NO_ROOM),
    "integer": (DotConfig("int4", 4, "int32", 2, out="int32"), READY_TOO_SOON),
    "quantize": (QuantizeConfig("e2m1", 4, "bfloat16", stages=3), READY_TOO_SOON),
    "quantize-beats": (QuantizeConfig("e2m1", 4, "bfloat16", beats=2, stages=3), RING_TOO_SOON),
    "dot-quantize": (
        DotQuantizeConfig(
            DotConfig(**_DOT, accumulator="exact", stages=1, out="bfloat16"), "e2m1", 4,
            quantizer_stages=2,
        ),
        RING_TOO_SOON,
    ),
    "matmul": (
        MatmulConfig(DotConfig(**_DOT, accumulator="exact", stages=1), 1, 1, depth=4),
        ("go ? 1'b1 : bus_bready ?", "go ? 1'b1 : 1'b1 ?"),
    ),
}  # fmt: skip
"""Small units of every kind, and a bug of each."""
UNPROVED = ("a_taken_in_jobs", "b_taken_in_jobs", "c_in_jobs")
"""Assertions of a matrix unit that ABC does not prove in minutes."""
ELSEWHERE = ("cycles_have_one_name", "cycles_counted_once")
"""Assertions that say what the claim `counters` proves of the counters alone."""
OF_BUS = ("s_axil_", "b_", "r_")
"""Names of a matrix unit's assertions about its registers begin so; others have another claim."""
WITH_X = ("dot", "dot-loop", "dot-i2", "quantize", "quantize-beats")
"""Units of which the assertions about X are proved too."""
BUGS = {f"{name}-x": ("_register_valid <= 1'b0;", "_register_valid <= 1'bx;") for name in WITH_X}
"""Bugs of claims that have not their unit's."""
BUGS["matmul-c"] = ("CYCLES_register + 48'h1", "CYCLES_register + 48'h2")


def claims() -> Iterator[Claim]:
    """Rules of each of `UNITS`, and of some that nothing is X."""
    for name, (config, bug) in UNITS.items():
        every = [n for n in names_of(assertions(config)) if n not in (*UNPROVED, *ELSEWHERE)]
        parts = {name: [n for n in every if not n.endswith(KNOWN)]}
        if name == "matmul":
            of_bus = [n for n in parts[name] if n.startswith(OF_BUS)]
            parts = {name: of_bus, f"{name}-c": [n for n in parts[name] if n not in of_bus]}
        if name in WITH_X:
            parts[f"{name}-x"] = [n for n in every if n.endswith(KNOWN)]
        for part, names in parts.items():
            says = f"{len(names)} assertions of `mxdot verilog --assertions` hold"
            if part.endswith("-x"):
                says = "after a reset no output is X, if no input is"
            yield Claim(
                f"assertions:{part}", f"{config}: {says}", partial(subject, config), unused,
                BUGS.get(part, bug), partial(decide, config, names),
            )  # fmt: skip


def subject(config: UnitConfig) -> ObservedUnit:
    """A unit with its assertions inside: Yosys reads no `bind`."""
    top = used(TOPS[type(config)](config))
    text = generate(config, SUBJECT)
    for target, instance in BOUND.findall(assertions(config, SUBJECT)):
        head, begin, rest = text.partition(f"module {target} (")
        inside, end, others = rest.partition("endmodule")
        text = f"{head}{begin}{inside}  {instance}\n{end}{others}"
    widths = {s.name: len(s) for s, side, _ in top.ports if side == "in" and s.name != top.clock}
    return ObservedUnit(text, widths, widths, top.clock, top.reset)


def unused(m: Module, p: Any) -> Value:
    """The rule of claims whose subject says itself when it is wrong."""
    return Const(0)


def decide(
    config: UnitConfig,
    names: Sequence[str],
    unit: ObservedUnit,
    rule: Rule,
    directory: Path,
    limit: float,
) -> Verdict:
    """Whether the assertions of `config` with these names hold in `unit`, from any state.

    All of them are about X, or none is.
    """
    write(config, names, unit, directory, limit)
    verdict = ask(SEQUENTIAL, directory, "the subject", limit)
    if verdict is Verdict.UNDECIDED:
        verdict = ask(TRIVIAL, directory, "the subject", limit)
    return verdict


def write(
    config: UnitConfig, names: Sequence[str], unit: ObservedUnit, directory: Path, limit: float
) -> None:
    """Write the graph of the unit and of its assertions of these names, as both.aig."""
    directory.mkdir(parents=True, exist_ok=True)
    text = CHECK.sub(
        lambda found: found[0] if found[1] in names else "", assertions(config, SUBJECT)
    )
    inputs = {unit.clock: 1, **unit.inputs}
    ports = ", ".join(f"input wire [{width - 1}:0] {name}" for name, width in inputs.items())
    pins = connected({name: name for name in inputs})
    (directory / "both.v").write_text(
        f"module both ({ports});\n  {SUBJECT} the_subject ({pins});\nendmodule\n"
    )
    (directory / "subject.v").write_text(unit.text)
    (directory / "assertions.sv").write_text(text)
    through = THROUGH_X if any(name.endswith(KNOWN) for name in names) else ""
    run_yosys(READ + through + WRITE, directory, "the subject", limit)
