"""Subject of a proof in Verilog, and an observer that says when it is wrong."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import wiring

from ...hw.hierarchy import used
from ...hw.verilog import TOPS, Around, generate

SUBJECT, OBSERVER, CASE = "subject", "observer", "case_number"

Rule = Callable[[Module, Any], Value]
"""Says in plain arithmetic when the subject is wrong: of a module to put statements into, and the
subject's ports as attributes."""


@dataclass(frozen=True)
class ObservedUnit:
    """A module in Verilog, called SUBJECT, as it is delivered."""

    text: str
    inputs: Mapping[str, int]
    """Widths by name, without the clock, with the reset."""
    shapes: Mapping[str, ShapeLike]
    """Shapes of all ports except the clock, with the reset."""
    clock: str = ""
    reset: str = ""
    """Empty for a module without registers."""
    tied: Mapping[str, int | str] = field(default_factory=dict)
    """Inputs that a claim gives a fixed value: a number, or bits of which each `-` is free."""
    cycles: int = 0
    """Cycles that a claim is about, from any state, without a reset of its own; 0: any number
    of them after a reset."""
    cases: int = 0
    """Count of values of the observer's input CASE, which are proved one by one."""

    def __post_init__(self) -> None:
        for name, value in self.tied.items():
            width = self.inputs.get(name)
            if width is None:
                raise ValueError(f"tied must name inputs of the subject, not {name!r}")
            if isinstance(value, int) and not 0 <= value < 1 << width:
                raise ValueError(f"{name} must be tied to 0 to {(1 << width) - 1}, not {value}")
            if isinstance(value, str) and (len(value) != width or set(value) - set("01-")):
                raise ValueError(f"{name} must be tied to {width} of 0, 1 and -, not {value!r}")

    @property
    def input_bits(self) -> int:
        """Bits of the free inputs in one cycle."""
        return sum(self.free.values())

    @property
    def free(self) -> dict[str, int]:
        """Free bits per input: all, or the bits without a fixed value."""
        free = {name: bits for name, bits in self.inputs.items() if name not in self.tied}
        patterns = {n: v.count("-") for n, v in self.tied.items() if isinstance(v, str)}
        return free | {f"{name}_free": bits for name, bits in patterns.items()}


def component(made: wiring.Component) -> ObservedUnit:
    """A component by itself."""
    design = Around(made)
    text = design.verilog(SUBJECT)
    if not design.clock:
        return ObservedUnit(text, design.inputs, design.shapes)
    return ObservedUnit(text, design.inputs, {"rst": 1, **design.shapes}, "clk", "rst")


def unit(config: Any) -> ObservedUnit:
    """A whole unit; its reset must be active high."""
    top = used(TOPS[type(config)](config))
    ports = {signal.name: len(signal) for signal, _, _ in top.ports if signal.name != top.clock}
    inputs = {s.name: len(s) for s, side, _ in top.ports if side == "in" and s.name in ports}
    return ObservedUnit(generate(config, SUBJECT), inputs, ports, top.clock, top.reset)


def cut(subject: ObservedUnit, *nets: str) -> ObservedUnit:
    """The unit with nets between its sections cut, for lemmas that together say the whole.

    Readers of NET read an input of that name; what drives it is an output NET_made.
    """
    top, end, rest = subject.text.partition("endmodule")
    ports: dict[str, int] = {}
    for net in nets:
        declared = rf"^  wire (?:signed )?(?:\[(\d+):0\] )?{net};\n"
        declarations = re.findall(declared, top, re.M)
        top, drivers = re.subn(rf"(\.o_\w+)\({net}\)", rf"\1({net}_made)", top)
        if len(declarations) != 1 or drivers != 1:
            raise ValueError(f"net must be one between sections, not {net!r}")
        ports[net] = int(declarations[0] or 0) + 1
        wires = "".join(
            f"  {side} wire [{ports[net] - 1}:0] {name},\n"
            for side, name in (("input", net), ("output", f"{net}_made"))
        )
        top = re.sub(declared, "", top, flags=re.M).replace("(\n", f"(\n{wires}", 1)
    made = {f"{net}_made": width for net, width in ports.items()}
    return replace(
        subject,
        text=top + end + rest,
        inputs={**subject.inputs, **ports},
        shapes={**subject.shapes, **ports, **made},
    )


class _Pins:
    """The subject's ports as attributes, without the `p_` of a component's."""

    def __init__(self, signals: Mapping[str, Any]) -> None:
        vars(self).update({name.removeprefix("p_"): signal for name, signal in signals.items()})


class Observer(Elaboratable):
    """Reads the ports of a subject; its output `wrong` follows the rule."""

    def __init__(self, subject: ObservedUnit, rule: Rule) -> None:
        self.rule = rule
        self.pins: dict[str, Any] = {
            name: Signal(shape, name=name) for name, shape in subject.shapes.items()
        }
        if subject.cases:
            self.pins[CASE] = Signal(range(subject.cases), name=CASE)
        self.clock = Signal(name=subject.clock) if subject.clock else None
        self.reset = subject.reset
        self.wrong = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.clock is not None:
            m.domains.sync = sync = ClockDomain()
            sync.clk, sync.rst = self.clock, self.pins[self.reset]
        m.d.comb += self.wrong.eq(self.rule(m, _Pins(self.pins)))
        return m

    def rtlil(self) -> str:
        """Its RTLIL, written by Amaranth itself: nothing of ours takes part."""
        signals = [Value.cast(pin) for pin in self.pins.values()] + [self.wrong]
        signals += [] if self.clock is None else [self.clock]
        ports: dict[str, Any] = {signal.name: (signal, None) for signal in signals}
        return rtlil.convert(self, name=OBSERVER, ports=ports, emit_src=False)


def bench(subject: ObservedUnit) -> str:
    """A module `both` in Verilog: the subject's inputs, and whether the observer says wrong.

    Unless a claim is about a number of cycles, a subject with registers is reset in the first one,
    and counts from the second on.
    """
    inputs = subject.free
    widths = {name: Shape.cast(shape).width for name, shape in subject.shapes.items()}
    late, pins, more = "1'b1", {name: name for name in widths}, {}
    lines = [f"  wire [{w - 1}:0] {name};" for name, w in widths.items() if name not in inputs]
    lines += [f"  assign {name} = {_fixed(name, v)};" for name, v in subject.tied.items()]
    if subject.clock:
        inputs[subject.clock] = 1
        pins[subject.clock] = subject.clock
    if subject.clock and not subject.cycles:
        late, pins[subject.reset] = "started", "first"
        lines += [
            "  reg started = 1'b0;",
            f"  always @(posedge {subject.clock}) started <= 1'b1;",
            f"  wire first = {subject.reset} | ~started;",
        ]
    if subject.cases:
        inputs[CASE] = len(Signal(range(subject.cases)))
        more = {CASE: CASE}
    ports = [f"  input wire [{width - 1}:0] {name}," for name, width in inputs.items()]
    return "\n".join([
        "module both (", *ports, "  output wire bad", ");",
        "  wire wrong;", *lines,
        f"  {SUBJECT} the_subject ({connected(pins)});",
        f"  {OBSERVER} the_observer ({connected({**pins, **more, 'wrong': 'wrong'})});",
        f"  assign bad = {late} & wrong;",
        "endmodule", "",
    ])  # fmt: skip


def _fixed(name: str, value: int | str) -> str:
    """Driver of an input with a fixed value."""
    if isinstance(value, int):
        return str(value)
    free = iter(reversed(range(value.count("-"))))
    bits = (f"{name}_free[{next(free)}]" if bit == "-" else f"1'b{bit}" for bit in value)
    return f"{{{', '.join(bits)}}}"


def connected(pins: Mapping[str, str]) -> str:
    """The pins of an instance, and what is at each."""
    return ", ".join(f".{port}({net})" for port, net in pins.items())
