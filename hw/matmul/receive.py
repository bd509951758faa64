"""The receiving end of an operand stream: packets checked, beats to words, the rest discarded."""

from math import gcd
from typing import Any

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ...model.units.matmul.registers import STREAM_ERRORS
from ..hierarchy import submodule
from .axi import AxiStream
from .gearbox import Gearbox, WordLayout
from .loop import Loop


class ErrorLayout(data.StructLayout):
    """What is wrong with a packet."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(STREAM_ERRORS, 1))


class Receiver(wiring.Component):
    """Takes one packet for each job and gives its words of `word_bytes` bytes.

    ::

        s (beat_bytes) -> TKEEP check -> Gearbox (none when both are equally wide) -> o

    What it holds is gone when `running` falls. `s.tready` depends on registers, `running` and
    `o.ready` alone.

    Ports:

    - `s` in, AXI4-Stream of `beat_bytes`: packets
    - `o` out, stream of `word_bytes` bytes: words
    - `launch` in, 1 bit: a packet is expected from now on
    - `running` in, 1 bit: words are wanted, else beats are discarded
    - `ends` in, 1 bit: the word at `o` is to be the packet's last
    - `errors` out, `ErrorLayout`: what is wrong with the packet, while running
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
        """Join it to a component with the ports job, s, errors, closed and discarded.

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

        gap = Const(0)  # of one byte there is none, and no wire of no bits
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
    """How many bits are set, by a tree of adders."""
    if len(bits) == 1:
        return bits[0]
    half = len(bits) // 2
    return count_ones(bits[:half]) + count_ones(bits[half:])
