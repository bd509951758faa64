"""A ring of steps in a memory, which can give a panel again."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..hierarchy import submodule


class StepMemory(wiring.Component):
    """`capacity` words with one write port and one read port, which has an output register.

    A module of its own, so that a compiled memory can replace it.

    Ports:

    - `write` in, 1 bit: write at this clock edge
    - `write_address` in, bits of an index below `capacity`
    - `write_data` in, `word_bits`
    - `read` in, 1 bit: read at this clock edge
    - `read_address` in, bits of an index below `capacity`
    - `read_data` out, `word_bits`: the word, after the clock edge at which `read` was set
    """

    clocked = True

    def __init__(self, word_bits: int, capacity: int) -> None:
        self.word_bits, self.capacity = word_bits, capacity
        super().__init__(
            {
                "write": In(1),
                "write_address": In(range(capacity)),
                "write_data": In(word_bits),
                "read": In(1),
                "read_address": In(range(capacity)),
                "read_data": Out(word_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=self.word_bits, depth=self.capacity, init=[]
        )
        write = words.write_port()
        read = words.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            read.en.eq(self.read),
            read.addr.eq(self.read_address),
            self.read_data.eq(read.data),
        ]
        return m


class StepBuffer(wiring.Component):
    """First-in-first-out buffer of `capacity` (a power of two) words that can give words
    repeatedly.

    ::

                 written                     oldest    fetched
        i -> [ ... | free | words never read | words kept | ] -> register of the memory -> o

    A word can be fetched one cycle after it was taken and is at `o` one cycle later.

    Ports:

    - `i` in, stream of `word_bits`: words
    - `o` out, stream of `word_bits`: words
    - `fetch` out, 1 bit: a word leaves the memory for `o` at this clock edge
    - `keep` in, 1 bit: this word stays, to be read again
    - `rewind` in, 1 bit: the next word to fetch is the oldest that stayed; with `keep`
    """

    clocked = True

    def __init__(self, word_bits: int, capacity: int) -> None:
        self.word_bits, self.capacity = word_bits, capacity
        super().__init__(
            {
                "i": In(stream.Signature(word_bits)),
                "o": Out(stream.Signature(word_bits)),
                "fetch": Out(1),
                "keep": In(1),
                "rewind": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        steps = submodule(m, "steps", StepMemory(self.word_bits, self.capacity))
        # One bit more than an address: a full ring is told from an empty one.
        written = Signal(range(2 * self.capacity))
        oldest = Signal.like(written)
        fetched = Signal.like(written)
        full = Signal()
        takes = Signal()
        m.d.comb += [
            full.eq((written ^ oldest) == self.capacity),
            self.i.ready.eq(~full),
            steps.write_address.eq(written[:-1]),
            steps.write_data.eq(self.i.payload),
            takes.eq(self.i.valid & ~full),
            steps.write.eq(takes),
            self.fetch.eq((fetched != written) & (self.o.ready | ~self.o.valid)),
            steps.read_address.eq(fetched[:-1]),
            steps.read.eq(self.fetch),
            self.o.payload.eq(steps.read_data),
        ]
        with m.If(takes):
            m.d.sync += written.eq(written + 1)
        with m.If(self.fetch):
            m.d.sync += fetched.eq(Mux(self.rewind, oldest, fetched + 1))
            with m.If(~self.keep):
                m.d.sync += oldest.eq(oldest + 1)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += self.o.valid.eq(self.fetch)
        return m


def tile_buffer(m: Module, tiles: Any, capacity: int, idle: Value) -> Any:
    """The stream `tiles` through a buffer of this size; unchanged for size 0.

    Tiles that take turns begin together and end together. Their initial values are wanted, and
    their results come, cycle after cycle; both travel row by row while other steps are multiplied.
    """
    if not capacity:
        return tiles
    buffer = StepBuffer(len(tiles.payload), capacity)
    submodule(m, "tiles", buffer, reset=idle)
    wiring.connect(m, tiles, buffer.i)
    return buffer.o
