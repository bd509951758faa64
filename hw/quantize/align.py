"""A value moved onto the grid of its element, with the bits that decide its rounding.

With micro-exponents, every two elements are aligned as one and then halved or not.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.quantize import PAIR, QuantizeConfig
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .scale import base_shape
from .widths import LaneWidths, select


class AlignedLayout(data.StructLayout):
    """magnitude = (significand + discarded) x 2^field in units of the element format's last place.

    significand: hidden one included; at the low end for a format with fewer mantissa bits than
    others. discarded: the fraction below, in 32 places, or a guard bit above a sticky bit.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        widths = LaneWidths(config)
        super().__init__(
            {
                "significand": widths.significand_bits,
                "discarded": widths.discarded_bits,
                "field": widths.field_bits,
                "sign": 1,
                "nan": 1,
                "infinite": 1,
            }
        )


class MicroExponent(wiring.Component):
    """Halves two elements, or leaves them on the finer of two grids; combinational.

    An integer that reaches the block's grid has a field of one on the grid that is half as wide. If
    the largest magnitude of the two has a smaller exponent than the block's scale, neither reaches
    it, and the micro-exponent is one. NaN and infinities count as zero.

    Ports:

    - `i` in, `AlignedLayout` for both: aligned one place below the block's scale
    - `micro` out, 1 bit: the code of the micro-exponent
    - `o` out, `AlignedLayout` for both: under scale and micro-exponent
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        pair = data.ArrayLayout(AlignedLayout(config), PAIR)
        super().__init__({"i": In(pair), "micro": Out(1), "o": Out(pair)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reaches = [one.field.any() & ~one.nan & ~one.infinite for one in self.i]
        m.d.comb += self.micro.eq(~Cat(reaches).any())
        for index in range(PAIR):
            one, out = self.i[index], self.o[index]
            m.d.comb += out.eq(one)
            with m.If(~self.micro):
                self._halve(m, one, out)
        return m

    def _halve(self, m: Module, one: data.View, out: data.View) -> None:
        """Halve `one`: a normal element lowers its field, others move right."""
        digits = Cat(one["discarded"], one["significand"])
        halved = Signal(len(digits))
        m.d.comb += halved.eq(digits >> 1)
        if self.config.rounding == "nearest_even":  # the last digit is sticky
            m.d.comb += halved[0].eq(digits[:2].any())
        discarded = len(Value.cast(one["discarded"]))
        with m.If(Value.cast(one["field"]).any()):
            m.d.comb += out["field"].eq(one["field"] - 1)
        with m.Else():
            m.d.comb += [
                Value.cast(out["discarded"]).eq(halved[:discarded]),
                out["significand"].eq(halved[discarded:]),
            ]


class ElementAligner(wiring.Component):
    """A value on the grid of its element; combinational.

    Ports:

    - `value` in, bits of `LaneWidths.aligned`: a float
    - `base` in, `base_shape`: the block's exponent field, from `SharedScale`
    - `mode` in, `config.mode_bits`: number of the format
    - `o` out, `AlignedLayout`: NaN and infinities set only sign, nan and infinite

    of: name of the format, in a unit with an aligner per format.
    """

    def __init__(self, config: QuantizeConfig, of: str | None = None) -> None:
        self.config, self.of = config, of
        super().__init__(
            {
                "value": In(LaneWidths(config).aligned.bits),
                "base": In(base_shape(config)),
                "mode": In(config.mode_bits),
                "o": Out(AlignedLayout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = LaneWidths(self.config)
        fraction_bits = widths.aligned.mantissa_bits
        fraction, field = self.value[:fraction_bits], self.value[fraction_bits:-1]
        normal, ones = field.any(), field.all()
        distance = Signal(signed(widths.distance_bits + 1))
        m.d.comb += [
            distance.eq(Mux(normal, field, 1) - self.base),
            self.o.sign.eq(self.value[-1]),
            self.o.nan.eq(ones & fraction.any()),
            self.o.infinite.eq(ones & ~fraction.any()),
        ]
        inside = ~distance[-1]
        significand, amount = self._normalize(m, Cat(fraction, normal), distance, inside)
        m.d.comb += self.o.field.eq(Mux(inside & significand[-1], distance - amount, 0))
        self._shift(m, significand, Mux(inside, 0, -distance))
        return m

    def _normalize(
        self, m: Module, value: Value, distance: Value, inside: Value
    ) -> tuple[Value, Value]:
        """(`value` shifted left until its top bit is one, at most by `distance`; shift amount)."""
        levels = LaneWidths(self.config).left_bits
        most = 2**levels - 1
        limit = Signal(levels, name="limit")
        m.d.comb += limit.eq(Mux(inside, Mux(distance > most, most, distance), 0))
        bits: list[Value] = []
        left: Value = limit
        for level in reversed(range(levels)):
            size = 2**level
            go = Signal(name=f"left{size}")
            shifted = Signal(len(value), name=f"left{size}_value")
            m.d.comb += go.eq(left[level] & ~value[-size:].any())
            m.d.comb += shifted.eq(Mux(go, value << size, value))
            # A limit that is not used up here allows all smaller shifts.
            spare = left[level] & ~go
            left = left[:level] | spare.replicate(level) if level else Const(0, 1)
            bits.insert(0, go)
            value = shifted
        return value, Cat(bits)

    def _shift(self, m: Module, significand: Value, amount: Value) -> None:
        """Shift right onto the grid; formats with fewer mantissa bits lie lower."""
        widths = LaneWidths(self.config)
        sticky = self.config.rounding == "nearest_even"
        width = widths.significand_bits + widths.discarded_bits - sticky
        below = Const(0, max(width - len(significand), 0))
        value = Cat(below, significand)
        below_all = value[: len(value) - width].any()
        extra = select(
            self.config.formats, self.mode, lambda fmt: widths.mantissa_bits - fmt.mantissa_bits
        )
        total = Signal(widths.distance_bits + 1, name="amount")
        shift = submodule(m, "shift", ShiftRight(width, len(total)))
        m.d.comb += [
            total.eq(amount + extra),
            shift.value.eq(value[len(value) - width :]),
            shift.amount.eq(total),
        ]
        result = Cat(shift.sticky | below_all, shift.result) if sticky else shift.result
        m.d.comb += [
            Value.cast(self.o.discarded).eq(result[: widths.discarded_bits]),
            self.o.significand.eq(result[widths.discarded_bits :]),
        ]


def elements_shape(config: QuantizeConfig) -> data.ArrayLayout:
    """The value `elements`: one per lane."""
    return data.ArrayLayout(AlignedLayout(config), config.lanes)


def quotient_base(config: QuantizeConfig, mode: Value) -> ValueLike:
    """Base of quotients: the exponent field of the element format's smallest exponent."""
    bias = LaneWidths(config).quotient.bias
    return select(config.formats, mode, lambda fmt: fmt.emin + bias)


class AlignElements(Section):
    """Each value on the grid of its element; with micro-exponents one choice of exponent per two
    lanes.
    """

    def __init__(self, config: QuantizeConfig, of: str | None = None) -> None:
        self.config, self.of = config, of
        values = data.ArrayLayout(LaneWidths(config).aligned.bits, config.lanes)
        base = {} if config.divides else {"base": base_shape(config)}
        micro = {"poisoned": 1} if config.micro else {}
        super().__init__(
            {"values": values, **base, "mode": config.mode_bits, **micro},
            {"elements": elements_shape(config), "micro": config.micro_bits},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        base = quotient_base(config, self.i.mode) if config.divides else self.i.base
        lanes = []
        for index in range(config.lanes):
            lane = submodule(m, f"lane{index}", ElementAligner(config, self.of))
            m.d.comb += [
                lane.value.eq(self.i.values[index]),
                lane.base.eq(base),
                lane.mode.eq(self.i.mode),
            ]
            if not config.micro:
                m.d.comb += self.o.elements[index].eq(lane.o)
            lanes.append(lane)
        for index in range(config.micro_bits):
            pair = submodule(m, f"pair{index}", MicroExponent(config))
            for place in range(PAIR):
                lane = PAIR * index + place
                m.d.comb += [
                    pair.i[place].eq(lanes[lane].o),
                    self.o.elements[lane].eq(pair.o[place]),
                ]
            m.d.comb += self.o.micro[index].eq(pair.micro | self.i.poisoned)
        return m
