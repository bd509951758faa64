"""The place of a step in the order of work."""

from amaranth.hdl import Module, Mux, Signal, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.config import LARGEST_COUNT

COUNT_BITS = LARGEST_COUNT.bit_length()


class TilesLayout(data.StructLayout):
    """Counts of three nested loops, 1 to 65535 each: rows of tiles, tiles in a row, steps."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(("m_tiles", "n_tiles", "k_blocks"), COUNT_BITS))


class JobLayout(data.StructLayout):
    """The job for the parts of the unit: its tiles; it begins (`launch`); it runs."""

    def __init__(self) -> None:
        super().__init__({"tiles": TilesLayout(), "launch": 1, "running": 1})


class Loop(wiring.Component):
    """Three nested loops that go on with `advance` and start again after their end.

    Ports:

    - `tiles` in, `TilesLayout`: counts of the loops
    - `advance` in, 1 bit: go to the next step
    - `first` out, 1 bit: this is the first step of a tile
    - `last` out, 1 bit: this is the last step of a tile
    - `row_last` out, 1 bit: the tile is the last of its row
    - `ends` out, 1 bit: this is the very last step
    """

    clocked = True

    def __init__(self) -> None:
        super().__init__(self._ports())

    @staticmethod
    def _ports() -> dict[str, wiring.Member]:
        marks = ("first", "last", "row_last", "ends")
        return {"tiles": In(TilesLayout()), "advance": In(1), **dict.fromkeys(marks, Out(1))}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        names = ("m_tiles", "n_tiles", "k_blocks")
        i, j, k = (Signal(COUNT_BITS, name=f"{name}_done") for name in names)
        m_last = Signal()
        m.d.comb += [
            m_last.eq(i + 1 == self.tiles.m_tiles),
            self.first.eq(k == 0),
            self.last.eq(k + 1 == self.tiles.k_blocks),
            self.ends.eq(self.last & self.row_last & m_last),
        ]
        tiles = self._along_row(m, j)
        with m.If(self.advance):
            m.d.sync += k.eq(Mux(self.last, 0, k + 1))
            with m.If(self.last):
                m.d.sync += j.eq(Mux(self.row_last, 0, j + tiles))
                with m.If(self.row_last):
                    m.d.sync += i.eq(Mux(m_last, 0, i + 1))
        return m

    def _along_row(self, m: Module, done: Signal) -> ValueLike:
        """Number of tiles to take next together, after `done` tiles of the row."""
        m.d.comb += self.row_last.eq(done + 1 == self.tiles.n_tiles)
        return 1


class GroupLoop(Loop):
    """`Loop` over groups of tiles that take turns, instead of tiles.

    usual: tiles per group. The last group of a row has the remaining tiles, up to `most`.

    Ports of `Loop`, `first` to `row_last` for a group, and:

    - `size` out, bits enough for `most`: tiles in this group
    """

    def __init__(self, most: int, usual: int) -> None:
        self.most, self.usual = most, usual
        wiring.Component.__init__(self, self._ports() | {"size": Out(range(most + 1))})

    def _along_row(self, m: Module, done: Signal) -> ValueLike:
        left = Signal.like(done, name="tiles_left")
        m.d.comb += [
            left.eq(self.tiles.n_tiles - done),
            self.row_last.eq(left <= self.most),
            self.size.eq(Mux(self.row_last, left, self.usual)),
        ]
        return self.size
