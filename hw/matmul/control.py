"""The course of a job, and the place of a step in the order of work."""

from amaranth.hdl import Module, Mux, Signal, ValueLike
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.config import LARGEST_COUNT
from ...model.units.matmul.registers import START_ERRORS

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


class State(enum.Enum, shape=2):
    """State of the unit."""

    IDLE = 0
    RUN = 1
    CLEAR_UP = 2
    """After an error: discard the rest of the packets, and end the packet of C."""


class StartErrorLayout(data.StructLayout):
    """Reasons to refuse a start."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(START_ERRORS, 1))


class Control(wiring.Component):
    """Starts a job unless it must refuse, and ends it with its last beat or after an error.

    ::

                launch                ended
        IDLE ----------> RUN ------------------> IDLE (done)
                          | broken      closed
                          +-----> CLEAR_UP ----> IDLE

    Ports:

    - `start` in, 1 bit: command to start the job that `tiles`, `mode` and `use_d` describe
    - `tiles` in, `TilesLayout`: its tiles
    - `mode` in, 8 bits: its format pair
    - `use_d` in, 1 bit: it has initial values
    - `broken` in, 1 bit: a stream had an error
    - `ended` in, 1 bit: the last beat of C is taken
    - `closed` in, 1 bit: all packets have ended
    - `refused` out, `StartErrorLayout`: reasons to refuse the start, in its cycle
    - `launch` out, 1 bit: the job begins, for a cycle
    - `done` out, 1 bit: it has ended without an error, for a cycle
    - `running` out, 1 bit: it runs
    - `busy` out, 1 bit: it runs, or is cleared up after an error
    """

    clocked = True

    def __init__(self, modes: int, has_d: bool) -> None:
        self.modes, self.has_d = modes, has_d
        super().__init__(
            {
                "start": In(1),
                "tiles": In(TilesLayout()),
                "mode": In(8),
                "use_d": In(1),
                "broken": In(1),
                "ended": In(1),
                "closed": In(1),
                "refused": Out(StartErrorLayout()),
                "launch": Out(1),
                "done": Out(1),
                "running": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = Signal(State)
        counts = [getattr(self.tiles, name) for name in ("m_tiles", "n_tiles", "k_blocks")]
        m.d.comb += [
            self.running.eq(state == State.RUN),
            self.busy.eq(state != State.IDLE),
            self.done.eq(self.running & self.ended),
        ]
        with m.If(self.start & self.busy):
            m.d.comb += self.refused.busy_start.eq(1)
        with m.Elif(self.start):
            zero = (counts[0] == 0) | (counts[1] == 0) | (counts[2] == 0)
            m.d.comb += [
                self.refused.bad_shape.eq(zero),
                self.refused.bad_format.eq(self.mode >= self.modes),
                self.refused.bad_option.eq(0 if self.has_d else self.use_d),
                self.launch.eq(~self.refused.as_value().any()),
            ]
        with m.If(self.launch):
            m.d.sync += state.eq(State.RUN)
        with m.Elif(self.running & self.broken):
            m.d.sync += state.eq(State.CLEAR_UP)
        with m.Elif(self.done | ((state == State.CLEAR_UP) & self.closed)):
            m.d.sync += state.eq(State.IDLE)
        return m
