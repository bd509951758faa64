"""The product of two scales: E8M0 and E4M3."""

from amaranth.hdl import Cat, Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import E8M0, FloatFormat
from ..hierarchy import constant, submodule
from .multiply import Multiplier

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
        biases = constant(m, "TWO_BIASES", 2 * E8M0.bias, len(self.exponent))
        nan_code = constant(m, "NAN_CODE", E8M0.nan_code, E8M0.bits)
        m.d.comb += [
            self.exponent.eq(self.a + self.b - biases),
            self.nan.eq((self.a == nan_code) | (self.b == nan_code)),
        ]
        return m


class ScaleMultiplier(wiring.Component):
    """significand x 2^(exponent - 2 x mantissa bits) = a x b, for unsigned floats; combinational.

    Subnormals keep the least exponent. The significand of a zero is 0.

    Ports:

    - `a` in, `bits`: first factor, a code of `fmt` without its sign
    - `b` in, `bits`: second factor
    - `exponent` out, 10 bits, signed: exponent of the unit digits' product; meaningless with `nan`
    - `significand` out: the product, with twice the mantissa bits after the unit digit; meaningless
      with `nan`
    - `nan` out, 1 bit: a scale is NaN
    """

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt, bits = fmt, fmt.bits - 1
        super().__init__(
            {
                "a": In(bits),
                "b": In(bits),
                "exponent": Out(SCALE_SHAPE),
                "significand": Out(2 * fmt.significand_bits),
                "nan": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt, exponents, nans = self.fmt, [], []
        digits = fmt.significand_bits
        multiplier = submodule(m, "multiplier", Multiplier(digits, digits))
        for code, factor in ((self.a, multiplier.a), (self.b, multiplier.b)):
            fraction, field = code[: fmt.mantissa_bits], code[fmt.mantissa_bits :]
            m.d.comb += factor.eq(Cat(fraction, field.any()))
            # A subnormal has the exponent of the field 1.
            exponents.append(Cat(field[0] | ~field.any(), field[1:]))
            nans.append(code.all())
        biases = constant(m, "TWO_BIASES", 2 * fmt.bias, len(self.exponent))
        m.d.comb += [
            self.exponent.eq(exponents[0] + exponents[1] - biases),
            self.significand.eq(multiplier.product),
            self.nan.eq(nans[0] | nans[1]),
        ]
        return m
