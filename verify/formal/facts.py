"""Facts about the state of a unit, each proved by itself; proofs of equality may assume them.

A fact says what registers hold in every state after a reset. It spares proofs that start from any
state those states that no sequence of inputs reaches.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Const, Value

from ...hw.arithmetic.floats import EXPONENT_BITS
from ...hw.arithmetic.scale import SCALE_SHAPE
from ...hw.dot.multiply import COUNTED
from ...hw.dot.window import window_of
from ...model import DotConfig, DotQuantizeConfig, QuantizeConfig
from ...model.pipeline.widths import Widths
from ...model.units import UnitConfig
from ...synth.tools import run_yosys
from . import aig
from .aig import Aig
from .claim import Claim
from .engine import BY_CYCLE, decide
from .observer import OBSERVER, ObservedUnit, Observer, Rule, unit

_SCRIPT = f"""
read_rtlil fact.il
hierarchy -check -top {OBSERVER}
proc
flatten
{aig.PASSES}
write_aiger -symbols fact.aig
"""
_RATIO = "ratio3_register"
_E2M1 = DotConfig("e2m1", 4, "aligned:13", 3)


@dataclass(frozen=True)
class Fact:
    """The claim that `rule` never says wrong of registers of the unit `config`.

    registers: widths by name; the rule has them as attributes. within: the part of the unit that
    has them, or empty for the unit's own module.
    """

    name: str
    says: str
    config: UnitConfig
    registers: dict[str, int]
    rule: Rule
    bug: tuple[str, str]
    within: str = ""

    @property
    def claim(self) -> Claim:
        """The row of `make formal`."""
        return Claim(
            self.name, self.says, lambda: exposed(unit(self.config), self.registers, self.within),
            self.rule, self.bug, partial(decide, sequential=BY_CYCLE),
        )  # fmt: skip

    def graph(self, directory: Path, limit: float) -> Aig:
        """The rule alone: its inputs are bits of registers, its one output says wrong.

        SynthesisError when Yosys fails or takes longer than `limit` seconds.
        """
        directory.mkdir(parents=True, exist_ok=True)
        alone = ObservedUnit("", self.registers, self.registers)
        (directory / "fact.il").write_text(Observer(alone, self.rule).rtlil())
        run_yosys(_SCRIPT, directory, self.name, limit)
        graph = aig.read(directory / "fact.aig")
        start = f"{self.within}." if self.within else ""
        return replace(graph, inputs=[(start + name, i) for name, i in graph.inputs])


def facts() -> Sequence[Fact]:
    """All of them."""
    return (
        Fact(
            "fact:scale-ratio",
            "quantiser of E2M1 under E4M3 scales: a scale's ratio that waits is not negative",
            QuantizeConfig("e2m1", 16, scales="e4m3", stages=4),
            {f"{_RATIO}_valid": 1, f"{_RATIO}_ratio_quotients_sign": 1},
            _not_negative,
            ("assign o_amax = {1'b0, i_largest}", "assign o_amax = {i_outer[31], i_largest}"),
        ),
        _terms(
            "hopper",
            DotConfig("e2m3", 4, "hopper", 4, interleave=2),
            {"multiply": "largest_leaves", "largest": "join0_leaves", "join0": "round0_leaves"},
        ),
        _terms(
            "fused",
            DotConfig("e4m3,e5m2", 4, "fused:25", 3, out="bfloat16"),
            {"largest": "largest_register_valid", "join0": "join0_register_valid"},
        ),
        _sums("dot-quantize", DotQuantizeConfig(_E2M1, "e2m1", 4), _E2M1),
    )


def claims() -> Iterator[Claim]:
    """A row for each."""
    return (fact.claim for fact in facts())


def _not_negative(m: Any, p: Any) -> Value:
    registers = vars(p)
    return registers[f"{_RATIO}_valid"] & registers[f"{_RATIO}_ratio_quotients_sign"]


def _terms(name: str, config: DotConfig, valid: dict[str, str]) -> Fact:
    """Sums to round are smaller than their words: products and exponents are, and c is 0 where it
    cannot lead.

    valid: by section with products, and then the section with terms, the register that says whether
    registers of the section count.
    """
    widths = Widths(config)
    *before, last = valid
    bits, term_bits = widths.product_bits, max(widths.term_bits, widths.fraction_bits + 1)
    largest = (2**widths.a.significand_bits - 1) * (2**widths.b.significand_bits - 1)
    registers = dict.fromkeys(valid.values(), 1)
    registers |= {f"{of}_register_products_significand": config.lanes * bits for of in before}
    most = largest << widths.fraction_bits >> widths.product_fraction_bits
    highest = 2**widths.exponent_bits - 1 + 2 ** (SCALE_SHAPE.width - 1) - 1 + widths.exponent_min
    terms, exponent = f"{last}_register_terms_magnitude", f"{last}_register_exponent"
    registers |= {terms: (config.lanes + 1) * term_bits, exponent: EXPONENT_BITS}

    def wrong(m: Any, p: Any) -> Value:
        value = vars(p)
        odd = [
            value[valid[of]] & (product > largest)
            for of in before
            for product in _words(value[f"{of}_register_products_significand"], bits)
        ]
        *products, c = _words(value[terms], term_bits)
        top = value[exponent].as_signed()
        c_below = (top < config.accumulator.running.emin) & c.any()
        aligned = Cat(c_below, top > highest, *(term > most for term in products))
        return Cat(*odd, value[valid[last]] & aligned.any()).any()

    return Fact(
        f"fact:{name}-terms",
        f"dot unit of {config}: no term is larger than the largest product, no exponent larger "
        "than its; c is 0 below the least normal exponent",
        config, registers, wrong,
        ("~|o_before_c_wide[30:23] ? 8'd1", "~|o_before_c_wide[30:23] ? 8'd0"),
    )  # fmt: skip


def _sums(name: str, config: UnitConfig, dot: DotConfig) -> Fact:
    """Sums of a dot unit with narrow formats have no digits in the last places of their grid."""
    widths = Widths(dot)
    count, bits = dot.lanes.bit_length(), window_of(widths).row_bits
    free = widths.fraction_bits - widths.product_fraction_bits - (2**widths.exponent_bits - 1)
    made, summed = "multiply_register", "sum_register"
    registers = {f"{made}_valid": 1, f"{summed}_valid": 1, f"{summed}_rows": 2 * bits}
    registers |= {f"{made}_negatives": COUNTED[0] * count, f"{made}_products_sign": dot.lanes}

    def wrong(m: Any, p: Any) -> Value:
        value = vars(p)
        negatives = sum(_words(value[f"{made}_negatives"], count), start=Const(0))
        counted = negatives == sum(value[f"{made}_products_sign"], start=Const(0))
        total = sum(_words(value[f"{summed}_rows"], bits), start=Const(0))
        return Cat(
            value[f"{made}_valid"] & ~counted, value[f"{summed}_valid"] & total[:free].any()
        ).any()

    return Fact(
        f"fact:{name}-sums",
        f"dot unit of {dot} in a unit that quantises: the last {free} digits of a sum are 0",
        config, registers, wrong, ("{11{inverts}}", "{11{1'b0}}"), "dot",
    )  # fmt: skip


def _words(value: Value, bits: int) -> list[Value]:
    return [value[start : start + bits] for start in range(0, len(value), bits)]


def exposed(subject: ObservedUnit, registers: dict[str, int], within: str = "") -> ObservedUnit:
    """The unit with registers of its own module, or of its part `within`, as outputs too.

    ValueError where a register is missing.
    """
    top, end, rest = subject.text.partition("endmodule")
    if not within:
        top = _as_outputs(top, registers)
    else:
        (module,) = re.findall(rf"^  (\w+) {within} \(", top, re.M)
        pins = ", ".join(f".{name}({name})" for name in registers)
        top = top.replace(f"  {module} {within} (", f"  {module} {within} ({pins}, ", 1)
        ports = "".join(f"  output wire [{w - 1}:0] {name},\n" for name, w in registers.items())
        top = top.replace("(\n", f"(\n{ports}", 1)
        others, start, part = rest.partition(f"\nmodule {module} (\n")
        part, stop, last = part.partition("endmodule")
        rest = others + _as_outputs(start + part, registers) + stop + last
    return replace(subject, text=top + end + rest, shapes={**subject.shapes, **registers})


def _as_outputs(module: str, registers: dict[str, int]) -> str:
    """A module's text, without its end, with registers as outputs too."""
    for name, width in registers.items():
        digits = f"[{width - 1}:0] " if width > 1 else ""
        declared = re.compile(rf"^  reg {re.escape(digits)}{name};.*\n", re.M)
        if not declared.search(module):
            raise ValueError(f"register must be one of the unit's own, not {name!r}")
        port = f"(\n  output reg {digits}{name},\n"
        module = declared.sub("", module).replace("(\n", port, 1)
    return module
