"""Operands and checks that tests of hw netlist share with other tests."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

OPERATORS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "negate": lambda a, b: -a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "equal": lambda a, b: a == b,
    "unequal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less or equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater or equal": lambda a, b: a >= b,
}


class Statements(wiring.Component):
    """Statements that a Module makes of conditions: priorities, partial assignments, patterns,
    defaults.
    """

    i: In(6)
    o: Out(data.ArrayLayout(4, 2))
    any_all_odd: Out(3)

    def elaborate(self, platform):
        m = Module()
        low, high = self.i[:3], self.i[3:]
        with m.If(low == 1):
            m.d.comb += self.o[0].eq(high)
        with m.Elif(low[0]):
            m.d.comb += self.o[0][1:3].eq(high[:2])
        with m.Else(), m.Switch(high):
            with m.Case("1-0", 3):
                m.d.comb += self.o[0].eq(~low)
            with m.Default():
                m.d.comb += self.o[0].eq(Mux(low.matches(2, 4), 9, Cat(high[::-1], 1)))
        m.d.comb += self.o[1].eq(self.o[0])
        with m.If(high[0]):
            m.d.comb += self.o[1][-1].eq(1)
        m.d.comb += self.any_all_odd.eq(Cat(self.i.any(), self.i.all(), self.i.xor()))
        return m


class Counter(wiring.Component):
    """A register with an enable and a start other than 0."""

    en: In(1)
    count: Out(4, init=5)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.en):
            m.d.sync += self.count.eq(self.count + 3)
        return m
