"""The Verilog of every operator and statement does in Verilator what Amaranth simulates."""

# Components defined here get their attributes while they run.
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportInvalidTypeForm=false, reportArgumentType=false

import re

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from compare import FULL, generator
from mxdot.hw.hierarchy import submodule
from test_hw_netlist import OPERATORS, Counter, Statements
from verilog_bench import Around, differences
from verilog_text import check_lint, check_names

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
    """Operators whose results several others read: whole, in part, beside other bits."""

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
    """A memory with a register behind its read port."""

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
        write, read = words.write_port(), words.read_port()
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


ROWS = 1000 if FULL else 500


def test_verilog_does_what_the_simulator_does_and_is_clean(tmp_path):
    rng = generator("verilog operators")
    designs = {}
    for name, make in DESIGNS.items():
        design = Around(make())
        rows = {p: rng.integers(0, 1 << w, ROWS).tolist() for p, w in design.inputs.items()}
        if design.clock:
            # Only in the simulator does a reset clear what a memory has read.
            chance = 0 if name == "words" else 0.02
            rows["rst"] = [1, *(rng.random(ROWS - 1) < chance).astype(int).tolist()]
        designs[name] = design, rows
    assert differences(designs, tmp_path) == []
    for name in designs:
        text = (tmp_path / f"{name}.v").read_text()
        check_names(text)
        check_lint(text, name, tmp_path)


def test_a_wrong_operator_is_noticed(tmp_path, monkeypatch):
    """The same comparison, with `<` written for `<=`."""
    right = Around.verilog
    wrong = lambda self, top: right(self, top).replace(" <= ", " < ", 1)  # noqa: E731
    monkeypatch.setattr(Around, "verilog", wrong)
    design = Around(Functions(4, 3, 4))
    rng = generator("verilog operators")
    rows = {port: rng.integers(0, 1 << w, 200).tolist() for port, w in design.inputs.items()}
    (line,) = differences({"functions": (design, rows)}, tmp_path)
    assert line.startswith("functions ")


# Refusals ----------------------------------------------------------------------------------------


class One(wiring.Component):
    """o = function(a, b)."""

    def __init__(self, function):
        self.function = function
        super().__init__({"a": In(signed(4)), "b": In(3), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.function(self.a, self.b))
        return m


class Lookup(wiring.Component):
    """A memory that is only read."""

    at: In(2)
    o: Out(2)

    def __init__(self, domain, init):
        self.domain, self.init, self.clocked = domain, init, domain == "sync"
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=2, depth=4, init=self.init)
        read = words.read_port(domain=self.domain)
        m.d.comb += [read.addr.eq(self.at), self.o.eq(read.data)]
        return m


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: One(lambda a, b: a // (b + 1)),
            "operators must be known to the writer, not $",
        ),
        (lambda: One(lambda a, b: a.bit_select(b, 2)), "parts must be cut out of unsigned values"),
        (lambda: Lookup("comb", []), "ports of words must be clocked, with one enable"),
        (lambda: Lookup("sync", [0, 1]), "memories must start with zeros, not as words"),
    ],
    ids=["division", "part of a signed value", "memory without a clock", "words at the start"],
)
def test_what_the_writer_does_not_know(make, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        Around(make()).verilog("top")
