"""The micro-exponent of two elements that were aligned as if it were one."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.quantize import PAIR, QuantizeConfig
from .aligned import AlignedLayout


class MicroExponent(wiring.Component):
    """Halves two elements, or leaves them on the finer of two grids; combinational.

    An integer that reaches the block's own grid has a field of one on the grid that is half as
    wide. Neither of the two does where their largest magnitude has a smaller exponent than the
    block's scale (NaN and infinities count as zero): then the micro-exponent is one.

    Ports:

    - `i` in, `AlignedLayout` for both: aligned one place below the block's scale
    - `micro` out, 1 bit: the code of the micro-exponent
    - `o` out, `AlignedLayout` for both: under scale and micro-exponent
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        pair = data.ArrayLayout(AlignedLayout(config), PAIR)
        super().__init__({"i": In(pair), "micro": Out(1), "o": Out(pair)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reaches = [one.field.any() & ~one.nan & ~one.infinite for one in self.i]
        m.d.comb += self.micro.eq(~Cat(reaches).any())
        for index in range(PAIR):
            one, out = self.i[index], self.o[index]
            m.d.comb += out.eq(one)
            with m.If(~self.micro):
                self._halve(m, one, out)
        return m

    def _halve(self, m: Module, one: data.View, out: data.View) -> None:
        """A normal element takes it off its field, others move right."""
        digits = Cat(one["discarded"], one["significand"])
        halved = Signal(len(digits))
        m.d.comb += halved.eq(digits >> 1)
        if self.config.rounding == "nearest_even":  # the last digit is sticky
            m.d.comb += halved[0].eq(digits[:2].any())
        discarded = len(Value.cast(one["discarded"]))
        with m.If(Value.cast(one["field"]).any()):
            m.d.comb += out["field"].eq(one["field"] - 1)
        with m.Else():
            m.d.comb += [
                Value.cast(out["discarded"]).eq(halved[:discarded]),
                out["significand"].eq(halved[discarded:]),
            ]
