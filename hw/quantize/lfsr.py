"""The shift registers of stochastic rounding: see model/lfsr.py for their sequence."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.lfsr import SHIFTS, WORD_BITS, lane_seeds


class LaneWords(wiring.Component):
    """A random word for each lane, from shift registers.

    Ports:

    - `step` in, 1 bit: the words are used, and the next ones wanted
    - `words` out, `lanes` x 32 bits: one for each lane
    """

    clocked = True

    def __init__(self, seed: int, lanes: int) -> None:
        self.seed, self.lanes = seed, lanes
        super().__init__({"step": In(1), "words": Out(data.ArrayLayout(WORD_BITS, lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index, seed in enumerate(lane_seeds(self.seed, self.lanes)):
            state = Signal(WORD_BITS, init=seed, name=f"state{index}")
            with m.If(self.step):
                m.d.sync += state.eq(_next(state))
            m.d.comb += self.words[index].eq(state)
        return m


def _next(state: Value) -> Value:
    left, right, last = SHIFTS
    value = state ^ (state << left)[:WORD_BITS]
    value = value ^ (value >> right)
    return value ^ (value << last)[:WORD_BITS]
