"""SystemVerilog assertions about a unit's ports, in a module to bind to the unit.

They are immediate assertions at clock edges over registers that remember the past: simulators,
Verilator with `--assert` and Yosys with `read_verilog -formal -sv` read them alike. Each needs a
reset first and says nothing while one lasts.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.utils import bits_for

from ...model.outputs import result_float
from ...model.units.dot import DotConfig
from ...model.units.dot_quantize import DotQuantizeConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import COUNTER_BITS, COUNTERS, REGISTERS, Register
from ...model.units.quantize import QuantizeConfig
from ..hierarchy import module_name, used
from ..matmul.registers import Counters
from . import TOPS, default_top

KNOWN = "_known"
"""End of the name of an assertion that no bit of a port is X."""
PARTS = ("STEPS", "WAIT_A", "WAIT_B", "WAIT_D", "WAIT_DRAIN", "WAIT_UNIT", "TAIL")
"""Counters of which each cycle of a job belongs to one."""


def assertions(config: Any, top: str | None = None, counters: bool = True) -> str:
    """SystemVerilog text of the assertions about the unit `config`, with a `bind` for each module.

    top: name of the unit's top module, as `generate` takes it. counters: with those about the
    counters of a matrix unit, which a bench that sets counters breaks.
    """
    top = default_top(config) if top is None else top
    unit = used(TOPS[type(config)](config))
    ports = [(signal.name, len(signal)) for signal, _, _ in unit.ports]
    head = [f"// Assertions about {top}: {config}", "// to compile with it; each is named", ""]
    made = _Module(top, ports, unit.clock, unit.reset)
    if isinstance(config, MatmulConfig):
        _matmul(made, config.inputs)
        if not counters:
            return "\n".join([*head, made.text()])
        widest = max(config.stream_bytes(side) for side in config.inputs)
        component = used(Counters(bits_for(widest)))
        return "\n".join([*head, made.text(), _counters(f"{top}_{module_name(component)}").text()])
    _stream(made, config)
    return "\n".join([*head, made.text()])


def names_of(text: str) -> list[str]:
    """Names of the assertions in a text of `assertions`, in their order."""
    return re.findall(r"^ +(\w+): assert \(", text, re.M)


def targets_of(text: str) -> list[str]:
    """Modules that a text of `assertions` binds to."""
    return re.findall(r"^bind (\w+) ", text, re.M)


class _Module:
    """A module of assertions: all ports of `target` are its inputs."""

    def __init__(
        self, target: str, ports: Sequence[tuple[str, int]], clock: str, reset: str
    ) -> None:
        self.target, self.ports, self.clock = target, ports, clock
        self.reset = f"~{reset}" if reset.endswith("n") else reset
        self.widths = dict(ports)
        self.registers: list[str] = []
        self.wires: list[str] = []
        self.started: list[str] = []
        """Assignments in a reset."""
        self.updated: list[str] = []
        """Assignments in other cycles."""
        self.copied: list[str] = []
        """Assignments in every cycle."""
        self.checked: list[str] = []

    def wire(self, name: str, value: str, bits: int = 1) -> None:
        """A wire of `value`, which reads registers, ports and wires made before."""
        self.wires += _wrapped(f"  wire {_range(bits)}{name} = {value};")

    def register(self, name: str, after: str, start: str = "0", bits: int = 1) -> None:
        """A register that is `start` after a reset and `after` after any other cycle."""
        self.registers.append(f"  reg {_range(bits)}{name};")
        self.started.append(f"      {name} <= {start};")
        self.updated += _wrapped(f"      {name} <= {after};")

    def before(self, name: str) -> str:
        """Name of the value of a port in the last cycle."""
        self.registers.append(f"  reg {_range(self.widths[name])}{name}_before;")
        self.copied.append(f"    {name}_before <= {name};")
        return f"{name}_before"

    def check(self, name: str, rule: str) -> None:
        """Assert the rule at every clock edge."""
        self.checked += _wrapped(f"      {name}: assert ({rule});")

    def known(self, name: str, when: str = "") -> None:
        """Assert that no bit of a port is X, which only simulators with four states can show."""
        value = name if self.widths[name] == 1 else f"(^{name})"
        self.check(f"{name}{KNOWN}", f"{f'~({when}) | ' if when else ''}({value} !== 1'bx)")

    def text(self) -> str:
        ports = ",\n".join(f"  input wire {_range(bits)}{name}" for name, bits in self.ports)
        pins = ", ".join(f".{name}({name})" for name, _ in self.ports)
        edge = f"  always @(posedge {self.clock})"
        bound = f"bind {self.target} {self.target}_assertions assertions ({pins});"
        return "\n".join([
            f"module {self.target}_assertions (", ports, ");",
            "  reg was_reset;", "  initial was_reset = 1'b0;", *self.registers, *self.wires,
            f"{edge} if ({self.reset}) was_reset <= 1'b1;",
            *([f"{edge} begin", *self.copied, "  end"] if self.copied else []),
            edge, f"    if ({self.reset}) begin", *self.started, "    end else begin",
            *self.updated, "    end",
            edge, f"    if (was_reset & ~({self.reset})) begin", *self.checked, "    end",
            "endmodule", "",
            "`ifndef YOSYS  // which reads no bind", *_wrapped(bound), "`endif", "",
        ])  # fmt: skip


def _wide(bits: int, bit: str) -> str:
    """A number of `bits`, two or more, that is 1 where the bit is set."""
    return f"{{{bits - 1}'d0, {bit}}}"


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _wrapped(line: str) -> list[str]:
    """The line, cut at spaces after 100 characters."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(
        line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _stays(made: _Module, valid: str, ready: str, payload: Sequence[str], drops: str = "") -> None:
    """An offer stays until it is taken, X included. drops: condition that also ends it."""
    held = f"{valid}_held"
    made.register(held, f"{valid} & ~{ready}{f' & ~{drops}' if drops else ''}")
    made.check(f"{valid}_stays", f"~{held} | {valid}")
    for name in payload:
        made.check(f"{name}_stays", f"~{held} | ({name} === {made.before(name)})")


@dataclass(frozen=True)
class _Timing:
    """Times of a unit with one stream in and one out, in cycles.

    group: items whose results leave together, one in a cycle, the first `latency` cycles after the
    last of them entered. slots: products in flight. promotes: partial sums start inside products,
    whose blocks wait for nothing.
    """

    latency: int
    interval: int
    slots: int
    group: int
    promotes: bool

    @property
    def room(self) -> int:
        """Results that may be in the unit: of products in flight others wait in a queue."""
        if self.slots > 1:
            return 2 * self.latency + 1
        return self.latency + (self.group if self.group > 1 else 0)

    @property
    def rest(self) -> int:
        """Cycles after which nothing waits inside, if results leave and no block enters."""
        if self.slots > 1:
            return self.room
        return self.latency * self.interval + (self.group if self.group > 1 else 0)


def _stream(made: _Module, config: DotConfig | QuantizeConfig | DotQuantizeConfig) -> None:
    """A unit with one stream in and one out."""
    outputs = [name for name, _ in made.ports if name.startswith("out_")]
    payload = [name for name in outputs if name not in ("out_valid", "out_ready")]
    dot = config if isinstance(config, DotConfig) else None
    group = 1
    if isinstance(config, DotQuantizeConfig):
        dot, group = config.dot, config.block
    elif isinstance(config, QuantizeConfig):
        group = config.beats
    timing = _Timing(
        config.latency,
        dot.interval if dot else 1,
        dot.interleave if dot else 1,
        group,
        bool(dot and dot.accumulator.promotes_every),
    )
    made.wire("takes", "in_valid & in_ready")
    made.wire("enters", "takes & in_last" if dot else "takes")
    made.wire("leaves", "out_valid & out_ready")
    made.register("fresh", "1'b0", "1'b1")
    made.check("empty_after_reset", "~fresh | ~out_valid")
    _stays(made, "out_valid", "out_ready", payload)
    slots = _slots(made, dot) if dot else ["1'b1"]
    _results(made, timing)
    _acceptance(made, timing, slots)
    if timing.slots > 1:
        _owed_by_slot(made, timing, slots)
    begun = "1'b1"
    if dot:
        begun = "whole"
        _begins(made, slots)
    made.known("out_valid")
    made.known("in_ready", "in_valid")
    for name in payload:
        made.known(name, f"out_valid & {begun}")
    if group > 1:
        _places(made, group)
    if isinstance(config, DotConfig) and config.status:
        _flags(made, config, begun)


def _slots(made: _Module, dot: DotConfig) -> list[str]:
    """Conditions that the block on offer is of each slot; a number past the last is the last."""
    if dot.interleave == 1:
        return ["1'b1"]
    *others, last = range(dot.interleave)
    bits = dot.slot_bits
    return [*(f"(in_slot == {bits}'d{n})" for n in others), f"(in_slot >= {bits}'d{last})"]


def _begins(made: _Module, slots: Sequence[str]) -> None:
    """A register `whole`: all blocks so far are of products that began with `in_first`."""
    for n, here in enumerate(slots):
        made.register(f"begun{n}", f"begun{n} | (takes & in_first & {here})")
    begun = " | ".join(f"({here} & begun{n})" for n, here in enumerate(slots))
    made.register("whole", f"whole & ~(takes & ~in_first & ~({begun}))", "1'b1")


def _results(made: _Module, timing: _Timing) -> None:
    """Every product has its result, on time while nothing stalls, and never sooner."""
    latency, group, room = timing.latency, timing.group, timing.room
    bits, depth = (room + 1).bit_length(), latency + group - 1
    waiting = f"{bits}'d0"
    if group > 1:  # items of a block that is not complete
        waiting, last = "begun_items", f"{bits}'d{group - 1}"
        made.wire("completes", f"enters & (begun_items == {last})")
        made.register(
            "begun_items", f"completes ? 0 : begun_items + {_wide(bits, 'enters')}", bits=bits
        )
    else:
        made.wire("completes", "enters")
    change = f"{_wide(bits, 'enters')} - {_wide(bits, 'leaves')}"
    made.register("owed", f"owed + {change}", bits=bits)
    # A bit for each of the last cycles, the latest lowest: it completed a result, or a block.
    after = "completes" if depth == 1 else f"{{completed[{depth - 2}:0], completes}}"
    made.register("completed", after, bits=depth)
    bit = ["completed"] if depth == 1 else [f"completed[{age}]" for age in range(depth)]
    inside = [group] * latency + [*range(group - 1, 0, -1)]
    for name, ages in (("early", latency - 1), ("moving", depth)):
        terms = [f"({bit[age]} ? {bits}'d{inside[age]} : {bits}'d0)" for age in range(ages)]
        made.wire(name, " + ".join([waiting, *terms]), bits)
    made.check("result_not_sooner", "~out_valid | (owed > early)")
    made.check("room", f"owed <= {bits}'d{room}")
    made.check("result_on_time", f"~flows | (out_valid == ({' | '.join(bit[latency - 1 :])}))")
    made.check("none_lost", "~flows | (owed == moving)")


def _counts(made: _Module, name: str, what: str, most: int) -> str:
    """Condition that `what` was so in each of the last `most` cycles."""
    bits = most.bit_length()
    full = f"({name} == {bits}'d{most})"
    made.register(name, f"~({what}) ? 0 : {full} ? {name} : {name} + {bits}'d1", bits=bits)
    return full


def _acceptance(made: _Module, timing: _Timing, slots: Sequence[str]) -> None:
    """When blocks are taken; a wire `flows`: nothing waits inside."""
    interval = timing.interval
    if interval == timing.slots == 1:
        made.check("ready_at_once", "~out_ready | in_ready")
        ready_for = timing.latency + (timing.group if timing.group > 1 else 0)
        made.wire("flows", _counts(made, "flowing", "out_ready", ready_for))
        return
    soon = []
    for n, here in enumerate(slots if interval > 1 else []):
        enters = f"takes & {here}"
        after = enters if interval == 2 else f"{{recent{n}[{interval - 3}:0], {enters}}}"
        made.register(f"recent{n}", after, bits=interval - 1)
        soon.append(f"({here} & (|recent{n}))")
    made.wire("soon", f"~in_first & ({' | '.join(soon)})" if soon else "1'b0")
    made.wire("waits", "in_valid & ~in_ready & out_ready")
    made.wire("flows", "flowing")
    rested = _counts(made, "resting", "out_ready & ~takes", timing.rest)
    if timing.slots > 1:
        longest = max(1, interval - 1)  # until there is room again, for one cycle
        made.register("flowing", f"out_ready & (flowing | {rested} | (owed == 0))", "1'b1")
        due = "in_ready | soon" if timing.promotes else "(in_ready == ~soon)"
        made.check("ready_when_due", f"~flows | {due}")
    else:
        longest = interval - 1
        made.register("flowing", f"out_ready & (flowing | {rested}) & ~(in_valid & soon)", "1'b1")
        made.check("ready_when_due", "~flows | ~waits | soon")
    made.check("wait_is_short", f"~waits | ~{_counts(made, 'waited', 'waits', longest)}")


def _owed_by_slot(made: _Module, timing: _Timing, slots: Sequence[str]) -> None:
    """A result is of a slot whose product entered and has not left."""
    bits, owed = (timing.room + 1).bit_length(), []
    for n, here in enumerate(slots):
        its = f"(out_slot == {made.widths['out_slot']}'d{n})"
        enters, leaves = _wide(bits, f"enters & {here}"), _wide(bits, f"leaves & {its}")
        made.register(f"owed{n}", f"owed{n} + {enters} - {leaves}", bits=bits)
        owed.append(f"({its} & (owed{n} != 0))")
    made.check("slot_is_owed", f"~out_valid | {' | '.join(owed)}")


def _places(made: _Module, group: int) -> None:
    """Beats of a block: `out_last` with the last of them, one scale and format for all."""
    bits = (group - 1).bit_length()
    end = f"(place == {bits}'d{group - 1})"
    made.register("place", f"~leaves ? place : {end} ? 0 : place + {bits}'d1", bits=bits)
    made.check("last_ends_block", f"~out_valid | (out_last == {end})")
    for name in sorted({"out_scale", "out_mode"} & {*made.widths}):
        kept = f"{name}_of_block"
        made.register(kept, f"leaves ? {name} : {kept}", bits=made.widths[name])
        made.check(f"{name}_in_block", f"~out_valid | (place == 0) | ({name} === {kept})")


def _flags(made: _Module, config: DotConfig, begun: str) -> None:
    """Flags of a result, as docs/numerics.md defines them."""
    out = result_float(config.out)
    if out is None:
        for name in ("invalid", "underflow"):
            made.check(f"{name}_never", f"~out_valid | ~out_{name}")
        return
    cut = out.mantissa_bits
    nan = f"(&out_result[{out.bits - 2}:{cut}]) & (|out_result[{cut - 1}:0])"
    made.check("invalid_is_nan", f"~(out_valid & {begun}) | (out_invalid == ({nan}))")
    for name in ("overflow", "underflow"):
        made.check(f"{name}_is_inexact", f"~(out_valid & {begun}) | ~out_{name} | out_inexact")


def _matmul(made: _Module, sides: Sequence[str]) -> None:
    """Rules of AXI4-Lite and AXI4-Stream, and what the register map says about them."""
    for channel in ("aw", "w", "ar", "b", "r"):
        made.wire(f"{channel}_taken", f"s_axil_{channel}valid & s_axil_{channel}ready")
    for name, channel in (("awaddr", "aw"), ("wdata", "w"), ("wstrb", "w"), ("araddr", "ar")):
        port = f"s_axil_{name}"
        made.register(name, f"{channel}_taken ? {port} : {name}", bits=made.widths[port])
    _commands(made)
    beat = [f"m_axis_c_{name}" for name in ("tdata", "tkeep", "tlast")]
    _stays(made, "m_axis_c_tvalid", "m_axis_c_tready", beat, "resets")
    _stays(made, "s_axil_bvalid", "s_axil_bready", ["s_axil_bresp"])
    _stays(made, "s_axil_rvalid", "s_axil_rready", ["s_axil_rdata", "s_axil_rresp"])
    valids = ("m_axis_c_tvalid", "s_axil_bvalid", "s_axil_rvalid", "irq")
    made.register("fresh", "1'b0", "1'b1")
    made.check("quiet_after_reset", f"~fresh | ~({' | '.join(valids)})")
    _answers(made)
    for side in sides:
        name = f"s_axis_{side}"
        ended = f"({name}_tvalid & {name}_tready & {name}_tlast)"
        made.register(f"{side}_closed", f"resets | {ended} | ({side}_closed & ~starts)", "1'b1")
        made.check(f"{side}_taken_in_jobs", f"~{side}_closed | ~{name}_tready")
    _packets_of_c(made)
    for name in (*valids, "s_axil_awready", "s_axil_wready", "s_axil_arready"):
        made.known(name)
    for name in beat[1:]:
        made.known(name, "m_axis_c_tvalid")


def _at(made: _Module, name: str, register: Register) -> str:
    """Condition that an address that was taken is a register's."""
    bits = made.widths[f"s_axil_{name}"]
    return f"({name}[{bits - 1}:2] == {bits - 2}'d{register.offset >> 2})"


def _commands(made: _Module) -> None:
    """Wires `resets` and `starts`: CONTROL is written in this cycle."""
    control = REGISTERS["CONTROL"]
    made.wire("writes", "~s_axil_awready & ~s_axil_wready & ~s_axil_bvalid")
    made.wire("commands", f"writes & {_at(made, 'awaddr', control)} & wstrb[0]")
    made.wire("resets", f"commands & wdata[{control.field('reset').low}]")
    made.wire("starts", f"commands & wdata[{control.field('start').low}] & ~resets")


def _answers(made: _Module) -> None:
    """A response for each access, after it, soon."""
    for channel, response in (("aw", "b"), ("w", "b"), ("ar", "r")):
        owed = f"{channel}_owed"
        change = f"{_wide(2, f'{channel}_taken')} - {_wide(2, f'{response}_taken')}"
        made.register(owed, f"{owed} + {change}", bits=2)
        made.check(f"{response}_answers_{channel}", f"~s_axil_{response}valid | ({owed} != 0)")
    made.register("written", "writes")
    made.check("b_next", "~written | s_axil_bvalid")
    made.check("r_next", "(ar_owed == 0) | s_axil_rvalid")
    made.wire("exists", " | ".join(_at(made, "araddr", r) for r in REGISTERS.values()))
    made.check("r_refuses_addresses", "~s_axil_rvalid | (s_axil_rresp == {~exists, 1'b0})")
    made.check("b_okay_or_slverr", "~s_axil_bvalid | ~s_axil_bresp[0]")


def _packets_of_c(made: _Module) -> None:
    """Beats of C: whole except the last, none after TLAST until a start."""
    keep, none = "m_axis_c_tkeep", "~m_axis_c_tvalid"
    bits = made.widths[keep]
    made.check("c_whole_before_last", f"{none} | m_axis_c_tlast | (&{keep})")
    if bits > 1:
        made.check("c_keeps_lowest", f"{none} | (({keep} & ({keep} + {bits}'d1)) == 0)")
    ended = "(m_axis_c_tvalid & m_axis_c_tready & m_axis_c_tlast)"
    made.register("c_closed", f"resets | {ended} | (c_closed & ~starts)", "1'b1")
    made.check("c_in_jobs", f"~c_closed | {none}")


def _counters(target: str) -> _Module:
    """The module of the counters: each cycle of a job is counted under one name."""
    ports = [("clk", 1), ("rst", 1), ("clear", 1), ("running", 1)]
    ports += [(f"values_{name}", COUNTER_BITS) for name in COUNTERS]
    made = _Module(target, ports, "clk", "rst")
    every = "values_CYCLES"
    made.register("fresh", "1'b0", "1'b1")
    made.register("counted", "running")
    made.register("cleared", "clear", "1'b1")
    one = _wide(COUNTER_BITS, "counted")
    changed, right = [], []
    for part in (f"values_{part}" for part in PARTS):
        before = made.before(part)
        changed.append(_wide(3, f"{part} != {before}"))
        right.append(f"(({part} == {before}) | ({part} == {before} + {COUNTER_BITS}'d1))")
    other = "fresh | cleared"
    made.check(
        "cycles_have_one_name", f"{other} | ({' + '.join(changed)} == {_wide(3, 'counted')})"
    )
    made.check("cycles_counted_once", f"{other} | ({' & '.join(right)})")
    made.check("clear_empties", f"~cleared | ({every} == 0)")
    made.check("cycles_count", f"fresh | cleared | ({every} == {made.before(every)} + {one})")
    return made
