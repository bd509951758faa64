"""Rules about a unit's streams, whatever it computes: they count, time and queue its results."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, ShapeLike, Signal, Value

HANDSHAKE = ("out_valid", "out_ready")
READY_TOO_SOON = ("assign in_ready = ", "assign in_ready = in_valid | ")
"""The bug of claims about streams: an item is taken whether or not there is room."""


def leaves(p: Any) -> Value:
    """Whether a result is taken in this cycle."""
    return p.out_valid & p.out_ready


def changes(m: Module, p: Any) -> Value:
    """Whether a result, with all that goes with it, did not stay until it was taken."""
    result = Cat(v for n, v in vars(p).items() if n.startswith("out_") and n not in HANDSHAKE)
    held, previous = Signal(), Signal(len(result))
    m.d.sync += [held.eq(p.out_valid & ~p.out_ready), previous.eq(result)]
    return held & (~p.out_valid | (result != previous))


def waits_longer(m: Module, p: Any, cycles: int) -> Value:
    """Whether an item has waited for more cycles in a row in which results could leave."""
    waited, waits = Signal(range(cycles + 1)), Signal()
    m.d.comb += waits.eq(p.in_valid & ~p.in_ready & p.out_ready)
    m.d.sync += waited.eq(Mux(waits, waited + (waited != cycles), 0))
    return waits & (waited == cycles)


def ready_for(m: Module, ready: Value, cycles: int) -> Value:
    """Whether it was so in each of the last cycles."""
    flowing = Signal(range(cycles + 1))
    m.d.sync += flowing.eq(Mux(ready, Mux(flowing == cycles, cycles, flowing + 1), 0))
    return flowing == cycles


class Inside:
    """Counts the results that a unit owes: one for each item that entered.

    enters: whether an item of which a result comes is taken; latency: cycles from there to its
    result; room: results that may be in the unit. group: of how many items the results leave
    together, one in a cycle, the first `latency` cycles after the last of them entered.
    """

    def __init__(
        self, m: Module, p: Any, enters: Value, latency: int, room: int, group: int = 1
    ) -> None:
        self.p, self.latency, self.room, self.group = p, latency, room, group
        self.count = Signal(range(room + 2))
        self.begun = Signal(range(group))
        """Items of a group that is not complete."""
        self.entered = Signal(latency + group - 1)
        """Whether a group was completed in each of the last cycles, the last one lowest."""
        completes = enters & (self.begun == group - 1)
        with m.If(enters):
            m.d.sync += self.begun.eq(Mux(completes, 0, self.begun + 1))
        m.d.sync += self.count.eq(self.count + enters - leaves(p))
        m.d.sync += self.entered.eq(Cat(completes, self.entered))

    def wrong(self, flows: Value) -> Value:
        """Whether one is lost or duplicated, or, where nothing stalls it, comes at a wrong time."""
        left = [min(self.group, self.latency - 1 + self.group - age) for age in range(self.latency)]
        left += range(self.group - 1, 0, -1)
        owed = sum((bit * n for bit, n in zip(self.entered, left, strict=True)), self.begun)
        return Cat(
            self.p.out_valid & (self.count <= self.begun),
            self.count > self.room,
            flows & (self.count != owed),
            flows & (self.p.out_valid != self.entered[self.latency - 1 :].any()),
        ).any()


class Queue:
    """First in, first out: what is expected of the results that a unit owes. `oldest` is the next
    result; it means nothing where `empty`."""

    def __init__(
        self, m: Module, shape: ShapeLike, capacity: int, enters: Value, item: Value, left: Value
    ) -> None:
        words = Array(Signal(shape, name=f"queue{i}") for i in range(capacity))
        count, place = Signal(range(capacity + 1)), Signal(range(capacity + 1))
        m.d.comb += place.eq(count - left)
        with m.If(left):
            m.d.sync += [words[i].eq(words[i + 1]) for i in range(capacity - 1)]
        with m.If(enters):
            m.d.sync += words[place].eq(item)
        m.d.sync += count.eq(place + enters)
        self.oldest, self.empty = words[0], count == 0
