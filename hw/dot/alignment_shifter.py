"""Alignment shifter: a product truncated on the grid of an aligning accumulator."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.pipeline.widths import Widths
from ..arithmetic.adder_tree import signed_word
from ..arithmetic.adders import named
from ..arithmetic.shift import place_right


def places_around(widths: Widths) -> tuple[int, int]:
    """Of a product, the last places that always go and the ones that are free below it."""
    # With fewer fraction bits than a product has, the last ones always go.
    more = widths.fraction_bits - widths.product_fraction_bits
    return max(-more, 0), max(more, 0)


class AlignShifter(wiring.Component):
    """word = RZ(significand x 2^(F - product_fraction_bits - distance)), or its digits inverted;
    combinational.

    Ports:

    - `significand` in, `Widths.product_bits`: the product's significand
    - `inverts` in, 1 bit: whether digits are inverted, as `add_terms` takes them of negative terms
    - `distance` in, `distance_bits`: how far the product's unit digit lies below the largest
    - `word` out, `Widths.term_bits`: the term on the common grid
    - `sticky` out, 1 bit: a one was cut off
    """

    def __init__(self, widths: Widths, distance_bits: int) -> None:
        self.widths = widths
        super().__init__(
            {
                "significand": In(widths.product_bits),
                "inverts": In(1),
                "distance": In(distance_bits),
                "word": Out(widths.term_bits),
                "sticky": Out(1),
            }
        )
        self.distance_bits = distance_bits

    def elaborate(self, platform: object) -> Module:
        m = Module()
        below, above = places_around(self.widths)
        fill, digits = self.inverts, signed_word(self.significand, self.inverts)
        word = named(m, "whole", Cat(fill.replicate(above), digits))
        placed = place_right(m, word, self.distance, "term", fill)
        # A digit is cut off where the distance is larger than its place on the grid.
        farthest = (1 << self.distance_bits) - 1
        places = range(above - below, min(above - below + len(digits), farthest))
        cut = Cat(self.distance > place for place in places) & self.significand
        m.d.comb += [self.word.eq(placed[below:]), self.sticky.eq(cut.any())]
        return m
