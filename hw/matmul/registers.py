"""The registers on AXI4-Lite, from the map in `model.units.matmul.registers`, and the counters."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...model.trace import FLAG_NAMES
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import (
    CONFIGURED,
    COUNTER_BITS,
    COUNTERS,
    REGISTERS,
    WRITE_ERRORS,
    constants,
    word,
)
from .axi import OKAY, SLVERR, WORD_BITS, AxiLite
from .control import TilesLayout


class CountersLayout(data.StructLayout):
    """Counters of the registers, by name."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, COUNTER_BITS))


class Counters(wiring.Component):
    """Counts each cycle under exactly one name; the register map describes the names.

    Ports:

    - `clear` in, 1 bit: all counters to 0
    - `running` in, 1 bit: the cycle belongs to a job, which the next six describe
    - `step` in, 1 bit: the array takes a step
    - `tail` in, 1 bit: the array has taken the last step
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


NO_ERRORS = {"busy", "done", *WRITE_ERRORS}  # bits of STATUS that are no input
ERRORS = tuple(f.name for f in REGISTERS["STATUS"].fields if f.name not in NO_ERRORS)
STATUS_BITS = max(f.low for f in REGISTERS["STATUS"].fields) + 1
DONE = REGISTERS["STATUS"].field("done").low  # errors lie above it, busy below


class Registers(wiring.Component):
    """Registers that software writes and reads, each in the cycle before its response.

    Ports:

    - `bus` in, AXI4-Lite: its `ready` and `valid` come from registers
    - `tiles` out, `TilesLayout`: tiles of the job
    - `mode` out, 8 bits: format pair of the job
    - `use_d` out, 1 bit: the job has initial values
    - `start` out, 1 bit: command to start, for a cycle; a reset wins
    - `reset` out, 1 bit: command to reset, for a cycle
    - `busy` in, 1 bit: a job is under way
    - `done` in, 1 bit: a job has ended, for a cycle
    - `errors` in, a bit per name in `ERRORS`: errors, for a cycle, without errors of writes
    - `flags` in, a bit per name in `FLAG_NAMES`: flags of the results
    - `counters` in, `CountersLayout`: the counters
    - `irq` out, 1 bit: interrupt
    """

    clocked = True

    def __init__(self, config: MatmulConfig) -> None:
        self.config = config
        super().__init__(
            {
                "bus": In(AxiLite()),
                "tiles": Out(TilesLayout()),
                "mode": Out(8),
                "use_d": Out(1),
                "start": Out(1),
                "reset": Out(1),
                "busy": In(1),
                "done": In(1),
                "errors": In(data.StructLayout(dict.fromkeys(ERRORS, 1))),
                "flags": In(len(FLAG_NAMES)),
                "counters": In(CountersLayout()),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        status = Signal(STATUS_BITS)
        enable = Signal(2, name="irq_enable")
        stored = {
            "IRQ_ENABLE": enable,
            "M_TILES": self.tiles.m_tiles,
            "N_TILES": self.tiles.n_tiles,
            "K_BLOCKS": self.tiles.k_blocks,
            "FORMAT": self.mode,
            "OPTIONS": self.use_d,
        }
        words = stored | {"STATUS": Cat(self.busy, status[1:]), "FLAGS": self.flags}
        for name in COUNTERS:
            words[name] = self.counters[name][:WORD_BITS]
            words[f"{name}_HIGH"] = self.counters[name][WORD_BITS:]
        fixed = constants(self.config)
        for name, values in fixed.items():
            words[name] = Const(word(REGISTERS[name], values), WORD_BITS)

        self._read(m, words)
        value_in, mask, writes, refused = self._write(m, stored)
        given = Signal(WORD_BITS)
        place = REGISTERS["CONTROL"].field
        for name, value in stored.items():
            with m.If(writes[name]):
                m.d.sync += value.eq((value & ~mask) | given)
        m.d.comb += [
            given.eq(value_in & mask),
            self.start.eq(writes["CONTROL"] & given[place("start").low] & ~self.reset),
            self.reset.eq(writes["CONTROL"] & given[place("reset").low]),
        ]
        cleared = Mux(writes["STATUS"], given, 0) | (self.start & ~self.busy) << DONE
        self._keep_status(m, status, cleared, refused)
        m.d.comb += self.irq.eq((enable[0] & status[DONE]) | (enable[1] & status[DONE + 1 :].any()))
        return m

    def _keep_status(self, m: Module, status: Signal, cleared: Value, refused: dict) -> None:
        """Update the sticky bits. A bit raised in the cycle of its clearing stays."""
        raised = Signal(STATUS_BITS)
        for name, source in [*((name, self.errors[name]) for name in ERRORS), *refused.items()]:
            m.d.comb += raised[REGISTERS["STATUS"].field(name).low].eq(source)
        m.d.comb += raised[DONE].eq(self.done)
        m.d.sync += status.eq((status & ~cleared) | raised)

    def _read(self, m: Module, words: dict[str, Value]) -> None:
        """Answer reads one at a time, with the word in a register."""
        bus = self.bus
        m.d.comb += bus.arready.eq(~bus.rvalid)
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(0), bus.rresp.eq(OKAY)]
            with m.Switch(bus.araddr[2:]):
                for name, register in REGISTERS.items():
                    with m.Case(register.offset >> 2):
                        m.d.sync += bus.rdata.eq(words.get(name, 0))
                with m.Default():
                    m.d.sync += bus.rresp.eq(SLVERR)

    def _write(
        self, m: Module, stored: dict[str, Value]
    ) -> tuple[Value, Value, dict[str, Value], dict[str, Value]]:
        """(word, mask of its bits, write strobe per register, error bits of the write)."""
        bus = self.bus
        address = Signal(len(bus.awaddr) - 2)
        value_in = Signal(WORD_BITS)
        mask = Signal(WORD_BITS)
        has_address = Signal()
        has_data = Signal()
        go = Signal()
        refused = {name: Signal(name=name) for name in WRITE_ERRORS}
        m.d.comb += [
            bus.awready.eq(~has_address),
            bus.wready.eq(~has_data),
            go.eq(has_address & has_data & ~bus.bvalid),
        ]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [has_address.eq(1), address.eq(bus.awaddr[2:])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [has_data.eq(1), value_in.eq(bus.wdata)]
            m.d.sync += mask.eq(Cat(strobe.replicate(8) for strobe in bus.wstrb))
        writes = {
            r.name: Signal(name=f"write_{r.name.lower()}") for r in REGISTERS.values() if r.written
        }
        for name, write in writes.items():
            here = go & (address == REGISTERS[name].offset >> 2)
            busy = self.busy if name in CONFIGURED else Const(0, 1)
            fits = Const(1, 1)
            if name in stored:
                above = len(stored[name])
                fits = ~(value_in[above:] & mask[above:]).any()
            m.d.comb += write.eq(here & ~busy & fits)
            with m.If(here & busy):
                m.d.comb += refused["busy_write"].eq(1)
            with m.Elif(here & ~fits):
                m.d.comb += refused["bad_value"].eq(1)
        with m.If(go):
            m.d.sync += [has_address.eq(0), has_data.eq(0), bus.bvalid.eq(1)]
            m.d.sync += bus.bresp.eq(Mux(Cat(writes.values()).any(), OKAY, SLVERR))
        return value_in, mask, writes, refused
