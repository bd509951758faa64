"""The counters of a job: what each of its cycles went to, and what was thrown away."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.registers import COUNTER_BITS, COUNTERS


class CountersLayout(data.StructLayout):
    """The registers' counters, by name."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, COUNTER_BITS))


class Counters(wiring.Component):
    """Counts each cycle under exactly one name, as the register map words them.

    Ports:

    - `clear` in, 1 bit: all counters to 0
    - `running` in, 1 bit: the cycle belongs to a job; the next six say what is so in it
    - `step` in, 1 bit: the array takes a step
    - `tail` in, 1 bit: the array has taken the last one
    - `held` in, 1 bit: a step is offered and not taken
    - `blocked` in, 1 bit: results at the array's output wait
    - `no_a` in, 1 bit: no step of A is there
    - `no_b` in, 1 bit: no step of B is there
    - `discarded_a`, `discarded_b`, `discarded_d` in, `discarded_bits`: bytes of each stream
      discarded in this cycle
    - `values` out, `CountersLayout`: the counters
    """

    clocked = True

    def __init__(self, discarded_bits: int) -> None:
        self.discarded_bits = discarded_bits
        events = ("clear", "running", "step", "tail", "held", "blocked", "no_a", "no_b")
        sides = ("discarded_a", "discarded_b", "discarded_d")
        super().__init__(
            {name: In(1) for name in events}
            | {name: In(discarded_bits) for name in sides}
            | {"values": Out(CountersLayout())}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values = self.values
        with m.If(self.running):
            m.d.sync += values.CYCLES.eq(values.CYCLES + 1)
            for chosen, name in (
                (m.If(self.step), "STEPS"),
                (m.Elif(self.tail), "TAIL"),
                (m.Elif(self.held & self.blocked), "WAIT_DRAIN"),
                (m.Elif(self.held), "WAIT_UNIT"),
                (m.Elif(self.no_a), "WAIT_A"),
                (m.Elif(self.no_b), "WAIT_B"),
                (m.Else(), "WAIT_D"),
            ):
                with chosen:
                    m.d.sync += values[name].eq(values[name] + 1)
        for side in ("a", "b", "d"):
            total = values[f"DISCARDED_{side.upper()}"]
            m.d.sync += total.eq(total + getattr(self, f"discarded_{side}"))
        with m.If(self.clear):
            m.d.sync += values.eq(0)
        return m
