"""Sections of group sums, each under its own scales: gather, factor, and the sections of `fused:F`,
whose terms are the groups.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data

from ...model.pipeline.widths import GroupWidths, Widths
from ..arithmetic.adders import AdderTree
from ..arithmetic.multiply import Multiplier
from ..hierarchy import submodule
from ..pipeline import Section
from . import fused
from .block import place
from .lane import ProductLayout
from .multiply import of_lane, products_shape, scale_values


def widths_of(widths: Widths) -> GroupWidths:
    """Widths of a unit's groups."""
    terms = widths.terms
    assert isinstance(terms, GroupWidths)
    return terms


def sums_shape(terms: GroupWidths) -> data.ArrayLayout:
    """The value `sums`: one per group, in units of the products' last digit."""
    return data.ArrayLayout(signed(terms.group_sum_bits + 1), terms.groups)


def groups_shape(terms: GroupWidths) -> data.ArrayLayout:
    """The value `products` of fused sections: one per group."""
    return data.ArrayLayout(ProductLayout(terms), terms.groups)


class Gather(Section):
    """Exact sums of groups: products on the grid of all products, in adder trees.

    sums: a sum per group. counts: a bit per group with a product that is not zero.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths, self.terms = widths, widths_of(widths)
        super().__init__(
            {"products": products_shape(widths)},
            {"sums": sums_shape(self.terms), "counts": self.terms.groups},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = self.terms
        for group in range(terms.groups):
            bits, nonzero = terms.placed_bits, []
            adder = AdderTree(terms.group, bits, terms.group_sum_bits + 1)
            tree = submodule(m, f"tree{group}", adder)
            for index in range(terms.group):
                lane = group * terms.group + index
                product = self.i.products[lane]
                significand, exponent = product.significand, product.exponent
                nonzero.append(product.nonzero)
                magnitude = place(m, self.widths, significand, exponent, f"lane{lane}")
                m.d.comb += [
                    tree.terms[index].magnitude.eq(magnitude),
                    tree.terms[index].sign.eq(product.sign),
                ]
            m.d.comb += [
                self.o.sums[group].eq(tree.total),
                self.o.counts[group].eq(Cat(nonzero).any()),
            ]
        return m


class GroupFactor(Section):
    """g x the sum of each group, with the exponent of its scales. A sum of 0 counts too, unless all
    products of the group, or its scales, are zero.
    """

    def __init__(self, widths: Widths) -> None:
        self.widths, self.terms = widths, widths_of(widths)
        super().__init__(
            {"sums": sums_shape(self.terms), "counts": self.terms.groups, **scale_values(widths)},
            {"products": groups_shape(self.terms)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        widths, terms = self.widths, self.terms
        for group in range(terms.groups):
            total, term = self.i.sums[group], self.o.products[group]
            lane = group * terms.group
            magnitude = Signal(terms.group_sum_bits, name=f"magnitude{group}")
            m.d.comb += [
                magnitude.eq(Mux(total[-1], -total, total)),
                term.sign.eq(total[-1]),
                term.exponent.eq(of_lane(self.i.scale, lane, widths) - terms.exponent_min),
            ]
            counts = self.i.counts[group]
            if not widths.factor_bits:
                m.d.comb += [term.significand.eq(magnitude), term.nonzero.eq(counts)]
                continue
            sizes = terms.group_sum_bits, widths.factor_bits
            multiplier = submodule(m, f"multiplier{group}", Multiplier(*sizes))
            factor = of_lane(self.i.factor, lane, widths)
            m.d.comb += [
                multiplier.a.eq(magnitude),
                multiplier.b.eq(factor),
                term.significand.eq(multiplier.product),
                term.nonzero.eq(counts & factor.any()),
            ]
        return m


SECTIONS = {**fused.SECTIONS, "gather": Gather, "factor": GroupFactor}
