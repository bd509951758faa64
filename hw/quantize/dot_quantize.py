"""A dot unit followed by a quantiser, and its top module."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import E8M0
from ...model.units.dot_quantize import DotQuantizeConfig
from ..dot.unit import DotTop, DotUnit, InputLayout
from ..hierarchy import submodule, used
from ..top import Top
from .unit import CodesOutLayout, QuantizeUnit


class DotQuantizeUnit(wiring.Component):
    """A `DotUnit` whose results a `QuantizeUnit` gathers block by block, one result per beat.

    Ports:

    - `i` in, stream of the dot unit's `InputLayout`: blocks of dot products
    - `o` out, stream of the quantiser's `CodesOutLayout`: one code per beat, with its block's scale
    """

    clocked = True

    def __init__(self, config: DotQuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(InputLayout(config.dot))),
                "o": Out(stream.Signature(CodesOutLayout(config.quantizer))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        dot = submodule(m, "dot", DotUnit(self.config.dot))
        quantizer = submodule(m, "quantizer", QuantizeUnit(self.config.quantizer))
        m.d.comb += [
            dot.i.payload.eq(self.i.payload),
            dot.i.valid.eq(self.i.valid),
            self.i.ready.eq(dot.i.ready),
            quantizer.i.payload["values"][0].eq(dot.o.payload.result),
            quantizer.i.valid.eq(dot.o.valid),
            dot.o.ready.eq(quantizer.i.ready),
            self.o.payload.eq(quantizer.o.payload),
            self.o.valid.eq(quantizer.o.valid),
            quantizer.o.ready.eq(self.o.ready),
        ]
        return m


class DotQuantizeTop(Top):
    """A `DotQuantizeUnit` with plain ports: the dot unit's inputs, and one code."""

    name = "mxdot_dot_quantize"

    def __init__(self, config: DotQuantizeConfig) -> None:
        super().__init__(config)
        known = {signal.name for signal, _, _ in self.ports} | {"out_result"}
        ports = used(DotTop(config.dot)).ports
        self.ports += [port for port in ports if port[0].name not in known]
        self.port("out_code", config.quantizer.bits, "out", "code of the oldest result")
        self.port("out_scale", E8M0.bits, "out", "E8M0 scale of its block")
        self.port("out_last", 1, "out", "last code of the block")

    def unit(self) -> DotQuantizeUnit:
        return DotQuantizeUnit(self.config)

    def connect(self, m: Module, unit: DotQuantizeUnit, port: dict[str, Signal]) -> None:
        block, codes = unit.i.payload, unit.o.payload
        for name, field in block.shape():
            if field.width:
                m.d.comb += block[name].eq(port[f"in_{name}"])
        m.d.comb += [
            unit.i.valid.eq(port["in_valid"]),
            port["in_ready"].eq(unit.i.ready),
            port["out_valid"].eq(unit.o.valid),
            unit.o.ready.eq(port["out_ready"]),
            port["out_code"].eq(codes.codes[0]),
            port["out_scale"].eq(codes.scale),
            port["out_last"].eq(codes.last),
        ]

    def facts(self) -> list[tuple[str, str]]:
        config: DotQuantizeConfig = self.config
        quantizer = config.quantizer
        return [
            ("dot unit", str(config.dot)),
            ("quantiser", str(quantizer)),
            ("latency", f"{config.latency} cycles from the last block of a block's last product"),
        ]
