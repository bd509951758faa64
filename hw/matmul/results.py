"""The way of the results from the array to their stream."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import submodule
from .axi import AxiStream
from .loop import JobLayout, Loop
from .send import Sender
from .step_buffer import tile_buffer


class Drain(wiring.Component):
    """A tile of `rows` rows, taken at once and given row by row, row 0 lowest.

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
            m.d.sync += [left.eq(left - 1), tile.eq(tile >> self.row_bits)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(self.rows), tile.eq(self.i.payload)]
        return m


class Results(wiring.Component):
    """Sends the tiles of a job as one packet, in rows of `row_bytes` bytes.

    buffered: tiles that are held, beside the one under way.

    Ports:

    - `job` in, `JobLayout`: the job
    - `i` in, stream of `rows` x `row_bytes` bytes: tiles
    - `m` out, AXI4-Stream of `beat_bytes`: the packet of C
    - `ended` out, 1 bit: as of `Sender`
    - `closed` out, 1 bit: as of `Sender`
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
