"""The Verilog of every operator and statement does in Verilator what Amaranth simulates."""

# Components defined here get their attributes while they run.
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportInvalidTypeForm=false, reportArgumentType=false

import re

import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from compare import FULL, generator
from small_circuits import DESIGNS, Functions
from verilog_bench import Around, differences
from verilog_text import check_lint, check_names

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
    """`<` instead of `<=` in one design."""
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
        (lambda: One(lambda a, b: a // (b + 1)), "operators must be known to the writer, not $"),
        (lambda: One(lambda a, b: a.bit_select(b, 2)), "parts must be cut out of unsigned values"),
        (lambda: Lookup("comb", []), "ports of words must be clocked, with one enable"),
        (lambda: Lookup("sync", [0, 1]), "memories must start with zeros, not as words"),
    ],
    ids=["division", "part of a signed value", "memory without a clock", "words at the start"],
)
def test_what_the_writer_does_not_know(make, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        Around(make()).verilog("top")
