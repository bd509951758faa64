"""Claims that what synthesis makes of a unit does what its Verilog does, in every cycle.

Netlists are made as those of `make sim NETLIST=process`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Value

from ...hw.hierarchy import used
from ...hw.verilog import TOPS, default_top, generate
from ...model import DotConfig, QuantizeConfig
from ...model.units import UnitConfig
from ...synth.gate_level import cells_of, gate_level
from ..small_units import UNITS
from .claim import Claim
from .engine import FROM_ZERO, Verdict, ask, build
from .observer import SUBJECT, ObservedUnit, Rule, connected

OTHER, CLOCK, RESET = "other", "clk", "rst"
SIDES = ("in", "out")
# Registers and nets that are alike in both designs are found, and proved to be, by induction.
EQUIVALENT = "read both.aig; lcorr; scorr; dprove; print_status"
SMALLER: dict[str, UnitConfig] = {
    "integer": DotConfig("int4", 4, "int32", 3, out="int8_full:shift", zero_points="a"),
    "quantize-scale": QuantizeConfig("e2m1", 4, "bfloat16", scales="e4m3", stages=4),
}
"""Smaller units instead of those that ABC does not finish: products of 8 bits, 16 quotients."""
UNDECIDED = ("matmul",)
"""Units without a smaller one that ABC finishes."""
OTHERS = {"dot-exact": "sky130", "quantize": "sky130"}
"""Second process of a unit."""
BUG, BUGS = (" & ", " | "), {"dot-quantize": (" | ", " & ")}
"""The first operation of this kind in the netlist; another where ABC does not refute it."""


def claims() -> Iterator[Claim]:
    """Claims about a small unit of each kind."""
    for unit in (unit for unit in UNITS if unit.name not in UNDECIDED):
        config = SMALLER.get(unit.name, unit.config)
        for process in ("asap7", *filter(None, [OTHERS.get(unit.name)])):
            yield Claim(
                f"netlist:{unit.name}-{process}",
                f"{config.name} in cells of {process}: each output is that of the Verilog in every "
                "cycle after a reset",
                partial(with_netlist, config, process), differ, BUGS.get(unit.name, BUG),
                equivalent, state="registers of 0",
            )  # fmt: skip


def with_netlist(config: UnitConfig, process: str) -> ObservedUnit:
    """A unit beside its netlist in cells."""
    netlist, library = cells_of(generate(config), default_top(config), process)
    return beside(config, gate_level(replace(netlist, name=OTHER), library, begins=True))


def beside(config: UnitConfig, other: str) -> ObservedUnit:
    """A unit and the module OTHER of the text `other`, which has its ports, with the same inputs.

    The reset is active high; outputs `other_*` are those of OTHER.
    """
    top = used(TOPS[type(config)](config))
    widths = {side: {s.name: len(s) for s, way, _ in top.ports if way == side} for side in SIDES}
    inputs, outputs = widths["in"], widths["out"]
    del inputs[top.clock], inputs[top.reset]
    both = outputs | {f"{OTHER}_{name}": bits for name, bits in outputs.items()}
    given = {name: name for name in inputs} | {top.clock: CLOCK}
    given[top.reset] = f"~{RESET}" if top.reset.endswith("n") else RESET
    lines = [f"  input wire {CLOCK},", f"  input wire {RESET},"]
    lines += [f"  input wire [{bits - 1}:0] {name}," for name, bits in inputs.items()]
    ports = [f"  output wire [{bits - 1}:0] {name}" for name, bits in both.items()]
    own = given | {name: name for name in outputs}
    its = given | {name: f"{OTHER}_{name}" for name in outputs}
    whole = [
        f"module {SUBJECT} (", *lines, ",\n".join(ports), ");",
        f"  {OTHER} the_other ({connected(its)});",
        f"  {top.name} the_unit ({connected(own)});",
        "endmodule", other, generate(config),
    ]  # fmt: skip
    inputs[RESET] = 1
    return ObservedUnit("\n".join(whole), inputs, {**inputs, **both}, CLOCK, RESET)


def differ(m: Module, p: Any) -> Value:
    """Whether an output differs from the other's of that name."""
    begin = f"{OTHER}_"
    names = [name.removeprefix(begin) for name in vars(p) if name.startswith(begin)]
    return Cat(getattr(p, name) != getattr(p, begin + name) for name in names).any()


def equivalent(subject: ObservedUnit, rule: Rule, directory: Path, limit: float) -> Verdict:
    """Decide like `engine.decide`, but from registers of 0."""
    build(subject, rule, directory, limit, FROM_ZERO)
    return ask(EQUIVALENT, directory, "the subject", limit)
