"""The place of a step in the order of work."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.config import LARGEST_COUNT

COUNT_BITS = LARGEST_COUNT.bit_length()


class TilesLayout(data.StructLayout):
    """The counts of three nested loops, 1 to 65535 each: rows of tiles, tiles in one, steps."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(("m_tiles", "n_tiles", "k_blocks"), COUNT_BITS))


class JobLayout(data.StructLayout):
    """What the parts of the unit know of the job: its tiles, that it begins, that it runs."""

    def __init__(self) -> None:
        super().__init__({"tiles": TilesLayout(), "launch": 1, "running": 1})


class Loop(wiring.Component):
    """Three nested loops that go on with `advance` and start again after their end.

    Ports: tiles in, advance in; first, last out: this is the first or last step of a tile;
    row_last out: the tile is the last of its row; ends out: this is the very last step.
    """

    clocked = True

    def __init__(self) -> None:
        marks = ("first", "last", "row_last", "ends")
        super().__init__(
            {"tiles": In(TilesLayout()), "advance": In(1), **dict.fromkeys(marks, Out(1))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        names = ("m_tiles", "n_tiles", "k_blocks")
        i, j, k = (Signal(COUNT_BITS, name=f"{name}_done") for name in names)
        m_last = Signal()
        m.d.comb += [
            m_last.eq(i + 1 == self.tiles.m_tiles),
            self.row_last.eq(j + 1 == self.tiles.n_tiles),
            self.first.eq(k == 0),
            self.last.eq(k + 1 == self.tiles.k_blocks),
            self.ends.eq(self.last & self.row_last & m_last),
        ]
        with m.If(self.advance):
            m.d.sync += k.eq(Mux(self.last, 0, k + 1))
            with m.If(self.last):
                m.d.sync += j.eq(Mux(self.row_last, 0, j + 1))
                with m.If(self.row_last):
                    m.d.sync += i.eq(Mux(m_last, 0, i + 1))
        return m
