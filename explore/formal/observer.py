"""What a proof is about: a subject in Verilog, and an observer that says when it is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module, ShapeLike, Signal, Value
from amaranth.lib import wiring

from ...hw.hierarchy import used
from ...hw.verilog import TOPS, generate
from ...hw.verilog.around import Around

SUBJECT, OBSERVER = "subject", "observer"

Rule = Callable[[Module, Any], Value]
"""Says in plain arithmetic when the subject is wrong: of a module to put statements into, and the
subject's ports as attributes."""


@dataclass(frozen=True)
class Subject:
    """A module in Verilog, called SUBJECT, as it is delivered."""

    text: str
    inputs: Mapping[str, int]
    """Widths by name, without the clock, with the reset."""
    shapes: Mapping[str, ShapeLike]
    """Of all ports but the clock, with the reset."""
    clock: str = ""
    reset: str = ""
    """Empty where it has no registers."""
    tied: Mapping[str, int] = field(default_factory=dict)
    """Inputs that a claim gives a fixed value."""

    @property
    def input_bits(self) -> int:
        """Of inputs in one cycle."""
        return sum(bits for name, bits in self.inputs.items() if name not in self.tied)


def component(made: wiring.Component) -> Subject:
    """A combinational component by itself."""
    design = Around(made)
    return Subject(design.verilog(SUBJECT), design.inputs, design.shapes)


def unit(config: Any) -> Subject:
    """A whole unit; its reset must be active high."""
    top = used(TOPS[type(config)](config))
    ports = {signal.name: len(signal) for signal, _, _ in top.ports if signal.name != top.clock}
    inputs = {s.name: len(s) for s, side, _ in top.ports if side == "in" and s.name in ports}
    return Subject(generate(config, SUBJECT), inputs, ports, top.clock, top.reset)


class _Pins:
    """The subject's ports as attributes, without the `p_` of a component's."""

    def __init__(self, signals: Mapping[str, Any]) -> None:
        vars(self).update({name.removeprefix("p_"): signal for name, signal in signals.items()})


class Observer(Elaboratable):
    """Reads the ports of a subject; its output `wrong` follows the rule."""

    def __init__(self, subject: Subject, rule: Rule) -> None:
        self.rule = rule
        self.pins: dict[str, Any] = {
            name: Signal(shape, name=name) for name, shape in subject.shapes.items()
        }
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


def bench(subject: Subject) -> str:
    """A module `both` in Verilog: the subject's inputs, and whether the observer says wrong.

    A subject with registers is reset in the first cycle, and counts from the second on.
    """
    inputs = {name: bits for name, bits in subject.inputs.items() if name not in subject.tied}
    widths = {name: len(Signal(shape)) for name, shape in subject.shapes.items()}  # type: ignore[arg-type]
    ports = ([f"  input wire {subject.clock},"] if subject.clock else []) + [
        f"  input wire [{width - 1}:0] {name}," for name, width in inputs.items()
    ]
    lines = ["module both (", *ports, "  output wire bad", ");", "  wire wrong;"]
    lines += [f"  wire [{w - 1}:0] {name};" for name, w in widths.items() if name not in inputs]
    lines += [f"  assign {name} = {value};" for name, value in subject.tied.items()]
    late, pins = "1'b1", {name: name for name in widths}
    if subject.clock:
        late, pins[subject.reset] = "started", "first"
        lines += [
            "  reg started = 1'b0;",
            f"  always @(posedge {subject.clock}) started <= 1'b1;",
            f"  wire first = {subject.reset} | ~started;",
        ]
        pins[subject.clock] = subject.clock
    joined = ", ".join(f".{port}({net})" for port, net in pins.items())
    lines += [
        f"  {SUBJECT} the_subject ({joined});",
        f"  {OBSERVER} the_observer ({joined}, .wrong(wrong));",
        f"  assign bad = {late} & wrong;",
    ]
    return "\n".join([*lines, "endmodule", ""])
