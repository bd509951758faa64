"""AXI interfaces: signatures, conversion of a stream's width, and the receiver of operands."""

from math import gcd
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ...model.units.matmul.registers import ADDRESS_BITS, STREAM_ERRORS
from ..hierarchy import submodule
from .control import Loop

WORD_BITS = 32
OKAY, SLVERR = Const(0b00, 2), Const(0b10, 2)


class AxiStream(wiring.Signature):
    """AXI4-Stream with `beat_bytes` bytes per beat."""

    def __init__(self, beat_bytes: int) -> None:
        super().__init__(
            {
                "tdata": Out(8 * beat_bytes),
                "tkeep": Out(beat_bytes),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )


class AxiLite(wiring.Signature):
    """AXI4-Lite with 32-bit words, from the manager's side. The unit ignores the
    protection bits.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(ADDRESS_BITS),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(WORD_BITS),
                "wstrb": Out(WORD_BITS // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(ADDRESS_BITS),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(WORD_BITS),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class WordLayout(data.StructLayout):
    """A word of a packet. The `last` word has only its lowest `units` units."""

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

    A unit is the greatest common divisor of both widths. The narrower side sets the pace: with room
    for two words of the output, a new input word is taken while another word leaves. The last word
    of a packet may be short (`units`, also 0); the next packet is taken after it has left.
    `i.ready` and `o.valid` depend on registers only.

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
            m.d.comb += kept.eq(0)  # new units are or-ed in
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
        """`word` shifted left by a number of units: a logarithmic shifter."""
        for place, bit in enumerate(units):
            distance = Const(0, 8 * self._unit << place)
            shifted = Signal(min(width, len(word) + len(distance)), name=f"placed{place}")
            m.d.comb += shifted.eq(Mux(bit, Cat(distance, word)[: len(shifted)], word))
            word = shifted
        return word


class ErrorLayout(data.StructLayout):
    """Errors of a packet."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(STREAM_ERRORS, 1))


class Receiver(wiring.Component):
    """Takes one packet per job and gives its words of `word_bytes` bytes.

    ::

        s (beat_bytes) -> TKEEP check -> Gearbox (none when both are equally wide) -> o

    Its content is dropped when `running` falls. `s.tready` depends on registers, `running` and
    `o.ready` only.

    Ports:

    - `s` in, AXI4-Stream of `beat_bytes`: packets
    - `o` out, stream of `word_bytes` bytes: words
    - `launch` in, 1 bit: a packet is expected from now on
    - `running` in, 1 bit: words are wanted; otherwise beats are discarded
    - `ends` in, 1 bit: the word at `o` is to be the packet's last
    - `errors` out, `ErrorLayout`: errors of the packet, while running
    - `closed` out, 1 bit: TLAST came, or no packet is expected
    - `discarded` out, bits enough for `beat_bytes`: bytes discarded in this cycle
    """

    clocked = True

    def __init__(self, beat_bytes: int, word_bytes: int) -> None:
        self.beat_bytes, self.word_bytes = beat_bytes, word_bytes
        super().__init__(
            {
                "s": In(AxiStream(beat_bytes)),
                "o": Out(stream.Signature(8 * word_bytes)),
                "launch": In(1),
                "running": In(1),
                "ends": In(1),
                "errors": Out(ErrorLayout()),
                "closed": Out(1),
                "discarded": Out(bits_for(beat_bytes)),
            }
        )

    def join(self, m: Module, operand: Any, coming: Loop) -> None:
        """Connect a component with the ports job, s, errors, closed and discarded.

        `coming` counts the words of the component's packet.
        """
        job = operand.job
        wiring.connect(m, wiring.flipped(operand.s), self.s)
        m.d.comb += [
            self.launch.eq(job.launch),
            self.running.eq(job.running),
            self.ends.eq(coming.ends),
            coming.tiles.eq(job.tiles),
            coming.advance.eq(self.o.valid & self.o.ready),
            operand.errors.eq(self.errors),
            operand.closed.eq(self.closed),
            operand.discarded.eq(self.discarded),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        expected = Signal()
        takes = Signal()
        keep_is_right = Signal()
        surplus = Signal()  # the packet ends inside a unit
        beats, words, word_units, begun = self._convert(m)
        m.d.comb += [
            beats.payload.data.eq(self.s.tdata),
            beats.payload.last.eq(self.s.tlast),
            beats.valid.eq(self.s.tvalid & expected & self.running),
            self.s.tready.eq(expected & (beats.ready | ~self.running)),
            takes.eq(self.s.tvalid & self.s.tready),
            self.closed.eq(~expected),
            self.o.payload.eq(words.payload.data),
            self.o.valid.eq(words.valid),
            words.ready.eq(self.o.ready),
        ]
        with m.If(takes & self.s.tlast):
            m.d.sync += [expected.eq(0), surplus.eq(beats.payload.units != begun)]
        with m.If(self.launch):
            m.d.sync += [expected.eq(1), surplus.eq(0)]

        gap = Const(0)  # one byte has none, and a wire needs a bit
        if self.beat_bytes > 1:
            gap = (self.s.tkeep[1:] & ~self.s.tkeep[:-1]).any()
        whole = words.payload.units == word_units
        m.d.comb += [
            keep_is_right.eq(self.s.tkeep.all() | (self.s.tlast & self.s.tkeep[0] & ~gap)),
            self.errors.keep.eq(beats.valid & beats.ready & ~keep_is_right),
            self.errors.early_last.eq(words.valid & words.payload.last & ~(self.ends & whole)),
            self.errors.late_last.eq(
                words.valid & self.ends & (~words.payload.last | (whole & surplus))
            ),
        ]
        with m.If(takes & ~self.running):
            m.d.comb += self.discarded.eq(count_ones(list(self.s.tkeep)))
        return m

    def _convert(self, m: Module) -> tuple[stream.Interface, stream.Interface, int, Value]:
        """(beats in, words out, units of a whole word, units that a beat begins)."""
        unit = gcd(self.beat_bytes, self.word_bytes)
        if self.beat_bytes == self.word_bytes:
            beats = words = stream.Signature(WordLayout(self.word_bytes, 1)).create()
        else:
            gearbox = Gearbox(self.beat_bytes, self.word_bytes)
            submodule(m, "gearbox", gearbox, reset=~self.running)
            beats, words = gearbox.i, gearbox.o
        # A unit is there when its highest byte is.
        m.d.comb += beats.payload.units.eq(count_ones(list(self.s.tkeep)[unit - 1 :: unit]))
        begun = count_ones(list(self.s.tkeep)[::unit])
        return beats, words, self.word_bytes // unit, begun


def count_ones(bits: list[Value]) -> Value:
    """Number of bits that are set, by a tree of adders."""
    if len(bits) == 1:
        return bits[0]
    half = len(bits) // 2
    return count_ones(bits[:half]) + count_ones(bits[half:])
