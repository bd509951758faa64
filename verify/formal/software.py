"""Claims about what software reads of a matrix unit: counters to their last bits, and registers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.utils import bits_for

from ...hw.hierarchy import used
from ...hw.matmul.registers import Counters, Registers
from ...hw.verilog import Around
from ...model import DotConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import (
    CONFIGURED,
    COUNTER_BITS,
    COUNTERS,
    REGISTERS,
    constants,
    word,
)
from .claim import Claim
from .observer import component

A_LOST = "values_DISCARDED_A_register"
CONFIG = MatmulConfig(DotConfig("e2m1", 4, "exact", 2), 2, 1, depth=4)
DISCARDED_BITS = bits_for(max(CONFIG.stream_bytes(side) for side in CONFIG.inputs))
"""Of the bytes of a stream that are discarded in a cycle."""


def claims() -> Iterator[Claim]:
    """Of the modules by themselves."""
    inputs = sum(used(Around(used(Counters(DISCARDED_BITS)))).inputs.values())
    yield Claim(
        "counters",
        "each cycle of a job counts under one name, each byte discarded once, whatever was counted "
        "before, in 48 bits that wrap",
        lambda: replace(component(Counters(DISCARDED_BITS)), cycles=2), _counts,
        (f"{A_LOST} + ", f"({A_LOST} ^ {{19'h0, {A_LOST}[31], 28'h0}}) + "),
        bits=inputs + len(COUNTERS) * COUNTER_BITS,
    )  # fmt: skip
    yield Claim(
        "registers:read",
        "a read answers, in the next cycle, the word of the map that is at its address: what the "
        "unit is, the job, flags, both words of each counter; SLVERR where nothing is",
        lambda: component(Registers(CONFIG)), _reads, ("counters_TAIL[47:32]", "16'h0"),
    )  # fmt: skip


def _counts(m: Module, p: Any) -> Value:
    """Adds to what each counter had in the cycle before."""
    causes = {
        "STEPS": p.step,
        "TAIL": p.tail,
        "WAIT_DRAIN": p.held & p.blocked,
        "WAIT_UNIT": p.held,
        "WAIT_A": p.no_a,
        "WAIT_B": p.no_b,
        "WAIT_D": C(1, 1),
    }
    counted: dict[str, Value] = {"CYCLES": p.running}
    left = p.running
    for name, cause in causes.items():
        counted[name] = left & cause
        left = left & ~cause
    counted |= {f"DISCARDED_{side.upper()}": getattr(p, f"discarded_{side}") for side in "abd"}
    unlike = []
    for name in COUNTERS:
        wanted = Signal(COUNTER_BITS, name=f"wanted_{name.lower()}")
        m.d.sync += wanted.eq(Mux(p.clear, 0, p.values[name] + counted[name]))
        unlike.append(p.values[name] != wanted)
    return Cat(unlike).any()


def _reads(m: Module, p: Any) -> Value:
    """Keeps the word of the last read that was taken. Of STATUS and IRQ_ENABLE it knows nothing."""
    job = (p.tiles.m_tiles, p.tiles.n_tiles, p.tiles.k_blocks, p.mode, p.use_d)
    words: dict[str, Value] = dict(zip(sorted(CONFIGURED, key=_offset), job, strict=True))
    words |= {"CONTROL": C(0, 32), "FLAGS": p.flags}
    words |= {name: C(word(REGISTERS[name], v), 32) for name, v in constants(CONFIG).items()}
    for name in COUNTERS:
        words |= {name: p.counters[name][:32], f"{name}_HIGH": p.counters[name][32:]}
    here, told, known, refused = Signal(32), Signal(32), Signal(), Signal()
    taken, waits = p.bus_arvalid & p.bus_arready, Signal()
    is_there, is_known = Signal(len(REGISTERS)), Signal(len(REGISTERS))
    for place, (name, register) in enumerate(REGISTERS.items()):
        chosen = p.bus_araddr >> 2 == register.offset // 4
        m.d.comb += is_there[place].eq(chosen)
        with m.If(chosen & (name in words)):
            m.d.comb += [here.eq(words.get(name, 0)), is_known[place].eq(1)]
    with m.If(taken):
        m.d.sync += [told.eq(here), refused.eq(~is_there.any())]
        m.d.sync += known.eq(is_known.any() | ~is_there.any())
    m.d.sync += waits.eq(taken | (waits & ~p.bus_rready))
    wrong = (known & (p.bus_rdata != told)) | (p.bus_rresp != Mux(refused, 0b10, 0))
    return ~p.rst & ((p.bus_rvalid != waits) | (waits & wrong))


def _offset(name: str) -> int:
    return REGISTERS[name].offset
