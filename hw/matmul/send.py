"""The sending end of the results' stream."""

from math import gcd

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import submodule
from .axi import AxiStream
from .gearbox import Gearbox


class Sender(wiring.Component):
    """Sends words of `word_bytes` bytes as one packet a job, in beats of `beat_bytes`.

    ::

        i (word_bytes) -> Gearbox -> register -> m (beat_bytes)

    When `running` falls before the packet has ended, the beat on offer stays until it is taken, and
    one with TLAST and no bytes ends the packet.

    Ports:

    - `i` in, stream of `word_bytes` bytes: words; `i.ready` depends on registers alone
    - `ends` in, 1 bit: the word at `i` is the packet's last
    - `launch` in, 1 bit: a packet comes
    - `running` in, 1 bit: its words come
    - `m` out, AXI4-Stream of `beat_bytes`: the packet, from registers
    - `ended` out, 1 bit: the beat with TLAST is taken at this clock edge
    - `closed` out, 1 bit: no packet is under way
    """

    clocked = True

    def __init__(self, word_bytes: int, beat_bytes: int) -> None:
        self.word_bytes, self.beat_bytes = word_bytes, beat_bytes
        super().__init__(
            {
                "i": In(stream.Signature(8 * word_bytes)),
                "ends": In(1),
                "launch": In(1),
                "running": In(1),
                "m": Out(AxiStream(beat_bytes)),
                "ended": Out(1),
                "closed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        gearbox = Gearbox(self.word_bytes, self.beat_bytes)
        submodule(m, "gearbox", gearbox, reset=~self.running)
        unit = gcd(self.word_bytes, self.beat_bytes)
        units, beat = self.beat_bytes // unit, gearbox.o.payload
        free = Signal()
        under_way = Signal()
        m.d.comb += [
            self.closed.eq(~under_way),
            gearbox.i.payload.data.eq(self.i.payload),
            gearbox.i.payload.units.eq(self.word_bytes // unit),
            gearbox.i.payload.last.eq(self.ends),
            gearbox.i.valid.eq(self.i.valid),
            self.i.ready.eq(gearbox.i.ready),
            free.eq(self.m.tready | ~self.m.tvalid),
            gearbox.o.ready.eq(free),
            self.ended.eq(self.m.tvalid & self.m.tready & self.m.tlast),
        ]
        with m.If(self.ended):
            m.d.sync += under_way.eq(0)
        with m.If(self.launch):
            m.d.sync += under_way.eq(1)
        with m.If(free & self.running):
            m.d.sync += [
                self.m.tvalid.eq(gearbox.o.valid),
                self.m.tdata.eq(beat.data),
                self.m.tkeep.eq(Cat((beat.units > u).replicate(unit) for u in range(units))),
                self.m.tlast.eq(beat.last),
            ]
        with m.Elif(free):
            m.d.sync += [
                self.m.tvalid.eq(under_way & ~self.ended),
                self.m.tkeep.eq(0),
                self.m.tlast.eq(under_way & ~self.ended),
            ]
        return m
