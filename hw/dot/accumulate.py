"""Section `accumulate` of the accumulators that keep a float32: c' = RNE(c + block)."""

from amaranth.hdl import Const, Module, Mux, Signal

from ...model.formats import FLOAT32
from ...model.widths import Widths
from ..arithmetic.float_sum import FloatSum
from ..arithmetic.floats import FloatLayout, RunningLayout, merge_special, unpack_float32
from ..arithmetic.round import FloatRounder
from ..hierarchy import submodule
from ..pipeline import Section
from .float32_range import ROUNDING_FLAGS, range_values
from .multiply import special_shape


class FloatAccumulate(Section):
    """c starts at the caller's with `first`; special values decide where there are any."""

    def __init__(self, widths: Widths, significand_bits: int) -> None:
        self.significand_bits = significand_bits
        self.nan_bits = widths.config.accumulator.nan_bits
        before = range_values() if widths.products_leave_float32 else {"sticky": 1}
        super().__init__(
            {
                "block": FloatLayout(significand_bits),
                **before,
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
        ]
        result, raised = rounder.result, {name: getattr(rounder, name) for name in ROUNDING_FLAGS}
        if "tree_flags" in self.reads:
            # A block that overflowed is the result; nothing is rounded then.
            zero, special = Const(0, 32), self.i.block_special
            finite, infinite = merge_special(m, "block", zero, special, self.nan_bits)
            result = Mux(finite, result, infinite)
            raised = {
                name: (finite & flag) | self.i.tree_flags[name] for name, flag in raised.items()
            }
        else:
            raised["inexact"] |= self.i.sticky
        m.d.comb += self.o.running.c.eq(Mux(active, result, special_bits))
        before, flags = self.i.running.flags, self.o.running.flags
        for name, flag in raised.items():
            m.d.comb += flags[name].eq((~first & before[name]) | (active & flag))
        return m
