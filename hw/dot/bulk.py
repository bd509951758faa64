"""Sections of `rvbna:N`: largest and offset (aligned.py), align, the tree, pack, factor and
accumulate.

Each rounding is to odd: the last digit becomes one where digits were lost.
"""

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, signed
from amaranth.lib import data

from ...model.formats import FLOAT32
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_EMIN,
    FloatLayout,
    FloatRounder,
)
from ..arithmetic.scale import SCALE_SHAPE
from ..arithmetic.shift import Normalizer, ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section
from .aligned import AlignedLargest, Offset
from .block import TREE, words_shape
from .float_tree import FloatAccumulate, TreeFactor
from .float_tree_range import deliver, range_values
from .lane import AlignShifter
from .multiply import compress_negatives, negatives_shape, products_shape

SIGNIFICAND = FLOAT32.significand_bits


class AlignToOdd(Section):
    """Each product rounded to odd, F bits below the largest unit digit."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__(
            {
                "products": products_shape(widths),
                "offsets": data.ArrayLayout(widths.exponent_bits, widths.config.lanes),
                "negatives": negatives_shape(widths, 0),
            },
            {
                "words": words_shape(widths),
                "negatives": negatives_shape(widths, 1),
                "sticky": 1,
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sticky = []
        for index, product in enumerate(self.i.products):
            shift = submodule(
                m, f"shift{index}", AlignShifter(self.widths, self.widths.exponent_bits)
            )
            word = self.o.words[index]
            # A negative term's digits are inverted, the one that stands for lost digits too.
            last = Mux(shift.sticky, ~product.sign, shift.word[0])
            m.d.comb += [
                shift.significand.eq(product.significand),
                shift.inverts.eq(product.sign),
                shift.distance.eq(self.i.offsets[index]),
                word.eq(Cat(last, shift.word[1:])),
            ]
            sticky.append(shift.sticky)
        compress_negatives(m, self)
        m.d.comb += self.o.sticky.eq(Cat(sticky).any())
        return m


def leaves_float32(widths: Widths) -> bool:
    """Whether a step's sum may overflow a float32 or be subnormal in it."""
    return widths.sum_leaves_float32 or widths.products_leave_float32


class Pack(Section):
    """The step's sum rounded to odd as a float32, times 2^s."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        flags: dict[str, ShapeLike] = {"sticky": 1}
        if leaves_float32(widths):
            flags = range_values()
        super().__init__(
            {
                "total": signed(widths.total_bits),
                "largest": widths.exponent_bits,
                "sticky": 1,
                "scale": SCALE_SHAPE,
            },
            {"block": FloatLayout(SIGNIFICAND), **flags},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size, total, negative = self.widths.sum_bits, self.i.total, self.i.total[-1]
        magnitude, top = Signal(size), Signal(signed(EXPONENT_BITS), name="top")
        m.d.comb += [
            magnitude.eq(Mux(negative, -total, total)),
            top.eq(self.i.largest + (self.widths.grid + size - 1)),
        ]
        if leaves_float32(self.widths):
            self._round_in_range(m, magnitude, top)
            return m
        normalizer = submodule(m, "normalizer", Normalizer(size))
        cut, out = size - SIGNIFICAND, self.o.block
        kept, discarded = normalizer.result[cut:], normalizer.result[:cut]
        m.d.comb += [
            normalizer.value.eq(magnitude),
            out.significand.eq(kept | discarded.any()),
            out.exponent.eq(top - normalizer.amount + self.i.scale),
            out.sign.eq(negative),
            out.zero.eq(magnitude == 0),
            self.o.sticky.eq(self.i.sticky | discarded.any()),
        ]
        return m

    def _round_in_range(self, m: Module, magnitude: Signal, top: Signal) -> None:
        """Round a sum that may be subnormal, or overflow."""
        rounder = submodule(m, "rounder", FloatRounder(len(magnitude), odd=True))
        shift = submodule(m, "shift", ShiftRight(len(magnitude), EXPONENT_BITS))
        m.d.comb += [
            # A sum below the smallest normal number goes down to its grid first.
            shift.value.eq(magnitude),
            shift.amount.eq(Mux(top < FLOAT32_EMIN, FLOAT32_EMIN - top, 0)),
            rounder.sign.eq(self.i.total[-1]),
            rounder.magnitude.eq(shift.result | shift.sticky),
            rounder.exponent.eq(Mux(top < FLOAT32_EMIN, FLOAT32_EMIN, top)),
            self.o.tree_flags.overflow.eq(rounder.overflow),
            self.o.tree_flags.underflow.eq(rounder.underflow),
            self.o.tree_flags.inexact.eq(rounder.inexact | self.i.sticky),
        ]
        deliver(m, self, rounder.result)


def accumulate(widths: Widths) -> Section:
    """c plus the step's sum, rounded to odd."""
    return FloatAccumulate(widths, leaves_float32(widths), odd=True)


SECTIONS = {
    "largest": AlignedLargest,
    "offset": Offset,
    "align": AlignToOdd,
    **TREE,
    "pack": Pack,
    "factor": TreeFactor,
    "accumulate": accumulate,
}
