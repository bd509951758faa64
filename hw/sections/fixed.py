"""Sections of `fixed:W:L`: place, sum, scale, accumulate, round."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from ...model.accumulators import Fixed
from ..floats import (
    FLOAT32_EMIN,
    FLOAT32_FRACTION,
    FlagsLayout,
    RunningLayout,
    merge_special,
    special_of_float32,
    unpack_float32,
)
from ..hierarchy import submodule
from ..lane import SpecialLayout
from ..round import FloatRounder
from ..shift import ShiftRight
from ..widths import EXPONENT_BITS, Widths
from .base import Section
from .exact import Place
from .sums import Sum, TotalLayout


class AddendLayout(data.StructLayout):
    """An integer in units of 2^L: `value` holds it when it fits W + 1 bits signed; `outside` says
    that it does not, and its low W bits are then right all the same."""

    def __init__(self, width: int) -> None:
        super().__init__({"value": signed(width + 1), "outside": 1, "negative": 1, "lost": 1})


class ScaledLayout(data.StructLayout):
    """A block's addend and the caller's c, both on the register's grid."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {"block": AddendLayout(width), "c": AddendLayout(width), "special": SpecialLayout()}
        )


class RegisterLayout(data.StructLayout):
    """The register, the special value that has been met, and the flags so far."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {"register": signed(width), "special": SpecialLayout(), "flags": FlagsLayout()}
        )


class Scale(Section):
    """2^(s - L) x block sum, and 2^-L x c, truncated toward zero."""

    def __init__(self, widths: Widths, rule: Fixed) -> None:
        self.widths, self.rule = widths, rule
        super().__init__(TotalLayout(widths, 0), ScaledLayout(rule.width), control=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total, size = self.i.total, self.widths.total - 1
        magnitude = Signal(size)
        m.d.comb += magnitude.eq(Mux(total < 0, -total, total))
        exponent = self.i.scale + (self.widths.lsb - self.rule.lsb)
        self._shift(m, "block", magnitude, total < 0, exponent, self.o.block)

        c = unpack_float32(m, self.control.c, "start")
        exponent = c.exponent - (FLOAT32_FRACTION + self.rule.lsb)
        self._shift(m, "c", c.significand, c.sign, exponent, self.o.c)
        self.carry(m, ["special"])
        return m

    def _shift(
        self, m: Module, name: str, magnitude: Value, negative: Value, exponent: Value, out
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
            shift.amount.eq(Mux(amount < 0, 0, amount)),
            out.value.eq(Mux(negative, -shift.result[:width], shift.result[:width])),
            out.outside.eq(shift.result[width:].any()),
            out.negative.eq(negative),
            out.lost.eq(shift.lost),
        ]


class Accumulate(Section):
    """register' = register + block, saturated or wrapped; a special term leaves it as it is."""

    def __init__(self, rule: Fixed) -> None:
        self.rule = rule
        layout = RegisterLayout(rule.width)
        super().__init__(ScaledLayout(rule.width), layout, control=True, state=layout)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, state, c = self.control.first, self.state, self.i.c
        started, started_outside = self._limit(m, "start", c.value, c.outside, c.negative)
        start = special_of_float32(m, self.control.c, "start_special")
        starts_special = start.as_value().any()
        before = Signal(RegisterLayout(self.rule.width), name="previous")
        with m.If(first):
            m.d.comb += [
                before.special.eq(start),
                before.register.eq(Mux(starts_special, 0, started)),
                before.flags.saturated.eq(started_outside & ~starts_special),
                before.flags.inexact.eq(c.lost & ~starts_special),
            ]
        with m.Else():
            m.d.comb += before.eq(state)
        special = Signal(SpecialLayout())
        m.d.comb += special.eq(before.special.as_value() | self.i.special.as_value())
        active = ~special.as_value().any()
        block = self.i.block
        total, outside = self._limit(
            m, "block", before.register + block.value, block.outside, block.negative
        )
        m.d.comb += [
            self.o.special.eq(special),
            self.o.register.eq(Mux(active, total, before.register)),
            self.o.flags.saturated.eq(before.flags.saturated | (active & outside)),
            self.o.flags.inexact.eq(before.flags.inexact | (active & block.lost)),
        ]
        return m

    def _limit(
        self, m: Module, name: str, value: Value, far: Value, negative: Value
    ) -> tuple[Value, Value]:
        """(`value` saturated or wrapped to W bits, whether it was outside); with `far` its addend
        did not fit, and it lies outside on the side of `negative`."""
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


class Round(Section):
    """The register to float32 by one RNE."""

    def __init__(self, rule: Fixed) -> None:
        self.rule = rule
        super().__init__(RegisterLayout(rule.width), RunningLayout())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rule = self.rule
        # Zeros on top where the register's top lies below the exponent of the subnormals.
        width = max(rule.width, FLOAT32_EMIN - rule.lsb + 1)
        rounder = submodule(
            m, "rounder", FloatRounder(width, nearest=True, exponent_bits=EXPONENT_BITS + 1)
        )
        register = self.i.register
        zero = Const(0, 32)
        active, special_bits = merge_special(m, "special", zero, self.i.special, rule.nan_bits)
        m.d.comb += [
            rounder.sign.eq(register < 0),
            rounder.magnitude.eq(Mux(register < 0, -register, register)),
            rounder.exponent.eq(rule.lsb + width - 1),
            self.o.c.eq(Mux(active, rounder.result, special_bits)),
            self.o.flags.overflow.eq(active & rounder.overflow),
            self.o.flags.underflow.eq(active & rounder.underflow),
            self.o.flags.inexact.eq(self.i.flags.inexact | (active & rounder.inexact)),
            self.o.flags.saturated.eq(self.i.flags.saturated),
        ]
        return m


def build(widths: Widths) -> list[Section]:
    """The sections of `fixed:W:L` between multiply and convert."""
    rule = widths.config.accumulator
    assert isinstance(rule, Fixed)
    return [Place(widths), Sum(widths), Scale(widths, rule), Accumulate(rule), Round(rule)]
