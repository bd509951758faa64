"""Normaliser and rounder: a sign-magnitude integer to the bits of a float."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.formats import FLOAT32, FloatFormat
from ..hierarchy import submodule
from .floats import EXPONENT_BITS
from .normalize import Normalizer


def rounds_up(truncated: Value, discarded: Value) -> Value:
    """Whether RNE of `truncated` with the bits `discarded` below it goes up."""
    return discarded[-1] & (discarded[:-1].any() | truncated[0])


class FloatRounder(wiring.Component):
    """Rounds (-1)^sign x magnitude x 2^(exponent - W + 1) to `fmt` once; combinational.

    W is `magnitude_bits`. `nearest` rounds to nearest even, otherwise toward zero to
    `fraction_bits` fraction bits, those of `fmt` or fewer. Subnormals stay; a magnitude of
    2^(emax + 1) or more, after rounding, is infinite.

    Ports:

    - `sign` in, 1 bit: sign of the value
    - `magnitude` in, `magnitude_bits`: its magnitude
    - `exponent` in, `exponent_bits`, signed: that of the magnitude's top bit, at least emin
    - `result` out, bits of `fmt`; a zero is +0
    - `overflow` out, 1 bit: the result is infinite
    - `underflow` out, 1 bit: the result is inexact, and subnormal or zero
    - `inexact` out, 1 bit: the result is not the value
    """

    def __init__(
        self,
        magnitude_bits: int,
        *,
        nearest: bool,
        fraction_bits: int | None = None,
        exponent_bits: int = EXPONENT_BITS,
        fmt: FloatFormat = FLOAT32,
    ) -> None:
        most = fmt.mantissa_bits
        if nearest and fraction_bits not in (None, most):
            raise ValueError(
                f"fraction_bits must be {most} to round to nearest, not {fraction_bits}"
            )
        self.magnitude_bits, self.nearest = magnitude_bits, nearest
        self.fraction_bits = most if fraction_bits is None else fraction_bits
        self.exponent_bits, self.fmt = exponent_bits, fmt
        super().__init__(
            {
                "sign": In(1),
                "magnitude": In(magnitude_bits),
                "exponent": In(signed(exponent_bits)),
                "result": Out(fmt.bits),
                "overflow": Out(1),
                "underflow": Out(1),
                "inexact": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt = self.fmt
        ones = 2**fmt.exponent_bits - 1  # the exponent field of an infinity
        # Room for the significand, a guard bit and a sticky bit.
        bits = max(self.magnitude_bits, self.fraction_bits + 3)
        normalizer = submodule(m, "normalizer", Normalizer(bits, limit_bits=self.exponent_bits))
        biased = Signal(signed(self.exponent_bits + 1))
        top = Signal()
        m.d.comb += [
            normalizer.value.eq(Cat(Const(0, bits - self.magnitude_bits), self.magnitude)),
            # No shift below the exponent of the subnormals.
            normalizer.limit.eq(self.exponent - fmt.emin),
            biased.eq(self.exponent + fmt.bias),
            top.eq(normalizer.result[-1]),
        ]
        truncated = normalizer.result[bits - 1 - self.fraction_bits : bits - 1]
        discarded = normalizer.result[: bits - 1 - self.fraction_bits]
        up = rounds_up(truncated, discarded) if self.nearest else Const(0, 1)
        field = Signal(self.exponent_bits)
        packed = Signal(fmt.mantissa_bits + self.exponent_bits)
        m.d.comb += [
            field.eq(Mux(top, biased - normalizer.amount, 0)),
            packed.eq(Cat(Const(0, fmt.mantissa_bits - self.fraction_bits), truncated, field) + up),
            self.overflow.eq(packed[fmt.mantissa_bits :] >= ones),
            self.inexact.eq(discarded.any() | self.overflow),
            self.underflow.eq(discarded.any() & (packed[fmt.mantissa_bits :] == 0)),
        ]
        infinity = Const(ones << fmt.mantissa_bits, fmt.bits - 1)
        magnitude = Mux(self.overflow, infinity, packed[: fmt.bits - 1])
        m.d.comb += self.result.eq(Cat(magnitude, self.sign & magnitude.any()))
        return m
