"""Sections shared by the accumulators that sum integers: `sum` and `normalize`."""

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, signed
from amaranth.lib import data

from ...model.accumulators import Aligned
from ..arithmetic.adder_tree import AdderTree, TermLayout
from ..arithmetic.floats import FloatLayout
from ..arithmetic.normalize import Normalizer
from ..arithmetic.scale import SCALE_SHAPE
from ..hierarchy import submodule
from ..pipeline import Section
from .widths import Widths


def terms_shape(widths: Widths) -> data.ArrayLayout:
    """The value `terms`: a block's integers, on a common grid."""
    return data.ArrayLayout(TermLayout(widths.term_bits), widths.config.lanes)


class Sum(Section):
    """The adder tree: the exact signed sum of a block's terms."""

    def __init__(self, widths: Widths) -> None:
        self.widths = widths
        super().__init__({"terms": terms_shape(widths)}, {"total": signed(widths.total_bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths = self.widths
        adder = AdderTree(widths.config.lanes, widths.term_bits, widths.total_bits)
        tree = submodule(m, "tree", adder)
        m.d.comb += [tree.terms.eq(self.i.terms), self.o.total.eq(tree.total)]
        return m


class Normalize(Section):
    """A block's sum as a float of `significand_bits` (toward zero), scaled by 2^s.

    A sum's last digit is worth 2^lsb where all products have one grid, and behind an alignment
    2^(largest + exponent_min - F).
    """

    def __init__(self, widths: Widths, significand_bits: int) -> None:
        self.widths, self.significand_bits = widths, significand_bits
        self.aligned = isinstance(widths.config.accumulator, Aligned)
        grid: dict[str, ShapeLike] = {}
        if self.aligned:
            grid = {"largest": widths.exponent_bits, "sticky": 1}
        super().__init__(
            {"total": signed(widths.total_bits), "scale": SCALE_SHAPE, **grid},
            {"block": FloatLayout(significand_bits), "sticky": 1},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size = self.widths.total_bits - 1
        width = max(size, self.significand_bits)
        normalizer = submodule(m, "normalizer", Normalizer(width))
        total, block = self.i.total, self.o.block
        magnitude = Signal(size)
        discarded = normalizer.result[: width - self.significand_bits].any()
        exponent = self.i.scale + self._grid() - normalizer.amount
        m.d.comb += [
            magnitude.eq(Mux(total[-1], -total, total)),
            normalizer.value.eq(Cat(Const(0, width - size), magnitude)),
            block.sign.eq(total[-1]),
            block.zero.eq(total == 0),
            block.significand.eq(normalizer.result[width - self.significand_bits :]),
            block.exponent.eq(exponent + (size - 1)),
            self.o.sticky.eq((self.i.sticky | discarded) if self.aligned else discarded),
        ]
        return m

    def _grid(self):
        """The exponent of a sum's last digit, without s."""
        if self.aligned:
            return self.i.largest + (self.widths.exponent_min - self.widths.fraction_bits)
        return self.widths.lsb
