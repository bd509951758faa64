"""Rounding shift, zero point and clipping: an INT32 sum, or its product, to a narrow integer."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import IntegerFormat
from .shift import shift_right_signed


class RoundingShift(wiring.Component):
    """min(max(floor(value / 2^shift + 1/2) + zero, lowest), highest); combinational.

    Section 8 of the contract.

    Ports:

    - `value` in, `value_bits`, signed: what is shifted
    - `shift` in, `shift_bits`: any value
    - `zero` in, of the format `out`: zero point, two's complement or unsigned
    - `result` out, of the format `out`: the integer, two's complement or unsigned
    - `inexact` out, 1 bit: a one was shifted out
    - `clipped` out, 1 bit: the result was limited
    """

    def __init__(self, value_bits: int, shift_bits: int, out: IntegerFormat) -> None:
        self.value_bits, self.shift_bits, self.out = value_bits, shift_bits, out
        self.variant = out.name
        super().__init__(
            {
                "value": In(signed(value_bits)),
                "shift": In(shift_bits),
                "zero": In(out.bits),
                "result": Out(out.bits),
                "inexact": Out(1),
                "clipped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out = self.out
        # One digit below the point stays: the one that decides the rounding.
        wide = Cat(Const(0, 1), self.value)
        shifted, sticky = shift_right_signed(m, wide, self.shift)
        moved = Signal(signed(self.value_bits + 2))
        low = Signal()
        high = Signal()
        zero = self.zero.as_signed() if out.lowest < 0 else self.zero
        m.d.comb += [
            moved.eq(shifted[1:].as_signed() + shifted[0] + zero),
            low.eq(moved < out.lowest),
            high.eq(moved > out.highest),
            self.inexact.eq(sticky | shifted[0]),
            self.clipped.eq(low | high),
            self.result.eq(Mux(low, out.lowest, Mux(high, out.highest, moved))),
        ]
        return m
