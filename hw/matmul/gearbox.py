"""Width conversion of a stream of bytes, any width to any other."""

from math import gcd

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for


class WordLayout(data.StructLayout):
    """A word of a packet; of its `last` word only the lowest `units` units are there."""

    def __init__(self, word_bytes: int, units: int) -> None:
        super().__init__({"data": 8 * word_bytes, "units": bits_for(units), "last": 1})


class Gearbox(wiring.Component):
    """Words of `in_bytes` bytes to words of `out_bytes` bytes, packet by packet, without gaps.

    ::

        i: WordLayout(in_bytes)      shifted left by `level` units
                 |                        v
           +-----------------------------------------------+
           | (in + 2 out - 1) units, the lowest the oldest | level: units held
           +-----------------------------------------------+
                 | the lowest `out` units, shifted out
        o: WordLayout(out_bytes)

    A unit is the greatest common divisor of both widths. As many words leave as the narrower side
    allows: with room for two words of the output a new one of the input is taken while another
    leaves. The last word of a packet may be short (`units`, 0 too); the next packet is taken when
    it has left. `i.ready` and `o.valid` depend on registers alone.

    Ports:

    - `i` in, stream of `WordLayout` of `in_bytes`: words of packets
    - `o` out, stream of `WordLayout` of `out_bytes`: the same packets
    """

    clocked = True

    def __init__(self, in_bytes: int, out_bytes: int) -> None:
        self.in_bytes, self.out_bytes = in_bytes, out_bytes
        self._unit = gcd(in_bytes, out_bytes)
        self._in, self._out = in_bytes // self._unit, out_bytes // self._unit
        super().__init__(
            {
                "i": In(stream.Signature(WordLayout(in_bytes, self._in))),
                "o": Out(stream.Signature(WordLayout(out_bytes, self._out))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        capacity = self._in + 2 * self._out - 1
        held = Signal(capacity * self._unit * 8, reset_less=True)
        level = Signal(range(capacity + 1))
        ending = Signal()  # the packet's last word is in
        word, out = self.i.payload, self.o.payload
        m.d.comb += [
            self.i.ready.eq(~ending & (level < 2 * self._out)),
            self.o.valid.eq(ending | (level >= self._out)),
            out.data.eq(held),
            out.last.eq(ending & (level <= self._out)),
            out.units.eq(Mux(out.last, level, self._out)),
        ]
        gives = Signal()
        kept = Signal.like(held)
        left = Signal.like(level)
        m.d.comb += [gives.eq(self.o.valid & self.o.ready), kept.eq(held), left.eq(level)]
        with m.If(gives):
            m.d.comb += [kept.eq(held[len(out.data) :]), left.eq(level - out.units)]
        with m.If((level == 0) | (gives & (left == 0))):
            m.d.comb += kept.eq(0)  # what comes is or-ed in
        m.d.sync += [held.eq(kept), level.eq(left)]
        with m.If(gives & out.last):
            m.d.sync += ending.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                held.eq(kept | self._placed(m, word.data, left, len(held))),
                level.eq(left + word.units),
                ending.eq(word.last),
            ]
        return m

    def _placed(self, m: Module, word: Value, units: Value, width: int) -> Value:
        """`word` shifted left by so many units: a logarithmic shifter."""
        for place, bit in enumerate(units):
            distance = Const(0, 8 * self._unit << place)
            shifted = Signal(min(width, len(word) + len(distance)), name=f"placed{place}")
            m.d.comb += shifted.eq(Mux(bit, Cat(distance, word)[: len(shifted)], word))
            word = shifted
        return word
