"""The course of a job."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.registers import START_ERRORS
from .loop import TilesLayout


class State(enum.Enum, shape=2):
    """What the unit is about."""

    IDLE = 0
    RUN = 1
    CLEAR_UP = 2
    """After an error: rests of packets are discarded, that of C is ended."""


class StartErrorLayout(data.StructLayout):
    """Why a start was refused."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(START_ERRORS, 1))


class Control(wiring.Component):
    """Starts a job if it can be, and ends it with its last beat or after an error.

    ::

                launch                ended
        IDLE ----------> RUN ------------------> IDLE (done)
                          | broken      closed
                          +-----> CLEAR_UP ----> IDLE

    Ports: start in (a command); what the job is, in: tiles, mode, use_d; broken in: a stream had an
    error; ended in: the last beat of C is taken; closed in: all packets have ended. refused out
    (StartErrorLayout), launch out, done out: for one cycle; running, busy out.
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
