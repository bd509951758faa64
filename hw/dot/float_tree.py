"""Sections of `float32`, `float16` and `bfloat16`: tree1, tree2, ... (a level of RNE adders each),
factor, and accumulate, c' = RNE(c + the tree's sum).
"""

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import FLOAT32
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import (
    FloatLayout,
    FloatRounder,
    FloatSum,
    RunningLayout,
    merge_special,
    rounds_up,
    unpack_float,
)
from ..arithmetic.multiply import Multiplier
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import Normalizer
from ..hierarchy import submodule
from ..pipeline import Section
from .convert import c_value, carried, first_c
from .float_tree_range import (
    ROUNDING_FLAGS,
    RangeLevel,
    flushed_flags,
    range_values,
    without_subnormals,
)
from .lane import ProductLayout
from .multiply import products_shape, special_shape


class FloatAccumulate(Section):
    """c' = c + the block's sum, RNE or to odd. c starts at the caller's with `first`; special
    values take precedence.

    A rule without subnormals makes subnormal numbers zero: c and the result.
    """

    def __init__(self, widths: Widths, leaves_float32: bool, odd: bool = False) -> None:
        self.significand_bits = block_bits(widths)
        self._rounding = {"odd": True} if odd else {"nearest": True}
        self.nan_bits = widths.config.accumulator.nan_bits
        self.fmt = widths.running
        self._flushes = widths.config.accumulator.flushes
        self._overflow_meets_c = leaves_float32 and widths.config.accumulator.overflow_meets_c
        before = range_values() if leaves_float32 else {"sticky": 1}
        super().__init__(
            {
                "block": FloatLayout(self.significand_bits),
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
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_bits, fmt=fmt, **self._rounding))
        c = Signal(fmt.bits)
        start, lost = first_c(self), Const(0, 1)
        if self._flushes:
            start, lost = without_subnormals(m, "start", start)
        m.d.comb += c.eq(Mux(self.i.first, start, self.i.running.c))
        terms = self.i.special[0]
        active, special_bits = merge_special(m, "special", c, terms, self.nan_bits, fmt)
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
            # A block that overflowed is the result, or meets c; nothing is rounded then.
            start, special = Const(0, fmt.bits), self.i.block_special
            if self._overflow_meets_c:
                start = c
                special = Mux(terms.as_value().any(), terms.as_value(), special.as_value())
            finite, infinite = merge_special(m, "block", start, special, self.nan_bits, fmt)
            result = Mux(finite, result, infinite)
            raised = {
                name: (finite & flag) | self.i.tree_flags[name] for name, flag in raised.items()
            }
        else:
            raised["inexact"] |= self.i.sticky
        if not self._overflow_meets_c:
            result = Mux(active, result, special_bits)
        m.d.comb += self.o.running.c.eq(result)
        flags = self.o.running.flags
        for name, flag in raised.items():
            before = carried(self, name)
            if self._flushes and name != "overflow":
                before |= self.i.first & lost
            m.d.comb += flags[name].eq(before | (active & flag))
        return m


SIGNIFICAND = FLOAT32.significand_bits


def floats_shape(count: int) -> data.ArrayLayout:
    """The value `floats`: float32 terms of a level of the tree."""
    return data.ArrayLayout(FloatLayout(SIGNIFICAND), count)


class TreeAdder(wiring.Component):
    """RNE_fp32(a + b) of normalised values in float32's normal range; combinational.

    Sums of MX element products stay between 2^-64 and 2^64: neither subnormals nor infinities
    occur, and the adder has no logic for them.

    Ports:

    - `a`, `b` in, `FloatLayout(24)`: operands
    - `o` out, `FloatLayout(24)`: their sum
    - `inexact` out, 1 bit: the sum was rounded
    """

    def __init__(self) -> None:
        layout = FloatLayout(SIGNIFICAND)
        super().__init__({"a": In(layout), "b": In(layout), "o": Out(layout), "inexact": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adder = submodule(m, "adder", FloatSum(SIGNIFICAND, SIGNIFICAND))
        normalizer = submodule(m, "normalizer", Normalizer(adder.sum_bits))
        cut = adder.sum_bits - SIGNIFICAND
        truncated, discarded = normalizer.result[cut:], normalizer.result[:cut]
        rounded = Signal(SIGNIFICAND + 1)
        carry = rounded[-1]
        m.d.comb += [
            adder.a.eq(self.a),
            adder.b.eq(self.b),
            normalizer.value.eq(adder.magnitude),
            rounded.eq(truncated + rounds_up(truncated, discarded)),
            self.o.significand.eq(Mux(carry, rounded[1:], rounded[:-1])),
            self.o.exponent.eq(adder.exponent - normalizer.amount + carry),
            self.o.sign.eq(adder.sign),
            self.o.zero.eq(adder.magnitude == 0),
            self.inexact.eq(discarded.any()),
        ]
        return m


class ProductToFloat(wiring.Component):
    """An exact product as a normalised float; combinational.

    Ports:

    - `i` in, `ProductLayout`: the product
    - `o` out, `FloatLayout(24)`: its value
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__({"i": In(ProductLayout(widths)), "o": Out(FloatLayout(SIGNIFICAND))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.widths.product_bits
        normalizer = submodule(m, "normalizer", Normalizer(width))
        m.d.comb += [
            normalizer.value.eq(self.i.significand),
            self.o.significand.eq(Cat(Const(0, SIGNIFICAND - width), normalizer.result)),
            self.o.exponent.eq(
                self.i.exponent + (self.widths.product_lsb + width - 1) - normalizer.amount
            ),
            self.o.sign.eq(self.i.sign),
            self.o.zero.eq(~self.i.nonzero),
        ]
        return m


class Level(Section):
    """One level of the tree: adds adjacent pairs. The first level converts products, the last adds
    2^s.

    floats: remaining terms. block: S, the last term.
    """

    def __init__(self, widths: Widths, number: int) -> None:
        self.widths = widths
        self.count = widths.config.lanes >> (number - 1)
        sticky: dict[str, ShapeLike] = {} if self.is_first else {"sticky": 1}
        scale: dict[str, ShapeLike] = {"scale": SCALE_SHAPE} if self.is_last else {}
        terms: dict[str, ShapeLike] = {"floats": floats_shape(self.count)}
        if self.is_first:
            terms = {"products": products_shape(widths)}
        left: dict[str, ShapeLike] = {"floats": floats_shape(self.count // 2)}
        if self.is_last:
            left = {"block": FloatLayout(SIGNIFICAND)}
        super().__init__({**terms, **scale, **sticky}, {**left, "sticky": 1})

    @property
    def is_first(self) -> bool:
        return self.count == self.widths.config.lanes

    @property
    def is_last(self) -> bool:
        return self.count == 2

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = self._floats(m) if self.is_first else self.i.floats
        sticky = [] if self.is_first else [self.i.sticky]
        for index in range(self.count // 2):
            adder = submodule(m, f"adder{index}", TreeAdder())
            m.d.comb += [adder.a.eq(terms[2 * index]), adder.b.eq(terms[2 * index + 1])]
            sticky.append(adder.inexact)
            if self.is_last:
                m.d.comb += self.o.block.eq(adder.o)
                m.d.comb += self.o.block.exponent.eq(adder.o.exponent + self.i.scale)
            else:
                m.d.comb += self.o.floats[index].eq(adder.o)
        m.d.comb += self.o.sticky.eq(Cat(sticky).any())
        return m

    def _floats(self, m: Module) -> list:
        floats = []
        for index in range(self.count):
            convert = submodule(m, f"to_float{index}", ProductToFloat(self.widths))
            m.d.comb += convert.i.eq(self.i.products[index])
            floats.append(convert.o)
        return floats


class TreeFactor(Section):
    """g x the tree's sum, exact."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {"block": FloatLayout(SIGNIFICAND), "factor": widths.factor_bits},
            {"block": FloatLayout(block_bits(widths))},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block, scaled, bits = self.i.block, self.o.block, block_bits(self.widths)
        multiplier = submodule(m, "multiplier", Multiplier(SIGNIFICAND, self.widths.factor_bits))
        normalizer = submodule(m, "normalizer", Normalizer(bits))
        # g has as many digits before its point as there are between its top and unit digits.
        above = self.widths.factor_bits - self.widths.factor_fraction_bits
        m.d.comb += [
            multiplier.a.eq(block.significand),
            multiplier.b.eq(self.i.factor),
            normalizer.value.eq(multiplier.product),
            scaled.significand.eq(normalizer.result),
            scaled.exponent.eq(block.exponent + above - normalizer.amount),
            scaled.sign.eq(block.sign),
            scaled.zero.eq(block.zero | (self.i.factor == 0)),
        ]
        return m


def block_bits(widths: Widths) -> int:
    """Width of the significand of a block's sum, times g."""
    return SIGNIFICAND + widths.factor_bits


def level(widths: Widths, number: int) -> Section:
    """A level of the tree. Operands with the exponents of a float32 need a level that rounds all of
    them.
    """
    return (RangeLevel if widths.products_leave_float32 else Level)(widths, number)


SECTIONS = {
    "tree": level,
    "factor": TreeFactor,
    "accumulate": lambda widths: FloatAccumulate(widths, widths.products_leave_float32),
}
