"""Largest-exponent tree."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class LargestExponent(wiring.Component):
    """The largest of `count` unsigned exponents of non-zero terms; combinational.

    Ports: exponent in (`count` x `width`), nonzero in (`count` bits), largest out (`width`, 0 when
    every term is zero), any out (some term is not zero). Comparators in a binary tree.
    """

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width
        super().__init__(
            {
                "exponent": In(data.ArrayLayout(width, count)),
                "nonzero": In(count),
                "largest": Out(width),
                "any": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A zero term's exponent is masked, so that it takes no part.
        level = [
            self.exponent[i] & self.nonzero[i].replicate(self.width) for i in range(self.count)
        ]
        depth = 0
        while len(level) > 1:
            depth += 1
            above = []
            for i in range(0, len(level) - 1, 2):
                node = Signal(self.width, name=f"level{depth}_{i // 2}")
                m.d.comb += node.eq(Mux(level[i] > level[i + 1], level[i], level[i + 1]))
                above.append(node)
            level = above + level[len(above) * 2 :]
        m.d.comb += [self.largest.eq(level[0]), self.any.eq(Cat(self.nonzero).any())]
        return m
