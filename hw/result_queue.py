"""Results of a pipeline that never stops: each has a place reserved before it sets out."""

from amaranth.hdl import Const, Module, Mux, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class ResultQueue(wiring.Component):
    """First-in-first-out queue of `capacity` results; an empty queue passes a result at once.

    Ports:

    - `reserve` in, 1 bit: a result has set out
    - `room` out, 1 bit: another result may set out, at the latest in the next cycle
    - `arrives` in, 1 bit: a result that set out is here, and cannot wait
    - `result` in, `shape`: this result
    - `o` out, stream of `shape`: results
    """

    clocked = True

    def __init__(self, shape: ShapeLike, capacity: int) -> None:
        self.capacity = capacity
        super().__init__(
            {
                "reserve": In(1),
                "room": Out(1, init=1),
                "arrives": In(1),
                "result": In(shape),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        last = self.capacity - 1
        words = [
            Signal(self.result.shape(), name=f"word{place}", reset_less=True)
            for place in range(self.capacity)
        ]
        places, counts = range(self.capacity), range(self.capacity + 1)
        newest, oldest = Signal(places), Signal(places, name="oldest")
        stored, promised = Signal(counts), Signal(counts, name="promised")
        takes, leaves, passes = Signal(), Signal(), Signal(name="passes")
        empty = Signal(init=1)
        waiting = Signal(self.result.shape())
        with m.Switch(oldest):
            for place, word in enumerate(words[:last]):
                with m.Case(place):
                    m.d.comb += waiting.eq(word)
            with m.Default():
                m.d.comb += waiting.eq(words[last])
        m.d.comb += [
            self.o.valid.eq(self.arrives | ~empty),
            self.o.payload.eq(Mux(empty, self.result, waiting)),
            leaves.eq(self.o.valid & self.o.ready),
            passes.eq(empty & self.o.ready),
            takes.eq(self.arrives & ~passes),
        ]
        with m.If(takes):
            m.d.sync += newest.eq(Mux(newest == last, 0, newest + 1))
        for place, word in enumerate(words):
            with m.If(takes & (newest == place)):
                m.d.sync += word.eq(self.result)
        with m.If(leaves & ~empty):
            m.d.sync += oldest.eq(Mux(oldest == last, 0, oldest + 1))
        after, owed = Signal.like(stored), Signal.like(promised, name="owed")
        m.d.comb += [
            after.eq(stored + takes - (leaves & ~empty)),
            owed.eq(promised + self.reserve - leaves),
        ]
        m.d.sync += [
            stored.eq(after),
            empty.eq(after == 0),
            promised.eq(owed),
            self.room.eq(owed != self.capacity),
        ]
        return m


class MovingQueue(ResultQueue):
    """`ResultQueue` whose oldest result is always in the lowest word.

    When it leaves, all others move down. No choice among the words comes before the output, but all
    words change.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [
            Signal(self.result.shape(), name=f"word{place}", reset_less=True)
            for place in range(self.capacity)
        ]
        held = Signal(self.capacity)
        promised = Signal(range(self.capacity + 1))
        takes, leaves, moves = Signal(), Signal(), Signal(name="moves")
        empty = ~held[0]
        m.d.comb += [
            self.o.valid.eq(self.arrives | held[0]),
            self.o.payload.eq(Mux(held[0], words[0], self.result)),
            leaves.eq(self.o.valid & self.o.ready),
            moves.eq(held[0] & self.o.ready),
            takes.eq(self.arrives & ~(empty & self.o.ready)),
        ]
        for place, word in enumerate(words):
            below = held[place - 1] if place else Const(1, 1)
            above = held[place + 1] if place + 1 < self.capacity else Const(0, 1)
            with m.If(moves & above):
                m.d.sync += word.eq(words[min(place + 1, self.capacity - 1)])
            with m.Elif(takes & below & Mux(moves, held[place], ~held[place])):
                m.d.sync += word.eq(self.result)
            with m.If(moves & ~takes):
                m.d.sync += held[place].eq(above)
            with m.If(takes & ~moves & below):
                m.d.sync += held[place].eq(1)
        owed = Signal.like(promised)
        m.d.comb += owed.eq(promised + self.reserve - leaves)
        m.d.sync += [promised.eq(owed), self.room.eq(owed != self.capacity)]
        return m
