"""E8M0 scale adder."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import E8M0

SCALE_SHAPE = signed(10)


class ScaleAdder(wiring.Component):
    """exponent = (a - 127) + (b - 127), in [-254, 254] and never wrapped; combinational.

    Ports:

    - `a` in, 8 bits: E8M0 code
    - `b` in, 8 bits: E8M0 code
    - `exponent` out, 10 bits, signed: not meaningful with `nan`
    - `nan` out, 1 bit: a scale is NaN
    """

    a: In(E8M0.bits)  # type: ignore[valid-type]
    b: In(E8M0.bits)  # type: ignore[valid-type]
    exponent: Out(SCALE_SHAPE)  # type: ignore[valid-type]
    nan: Out(1)  # type: ignore[valid-type]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [
            self.exponent.eq(self.a + self.b - 2 * E8M0.bias),
            self.nan.eq((self.a == E8M0.nan_code) | (self.b == E8M0.nan_code)),
        ]
        return m
