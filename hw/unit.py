"""DotUnit: the MX dot-product unit."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..model.config import DotConfig
from ..model.outputs import IntegerOutput
from ..model.trace import FLAG_NAMES
from .elastic import Slice, Token
from .hierarchy import used
from .sections import Section, build
from .sections.base import ControlLayout
from .sections.multiply import BlockLayout
from .widths import Widths


class InputLayout(data.StructLayout):
    """One block: codes of a and b (lane 0 lowest), their scales, the mode; c with `first`."""

    def __init__(self, config: DotConfig) -> None:
        block = {name: field.shape for name, field in BlockLayout(Widths(config))}
        super().__init__({**block, "c": 32 if config.load_c else 0, "first": 1, "last": 1})


class ResultLayout(data.StructLayout):
    """The result's bits and, with `config.status`, its flags (model.trace.Flags)."""

    def __init__(self, config: DotConfig) -> None:
        flags = data.StructLayout(dict.fromkeys(FLAG_NAMES, 1) if config.status else {})
        super().__init__({"result": config.out.bits, "flags": flags})


class DotUnit(wiring.Component):
    """Dot products of MX blocks, one block per cycle, as the numeric contract says to the bit.

    ::

              i: a, b (lanes x bits)   scale_a, scale_b (8)    first, last, c (32)
                      |                       |                     |
        multiply  decoders, multipliers   scale adder               |
                  sign, product (P),      s (10)                    |
                  unit exponent (U)           |                     |
                      |                       |                     |
        ...       the accumulator's sections: see the table         |
                      |                       |                     |
        accumulate    +-----------------------+-------> c' <--------+
                                                        |  ^ running value, one register
        convert   RNE to bfloat16 or float16 (if asked) |
                                                        o: result (32 or 16), flags

    ==============  ===========================================================================
    accumulator     sections and what leaves them (k lanes, F fraction bits)
    ==============  ===========================================================================
    exact, int32    place: k terms of P + span bits; sum: P + span + log2 k + 1; normalize;
                    accumulate: c + 2^s x sum, RNE
    aligned:F       largest: U; align: k terms of F + 2 (INT8: 3) bits; sum: F + 3 + log2 k;
                    normalize: 24 bits, RZ; accumulate: c + 2^s x D, RNE
    fused:F,        largest; then per step join: emax with s and c, terms as above and c in F + 1
    presets         bits; sum; round: RZ. `hopper-promoted` adds promote: c + partial, RNE
    fixed:W:L       place, sum as exact; scale: W + 1 bits; accumulate: W bits; round: RNE
    float32         tree1 ... tree(log2 k): RNE adders; accumulate: c + 2^s x tree, RNE
    int32, integer  sum; correct: zero points and integer scales (if asked); accumulate: INT32,
    results         saturating; rescale: x multiplier (if asked); limit: shift, zero point, clip
    ==============  ===========================================================================

    P, span and the other widths are those of `hw.widths.Widths`. A register may stand after every
    section; `config.pipeline` says where they do.

    Ports: i in (stream of `InputLayout`), o out (stream of `ResultLayout`). A dot product is the
    blocks from `first` to `last`; its result comes `config.latency` cycles after its last block was
    accepted, when nothing stalls. Blocks are accepted one per cycle; one that needs the running
    value of its own product enters the loop `config.interval` cycles after the block before, and
    until then waits in the registers before the loop and, when these are full, at the input. Reset,
    at any moment, empties the unit.
    """

    clocked = True

    def __init__(self, config: DotConfig) -> None:
        self.config = config
        self.widths = Widths(config)
        super().__init__(
            {
                "i": In(stream.Signature(InputLayout(config))),
                "o": Out(stream.Signature(ResultLayout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipeline = self.config.pipeline
        sections = build(self.widths)
        slices = [
            Slice(m, part.name, section, index in pipeline.registered, ControlLayout())
            for index, (part, section) in enumerate(zip(pipeline.sections, sections, strict=True))
        ]
        token = self._accept(m, sections[0])
        for index, (part, section) in enumerate(zip(pipeline.sections, sections, strict=True)):
            if section.has("state"):
                holder = next(i for i, s in enumerate(pipeline.sections[index:], index) if s.holds)
                m.d.comb += section.state.eq(slices[holder].data)
                if part.loop:
                    self._wait(m, token, slices[index:holder])
            token = slices[index].connect(m, token)
        self._deliver(m, token)
        return m

    def _accept(self, m: Module, multiply: Section) -> Token:
        """The input stream as a token, with its place in the promotion group."""
        payload = self.i.payload
        block = Signal(multiply.i.shape(), name="in_block")
        control = Signal(ControlLayout(), name="in_control")
        token = Token("in", block, control, self.i.valid)
        for name, _ in multiply.i.shape():
            m.d.comb += block[name].eq(payload[name])
        m.d.comb += [
            self.i.ready.eq(token.ready),
            token.control.first.eq(payload.first),
            token.control.last.eq(payload.last),
            token.control.starts.eq(payload.first),
            token.control.promotes.eq(payload.last),
        ]
        if self.config.load_c:
            m.d.comb += token.control.c.eq(payload.c)
        promote = getattr(self.config.accumulator, "promote", None)
        if promote is not None:
            self._count_group(m, token, max(1, promote // self.config.lanes))
        return token

    @staticmethod
    def _count_group(m: Module, token: Token, blocks: int) -> None:
        """A partial sum starts with every group of `blocks` blocks and is promoted at its end."""
        place = Signal(range(blocks), name="group_place")
        here = Signal(range(blocks), name="group_here")
        end = here == blocks - 1
        m.d.comb += here.eq(Mux(token.control.first, 0, place))
        m.d.comb += token.control.starts.eq(token.control.first | (here == 0))
        m.d.comb += token.control.promotes.eq(token.control.last | end)
        with m.If(token.valid & token.ready):
            m.d.sync += place.eq(here + 1)  # wraps: groups are powers of two

    @staticmethod
    def _wait(m: Module, token: Token, loop: list[Slice]) -> None:
        """Hold a block that needs the running value while that is still on its way round."""
        busy = Cat(part.valid for part in loop if part.registered).any()
        go = Signal(name="loop_go")
        m.d.comb += go.eq(token.control.starts | ~busy)
        token.gate(m, go)

    def _deliver(self, m: Module, token: Token) -> None:
        """Results leave with the last block; the tokens of the others end here."""
        payload, out = self.o.payload, self.config.out
        c, flags = Value.cast(token.data.c), token.data.flags
        m.d.comb += [
            payload.result.eq(c),
            self.o.valid.eq(token.valid & token.control.last),
            token.ready.eq(self.o.ready | ~token.control.last),
        ]
        if not self.config.status:
            return
        if not isinstance(out, IntegerOutput):
            special = c[out.fraction_bits : out.bits - 1].all()
            m.d.comb += payload.flags.invalid.eq(special & c[: out.fraction_bits].any())
        for name in FLAG_NAMES[1:]:
            m.d.comb += payload.flags[name].eq(flags[name])


def stage_layouts(config: DotConfig) -> dict[str, data.Layout]:
    """What the wire `stage_NAME_data` of the generated Verilog holds, for every section NAME."""
    sections = [used(section) for section in build(Widths(config))]
    names = [part.name for part in config.pipeline.sections]
    return {name: section.o.shape() for name, section in zip(names, sections, strict=True)}


__all__ = ["DotUnit", "InputLayout", "ResultLayout", "stage_layouts"]
