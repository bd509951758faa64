"""A value moved onto the grid of its element, with the bits that decide its rounding."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.quantize import QuantizeConfig
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .largest import beat_values
from .scale import base_shape
from .widths import LaneWidths, select


class AlignedLayout(data.StructLayout):
    """magnitude = (significand + discarded) x 2^field in units of the element format's last place.

    significand: at the low end where the format has fewer mantissa bits than others; the hidden one
    included. discarded: the fraction below, to 32 places, or a guard bit over a sticky one.
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


class ElementAligner(wiring.Component):
    """A value on the grid of its element; combinational.

    Ports:

    - `value` in, bits of the source: a float
    - `base` in, as `SharedScale` makes it: the block's exponent field
    - `mode` in, `config.mode_bits`: which format
    - `o` out, `AlignedLayout`: of NaN and infinities only sign, nan and infinite are
      meaningful
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "value": In(config.source.bits),
                "base": In(base_shape(config)),
                "mode": In(config.mode_bits),
                "o": Out(AlignedLayout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = LaneWidths(self.config)
        fraction = self.value[: widths.fraction_bits]
        field = self.value[widths.fraction_bits : widths.magnitude_bits]
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
        """(`value` shifted left until its top bit is one, at most by `distance`; the amount)."""
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
    """The value `elements`: one for each lane."""
    return data.ArrayLayout(AlignedLayout(config), config.lanes)


class AlignElements(Section):
    """An aligner for each lane."""

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        values = {"values": beat_values(config)["values"]}
        super().__init__(
            {**values, "base": base_shape(config), "mode": config.mode_bits},
            {"elements": elements_shape(config)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(self.config.lanes):
            lane = submodule(m, f"lane{index}", ElementAligner(self.config))
            m.d.comb += [
                lane.value.eq(self.i.values[index]),
                lane.base.eq(self.i.base),
                lane.mode.eq(self.i.mode),
                self.o.elements[index].eq(lane.o),
            ]
        return m
