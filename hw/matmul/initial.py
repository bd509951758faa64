"""The way of the initial values of C from their stream to the array."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..hierarchy import submodule
from .axi import AxiStream
from .loop import JobLayout, Loop
from .receive import ErrorLayout, Receiver
from .step_buffer import tile_buffer


class Collect(wiring.Component):
    """`rows` rows, taken one by one and given at once, the first one lowest.

    Ports:

    - `i` in, stream of `row_bits`: rows; `i.ready` depends on registers alone
    - `o` out, stream of `rows` x `row_bits`: tiles
    """

    clocked = True

    def __init__(self, rows: int, row_bits: int) -> None:
        self.rows, self.row_bits = rows, row_bits
        super().__init__(
            {"i": In(stream.Signature(row_bits)), "o": Out(stream.Signature(rows * row_bits))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tile = Signal(self.rows * self.row_bits, reset_less=True)
        count = Signal(range(self.rows + 1))
        m.d.comb += [
            self.o.valid.eq(count == self.rows),
            self.i.ready.eq(~self.o.valid),
            self.o.payload.eq(tile),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [count.eq(count + 1), tile.eq(Cat(tile, self.i.payload)[self.row_bits :])]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += count.eq(0)
        return m


class Initial(wiring.Component):
    """Receives the initial values tile by tile, in rows of `row_bytes` bytes.

    buffered: whole tiles of them that are held, beside the next one.

    Ports:

    - `job` in, `JobLayout`: the job
    - `s` in, AXI4-Stream of `beat_bytes`: the packet of D
    - `o` out, stream of `rows` x `row_bytes` bytes: tiles
    - `errors` out, `ErrorLayout`: as of `Receiver`
    - `closed` out, 1 bit: as of `Receiver`
    - `discarded` out, bits enough for `beat_bytes`: as of `Receiver`
    """

    clocked = True

    def __init__(self, beat_bytes: int, row_bytes: int, rows: int, buffered: int) -> None:
        self.beat_bytes, self.row_bytes, self.rows = beat_bytes, row_bytes, rows
        self.buffered = buffered
        super().__init__(
            {
                "job": In(JobLayout()),
                "s": In(AxiStream(beat_bytes)),
                "o": Out(stream.Signature(8 * row_bytes * rows)),
                "errors": Out(ErrorLayout()),
                "closed": Out(1),
                "discarded": Out(bits_for(beat_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        idle = ~self.job.running
        receiver = submodule(m, "receiver", Receiver(self.beat_bytes, self.row_bytes))
        collect = submodule(m, "collect", Collect(self.rows, 8 * self.row_bytes), reset=idle)
        coming = submodule(m, "coming", Loop(), reset=idle)
        receiver.join(m, self, coming)
        wiring.connect(m, receiver.o, collect.i)
        tiles = tile_buffer(m, collect.o, self.buffered, idle)
        wiring.connect(m, tiles, wiring.flipped(self.o))
        m.d.comb += coming.tiles.k_blocks.eq(self.rows)
        return m
