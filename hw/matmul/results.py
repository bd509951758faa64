"""Results from the array to their stream."""

from math import gcd

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import submodule
from .axi import AxiStream, Gearbox
from .control import JobLayout, Loop
from .step_buffer import tile_buffer


class Sender(wiring.Component):
    """Sends words of `word_bytes` bytes as one packet per job, in beats of `beat_bytes`.

    ::

        i (word_bytes) -> Gearbox -> register -> m (beat_bytes)

    If `running` falls before the packet has ended, the offered beat stays until it is taken, and a
    beat with TLAST and no bytes ends the packet.

    Ports:

    - `i` in, stream of `word_bytes` bytes: words; `i.ready` depends on registers only
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


class Drain(wiring.Component):
    """Takes a tile of `rows` rows at once and gives it row by row, row 0 lowest.

    Ports:

    - `i` in, stream of `rows` x `row_bits`: tiles; the next is taken with the last row
    - `o` out, stream of `row_bits`: rows
    """

    clocked = True

    def __init__(self, rows: int, row_bits: int) -> None:
        self.rows, self.row_bits = rows, row_bits
        super().__init__(
            {"i": In(stream.Signature(rows * row_bits)), "o": Out(stream.Signature(row_bits))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tile = Signal(self.rows * self.row_bits, reset_less=True)
        left = Signal(range(self.rows + 1))
        m.d.comb += [
            self.i.ready.eq((left == 0) | ((left == 1) & self.o.ready)),
            self.o.valid.eq(left != 0),
            self.o.payload.eq(tile),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [left.eq(left - 1), tile.eq(tile[self.row_bits :])]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(self.rows), tile.eq(self.i.payload)]
        return m


class Results(wiring.Component):
    """Sends the tiles of a job as one packet, in rows of `row_bytes` bytes.

    buffered: tiles that it holds, besides the one under way.

    Ports:

    - `job` in, `JobLayout`: the job
    - `i` in, stream of `rows` x `row_bytes` bytes: tiles
    - `m` out, AXI4-Stream of `beat_bytes`: the packet of C
    - `ended` out, 1 bit: see `Sender`
    - `closed` out, 1 bit: see `Sender`
    """

    clocked = True

    def __init__(self, rows: int, row_bytes: int, beat_bytes: int, buffered: int) -> None:
        self.rows, self.row_bytes, self.beat_bytes = rows, row_bytes, beat_bytes
        self.buffered = buffered
        super().__init__(
            {
                "job": In(JobLayout()),
                "i": In(stream.Signature(8 * row_bytes * rows)),
                "m": Out(AxiStream(beat_bytes)),
                "ended": Out(1),
                "closed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job, idle = self.job, ~self.job.running
        drain = submodule(m, "drain", Drain(self.rows, 8 * self.row_bytes), reset=idle)
        going = submodule(m, "going", Loop(), reset=idle)
        sender = submodule(m, "sender", Sender(self.row_bytes, self.beat_bytes))
        wiring.connect(m, tile_buffer(m, wiring.flipped(self.i), self.buffered, idle), drain.i)
        wiring.connect(m, drain.o, sender.i)
        wiring.connect(m, sender.m, wiring.flipped(self.m))
        m.d.comb += [
            going.tiles.eq(job.tiles),
            going.tiles.k_blocks.eq(self.rows),
            going.advance.eq(sender.i.valid & sender.i.ready),
            sender.launch.eq(job.launch),
            sender.running.eq(job.running),
            sender.ends.eq(going.ends),
            self.ended.eq(sender.ended),
            self.closed.eq(sender.closed),
        ]
        return m
