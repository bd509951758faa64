"""Section `accumulate` of the accumulators that keep a float32: c' = RNE(c + block)."""

from amaranth.hdl import Module, Mux, Signal

from ...model.formats import FLOAT32
from ...model.widths import Widths
from ..arithmetic.float_sum import FloatSum
from ..arithmetic.floats import FloatLayout, RunningLayout, merge_special, unpack_float32
from ..arithmetic.round import FloatRounder
from ..hierarchy import submodule
from ..pipeline import Section
from .multiply import special_shape


class FloatAccumulate(Section):
    """c starts at the caller's with `first`; special values decide where there are any."""

    def __init__(self, widths: Widths, significand_bits: int) -> None:
        self.significand_bits = significand_bits
        self.nan_bits = widths.config.accumulator.nan_bits
        super().__init__(
            {
                "block": FloatLayout(significand_bits),
                "sticky": 1,
                "special": special_shape(widths),
                "first": 1,
                "c": 32,
                "running": RunningLayout(),
            },
            {"running": RunningLayout()},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adder = submodule(m, "adder", FloatSum(FLOAT32.significand_bits, self.significand_bits))
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_bits, nearest=True))
        first = self.i.first
        c = Signal(32)
        m.d.comb += c.eq(Mux(first, self.i.c, self.i.running.c))
        active, special_bits = merge_special(m, "special", c, self.i.special[0], self.nan_bits)
        m.d.comb += [
            adder.a.eq(unpack_float32(m, c, "running")),
            adder.b.eq(self.i.block),
            rounder.sign.eq(adder.sign),
            rounder.magnitude.eq(adder.magnitude),
            rounder.exponent.eq(adder.exponent),
            self.o.running.c.eq(Mux(active, rounder.result, special_bits)),
        ]
        before, flags = self.i.running.flags, self.o.running.flags
        m.d.comb += [
            flags.overflow.eq((~first & before.overflow) | (active & rounder.overflow)),
            flags.underflow.eq((~first & before.underflow) | (active & rounder.underflow)),
            flags.inexact.eq(
                (~first & before.inexact) | (active & (rounder.inexact | self.i.sticky))
            ),
        ]
        return m
