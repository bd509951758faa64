"""Small circuits with every operator and statement that a unit may hold."""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportInvalidTypeForm=false, reportArgumentType=false

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from mxdot.hw.hierarchy import submodule

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
    """Conditions of a Module: priorities, partial assignments, patterns, defaults."""

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


FUNCTIONS = {
    **{name: lambda a, b, c, f=f: f(a, b) for name, f in OPERATORS.items()},
    "shifted right": lambda a, b, c: a >> bits(c),
    "shifted left": lambda a, b, c: a << bits(c),
    "wide product of a sum": lambda a, b, c: (a + b) * c,
    "product of sums": lambda a, b, c: (a - b) * (c + 1),
    "product of a choice": lambda a, b, c: Mux(c[0], a, b) * c,
    "sum of a product": lambda a, b, c: (a * b) + c,
    "product of an inverse": lambda a, b, c: -a * ~b,
    "low digits": lambda a, b, c: (a * b + c)[:3],
    "middle digits": lambda a, b, c: (a + b - c)[1:4],
    "part of a value": lambda a, b, c: bits(a).bit_select(bits(c), 3),
    "narrow part": lambda a, b, c: Cat(a, b, c, a, b).bit_select(bits(c), 2),
    "word of a value": lambda a, b, c: Cat(a, b, c).word_select(bits(c)[:2], 3),
    "bit of a value": lambda a, b, c: Cat(a, b).bit_select(bits(c), 1),
    "choice": lambda a, b, c: Mux(a > b, c, a + b),
    "choice of choices": lambda a, b, c: Mux(a[0], Mux(b[0], a, c), Mux(c[0], b, a)),
    "element": lambda a, b, c: Array([a, b, c, a + b])[bits(c)[:2]],
    "compared sums": lambda a, b, c: (a + b < c) | (a - b >= c),
    "logic": lambda a, b, c: ~(a ^ b) & (c | a),
    "conditions": lambda a, b, c: (a == b) & (c != 0) | ~(a > c),
    "reductions": lambda a, b, c: Cat(a.any() & ~b.all(), c.xor() ^ ~c.any(), a.any() == b.all()),
    "rotated": lambda a, b, c: Cat(a.rotate_left(1), b.rotate_right(2)),
    "constants": lambda a, b, c: (a + 5) ^ (b * 3) ^ (c - 7),
}


def bits(value):
    """An unsigned value; the simulator reads `as_unsigned` of a negative one beyond its end."""
    return Cat(value)


class Functions(wiring.Component):
    """An output for each of FUNCTIONS of a, b and c."""

    def __init__(self, a, b, c):
        self.shapes = {"a": a, "b": b, "c": c}
        outputs = {f"o{index}": Out(signed(12)) for index in range(len(FUNCTIONS))}
        super().__init__({name: In(shape) for name, shape in self.shapes.items()} | outputs)

    def elaborate(self, platform):
        m = Module()
        inputs = [getattr(self, name) for name in self.shapes]
        for index, function in enumerate(FUNCTIONS.values()):
            m.d.comb += getattr(self, f"o{index}").eq(function(*inputs))
        return m


class Shared(wiring.Component):
    """Operators whose results several others read: whole, in part, next to other bits."""

    a: In(5)
    b: In(5)
    whole: Out(10)
    part: Out(3)
    beside: Out(12)
    twice: Out(6)
    inverse: Out(5)

    def elaborate(self, platform):
        m = Module()
        total, inverse = self.a + self.b, ~self.a
        m.d.comb += [
            self.whole.eq(total * inverse),
            self.part.eq(total[1:4]),
            self.beside.eq(Cat(inverse, total, 1)),
            self.twice.eq((total ^ self.b) + (total & self.a)),
            self.inverse.eq(inverse & self.b),
        ]
        return m


class Clocked(Counter):
    clocked = True


class Registers(wiring.Component):
    """Registers in structures and arrays, of which parts have conditions or no reset."""

    clocked = True
    i: In(data.StructLayout({"low": 3, "high": signed(4)}))
    en: In(1)
    clear: In(1)
    pair: Out(data.ArrayLayout(data.StructLayout({"x": 4, "y": 2}), 2))
    total: Out(signed(6))
    shown: Out(3)
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        held = Signal(3, init=5)
        counter = submodule(m, "counter", Clocked(), self.clear)
        with m.If(self.en):
            m.d.sync += [held.eq(self.i.low), self.pair[0].x.eq(self.i.high)]
            with m.If(self.i.low[0]):
                m.d.sync += self.pair[1].y.eq(self.pair[0].y + 1)
        with m.Elif(self.clear):
            m.d.sync += self.total.eq(0)
        with m.Switch(held):
            with m.Case(0, 3):
                m.d.sync += self.total.eq(self.total + self.i.high)
            with m.Case("1--"):
                m.d.sync += [self.total[:2].eq(held), self.pair[0].y.eq(held)]
        m.d.comb += [counter.en.eq(self.en), self.count.eq(counter.count), self.shown.eq(held)]
        return m


class Words(wiring.Component):
    """A memory with a register after its read port."""

    clocked = True
    write: In(1)
    at: In(3)
    value: In(5)
    read: In(1)
    place: In(3)
    found: Out(5)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=5, depth=8, init=[])
        write = words.write_port()
        read = words.read_port()
        m.d.comb += [
            write.en.eq(self.write), write.addr.eq(self.at), write.data.eq(self.value),
            read.en.eq(self.read), read.addr.eq(self.place), self.found.eq(read.data),
        ]  # fmt: skip
        return m


DESIGNS = {
    "unsigned_functions": lambda: Functions(4, 3, 4),
    "signed_functions": lambda: Functions(signed(4), signed(3), signed(4)),
    "mixed_functions": lambda: Functions(signed(4), 3, unsigned(5)),
    "wide_functions": lambda: Functions(3, signed(6), signed(2)),
    "single_bits": lambda: Functions(1, 1, 1),
    "statements": Statements,
    "shared": Shared,
    "registers": Registers,
    "words": Words,
}
