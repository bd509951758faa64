"""Sections of `fixed:W:L`: place, sum, scale, accumulate, round."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.accumulators import Fixed
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_EMIN,
    FLOAT32_FRACTION,
    FlagsLayout,
    FloatRounder,
    RunningLayout,
    SpecialLayout,
    merge_special,
    special_of_float,
    unpack_float,
)
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .block import BLOCK, TotalFactor, scaled_total_bits
from .multiply import special_shape


class AddendLayout(data.StructLayout):
    """An integer in units of 2^L: `value` if it fits W + 1 bits signed. `outside` tells that it
    does not; the low W bits are right in any case.
    """

    def __init__(self, bits: int) -> None:
        super().__init__({"value": signed(bits + 1), "outside": 1, "negative": 1, "sticky": 1})


class RegisterLayout(data.StructLayout):
    """The register, the special value met so far, and the flags so far."""

    def __init__(self, bits: int) -> None:
        super().__init__(
            {"register": signed(bits), "special": SpecialLayout(), "flags": FlagsLayout()}
        )


def rule_of(widths: Widths) -> Fixed:
    """Accumulator of a unit with a register."""
    rule = widths.config.accumulator.register
    assert rule is not None
    return rule


class Scale(Section):
    """2^(s - L) x block sum and 2^-L x c, both truncated toward zero onto the register's grid. The
    sum includes the significands of the scales.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths, self.rule = widths, rule_of(widths)
        addend = AddendLayout(self.rule.width)
        super().__init__(
            {"total": signed(scaled_total_bits(widths)), "scale": SCALE_SHAPE, "c": 32},
            {"addend": addend, "start": addend},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total, size = self.i.total, scaled_total_bits(self.widths) - 1
        magnitude = Signal(size)
        m.d.comb += magnitude.eq(Mux(total[-1], -total, total))
        lsb = self.widths.lsb - self.widths.factor_fraction_bits
        exponent = self.i.scale + (lsb - self.rule.lsb)
        self._shift(m, "block", magnitude, total[-1], exponent, self.o.addend)

        c = unpack_float(m, self.i.c, "start")
        exponent = c.exponent - (FLOAT32_FRACTION + self.rule.lsb)
        self._shift(m, "c", c.significand, c.sign, exponent, self.o.start)
        return m

    def _shift(
        self,
        m: Module,
        name: str,
        magnitude: Value,
        negative: Value,
        exponent: Value,
        out: data.View,
    ) -> None:
        """out = RZ(+-magnitude x 2^exponent)."""
        width = self.rule.width
        # Start W + 1 digits too far left; every exponent is then a shift to the right.
        wide = Cat(Const(0, width + 1), magnitude)
        amount = Signal(signed(EXPONENT_BITS + 2), name=f"{name}_amount")
        shift = submodule(m, f"{name}_shift", ShiftRight(len(wide), EXPONENT_BITS + 1))
        m.d.comb += [
            amount.eq(width + 1 - exponent),
            shift.value.eq(wide),
            shift.amount.eq(Mux(amount[-1], 0, amount)),
            out.value.eq(Mux(negative, -shift.result[:width], shift.result[:width])),
            out.outside.eq(shift.result[width:].any()),
            out.negative.eq(negative),
            out.sticky.eq(shift.sticky),
        ]


class FixedAccumulate(Section):
    """register' = register + addend, saturated or wrapped; a special term leaves the register
    unchanged.
    """

    def __init__(self, widths: Widths) -> None:
        self.rule = rule_of(widths)
        addend, register = AddendLayout(self.rule.width), RegisterLayout(self.rule.width)
        super().__init__(
            {
                "addend": addend,
                "start": addend,
                "special": special_shape(widths),
                "first": 1,
                "c": 32,
                "register": register,
            },
            {"register": register},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, start, addend = self.i.first, self.i.start, self.i.addend
        started, started_outside = self._limit(
            m, "start", start.value, start.outside, start.negative
        )
        start_special = special_of_float(m, self.i.c, "start_special")
        starts_special = start_special.as_value().any()
        before = Signal(RegisterLayout(self.rule.width), name="previous")
        with m.If(first):
            m.d.comb += [
                before.special.eq(start_special),
                before.register.eq(Mux(starts_special, 0, started)),
                before.flags.saturated.eq(started_outside & ~starts_special),
                before.flags.inexact.eq(start.sticky & ~starts_special),
            ]
        with m.Else():
            m.d.comb += before.eq(self.i.register)
        special = Signal(SpecialLayout())
        m.d.comb += special.eq(before.special.as_value() | self.i.special[0].as_value())
        active = ~special.as_value().any()
        total, outside = self._limit(
            m, "block", before.register + addend.value, addend.outside, addend.negative
        )
        after = self.o.register
        m.d.comb += [
            after.special.eq(special),
            after.register.eq(Mux(active, total, before.register)),
            after.flags.saturated.eq(before.flags.saturated | (active & outside)),
            after.flags.inexact.eq(before.flags.inexact | (active & addend.sticky)),
        ]
        return m

    def _limit(
        self, m: Module, name: str, value: Value, far: Value, negative: Value
    ) -> tuple[Value, Value]:
        """(`value` saturated or wrapped to W bits, 1 if it was outside).

        `far`: the addend did not fit, and lies outside on the side of `negative`.
        """
        width = self.rule.width
        total = Signal(signed(width + 2), name=f"{name}_total")
        outside = Signal(name=f"{name}_outside")
        below = Mux(far, negative, total[-1])
        m.d.comb += total.eq(value)
        m.d.comb += outside.eq(far | (total[width - 1 :].any() & ~total[width - 1 :].all()))
        wrapped = total[:width].as_signed()
        if self.rule.overflow == "wrap":
            return wrapped, outside
        end = Cat((~below).replicate(width - 1), below).as_signed()
        return Mux(outside, end, wrapped), outside


class FixedRound(Section):
    """The register to float32 by one RNE."""

    def __init__(self, widths: Widths) -> None:
        self.rule = rule_of(widths)
        register = RegisterLayout(self.rule.width)
        super().__init__({"register": register}, {"running": RunningLayout()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rule = self.rule
        # Zeros on top where the register's top lies below the exponent of the subnormals.
        width = max(rule.width, FLOAT32_EMIN - rule.lsb + 1)
        rounder = submodule(
            m, "rounder", FloatRounder(width, nearest=True, exponent_bits=EXPONENT_BITS + 1)
        )
        held, running = self.i.register, self.o.running
        register, zero = held.register, Const(0, 32)
        active, special_bits = merge_special(m, "special", zero, held.special, rule.nan_bits)
        m.d.comb += [
            rounder.sign.eq(register[-1]),
            rounder.magnitude.eq(Mux(register[-1], -register, register)),
            rounder.exponent.eq(rule.lsb + width - 1),
            running.c.eq(Mux(active, rounder.result, special_bits)),
            running.flags.overflow.eq(active & rounder.overflow),
            running.flags.underflow.eq(active & rounder.underflow),
            running.flags.inexact.eq(held.flags.inexact | (active & rounder.inexact)),
            running.flags.saturated.eq(held.flags.saturated),
        ]
        return m


SECTIONS = {
    **BLOCK,
    "factor": TotalFactor,
    "scale": Scale,
    "accumulate": FixedAccumulate,
    "round": FixedRound,
}
