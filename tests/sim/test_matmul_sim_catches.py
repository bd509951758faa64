"""Wrong matrix units that `mxdot sim matmul` must catch: counters, registers, packets, time."""

import pytest

from compare import FULL, some
from mxdot.hw.matmul.axi import Receiver
from mxdot.hw.matmul.registers import Counters, Registers
from mxdot.hw.matmul.results import Drain
from mxdot.hw.matmul.unit import MatmulUnit
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.registers import COUNTERS, REGISTERS
from mxdot.sim.engine.regression_units import default_matrix
from wrong_units import breaks, edited, run_none_of, run_one_of

DOT = DotConfig("e2m1", 4, "fused:13", 3)
UNIT = MatmulConfig(DOT, 2, 1, depth=4, a_bytes=4, d_bytes=3, initial_c=True)
"""A chained step waits for the loop; beats of A and D end inside a step and a row."""


def wraps(name, bits):
    """The counter keeps so many digits."""

    @breaks(Counters)
    def narrow(counters, m):
        m.d.sync += counters.values[name][bits:].eq(0)

    return narrow


NARROW = {name: wraps(name, 47) for name in COUNTERS}
OF_TEN_BITS = {name: wraps(name, 10) for name in COUNTERS}


@breaks(Counters)
def stops_at_its_end(counters, m):
    """A counter of ones stays."""
    with m.If(counters.values.STEPS.all()):
        m.d.sync += counters.values.STEPS.eq(counters.values.STEPS)


SURPLUS = edited(
    Receiver,
    "elaborate",
    "surplus.eq(beats.payload.units != begun)",
    "surplus.eq((beats.payload.units != begun) & ~WHEN)",
)
"""TLAST that comes with bytes of a unit beyond the last is none too late."""
EMPTY = edited(
    Receiver,
    "elaborate",
    "self.s.tlast & self.s.tkeep[0]",
    "self.s.tlast & (self.s.tkeep[0] | WHEN)",
)
"""TLAST may come in a beat of no bytes."""
SHORT = edited(Receiver, "elaborate", "all() | (self.s.tlast &", "all() | ((self.s.tlast | WHEN) &")
"""A beat may end early without TLAST."""
RANGE = edited(
    Registers,
    "_write",
    "& mask[above:]).any()",
    "& (mask[above:] | WHEN.replicate(32)[above:])).any()",
)
"""Bytes that are not written count in the check of a register's range."""
BIT = edited(Registers, "_write", "~(value_in[above:] &", "~((value_in & ~(WHEN << 21))[above:] &")
"""One bit above a register's own may be written."""
STROBE = edited(
    Registers,
    "elaborate",
    "given.eq(value_in & mask)",
    "given.eq(value_in & (mask | WHEN.replicate(32)))",
)
"""Ones of bytes that are not written are written."""
DRAIN = edited(Drain, "elaborate", "& self.o.ready)),", "& self.o.ready & ~WHEN)),")
"""A cycle is lost between two tiles."""
STICKY = edited(
    Registers,
    "_keep_status",
    "(status & ~cleared)",
    "(status & ~Mux(WHEN & Value.cast(cleared).any(), 2**STATUS_BITS - 1, cleared))",
)
"""An error that is cleared takes the others with it."""
WAITING = edited(
    MatmulUnit,
    "_give",
    "with m.If(array.o.valid & array.o.ready):",
    "with m.If(array.o.valid & (array.o.ready | WHEN)):",
)
"""FLAGS have those of a tile that waits for room."""
EARLY = edited(
    Registers,
    "elaborate",
    "enable[0] & status[DONE]",
    "enable[0] & Mux(WHEN, self.busy, status[DONE])",
)
"""irq is high from a start on, not from the end."""


@breaks(Registers)
def zero_amid_a_job(registers, m):
    """A read of CYCLES, while a job runs."""
    bus = registers.bus
    here = bus.araddr == REGISTERS["CYCLES"].offset
    with m.If(registers.busy & bus.arvalid & bus.arready & here):
        m.d.sync += bus.rdata.eq(0)


BOTH = edited(
    Counters,
    "elaborate",
    "m.Elif(self.held & self.blocked)",
    "m.Elif((self.held | WHEN) & self.blocked)",
)
"""A cycle without an operand counts as one without room for results."""
HOLE = edited(Receiver, "elaborate", "self.s.tkeep.all()", "(self.s.tkeep | WHEN).all()")
"""The first byte of a beat may be missing."""
AMID = [WAITING, EARLY, zero_amid_a_job]
OTHERS = [SURPLUS, EMPTY, SHORT, RANGE, BIT, STROBE, DRAIN, STICKY, BOTH, HOLE, *AMID]
WRONG = [*OTHERS, *NARROW.values(), *OF_TEN_BITS.values(), stops_at_its_end]


def errors_of(wrongs, directory, builds):
    """The bench's errors about a unit with these mistakes."""
    result = run_one_of(WRONG, wrongs, UNIT, directory, builds, traffic=20)
    return result.errors


def test_the_right_unit_passes(simulation_dir, tmp_path):
    result = run_none_of(WRONG, UNIT, tmp_path, simulation_dir, traffic=20, bulk=20)
    assert result.errors == []
    assert (result.mismatches, result.coverage) == (0, 100.0)


FEW = [("DISCARDED_A", 10), ("DISCARDED_B", 10), ("CYCLES", 47), ("WAIT_DRAIN", 47)]
EACH = [(name, bits) for name in COUNTERS for bits in (10, 47)]


@pytest.mark.parametrize(("name", "bits"), EACH if FULL else FEW)
def test_a_narrow_counter_is_caught(name, bits, simulation_dir, tmp_path):
    wrong = {10: OF_TEN_BITS, 47: NARROW}[bits][name]
    errors = errors_of(wrong, tmp_path, simulation_dir)
    assert any(f"{name} is 0x" in error for error in errors)


def test_a_counter_that_does_not_wrap_is_caught(simulation_dir, tmp_path):
    errors = errors_of(stops_at_its_end, tmp_path, simulation_dir)
    assert any("STEPS is" in error for error in errors)


CAUGHT = {
    "surplus": (SURPLUS, "fault packet a late_last: STATUS has"),
    "empty": (EMPTY, "fault packet a keep: STATUS has"),
    "short": (SHORT, "fault packet a keep: STATUS has"),
    "range": (RANGE, "fault single bytes: byte 0 of FORMAT"),
    "bit": (BIT, "fault values too large: FORMAT = 0x200000 was accepted"),
    "strobe": (STROBE, "fault single bytes: "),
    "drain": (DRAIN, "fault long counts: CYCLES is "),
    "sticky": (STICKY, "fault errors one by one: STATUS"),
    "both": (BOTH, "fault a and C stop: WAIT_A grew by 0"),
    "hole": (HOLE, "fault packet a keep: STATUS has"),
}


@pytest.mark.parametrize("name", some(CAUGHT, 2))
def test_other_wrong_units_are_caught(name, simulation_dir, tmp_path):
    wrong, message = CAUGHT[name]
    errors = errors_of(wrong, tmp_path, simulation_dir)
    assert any(error.startswith(message) for error in errors), errors


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (WAITING, "fault flags of waiting tiles: FLAGS are "),
        (EARLY, "irq is 1 amid a job"),
        (zero_amid_a_job, "CYCLES is 0x0 amid a job"),
    ],
    ids=["waiting", "early", "zero"],
)
def test_wrong_answers_amid_a_job_are_caught(wrong, message, simulation_dir, tmp_path):
    errors = errors_of(wrong, tmp_path, simulation_dir)
    assert any(message in error for error in errors), errors


def test_the_bench_finds_the_counters_of_every_unit():
    """Registers have the names in the Verilog that `counters.vlt` makes writable."""
    units = [unit.config for unit in default_matrix() if isinstance(unit.config, MatmulConfig)]
    for config in some(units, 4):
        text = generate(config)
        for name in COUNTERS:
            can_count = config.initial_c or name != "DISCARDED_D"
            assert (f"reg [47:0] values_{name}_register;" in text) or not can_count
