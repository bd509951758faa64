"""Verilog of a dot unit: readable, hierarchical, and the same bytes every time."""

import re
from importlib.metadata import PackageNotFoundError, version

from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal

from ..model.config import DotConfig
from ..model.trace import FLAG_NAMES
from .hierarchy import (
    Library,
    collecting,
    describe_ports,
    module_ports,
    own_names,
    used,
)
from .keywords import KEYWORDS
from .rtlil import module_text, to_verilog
from .unit import DotUnit

TOP = "mxdot_dot"
INTEGER_RULE = "exact block sums in a running value of 32 bits, which saturates"
SIDE_INPUTS = {
    "zero_a": "zero point of the block's a",
    "zero_b": "zero point of the block's b",
    "multiplier": "factor of the result, used with in_last",
    "shift": "right shift of the result, used with in_last",
    "zero_out": "zero point of the result, used with in_last",
    "micro_a": "micro-exponents of pairs of a, lanes 0 and 1 lowest",
    "micro_b": "micro-exponents of pairs of b, lanes 0 and 1 lowest",
}


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
        if config.scale_bits:
            kind = "integer" if config.has_integers else "E8M0"
            self._port("in_scale_a", config.scale_bits, "in", f"{kind} scale of a")
            self._port("in_scale_b", config.scale_bits, "in", f"{kind} scale of b")
        for name, width in config.side_inputs.items():
            self._port(f"in_{name}", width, "in", SIDE_INPUTS[name])
        if config.load_c:
            kind = "INT32" if config.has_integers else "float32"
            self._port("in_c", 32, "in", f"{kind} value to start from, used with in_first")
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
    rule = INTEGER_RULE if config.has_integers else config.accumulator.rule
    lines = [
        f"mxdot {number}: MX dot-product unit {top}",
        "",
        f"formats      {config.formats_text}",
        f"accumulator  {config.accumulator}: {rule}",
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
    units fit one design. ValueError when `top` is not a Verilog identifier or is a reserved word.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", top):
        raise ValueError(f"top must be a Verilog identifier (letters, digits, _), not {top!r}")
    if top in KEYWORDS:
        raise ValueError(f"top must be no reserved word of Verilog, not {top!r}")
    library = Library(f"{top}_")
    with collecting(library):
        unit = DotTop(config)
        texts = [module_text(unit, top, {s.name: s for s, _, _ in unit.ports})]
        done = 0
        while done < len(library.components):  # converting one may add others
            name, component = list(library.components.items())[done]
            texts.append(module_text(own_names(component), name, module_ports(component)))
            done += 1
    text = to_verilog("".join(texts))
    for name, component in library.components.items():
        comment = "".join(f"// {line}\n" for line in describe_ports(component))
        text = text.replace(f"module {name}(", f"{comment}module {name}(", 1)
    return f"{header(config, top)}\n{text}"
