"""Verilog of a dot unit: readable, and the same bytes every time."""

from amaranth.back import verilog
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal

from ..model.config import DotConfig
from ..model.trace import FLAG_NAMES
from .unit import DotUnit

TOP = "mxdot_dot"


class DotTop(Elaboratable):
    """The unit behind plain, separately named ports; `ports` lists (signal, direction, meaning)."""

    def __init__(self, config: DotConfig) -> None:
        self.config = config
        lanes = config.lanes
        self.clk, self.rst = Signal(name="clk"), Signal(name="rst")
        self.ports = [
            (self.clk, "in", "clock, rising edge"),
            (self.rst, "in", "synchronous reset"),
        ]

        def port(name: str, width: int, direction: str, meaning: str) -> None:
            signal = Signal(width, name=name)
            setattr(self, name, signal)
            self.ports.append((signal, direction, meaning))

        port("in_valid", 1, "in", "a block is offered")
        port("in_ready", 1, "out", "the block is taken at this clock edge")
        port("in_a", lanes * config.bits_a, "in", f"{lanes} codes of a, lane 0 lowest")
        port("in_b", lanes * config.bits_b, "in", f"{lanes} codes of b, lane 0 lowest")
        port("in_scale_a", 8, "in", "E8M0 scale of a")
        port("in_scale_b", 8, "in", "E8M0 scale of b")
        if config.load_c:
            port("in_c", 32, "in", "float32 running value to start from, taken with in_first")
        port("in_first", 1, "in", "first block of a dot product")
        port("in_last", 1, "in", "last block of a dot product")
        if config.mode_bits:
            port("in_mode", config.mode_bits, "in", f"format pair: {config.formats_text}")
        port("out_valid", 1, "out", "a result is offered")
        port("out_ready", 1, "in", "the result is taken at this clock edge")
        port("out_result", config.out.bits, "out", f"{config.out.name} result")
        if config.status:
            for name in FLAG_NAMES:
                port(f"out_{name}", 1, "out", f"status flag {name}")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync = ClockDomain("sync")
        m.domains += sync
        m.submodules.unit = unit = DotUnit(self.config)
        m.d.comb += [sync.clk.eq(self.clk), sync.rst.eq(self.rst)]
        payload = unit.i.payload
        for name, _ in payload.shape():
            signal = getattr(self, f"in_{name}", None)
            if signal is not None:
                m.d.comb += payload[name].eq(signal)
        m.d.comb += [
            unit.i.valid.eq(self.in_valid),
            self.in_ready.eq(unit.i.ready),
            self.out_valid.eq(unit.o.valid),
            unit.o.ready.eq(self.out_ready),
            self.out_result.eq(unit.o.payload.result),
        ]
        for name, _ in unit.o.payload.flags.shape():
            m.d.comb += getattr(self, f"out_{name}").eq(unit.o.payload.flags[name])
        return m


def generate(config: DotConfig) -> str:
    """Verilog text of the unit, top module ``mxdot_dot``, with a header that names it."""
    top = DotTop(config)
    return verilog.convert(
        top, name=TOP, ports=[signal for signal, _, _ in top.ports], emit_src=False
    )
