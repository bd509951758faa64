"""Right shifter that says whether a one fell off its end."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ShiftRight(wiring.Component):
    """Logarithmic shifter; combinational.

    Ports: value in (`width`), amount in (`amount_width`, any value: a large one empties the
    result), result out (`width`), lost out (some shifted-out bit was one).
    """

    def __init__(self, width: int, amount_width: int) -> None:
        self.width, self.amount_width = width, amount_width
        super().__init__(
            {
                "value": In(width),
                "amount": In(amount_width),
                "result": Out(width),
                "lost": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = min(self.amount_width, (self.width - 1).bit_length() or 1)
        value, lost = self.value, 0
        for level in range(levels):
            distance = 2**level
            shifted = Signal(self.width, name=f"shifted{level}")
            fell = Signal(name=f"fell{level}")
            m.d.comb += [
                shifted.eq(Mux(self.amount[level], value >> distance, value)),
                fell.eq(self.amount[level] & value[:distance].any()),
            ]
            value, lost = shifted, lost | fell
        beyond = Signal()
        m.d.comb += [
            beyond.eq(self.amount[levels:].any()),
            self.result.eq(Mux(beyond, 0, value)),
            self.lost.eq(lost | (beyond & value.any())),
        ]
        return m
