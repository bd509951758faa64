"""Sections `tree1`, `tree2`, ... of `float32` for operands with (nearly) the exponents of a
float32: products and sums may be subnormal, and may overflow.
"""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import FLOAT32
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_EMIN,
    FlagsLayout,
    FloatLayout,
    FloatRounder,
    FloatSum,
    SpecialLayout,
    merge_special,
    special_of_float,
    unpack_float,
)
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import Normalizer, ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .lane import ProductLayout
from .multiply import products_shape

SIGNIFICAND = FLOAT32.significand_bits
GUARD = 2  # digits after the last that rounding looks at


def words_shape(count: int) -> data.ArrayLayout:
    """The value `float_words`: float32 bits of the terms of a level of the tree."""
    return data.ArrayLayout(32, count)


def range_values() -> dict[str, ShapeLike]:
    """Values next to `block`: the special value that an overflow made of it, and flags of earlier
    roundings.
    """
    return {"block_special": SpecialLayout(), "tree_flags": FlagsLayout()}


class ProductRounder(wiring.Component):
    """RNE_fp32 of a product; combinational.

    Ports:

    - `i` in, `ProductLayout`: the product
    - `o` out, 32 bits: float32
    - `flags` out, `FlagsLayout`: flags of the rounding
    """

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {"i": In(ProductLayout(widths)), "o": Out(32), "flags": Out(FlagsLayout())}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.widths.product_bits
        # A product below the smallest normal number goes down to its grid first.
        below = SIGNIFICAND + GUARD
        shift = submodule(m, "shift", ShiftRight(width + below, EXPONENT_BITS))
        rounder = submodule(m, "rounder", FloatRounder(width + below, nearest=True))
        top = Signal(signed(EXPONENT_BITS))
        m.d.comb += [
            top.eq(self.i.exponent + (self.widths.product_lsb + width - 1)),
            shift.value.eq(Cat(Const(0, below), self.i.significand)),
            shift.amount.eq(Mux(top < FLOAT32_EMIN, FLOAT32_EMIN - top, 0)),
            rounder.sign.eq(self.i.sign),
            rounder.magnitude.eq(shift.result | shift.sticky),
            rounder.exponent.eq(Mux(top < FLOAT32_EMIN, FLOAT32_EMIN, top)),
            self.o.eq(rounder.result),
            *(self.flags[name].eq(getattr(rounder, name)) for name in ROUNDING_FLAGS),
        ]
        return m


ROUNDING_FLAGS = ("overflow", "underflow", "inexact")


class RoundedSum(wiring.Component):
    """RNE_fp32(a + b) of any float32 numbers; combinational.

    Ports:

    - `a`, `b` in, 32 bits: operands
    - `o` out, 32 bits: their sum; any bits for a NaN
    - `flags` out, `FlagsLayout`: flags of the rounding; meaningless with a special operand
    """

    def __init__(self) -> None:
        super().__init__({"a": In(32), "b": In(32), "o": Out(32), "flags": Out(FlagsLayout())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adder = submodule(m, "adder", FloatSum(SIGNIFICAND, SIGNIFICAND))
        rounder = submodule(m, "rounder", FloatRounder(adder.sum_bits, nearest=True))
        special = special_of_float(m, self.b, "special_b")
        nan = FLOAT32.largest_code + 2
        active, special_bits = merge_special(m, "special", self.a, special, nan)
        m.d.comb += [
            adder.a.eq(unpack_float(m, self.a, "unpacked_a")),
            adder.b.eq(unpack_float(m, self.b, "unpacked_b")),
            rounder.sign.eq(adder.sign),
            rounder.magnitude.eq(adder.magnitude),
            rounder.exponent.eq(adder.exponent),
            self.o.eq(Mux(active, rounder.result, special_bits)),
            *(self.flags[name].eq(active & getattr(rounder, name)) for name in ROUNDING_FLAGS),
        ]
        return m


def without_subnormals(m: Module, name: str, bits: Value) -> tuple[Value, Value]:
    """(float32 `bits`, or +0 for a subnormal number; 1 for a subnormal number)."""
    normal, tiny = bits[FLOAT32.mantissa_bits : 31].any(), Signal(name=f"{name}_subnormal")
    m.d.comb += tiny.eq(~normal & bits[: FLOAT32.mantissa_bits].any())
    return Mux(tiny, 0, bits), tiny


def flushed_flags(flags: Mapping[str, Value], tiny: Value) -> dict[str, Value]:
    """Flags of a rounding whose subnormal result (`tiny`) becomes zero."""
    return {
        "overflow": flags["overflow"],
        "underflow": flags["underflow"] | tiny,
        "inexact": flags["inexact"] | tiny,
    }


class RangeLevel(Section):
    """One level of the tree: adds adjacent pairs. The first level rounds products, the last adds
    2^s.

    A rule without subnormals makes subnormal results zero.
    """

    def __init__(self, widths: Widths, number: int) -> None:
        self.widths = widths
        self.count = widths.config.lanes >> (number - 1)
        self.is_first, self.is_last = self.count == widths.config.lanes, self.count == 2
        terms: dict[str, ShapeLike] = {
            "float_words": words_shape(self.count),
            "tree_flags": FlagsLayout(),
        }
        if self.is_first:
            terms = {"products": products_shape(widths)}
        left: dict[str, ShapeLike] = {
            "float_words": words_shape(self.count // 2),
            "tree_flags": FlagsLayout(),
        }
        if self.is_last:
            terms |= {"scale": SCALE_SHAPE}
            left = {"block": FloatLayout(SIGNIFICAND), **range_values()}
        super().__init__(terms, left)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.is_first:
            words, flags = [], []
            for index, product in enumerate(self.i.products):
                rounder = submodule(m, f"round{index}", ProductRounder(self.widths))
                m.d.comb += rounder.i.eq(product)
                words.append(self._result(m, f"round{index}", rounder, flags))
        else:
            words, flags = list(self.i.float_words), [self.i.tree_flags]
        sums = []
        for index in range(self.count // 2):
            adder = submodule(m, f"adder{index}", RoundedSum())
            m.d.comb += [adder.a.eq(words[2 * index]), adder.b.eq(words[2 * index + 1])]
            sums.append(self._result(m, f"adder{index}", adder, flags))
        for name in ROUNDING_FLAGS:
            m.d.comb += self.o.tree_flags[name].eq(Cat(*(each[name] for each in flags)).any())
        if self.is_last:
            deliver(m, self, sums[0])
        else:
            m.d.comb += [word.eq(x) for word, x in zip(self.o.float_words, sums, strict=True)]
        return m

    def _result(
        self, m: Module, name: str, rounding: ProductRounder | RoundedSum, flags: list
    ) -> Value:
        """Word of a rounding; its flags join the earlier flags."""
        if not self.widths.config.accumulator.flushes:
            flags.append(rounding.flags)
            return rounding.o
        word, tiny = without_subnormals(m, name, rounding.o)
        raised = {flag: rounding.flags[flag] for flag in ROUNDING_FLAGS}
        flags.append(flushed_flags(raised, tiny))
        return word


def deliver(m: Module, section: Any, word: Value) -> None:
    """Write `block`, float32 `word` x 2^s with its leading one at the top, and `block_special`."""
    unpacked, out = unpack_float(m, word, "unpacked"), section.o.block
    normalizer = submodule(m, "normalizer", Normalizer(SIGNIFICAND))
    m.d.comb += [
        normalizer.value.eq(unpacked.significand),
        out.significand.eq(normalizer.result),
        out.exponent.eq(unpacked.exponent - normalizer.amount + section.i.scale),
        out.sign.eq(unpacked.sign),
        out.zero.eq(normalizer.result == 0),
        section.o.block_special.eq(special_of_float(m, word, "block_special")),
    ]
