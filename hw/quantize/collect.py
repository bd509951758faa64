"""A block that comes in several beats: kept until the largest magnitude of all of it is known."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data

from ...model.units.quantize import QuantizeConfig
from ..pipeline import ClockedSection
from .largest import beat_values, largest_values
from .scale import choice_values


class Collector(ClockedSection):
    """A ring of as many beats as a block has, and a register of what is known of a block.

    A beat leaves with the largest magnitude, the specials and the choices of its whole block, the
    last one with `last`. A beat is taken in every cycle while beats leave: the next block's take
    the places that become free.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        self.config = config
        self.known: dict[str, ShapeLike] = {**largest_values(config, 1), **choice_values(config)}
        values = {**beat_values(config), **self.known}
        super().__init__(values, {**values, "last": 1})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        beat, out = self.i.payload, self.o.payload
        stored = data.StructLayout(beat_values(config))
        places = [Signal(stored, name=f"ring{i}", reset_less=True) for i in range(config.beats)]
        write = Signal(range(config.beats))
        read = Signal(range(config.beats))
        count = Signal(range(config.beats + 1))  # beats in the ring
        left = Signal(range(config.beats + 1))  # of them, those of a complete block
        takes = Signal()
        gives = Signal()
        completes = Signal()
        m.d.comb += [
            self.o.valid.eq(left.any()),
            self.i.ready.eq((count != config.beats) | (self.o.valid & self.o.ready)),
            takes.eq(self.i.valid & self.i.ready),
            gives.eq(self.o.valid & self.o.ready),
            completes.eq(takes & (write == config.beats - 1)),
        ]
        # A block completes when all others have left, or the last of them leaves now.
        m.d.sync += [
            count.eq(count + takes - gives),
            left.eq(Mux(completes, config.beats, left - gives)),
        ]
        with m.If(takes):
            m.d.sync += write.eq(write + 1)  # wraps: beats are a power of two
        with m.If(gives):
            m.d.sync += read.eq(read + 1)
        self._summarize(m, takes, completes, write)
        for index, place in enumerate(places):
            with m.If(takes & (write == index)):
                m.d.sync += [place[name].eq(beat[name]) for name in beat_values(config)]
        leaves = Signal(stored, name="leaves")
        m.d.comb += Value.cast(leaves).eq(_pick([Value.cast(place) for place in places], read))
        for name in beat_values(config):
            m.d.comb += out[name].eq(leaves[name])
        m.d.comb += out.last.eq(left == 1)
        return m

    def _summarize(self, m: Module, takes: Signal, completes: Signal, write: Signal) -> None:
        """What is known of the block that comes in, and of the complete one."""
        beat, out = self.i.payload, self.o.payload
        largest, nan, infinite = (beat[name] for name in ("largest", "nan", "infinite"))
        running = Signal.like(largest[0], name="running_largest", reset_less=True)
        running_nan = Signal(reset_less=True)
        running_infinite = Signal(reset_less=True)
        first = write == 0
        before = Mux(first, 0, running)
        now = Mux(before > largest[0], before, largest[0])
        now_nan = nan | (running_nan & ~first)
        now_infinite = infinite | (running_infinite & ~first)
        with m.If(takes):
            m.d.sync += [
                running.eq(now),
                running_nan.eq(now_nan),
                running_infinite.eq(now_infinite),
            ]
        known = Signal(data.StructLayout(self.known), name="block", reset_less=True)
        with m.If(completes):
            m.d.sync += [
                known.largest[0].eq(now),
                known.nan.eq(now_nan),
                known.infinite.eq(now_infinite),
                *(known[name].eq(beat[name]) for name in choice_values(self.config)),
            ]
        m.d.comb += [out[name].eq(known[name]) for name in self.known]


def _pick(values: list[Value], index: Value) -> Value:
    """`values[index]`: a tree of two-way choices; Yosys writes wider ones as overlapping cases."""
    for bit in index:
        values = [Mux(bit, odd, even) for even, odd in zip(values[::2], values[1::2], strict=True)]
    return values[0]
