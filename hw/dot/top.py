"""The dot unit as a top module."""

from amaranth.hdl import Module, Signal

from ...model.pipeline.delays import DEFAULT_DELAYS
from ...model.trace import FLAG_NAMES
from ...model.units.dot import DotConfig
from ..top import Top
from .unit import DotUnit

INTEGER_RULE = "exact block sums in a running value of 32 bits, which saturates"
SIDE_INPUTS = {
    "zero_a": "zero point of the block's a",
    "zero_b": "zero point of the block's b",
    "multiplier": "factor of the result, used with in_last",
    "shift": "right shift of the result, used with in_last",
    "zero_out": "zero point of the result, used with in_last",
    "result_scale": "float32 by which the sum is multiplied, used with in_last",
    "micro_a": "micro-exponents of pairs of a, lanes 0 and 1 lowest",
    "micro_b": "micro-exponents of pairs of b, lanes 0 and 1 lowest",
}


class DotTop(Top):
    """A `DotUnit` behind plain ports."""

    name = "mxdot_dot"

    def __init__(self, config: DotConfig) -> None:
        super().__init__(config)
        lanes = config.lanes
        self.port("in_valid", 1, "in", "a block is offered")
        self.port("in_ready", 1, "out", "the block offered is taken at this clock edge")
        self.port("in_a", lanes * config.bits_a, "in", f"{lanes} codes of a, lane 0 lowest")
        self.port("in_b", lanes * config.bits_b, "in", f"{lanes} codes of b, lane 0 lowest")
        if config.scale_bits:
            kind = "integer" if config.has_integers else config.scales.upper()
            kind += " scale" if config.scale_blocks == 1 else " scales"
            lowest = "" if config.scale_blocks == 1 else ", that of lane 0 lowest"
            for side in "ab":
                bits = config.scale_blocks * config.scale_bits
                self.port(f"in_scale_{side}", bits, "in", f"{kind} of {side}{lowest}")
        for name, width in config.side_inputs.items():
            self.port(f"in_{name}", width, "in", SIDE_INPUTS[name])
        if config.load_c:
            kind = "INT32" if config.has_integers else "float32"
            self.port("in_c", 32, "in", f"{kind} value to start from, used with in_first")
        self.port("in_first", 1, "in", "first block of a dot product")
        self.port("in_last", 1, "in", "last block of a dot product")
        if config.slot_bits:
            products = f"0 to {config.interleave - 1}"
            self.port("in_slot", config.slot_bits, "in", f"which dot product in flight: {products}")
        if config.mode_bits:
            modes = ", ".join(f"{i} {f}" for i, f in enumerate(config.formats_text.split(",")))
            self.port("in_mode", config.mode_bits, "in", f"formats of a and b: {modes}")
        self.port("out_valid", 1, "out", "a result is offered")
        self.port("out_ready", 1, "in", "the result offered is taken at this clock edge")
        self.port("out_result", config.out.bits, "out", f"result, {config.out.name}")
        if config.slot_bits:
            self.port("out_slot", config.slot_bits, "out", "which dot product it is of")
        if config.status:
            for name in FLAG_NAMES:
                self.port(f"out_{name}", 1, "out", f"status flag: {name}")

    def unit(self) -> DotUnit:
        return DotUnit(self.config)

    def connect(self, m: Module, unit: DotUnit, port: dict[str, Signal]) -> None:
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
        if "out_slot" in port:
            m.d.comb += port["out_slot"].eq(result.slot)

    def facts(self) -> list[tuple[str, str]]:
        config: DotConfig = self.config
        rule = INTEGER_RULE if config.has_integers else config.accumulator.rule
        chained = f"{config.interval} cycles between chained blocks of one dot product"
        interleave = f"{config.interleave} dot products in flight, told apart by in_slot"
        placed = f"those of {config.delays} place the registers"
        return [
            ("formats", config.formats_text),
            ("accumulator", f"{config.accumulator}: {rule}"),
            ("lanes", str(config.lanes)),
            ("output", config.out.name),
            ("latency", f"{config.latency} cycles from the last block to the result"),
            ("interval", chained),
            *([("interleave", interleave)] if config.interleave > 1 else []),
            *([("delays", placed)] if config.delays != DEFAULT_DELAYS else []),
            ("registers", config.pipeline.path),
        ]
