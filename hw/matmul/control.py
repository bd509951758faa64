"""The course of a job."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.registers import START_ERRORS
from .loop import TilesLayout


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
