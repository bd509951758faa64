"""Section `convert`: float32 to a narrower output by one RNE."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from ...model.formats import FloatFormat
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_FRACTION,
    FlagsLayout,
    RunningLayout,
    unpack_float32,
)
from ..arithmetic.round import rounds_up
from ..arithmetic.shift import ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section


class NarrowLayout(data.StructLayout):
    """The result in the output format, and the flags."""

    def __init__(self, bits: int) -> None:
        super().__init__({"c": bits, "flags": FlagsLayout()})


class Convert(Section):
    """Subnormals stay; a NaN keeps its leading fraction bits, which no NaN result lacks."""

    def __init__(self, out: FloatFormat) -> None:
        self.out = out
        super().__init__({"running": RunningLayout()}, {"result": NarrowLayout(out.bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out, bits, result = self.out, self.i.running.c, self.o.result
        wide = unpack_float32(m, bits, "wide")
        top = 2**out.exponent_bits - 1
        # A guard bit and a sticky bit below; a value below the smallest normal moves right.
        shift = submodule(m, "shift", ShiftRight(FLOAT32_FRACTION + 3, EXPONENT_BITS))
        below = Signal(signed(EXPONENT_BITS))
        value = Signal(FLOAT32_FRACTION + 3)
        m.d.comb += [
            below.eq(out.emin - wide.exponent),
            shift.value.eq(Cat(Const(0, 2), wide.significand)),
            shift.amount.eq(Mux(below > 0, below, 0)),
            value.eq(shift.result | shift.sticky),
        ]
        cut = FLOAT32_FRACTION + 2 - out.mantissa_bits
        truncated, discarded = value[cut:-1], value[:cut]
        field = Signal(EXPONENT_BITS)
        rounded = Signal(out.mantissa_bits + EXPONENT_BITS)
        up = rounds_up(truncated, discarded)
        overflow = rounded[out.mantissa_bits :] >= top
        m.d.comb += [
            field.eq(Mux(value[-1], Mux(below > 0, 1, 1 - below), 0)),
            rounded.eq(Cat(truncated, field) + up),
        ]
        special = bits[FLOAT32_FRACTION:31].all()
        fraction = bits[FLOAT32_FRACTION - out.mantissa_bits : FLOAT32_FRACTION]
        infinity = Const(top << out.mantissa_bits, out.bits - 1)
        magnitude = Mux(overflow, infinity, rounded[: out.bits - 1])
        magnitude = Mux(special, Cat(fraction, Const(top, out.exponent_bits)), magnitude)
        flags = self.i.running.flags
        m.d.comb += [
            result.c.eq(Cat(magnitude, bits[31] & magnitude.any())),
            result.flags.eq(flags),
        ]
        inexact = discarded.any() | overflow
        tiny = discarded.any() & (rounded[out.mantissa_bits :] == 0)
        m.d.comb += [
            result.flags.overflow.eq(flags.overflow | (~special & overflow)),
            result.flags.underflow.eq(flags.underflow | (~special & tiny)),
            result.flags.inexact.eq(flags.inexact | (~special & inexact)),
        ]
        return m
