"""QuantizeUnit, blocks of floats to MX codes, and its top module."""

from collections.abc import Callable

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...model.lfsr import WORD_BITS
from ...model.pipeline import placement
from ...model.units.quantize import QuantizeConfig
from ..hierarchy import submodule
from ..pipeline import ClockedSection, Section, SectionChain, Token
from ..top import Top
from .align import AlignElements
from .choose import (
    AlignEach,
    ChooseFormat,
    EncodeEach,
    FormatErrors,
    ScaleEach,
    Squares,
    SumOfPairs,
)
from .encode import EncodeElements, LaneWords, codes_shape
from .outer import ElementDigit, Limit, OuterProduct, ScaleDigit
from .scale import Classify, Collector, LargerOfPairs, SharedScale, beat_values, choice_values


class ValuesInLayout(data.StructLayout):
    """One beat: values (lane 0 lowest), random words if streamed, mode and rule."""

    def __init__(self, config: QuantizeConfig) -> None:
        super().__init__({**beat_values(config), **choice_values(config)})


class CodesOutLayout(data.StructLayout):
    """One beat: codes (lane 0 lowest), the block's scale, its format if the unit chooses; `last`
    for blocks of several beats.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        last = {"last": int(config.beats > 1)}
        micro = {"micro": config.micro_bits} if config.micro else {}
        mode = {"mode": config.selector_bits} if config.selector_bits else {}
        codes = {"codes": codes_shape(config), "scale": config.scale_bits}
        super().__init__({**codes, **micro, **mode, **last})


class QuantizeUnit(wiring.Component):
    """MX blocks of float values, a beat per cycle, as section 2 of the numeric contract says.

    ::

                   i: values (lanes x source bits)    mode, rule    random words, if streamed
                        |
        classify    magnitudes of finite values: exponent field, and as many fraction bits as the
                    scale rules look at (`floor`: none)
        largest i   a level of comparators: half as many magnitudes
                        |  one: amax
        collect     (blocks of several beats) a ring of the block's values, the largest so far
                        |
        scale       exponent field of amax, less emax, plus the rule's carry: E8M0 code (8)
        align       per lane: exponent field less the block's base: a shift; a subnormal value is
                    normalised first. significand (m + 1 bits), discarded (RNE: 2, stochastic: 32
                    bits), field
        encode      per lane: + field, + 1 if it rounds up (discarded + word carries); saturates
                        |
                    o: codes (lanes x element bits), scale (8), last

    A unit that chooses (`select`) has scale, align and encode for each of its formats, followed
    by::

        error       per lane and format: value and element, cut to steps of `select` digits: their
                    difference
        square      per lane and format
        sum i       a level of adders: half as many sums
        choose      the format of the least sum: mode, its codes and scale

    A register may stand after every section; `config.pipeline` tells where. A block is
    `config.beats` beats, counted from the reset; its last beat carries mode and rule. Its codes
    come in as many beats, the first one `config.latency` cycles after the block's last beat was
    accepted, when nothing stalls. Beats are accepted one per cycle. Reset, at any moment, empties
    the unit and sets the shift registers back.

    Ports:

    - `i` in, stream of `ValuesInLayout`: values of blocks
    - `o` out, stream of `CodesOutLayout`: their codes
    """

    clocked = True

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(ValuesInLayout(config))),
                "o": Out(stream.Signature(CodesOutLayout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, row = self.config, row_of(self.config)
        payload = self.i.payload
        token = Token("in", {name: payload[name] for name, _ in payload.shape()}, self.i.valid)
        m.d.comb += self.i.ready.eq(token.ready)
        for index, part in enumerate(config.pipeline.sections):
            if part.kind == "encode" and config.random == "lfsr":
                self._add_words(m, token)
            token = row.step(m, index, token)
        out = self.o.payload
        m.d.comb += [
            *(out[name].eq(token.values[name]) for name in _outputs(config)),
            self.o.valid.eq(token.valid),
            token.ready.eq(self.o.ready),
        ]
        return m

    def _add_words(self, m: Module, token: Token) -> None:
        """Add a word per lane from the shift registers, which step when the words are used."""
        source = submodule(m, "lfsr", LaneWords(self.config.seed, self.config.lanes))
        m.d.comb += source.step.eq(token.valid & token.ready)
        token.values["random"] = source.words


def _outputs(config: QuantizeConfig) -> list[str]:
    return [name for name, field in CodesOutLayout(config) if field.width]


def row_of(config: QuantizeConfig) -> SectionChain:
    """Sections of a unit with their registers."""
    parts = config.pipeline.sections
    joining: dict[int, dict[str, ShapeLike]] = {}
    if config.random == "lfsr":
        encode = next(i for i, part in enumerate(parts) if part.kind == "encode")
        joining[encode] = {"random": data.ArrayLayout(WORD_BITS, config.lanes)}
    sections = [_section(config, part) for part in parts]
    inputs = {name: field.shape for name, field in ValuesInLayout(config)}
    return SectionChain(config.pipeline, sections, inputs, _outputs(config), joining)


def _section(config: QuantizeConfig, part: placement.Section) -> Section | ClockedSection:
    numbers = () if part.number is None else (part.number,)
    kinds = SECTIONS if config.select is None else SECTIONS | CHOOSING
    return kinds[part.kind](config, *numbers)


SECTIONS: dict[str, Callable[..., Section | ClockedSection]] = {
    "classify": Classify,
    "largest": LargerOfPairs,
    "collect": Collector,
    "scale": SharedScale,
    "divisor": Limit,
    "ratio": ScaleDigit,
    "product": OuterProduct,
    "divide": ElementDigit,
    "align": AlignElements,
    "encode": EncodeElements,
}
CHOOSING: dict[str, Callable[..., Section | ClockedSection]] = {
    "scale": ScaleEach,
    "align": AlignEach,
    "encode": EncodeEach,
    "error": FormatErrors,
    "square": Squares,
    "sum": SumOfPairs,
    "choose": ChooseFormat,
}
"""Sections of a unit that chooses the format of a block."""


class QuantizeTop(Top):
    """A `QuantizeUnit` with plain ports."""

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
