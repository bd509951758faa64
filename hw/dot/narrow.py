"""Section `narrow`, and what others read of it: the caller's c as a running value of 16 bits."""

from amaranth.hdl import Module, Mux, ShapeLike, Value

from ...model.formats import FLOAT32
from ...model.pipeline.widths import Widths
from ..arithmetic.floats import RunningLayout
from ..pipeline import Section
from .convert import rounded


class Narrow(Section):
    """RNE of c, with its flags; a NaN stays one, whatever its bits."""

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
    """What a section reads that starts from the caller's c: `c`, or `narrow_c` where it is that."""
    if widths.running == FLOAT32:
        return {"c": 32}
    return {"narrow_c": RunningLayout(widths.running)}


def first_c(section: Section) -> Value:
    """Bits of the c that a dot product starts from."""
    return section.i.narrow_c.c if "narrow_c" in section.reads else section.i.c


def carried(section: Section, name: str) -> Value:
    """A flag so far: that of the blocks before, or with `first` of the rounding of c."""
    kept = ~section.i.first & section.i.running.flags[name]
    if "narrow_c" in section.reads:
        kept |= section.i.first & section.i.narrow_c.flags[name]
    return kept
