"""Rounding, saturation and encoding of aligned elements; random words for stochastic rounding."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import ElementFormat, IntegerFormat, Specials
from ...model.lfsr import SHIFTS, WORD_BITS, lane_seeds
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.floats import rounds_up
from ..hierarchy import submodule
from ..pipeline import Section
from .align import AlignedLayout, elements_shape
from .widths import select


class LaneWords(wiring.Component):
    """A random word per lane, from shift registers. `model/lfsr.py` defines the sequence.

    Ports:

    - `step` in, 1 bit: the words are used; give the next ones
    - `words` out, `lanes` x 32 bits: one per lane
    """

    clocked = True

    def __init__(self, seed: int, lanes: int) -> None:
        self.seed, self.lanes = seed, lanes
        super().__init__({"step": In(1), "words": Out(data.ArrayLayout(WORD_BITS, lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index, seed in enumerate(lane_seeds(self.seed, self.lanes)):
            state = Signal(WORD_BITS, init=seed, name=f"state{index}")
            with m.If(self.step):
                m.d.sync += state.eq(_next(state))
            m.d.comb += self.words[index].eq(state)
        return m


def _next(state: Value) -> Value:
    left, right, last = SHIFTS
    value = state ^ (state << left)[:WORD_BITS]
    value = value ^ (value >> right)
    return value ^ (value << last)[:WORD_BITS]


class ElementEncoder(wiring.Component):
    """An aligned element rounded, limited and encoded; combinational.

    Ports:

    - `i` in, `AlignedLayout`: the element
    - `mode` in, `config.mode_bits`: number of the format
    - `word` in, 32 bits: random; no such port without stochastic rounding
    - `poisoned` in, 1 bit: the block's scale is NaN
    - `code` out, the widest format's bits: a narrower code in the low bits

    of: name of the format, in a unit with an encoder per format.
    """

    def __init__(self, config: QuantizeConfig, of: str | None = None) -> None:
        self.config, self.of = config, of
        super().__init__(
            {
                "i": In(AlignedLayout(config)),
                "mode": In(config.mode_bits),
                "word": In(WORD_BITS if config.is_stochastic else 0),
                "poisoned": In(1),
                "code": Out(config.bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        formats = self.config.formats
        # A carry out of the significand runs into the exponent field, as it should.
        total = Signal(self.config.bits)
        magnitude = Signal(self.config.bits - 1)
        field = select(formats, self.mode, lambda fmt: self.i.field << fmt.mantissa_bits)
        largest = select(formats, self.mode, lambda fmt: fmt.largest_code)
        m.d.comb += [
            total.eq(self.i.significand + field + self._rounds_up(m)),
            magnitude.eq(Mux(total > largest, largest, total)),
        ]
        infinity = magnitude
        if self.config.nonfinite == "element":
            infinity = Signal(self.config.bits - 1, name="with_infinity")
            code = select(
                formats,
                self.mode,
                lambda f: f.largest_code if f.inf_code is None else f.inf_code,
            )
            m.d.comb += infinity.eq(Mux(self.i.infinite, code, magnitude))
        signed = select(formats, self.mode, lambda fmt: self._signed(fmt, infinity))
        m.d.comb += self.code.eq(Mux(self.poisoned, 0, signed))
        return m

    def _rounds_up(self, m: Module) -> Value:
        if self.config.rounding == "toward_zero":
            return Const(0, 1)
        if not self.config.is_stochastic:
            return rounds_up(self.i.significand, self.i.discarded)
        chance = Signal(WORD_BITS + 1)
        m.d.comb += chance.eq(self.i.discarded + self.word)
        return chance[-1]

    def _signed(self, fmt: ElementFormat, magnitude: Value) -> Value:
        """Code in format `fmt`."""
        low = magnitude[: fmt.bits - 1]
        if isinstance(fmt, IntegerFormat) and not fmt.sign_magnitude:
            return Mux(self.i.sign, -low, low)[: fmt.bits]
        # The code of -0 is a NaN there.
        sign = self.i.sign & low.any() if fmt.specials is Specials.FNUZ else self.i.sign
        code = Cat(low, sign)
        if self.config.nonfinite == "element" and fmt.nan_code is not None:
            return Mux(self.i.nan, fmt.nan_code, code)
        return code


def codes_shape(config: QuantizeConfig) -> data.ArrayLayout:
    """The value `codes`: one per lane, lane 0 lowest."""
    return data.ArrayLayout(config.bits, config.lanes)


class EncodeElements(Section):
    """Each element rounded, limited and encoded.

    codes: lane 0 lowest.
    """

    def __init__(self, config: QuantizeConfig, of: str | None = None) -> None:
        self.config, self.of = config, of
        word_bits = WORD_BITS if config.is_stochastic else 0
        super().__init__(
            {
                "elements": elements_shape(config),
                "random": data.ArrayLayout(word_bits, config.lanes),
                "poisoned": 1,
                "mode": config.mode_bits,
            },
            {"codes": codes_shape(config)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        for index in range(config.lanes):
            lane = submodule(m, f"lane{index}", ElementEncoder(config, self.of))
            m.d.comb += [
                lane.i.eq(self.i.elements[index]),
                lane.mode.eq(self.i.mode),
                lane.poisoned.eq(self.i.poisoned),
                self.o.codes[index].eq(lane.code),
            ]
            if config.is_stochastic:
                m.d.comb += lane.word.eq(self.i.random[index])
        return m
