"""Sections shared by the accumulators that sum integers: `sum` and `normalize`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from ..adder_tree import AdderTree, TermLayout
from ..floats import FloatLayout
from ..hierarchy import submodule
from ..lane import SpecialLayout
from ..normalize import Normalizer
from ..scale import SCALE_SHAPE
from ..widths import Widths
from .base import Section

BESIDE = {"special": SpecialLayout(), "scale": SCALE_SHAPE, "lost": 1}


class TermsLayout(data.StructLayout):
    """A block's integer terms; `unit` is their largest biased unit exponent where aligned."""

    def __init__(self, widths: Widths, unit: int) -> None:
        terms = data.ArrayLayout(TermLayout(widths.term), widths.config.lanes)
        super().__init__({"terms": terms, "unit": unit, **BESIDE})


class TotalLayout(data.StructLayout):
    """The exact signed sum of a block's terms."""

    def __init__(self, widths: Widths, unit: int) -> None:
        super().__init__({"total": signed(widths.total), "unit": unit, **BESIDE})


class BlockResultLayout(data.StructLayout):
    """A block's sum as a float, scaled by 2^s."""

    def __init__(self, width: int) -> None:
        super().__init__({"x": FloatLayout(width), "special": SpecialLayout(), "lost": 1})


class Sum(Section):
    """The adder tree."""

    def __init__(self, widths: Widths, unit: int = 0) -> None:
        self.widths = widths
        super().__init__(TermsLayout(widths, unit), TotalLayout(widths, unit))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        tree = submodule(m, "tree", AdderTree(widths.config.lanes, widths.term, widths.total))
        m.d.comb += [tree.terms.eq(self.i.terms), self.o.total.eq(tree.total)]
        self.carry(m, ["unit", *BESIDE])
        return m


class Normalize(Section):
    """Leading one to the top, `kept` bits kept (toward zero), 2^s and the grid's exponent joined.

    The grid: a sum's last digit is worth 2^(lsb + unit).
    """

    def __init__(self, widths: Widths, lsb: int, kept: int, unit: int = 0) -> None:
        self.widths, self.lsb, self.kept = widths, lsb, kept
        super().__init__(TotalLayout(widths, unit), BlockResultLayout(kept))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size = self.widths.total - 1
        width = max(size, self.kept)
        normalizer = submodule(m, "normalizer", Normalizer(width))
        total = self.i.total
        magnitude = Signal(size)
        x = self.o.x
        m.d.comb += [
            magnitude.eq(Mux(total < 0, -total, total)),
            normalizer.value.eq(Cat(Const(0, width - size), magnitude)),
            x.sign.eq(total < 0),
            x.zero.eq(total == 0),
            x.significand.eq(normalizer.result[width - self.kept :]),
            x.exponent.eq(self.i.scale + self.i.unit + (self.lsb + size - 1) - normalizer.amount),
            self.o.lost.eq(self.i.lost | normalizer.result[: width - self.kept].any()),
        ]
        self.carry(m, ["special"])
        return m
