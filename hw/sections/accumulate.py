"""Section `accumulate` of the accumulators that keep a float32: c' = RNE(c + x)."""

from amaranth.hdl import Module, Mux, Signal

from ..float_sum import FloatSum
from ..floats import RunningLayout, merge_special, unpack_float32
from ..hierarchy import submodule
from ..round import FloatRounder
from .base import Section
from .sums import BlockResultLayout


class Accumulate(Section):
    """c starts at the caller's with `first`; special values decide where there are any."""

    def __init__(self, width: int, nan_bits: int) -> None:
        self.width, self.nan_bits = width, nan_bits
        super().__init__(
            BlockResultLayout(width), RunningLayout(), control=True, state=RunningLayout()
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adder = submodule(m, "adder", FloatSum(24, self.width))
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_width, nearest=True))
        first = self.control.first
        c = Signal(32)
        m.d.comb += c.eq(Mux(first, self.control.c, self.state.c))
        active, special_bits = merge_special(m, "special", c, self.i.special, self.nan_bits)
        m.d.comb += [
            adder.a.eq(unpack_float32(m, c, "running")),
            adder.b.eq(self.i.x),
            rounder.sign.eq(adder.sign),
            rounder.magnitude.eq(adder.magnitude),
            rounder.exponent.eq(adder.exponent),
            self.o.c.eq(Mux(active, rounder.result, special_bits)),
        ]
        before, flags = self.state.flags, self.o.flags
        m.d.comb += [
            flags.overflow.eq((~first & before.overflow) | (active & rounder.overflow)),
            flags.underflow.eq((~first & before.underflow) | (active & rounder.underflow)),
            flags.inexact.eq(
                (~first & before.inexact) | (active & (rounder.inexact | self.i.lost))
            ),
        ]
        return m
