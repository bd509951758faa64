"""Alignment and addition of two floating-point values, exact but for a sticky bit."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import submodule
from .floats import EXPONENT_BITS, FloatLayout
from .shift import ShiftRight


class FloatSum(wiring.Component):
    """a + b, ready for one rounding to at most as many bits as the wider operand; combinational.

    Bits of the smaller operand beyond the three below the wider operand's last are or-ed into the
    last bit: an odd last bit rounds as whatever was cut off would have.

    Ports:

    - `a` in, `FloatLayout` of `a_bits`: an operand
    - `b` in, `FloatLayout` of `b_bits`: the other one
    - `sign` out, 1 bit: sign of the sum
    - `magnitude` out, `sum_bits`: its magnitude
    - `exponent` out, `EXPONENT_BITS`, signed: exponent of the magnitude's top bit
    """

    def __init__(self, a_bits: int, b_bits: int) -> None:
        self.a_bits, self.b_bits = a_bits, b_bits
        super().__init__(
            {
                "a": In(FloatLayout(a_bits)),
                "b": In(FloatLayout(b_bits)),
                "sign": Out(1),
                "magnitude": Out(self.sum_bits),
                "exponent": Out(signed(EXPONENT_BITS)),
            }
        )

    @property
    def window(self) -> int:
        """Bits of the aligned operands."""
        return max(self.a_bits, self.b_bits) + 3

    @property
    def sum_bits(self) -> int:
        return self.window + 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = self.a, self.b
        align = submodule(m, "align", ShiftRight(self.window, EXPONENT_BITS))
        # Differences both ways: choosing one is faster than negating the other.
        a_above_b = Signal(signed(EXPONENT_BITS + 1))
        b_above_a = Signal(signed(EXPONENT_BITS + 1))
        b_larger = Signal()
        larger_sign = Signal()
        subtract = Signal()
        larger = Signal(self.window)
        smaller = Signal(self.window)
        a_window = Cat(Const(0, self.window - self.a_bits), a.significand)
        b_window = Cat(Const(0, self.window - self.b_bits), b.significand)
        total = Signal(signed(self.window + 2))
        m.d.comb += [
            a_above_b.eq(a.exponent - b.exponent),
            b_above_a.eq(b.exponent - a.exponent),
            b_larger.eq(~b.zero & (a.zero | a_above_b[-1])),
            align.amount.eq(Mux(b_larger, b_above_a, a_above_b)),
            larger.eq(Mux(b_larger, b_window, a_window)),
            align.value.eq(Mux(b_larger, a_window, b_window)),
            smaller.eq(align.result | align.sticky),
            larger_sign.eq(Mux(b_larger, b.sign, a.sign)),
            subtract.eq(a.sign ^ b.sign),
        ]
        # The lowest digit carries `subtract` into the sum, which is one carry chain that way.
        addend = Cat(subtract, smaller ^ subtract.replicate(self.window), subtract.replicate(2))
        m.d.comb += [
            total.eq((Cat(Const(1, 1), larger) + addend)[1:]),
            self.sign.eq(larger_sign ^ total[-1]),
            self.magnitude.eq(Mux(total[-1], -total, total)),
            self.exponent.eq(Mux(b_larger, b.exponent, a.exponent) + 1),
        ]
        return m
