"""Full and half adders as modules of their own, so that synthesis can take a library's cells for
them: ABC does not find them in loose gates. Simulators and FPGAs see plain logic."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import collects, submodule


class FullAdder(wiring.Component):
    """2 carry + sum = a + b + c; combinational."""

    a: In(1)  # type: ignore[valid-type]
    b: In(1)  # type: ignore[valid-type]
    c: In(1)  # type: ignore[valid-type]
    sum: Out(1)  # type: ignore[valid-type]
    carry: Out(1)  # type: ignore[valid-type]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [
            self.sum.eq(self.a ^ self.b ^ self.c),
            self.carry.eq((self.a & self.b) | (self.c & (self.a ^ self.b))),
        ]
        return m


class HalfAdder(wiring.Component):
    """2 carry + sum = a + b; combinational."""

    a: In(1)  # type: ignore[valid-type]
    b: In(1)  # type: ignore[valid-type]
    sum: Out(1)  # type: ignore[valid-type]
    carry: Out(1)  # type: ignore[valid-type]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.sum.eq(self.a ^ self.b), self.carry.eq(self.a & self.b)]
        return m


def full_adder(m: Module, name: str, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """(sum, carry) of three bits."""
    if collects():
        adder = submodule(m, name, FullAdder())
        m.d.comb += [adder.a.eq(a), adder.b.eq(b), adder.c.eq(c)]
        return adder.sum, adder.carry
    return _plain(m, name, a ^ b ^ c, (a & b) | (c & (a ^ b)))


def half_adder(m: Module, name: str, a: Value, b: Value) -> tuple[Value, Value]:
    """(sum, carry) of two bits."""
    if collects():
        adder = submodule(m, name, HalfAdder())
        m.d.comb += [adder.a.eq(a), adder.b.eq(b)]
        return adder.sum, adder.carry
    return _plain(m, name, a ^ b, a & b)


def _plain(m: Module, name: str, total: Value, over: Value) -> tuple[Value, Value]:
    """Without a module of its own: Amaranth's simulator is much faster that way."""
    sum_, carry = Signal(name=f"{name}_sum"), Signal(name=f"{name}_carry")
    m.d.comb += [sum_.eq(total), carry.eq(over)]
    return sum_, carry
