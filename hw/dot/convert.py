"""Sections `convert` and `narrow`: from and to a running value, each with one RNE.

`convert` makes the output of the running value, `narrow` a 16-bit running value of the caller's c.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed

from ...model.formats import FLOAT32, FloatFormat
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import (
    EXPONENT_BITS,
    FLOAT32_BIAS,
    FLOAT32_FRACTION,
    FLOAT32_ONES,
    RunningLayout,
    rounds_up,
    special_of_float,
    unpack_float,
)
from ..arithmetic.shift import Normalizer, ShiftRight
from ..hierarchy import submodule
from ..pipeline import Section


class Convert(Section):
    """The running value in the output's format. A NaN keeps its leading fraction bits, which are
    not all zero in any NaN result.

    result: bits of the output's format and flags.
    """

    def __init__(
        self,
        out: FloatFormat,
        running: FloatFormat = FLOAT32,
        nan_bits: int = 0,
        source: str = "running",
    ) -> None:
        """running: format of the running value; a narrow one becomes a float32 first. nan_bits:
        float32 NaN of such a value. source: name of the value to read.
        """
        self.out, self.running, self.nan_bits = out, running, nan_bits
        self._source = source
        super().__init__({source: RunningLayout(running)}, {"result": RunningLayout(out)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        source, result = getattr(self.i, self._source), self.o.result
        bits, flags = source.c, source.flags
        if self.running != FLOAT32:
            bits = _widened(m, bits, self.running, self.nan_bits)
        if self.out == FLOAT32:
            m.d.comb += [result.c.eq(bits), result.flags.eq(flags)]
            return m
        narrow, raised = rounded(m, bits, self.out)
        m.d.comb += [
            result.c.eq(narrow),
            result.flags.eq(flags),
        ]
        m.d.comb += [result.flags[name].eq(flags[name] | flag) for name, flag in raised.items()]
        return m


def rounded(m: Module, bits: Value, out: FloatFormat) -> tuple[Value, Mapping[str, Value]]:
    """(RNE of float32 `bits` to a narrower `out`, flags that it raises).

    A NaN keeps its leading fraction bits.
    """
    wide = unpack_float(m, bits, "wide")
    top = 2**out.exponent_bits - 1
    # A guard bit and a sticky bit below; a value below the smallest normal moves right.
    shift = submodule(m, "shift", ShiftRight(FLOAT32_FRACTION + 3, EXPONENT_BITS))
    below = Signal(signed(EXPONENT_BITS), name="below")
    value = Signal(FLOAT32_FRACTION + 3, name="value")
    m.d.comb += [
        below.eq(out.emin - wide.exponent),
        shift.value.eq(Cat(Const(0, 2), wide.significand)),
        shift.amount.eq(Mux(below > 0, below, 0)),
        value.eq(shift.result | shift.sticky),
    ]
    cut = FLOAT32_FRACTION + 2 - out.mantissa_bits
    truncated, discarded = value[cut:-1], value[:cut]
    field = Signal(EXPONENT_BITS, name="field")
    total = Signal(out.mantissa_bits + EXPONENT_BITS, name="rounded")
    up = rounds_up(truncated, discarded)
    overflow = total[out.mantissa_bits :] >= top
    m.d.comb += [
        field.eq(Mux(value[-1], Mux(below > 0, 1, 1 - below), 0)),
        total.eq(Cat(truncated, field) + up),
    ]
    special = bits[FLOAT32_FRACTION:31].all()
    fraction = bits[FLOAT32_FRACTION - out.mantissa_bits : FLOAT32_FRACTION]
    infinity = Const(top << out.mantissa_bits, out.bits - 1)
    magnitude = Mux(overflow, infinity, total[: out.bits - 1])
    magnitude = Mux(special, Cat(fraction, Const(top, out.exponent_bits)), magnitude)
    inexact = discarded.any() | overflow
    tiny = discarded.any() & (total[out.mantissa_bits :] == 0)
    raised = {"overflow": overflow, "underflow": tiny, "inexact": inexact}
    return (
        Cat(magnitude, bits[31] & magnitude.any()),
        {name: ~special & flag for name, flag in raised.items()},
    )


def _widened(m: Module, bits: Value, fmt: FloatFormat, nan_bits: int) -> Value:
    """`bits` in a narrower `fmt` as a float32."""
    special = special_of_float(m, bits, "narrow_special", fmt)
    zeros = Const(0, FLOAT32_FRACTION - fmt.mantissa_bits)
    if fmt.emin == FLOAT32.emin:
        wide = Cat(zeros, bits)
    else:
        wide = Cat(zeros, *_normalized(m, bits, fmt))
        infinity = Const(FLOAT32_ONES << FLOAT32_FRACTION, 31)
        wide = Mux(special.pos_inf | special.neg_inf, Cat(infinity, bits[-1]), wide)
    return Mux(special.nan, Const(nan_bits, 32), wide)


def _normalized(m: Module, bits: Value, fmt: FloatFormat) -> tuple[Value, Value, Value]:
    """(fraction, float32 exponent field, sign) of a finite number that is normal in float32."""
    narrow = unpack_float(m, bits, "narrow", fmt)
    normalizer = submodule(m, "normalizer", Normalizer(fmt.significand_bits))
    field = Signal(FLOAT32.exponent_bits, name="wide_field")
    biased = narrow.exponent + FLOAT32_BIAS - normalizer.amount
    m.d.comb += [
        normalizer.value.eq(narrow.significand),
        field.eq(Mux(normalizer.result[-1], biased, 0)),
    ]
    return normalizer.result[:-1], field, narrow.sign


class Narrow(Section):
    """RNE of c, with its flags; a NaN stays a NaN.

    narrow_c: c in the running value's format and flags.
    """

    def __init__(self, widths: Widths) -> None:
        self.fmt = widths.running
        super().__init__({"c": 32}, {"narrow_c": RunningLayout(self.fmt)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        narrow, raised = rounded(m, self.i.c, self.fmt)
        c = self.i.c
        nan = c[FLOAT32.mantissa_bits : 31].all() & c[: FLOAT32.mantissa_bits].any()
        quiet = Mux(nan, 1 << (self.fmt.mantissa_bits - 1), 0)
        m.d.comb += self.o.narrow_c.c.eq(narrow | quiet)
        for name, flag in raised.items():
            m.d.comb += self.o.narrow_c.flags[name].eq(flag)
        return m


def c_value(widths: Widths) -> dict[str, ShapeLike]:
    """Input of a section that starts from the caller's c: `c`, or `narrow_c` after section
    `narrow`.
    """
    if widths.running == FLOAT32:
        return {"c": 32}
    return {"narrow_c": RunningLayout(widths.running)}


def first_c(section: Section) -> Value:
    """Bits of c at the start of a dot product."""
    return section.i.narrow_c.c if "narrow_c" in section.reads else section.i.c


def carried(section: Section, name: str) -> Value:
    """A flag so far: from earlier blocks or, with `first`, from the rounding of c."""
    kept = ~section.i.first & section.i.running.flags[name]
    if "narrow_c" in section.reads:
        kept |= section.i.first & section.i.narrow_c.flags[name]
    return kept
