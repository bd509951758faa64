"""The largest magnitude of a block, kept over several beats, and the shared scale."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value, signed
from amaranth.lib import data

from ...model.formats import E8M0, ElementFormat
from ...model.units.quantize import QuantizeConfig
from ..arithmetic.shift import Normalizer
from ..hierarchy import submodule
from ..pipeline import ClockedSection, Section
from .widths import LaneWidths, select


def beat_values(config: QuantizeConfig) -> dict[str, ShapeLike]:
    """Values of a beat and, if streamed, their random words."""
    values: dict[str, ShapeLike] = {
        "values": data.ArrayLayout(config.source.bits, config.lanes),
    }
    if config.word_bits:
        values["random"] = data.ArrayLayout(config.word_bits, config.lanes)
    return values


def largest_values(config: QuantizeConfig, count: int) -> dict[str, ShapeLike]:
    """`count` largest magnitudes of equal parts of a beat, and the specials that it holds.

    Magnitudes are exponent fields over `LaneWidths.compared_bits` fraction bits, 0 for NaN and
    infinities.
    """
    width = config.source.exponent_bits + LaneWidths(config).compared_bits
    return {"largest": data.ArrayLayout(width, count), "nan": 1, "infinite": 1}


def _largest(config: QuantizeConfig, count: int) -> dict[str, ShapeLike]:
    return {"largest": largest_values(config, count)["largest"]}


class Classify(Section):
    """Masks NaN and infinities, so that they take no part in the comparison.

    largest: magnitudes of finite values, 0 for others. nan: a value is NaN. infinite: a value is
    infinite.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        values = {"values": beat_values(config)["values"]}
        super().__init__(values, largest_values(config, config.lanes))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = LaneWidths(self.config)
        special, fraction = [], []
        for index in range(self.config.lanes):
            value = self.i.values[index]
            field = value[widths.fraction_bits : widths.magnitude_bits]
            special.append(field.all())
            fraction.append(value[: widths.fraction_bits].any())
            magnitude = Cat(self._upper(value[: widths.fraction_bits]), field)
            m.d.comb += self.o.largest[index].eq(Mux(field.all(), 0, magnitude))
        m.d.comb += [
            self.o.nan.eq((Cat(special) & Cat(fraction)).any()),
            self.o.infinite.eq((Cat(special) & ~Cat(fraction)).any()),
        ]
        return m

    def _upper(self, fraction: Value) -> Value:
        """Fraction bits to compare. Cutting keeps their order; `ceil` also needs the rest as a
        sticky bit.
        """
        cut = len(fraction) - LaneWidths(self.config).compared_bits
        if not cut or "ceil" not in self.config.scale_rules:
            return fraction[cut:]
        return Cat(fraction[: cut + 1].any(), fraction[cut + 1 :])


class LargerOfPairs(Section):
    """A level of the comparator tree: magnitudes to half as many.

    largest: the larger magnitude of each pair.
    """

    def __init__(self, config: QuantizeConfig, number: int) -> None:
        self.config, self.count = config, config.lanes >> (number - 1)
        super().__init__(*(_largest(config, count) for count in (self.count, self.count // 2)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(self.count // 2):
            a, b = self.i.largest[2 * index], self.i.largest[2 * index + 1]
            m.d.comb += self.o.largest[index].eq(Mux(a > b, a, b))
        return m


def choice_values(config: QuantizeConfig) -> dict[str, ShapeLike]:
    """Format and scale rule of a block, if there is a choice, and its outer scale."""
    outer = {"outer": config.outer_bits} if config.divides else {}
    return {"mode": config.mode_bits, "rule": config.rule_bits, **outer}


def base_shape(config: QuantizeConfig) -> Shape:
    """The value `base`."""
    return signed(LaneWidths(config).distance_bits)


class SharedScale(Section):
    """The rule's exponent, clamped to E8M0: no logarithm, only the exponent field and a carry.

    scale: code of the scale. base: number to subtract from a value's exponent field. The difference
    is the value's distance above the element format's smallest exponent, under a micro-exponent of
    one. poisoned: the block's codes are zero.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {**largest_values(config, 1), **choice_values(config)},
            {"scale": E8M0.bits, "base": base_shape(config), "poisoned": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, widths = self.config, LaneWidths(self.config)
        mode = self.i.mode
        exponent, top, fraction = leading(m, config, self.i.largest[0])
        carry = Signal()
        code = Signal(signed(widths.distance_bits))
        rules = [self._carry(rule, top, fraction) for rule in config.scale_rules]
        chosen = rules[-1]
        for index, rule in enumerate(rules[:-1]):
            chosen = Mux(self.i.rule == index, rule, chosen)
        emax = select(config.formats, mode, lambda fmt: fmt.emax)
        largest = E8M0.nan_code - 1
        m.d.comb += [
            carry.eq(chosen),
            code.eq(exponent - emax + carry),
        ]
        clamped = Signal(E8M0.bits)
        zero = ~Value.cast(self.i.largest[0]).any()
        m.d.comb += clamped.eq(Mux((code < 0) | zero, 0, Mux(code > largest, largest, code)))
        # The exponent field of a value at the element format's smallest exponent.
        offset = widths.bias - E8M0.bias - config.micro
        m.d.comb += [
            self.o.base.eq(clamped + select(config.formats, mode, lambda fmt: fmt.emin + offset)),
            self.o.poisoned.eq(poisoned(config, self.i, mode)),
            self.o.scale.eq(Mux(self.o.poisoned, E8M0.nan_code, clamped)),
        ]
        return m

    def _carry(self, rule: str, top: Value, fraction: Value) -> Value:
        """1 if the rule's exponent is one more than the exponent of the largest magnitude."""
        if rule == "floor":
            return Const(0, 1)
        if rule == "twice":
            return top
        width = len(fraction)
        mode = self.i.mode

        def even(fmt: ElementFormat) -> Value:
            """1 if it rounds up to the next power of two: m + 1 ones."""
            return fraction[max(width - fmt.mantissa_bits - 1, 0) :].all()

        def ceil(fmt: ElementFormat) -> Value:
            """1 if it exceeds the largest finite element at this exponent."""
            ones = fmt.largest_code % 2**fmt.mantissa_bits
            return fraction > (ones << width - fmt.mantissa_bits)

        return top & select(self.config.formats, mode, even if rule == "even" else ceil)


def leading(m: Module, config: QuantizeConfig, largest: Value) -> tuple[Value, Value, Value]:
    """(E8M0 code of the exponent, leading bit, fraction) of a block's largest magnitude.

    The leading bit is 0 only for zero, or if the code is clamped to 0 for any fraction.
    """
    widths = LaneWidths(config)
    field, fraction = largest[widths.compared_bits :], largest[: widths.compared_bits]
    normal = field.any()
    exponent = Signal(signed(widths.distance_bits), name="exponent")
    if widths.bias == E8M0.bias:
        # A subnormal is below 2^-126: one place further its exponent is -127, E8M0's least.
        m.d.comb += exponent.eq(field)
        if not widths.compared_bits:
            return exponent, normal, fraction
        top = normal | fraction[-1]
        return exponent, top, Mux(normal, fraction, Cat(Const(0, 1), fraction[:-1]))
    normalizer = submodule(m, "normalizer", Normalizer(widths.fraction_bits + 1))
    m.d.comb += [
        normalizer.value.eq(Cat(fraction, normal)),
        exponent.eq(Mux(normal, field, 1) - normalizer.amount + (E8M0.bias - widths.bias)),
    ]
    return exponent, normalizer.result[-1], normalizer.result[:-1]


def poisoned(config: QuantizeConfig, largest: data.View, mode: Value) -> Value:
    """1 if a value of the block, described by its `largest_values`, poisons it."""
    if config.nonfinite == "poison":
        return largest["nan"] | largest["infinite"]
    without_nan = select(config.formats, mode, lambda fmt: int(fmt.nan_code is None))
    return largest["nan"] & without_nan


class Collector(ClockedSection):
    """A ring of as many beats as a block has, and a register with facts about the block.

    A beat leaves with the largest magnitude, the specials and the choices of its whole block, the
    last beat with `last`. A beat is taken in every cycle while beats leave: beats of the next block
    take the places that become free.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        self.known: dict[str, ShapeLike] = {**largest_values(config, 1), **choice_values(config)}
        values = {**beat_values(config), **self.known}
        super().__init__(values, {**values, "last": 1})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        beat, out = self.i.payload, self.o.payload
        stored = data.StructLayout(beat_values(config))
        places = [Signal(stored, name=f"ring{i}", reset_less=True) for i in range(config.beats)]
        write = Signal(range(config.beats))
        read = Signal(range(config.beats))
        count = Signal(range(config.beats + 1))  # beats in the ring
        left = Signal(range(config.beats + 1))  # of them, those of a complete block
        takes = Signal()
        gives = Signal()
        completes = Signal()
        m.d.comb += [
            self.o.valid.eq(left.any()),
            self.i.ready.eq((count != config.beats) | (self.o.valid & self.o.ready)),
            takes.eq(self.i.valid & self.i.ready),
            gives.eq(self.o.valid & self.o.ready),
            completes.eq(takes & (write == config.beats - 1)),
        ]
        # A block completes when all others have left, or the last of them leaves now.
        m.d.sync += [
            count.eq(count + takes - gives),
            left.eq(Mux(completes, config.beats, left - gives)),
        ]
        with m.If(takes):
            m.d.sync += write.eq(write + 1)  # wraps: beats are a power of two
        with m.If(gives):
            m.d.sync += read.eq(read + 1)
        self._summarize(m, takes, completes, write)
        for index, place in enumerate(places):
            with m.If(takes & (write == index)):
                m.d.sync += [place[name].eq(beat[name]) for name in beat_values(config)]
        leaves = Signal(stored, name="leaves")
        m.d.comb += Value.cast(leaves).eq(_pick([Value.cast(place) for place in places], read))
        for name in beat_values(config):
            m.d.comb += out[name].eq(leaves[name])
        m.d.comb += out.last.eq(left == 1)
        return m

    def _summarize(self, m: Module, takes: Signal, completes: Signal, write: Signal) -> None:
        """Facts about the incoming block, and about the complete block."""
        beat, out = self.i.payload, self.o.payload
        largest, nan, infinite = (beat[name] for name in ("largest", "nan", "infinite"))
        running = Signal.like(largest[0], name="running_largest", reset_less=True)
        running_nan = Signal(reset_less=True)
        running_infinite = Signal(reset_less=True)
        first = write == 0
        before = Mux(first, 0, running)
        now = Mux(before > largest[0], before, largest[0])
        now_nan = nan | (running_nan & ~first)
        now_infinite = infinite | (running_infinite & ~first)
        with m.If(takes):
            m.d.sync += [
                running.eq(now),
                running_nan.eq(now_nan),
                running_infinite.eq(now_infinite),
            ]
        known = Signal(data.StructLayout(self.known), name="block", reset_less=True)
        with m.If(completes):
            m.d.sync += [
                known.largest[0].eq(now),
                known.nan.eq(now_nan),
                known.infinite.eq(now_infinite),
                *(known[name].eq(beat[name]) for name in choice_values(self.config)),
            ]
        m.d.comb += [out[name].eq(known[name]) for name in self.known]


def _pick(values: list[Value], index: Value) -> Value:
    """`values[index]` as a tree of two-way choices: Yosys writes wider ones as overlapping
    cases.
    """
    for bit in index:
        values = [Mux(bit, odd, even) for even, odd in zip(values[::2], values[1::2], strict=True)]
    return values[0]
