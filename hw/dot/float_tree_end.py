"""Section `accumulate` of `float32`, `float16` and `bfloat16`: c' = RNE(c + the tree's sum)."""

from amaranth.hdl import Const, Module, Mux, Signal

from ...model.pipeline.widths import Widths
from ..arithmetic.float_sum import FloatSum
from ..arithmetic.floats import FloatLayout, RunningLayout, merge_special, unpack_float
from ..arithmetic.round import FloatRounder
from ..hierarchy import submodule
from ..pipeline import Section
from .float_tree_range import ROUNDING_FLAGS, flushed_flags, range_values, without_subnormals
from .multiply import special_shape
from .narrow import c_value, carried, first_c


class FloatAccumulate(Section):
    """c starts at the caller's with `first`; special values decide where there are any. A subnormal
    c, and a subnormal result, is a zero where the rule has no such numbers."""

    def __init__(self, widths: Widths, significand_bits: int) -> None:
        self.significand_bits = significand_bits
        self.nan_bits = widths.config.accumulator.nan_bits
        self.fmt = widths.running
        self._flushes = widths.config.accumulator.flushes
        before = range_values() if widths.products_leave_float32 else {"sticky": 1}
        super().__init__(
            {
                "block": FloatLayout(significand_bits),
                **before,
                "special": special_shape(widths),
                "first": 1,
                **c_value(widths),
                "running": RunningLayout(self.fmt),
            },
            {"running": RunningLayout(self.fmt)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt = self.fmt
        adder = submodule(m, "adder", FloatSum(fmt.significand_bits, self.significand_bits))
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_bits, nearest=True, fmt=fmt))
        c = Signal(fmt.bits)
        start, lost = first_c(self), Const(0, 1)
        if self._flushes:
            start, lost = without_subnormals(m, "start", start)
        m.d.comb += c.eq(Mux(self.i.first, start, self.i.running.c))
        active, special_bits = merge_special(m, "special", c, self.i.special[0], self.nan_bits, fmt)
        m.d.comb += [
            adder.a.eq(unpack_float(m, c, "running", fmt)),
            adder.b.eq(self.i.block),
            rounder.sign.eq(adder.sign),
            rounder.magnitude.eq(adder.magnitude),
            rounder.exponent.eq(adder.exponent),
        ]
        result, raised = rounder.result, {name: getattr(rounder, name) for name in ROUNDING_FLAGS}
        if self._flushes:
            result, tiny = without_subnormals(m, "result", result)
            raised = flushed_flags(raised, tiny)
        if "tree_flags" in self.reads:
            # A block that overflowed is the result; nothing is rounded then.
            zero, special = Const(0, fmt.bits), self.i.block_special
            finite, infinite = merge_special(m, "block", zero, special, self.nan_bits, fmt)
            result = Mux(finite, result, infinite)
            raised = {
                name: (finite & flag) | self.i.tree_flags[name] for name, flag in raised.items()
            }
        else:
            raised["inexact"] |= self.i.sticky
        m.d.comb += self.o.running.c.eq(Mux(active, result, special_bits))
        flags = self.o.running.flags
        for name, flag in raised.items():
            before = carried(self, name)
            if self._flushes and name != "overflow":
                before |= self.i.first & lost
            m.d.comb += flags[name].eq(before | (active & flag))
        return m
