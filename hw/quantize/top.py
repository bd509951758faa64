"""The quantiser as a top module."""

from amaranth.hdl import Module, Signal

from ...model.units.quantize import QuantizeConfig
from ..top import Top
from .largest import beat_values
from .unit import QuantizeUnit


class QuantizeTop(Top):
    """A `QuantizeUnit` behind plain ports."""

    name = "mxdot_quantize"

    def __init__(self, config: QuantizeConfig) -> None:
        super().__init__(config)
        lanes, source = config.lanes, config.source
        beat = "block" if config.beats == 1 else "beat"
        self.port("in_valid", 1, "in", f"a {beat} is offered")
        self.port("in_ready", 1, "out", f"the {beat} offered is taken at this clock edge")
        values = f"{lanes} {source.name} values, lane 0 lowest"
        self.port("in_values", lanes * source.bits, "in", values)
        if config.word_bits:
            words = f"{lanes} random words, lane 0 lowest"
            self.port("in_random", lanes * config.word_bits, "in", words)
        if config.mode_bits:
            modes = ", ".join(f"{i} {fmt}" for i, fmt in enumerate(config.formats))
            self.port("in_mode", config.mode_bits, "in", f"element format: {modes}")
        if config.rule_bits:
            rules = ", ".join(f"{i} {rule}" for i, rule in enumerate(config.scale_rules))
            self.port("in_rule", config.rule_bits, "in", f"scale rule: {rules}")
        if config.divides:
            self.port("in_outer", config.outer_bits, "in", "float32 scale of all blocks")
        self.port("out_valid", 1, "out", "codes are offered")
        self.port("out_ready", 1, "in", "the codes offered are taken at this clock edge")
        self.port("out_codes", lanes * config.bits, "out", f"{lanes} codes, lane 0 lowest")
        self.port(
            "out_scale", config.scale_bits, "out", f"{config.scales.upper()} scale of the block"
        )
        if config.micro:
            meaning = f"{config.micro_bits} micro-exponents, of the lowest pair lowest"
            self.port("out_micro", config.micro_bits, "out", meaning)
        if config.selector_bits:
            modes = ", ".join(f"{i} {fmt}" for i, fmt in enumerate(config.formats))
            meaning = f"element format of the block: {modes}"
            self.port("out_mode", config.selector_bits, "out", meaning)
        if config.beats > 1:
            self.port("out_last", 1, "out", "last beat of the block")

    def unit(self) -> QuantizeUnit:
        return QuantizeUnit(self.config)

    def connect(self, m: Module, unit: QuantizeUnit, port: dict[str, Signal]) -> None:
        beat, codes = unit.i.payload, unit.o.payload
        names = [*beat_values(self.config), "mode", "rule", "outer"]
        m.d.comb += [beat[n].eq(port[f"in_{n}"]) for n in names if f"in_{n}" in port]
        for name in ("codes", "scale", "micro", "mode", "last"):
            if f"out_{name}" in port:
                m.d.comb += port[f"out_{name}"].eq(codes[name])
        m.d.comb += [
            unit.i.valid.eq(port["in_valid"]),
            port["in_ready"].eq(unit.i.ready),
            port["out_valid"].eq(unit.o.valid),
            unit.o.ready.eq(port["out_ready"]),
        ]

    def facts(self) -> list[tuple[str, str]]:
        config: QuantizeConfig = self.config
        random = [("random", f"shift registers, seed {config.seed:#x}")]
        beats = "" if config.beats == 1 else f", {config.beats} beats of {config.lanes}"
        return [
            ("formats", config.formats_text),
            ("block", f"{config.block} {config.source.name} values{beats}"),
            ("scale", config.scale_rule + (" of E4M3 under a float32" if config.divides else "")),
            *([("micro", "an exponent of one bit for every two elements")] if config.micro else []),
            ("rounding", config.rounding),
            ("non-finite", config.nonfinite),
            *(
                [("choice", f"errors of {config.select} digits")]
                if config.select is not None
                else []
            ),
            *(random if config.random == "lfsr" else []),
            ("latency", f"{config.latency} cycles from a block's last beat to its first codes"),
            ("interval", f"{config.interval} cycles between blocks"),
            ("registers", config.pipeline.path),
        ]
