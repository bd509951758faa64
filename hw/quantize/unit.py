"""QuantizeUnit: blocks of floats to MX codes."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...model.quantize_config import QuantizeConfig
from ..elastic import Slice, Token
from ..hierarchy import submodule
from ..sections.base import Section
from .align import AlignElements
from .collect import Collector
from .encode import CodesLayout, EncodeElements
from .largest import Classify, LargerOfPairs, values_layout
from .lfsr import LaneWords
from .scale import ControlLayout, SharedScale


class ValuesInLayout(data.StructLayout):
    """One beat: values (lane 0 lowest), random words where they are streamed, mode and rule."""

    def __init__(self, config: QuantizeConfig) -> None:
        super().__init__(
            {**values_layout(config), "mode": config.mode_bits, "rule": config.rule_bits}
        )


class CodesOutLayout(data.StructLayout):
    """One beat: codes (lane 0 lowest), the block's scale; `last` of a block of several beats."""

    def __init__(self, config: QuantizeConfig) -> None:
        codes = {name: field.shape for name, field in CodesLayout(config)}
        super().__init__({**codes, "last": int(config.beats > 1)})


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
                    normalised first. kept (m + 1 bits), rest (RNE: 2, stochastic: 32 bits), field
        encode      per lane: + field, + 1 if it rounds up (rest + word carries); saturates
                        |
                    o: codes (lanes x element bits), scale (8), last

    A register may stand after every section; `config.pipeline` says where they do. Ports: i in
    (stream of `ValuesInLayout`), o out (stream of `CodesOutLayout`). A block is `config.beats`
    beats, counted from the reset; mode and rule are those of its last beat. Its codes come in as
    many beats, the first of them `config.latency` cycles after its last beat was accepted, when
    nothing stalls. Beats are accepted one per cycle. Reset, at any moment, empties the unit and
    sets the shift registers back.
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
        config = self.config
        sections = build(config)
        token = self._accept(m, sections[0])
        for index, part in enumerate(config.pipeline.sections):
            section = sections[index]
            if isinstance(section, Collector):
                token = _collect(m, section, token)
                continue
            if part.name == "encode" and config.random == "lfsr":
                token = self._with_words(m, section, token)
            registered = index in config.pipeline.registered
            control = ControlLayout(config)
            token = Slice(m, part.name, section, registered, control).connect(m, token)
        payload = self.o.payload
        m.d.comb += [
            payload.codes.eq(token.data.codes),
            payload.scale.eq(token.data.scale),
            payload.last.eq(token.control.last),
            self.o.valid.eq(token.valid),
            token.ready.eq(self.o.ready),
        ]
        return m

    def _accept(self, m: Module, classify: Section) -> Token:
        """The input stream as a token."""
        payload = self.i.payload
        values = Signal(classify.i.shape(), name="in_values")
        control = Signal(ControlLayout(self.config), name="in_control")
        token = Token("in", values, control, self.i.valid)
        for name in values_layout(self.config):
            m.d.comb += values[name].eq(payload[name])
        for name in ("mode", "rule"):
            m.d.comb += control[name].eq(payload[name])
        m.d.comb += self.i.ready.eq(token.ready)
        return token

    def _with_words(self, m: Module, encode: Section, token: Token) -> Token:
        """The token with a word for each lane from the shift registers, which then step."""
        source = submodule(m, "lfsr", LaneWords(self.config.seed, self.config.lanes))
        elements = Signal(encode.i.shape(), name="words_elements")
        for name, _ in token.data.shape():
            m.d.comb += elements[name].eq(token.data[name])
        m.d.comb += [
            elements.random.eq(source.words),
            source.step.eq(token.valid & token.ready),
        ]
        after = Token("words", elements, token.control, token.valid)
        m.d.comb += token.ready.eq(after.ready)
        return after


def build(config: QuantizeConfig) -> list[Section | Collector]:
    """The sections of a unit, one for each name of its `config.pipeline.sections`."""
    tree, count = [], config.lanes
    while count > 1:
        tree.append(LargerOfPairs(config, count))
        count //= 2
    collect = [Collector(config)] if config.beats > 1 else []
    last = [SharedScale(config), AlignElements(config), EncodeElements(config)]
    return [Classify(config), *tree, *collect, *last]


def _collect(m: Module, collector: Collector, token: Token) -> Token:
    submodule(m, "collect", collector)
    i, o = collector.i, collector.o
    m.d.comb += [
        i.payload.data.eq(token.data),
        i.payload.control.eq(token.control),
        i.valid.eq(token.valid),
        token.ready.eq(i.ready),
    ]
    after = Token("collect", o.payload.data, o.payload.control, o.valid)
    m.d.comb += o.ready.eq(after.ready)
    return after
