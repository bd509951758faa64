"""Claims about parts of a matrix unit: what software reads and writes, and loops over tiles."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Shape, Signal, Value
from amaranth.utils import bits_for

from ...hw.hierarchy import used
from ...hw.matmul.axi import Receiver
from ...hw.matmul.control import Loop, TilesLayout
from ...hw.matmul.registers import ERRORS, Counters, Registers
from ...hw.verilog import Around
from ...model import DotConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import (
    CONFIGURED,
    COUNTER_BITS,
    COUNTERS,
    REGISTERS,
    STREAM_ERRORS,
    constants,
    word,
)
from .claim import Claim
from .matmul import beat_taken, packet_errors
from .observer import component

A_LOST = "values_DISCARDED_A_register"
CONFIG = MatmulConfig(DotConfig("e2m1", 4, "exact", 2), 2, 1, depth=4)
DISCARDED_BITS = bits_for(max(CONFIG.stream_bytes(side) for side in CONFIG.inputs))
"""Width of the number of bytes that a stream discards in a cycle."""
STATUS = REGISTERS["STATUS"]
OKAY, SLVERR = 0b00, 0b10


def claims() -> Iterator[Claim]:
    """Claims about the modules by themselves."""
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
    yield Claim(
        "registers:write",
        "a write, its address and word in any order, is answered once and changes what the map "
        "says of its address, in the bytes that it has, and nothing else: registers of a job, of "
        "the interrupt, start, reset, STATUS; SLVERR where it must change nothing, with an error "
        "for a register of a job while one runs and for a value that is too large; STATUS keeps "
        "what happens until it is cleared, irq follows it, both are read so",
        lambda: component(Registers(CONFIG)), _writes, ("irq_enable[1] & ", "irq_enable[0] & "),
    )  # fmt: skip
    for width in (CONFIG.unit_bytes("a"), CONFIG.unit_bytes("b")):
        yield Claim(
            f"receiver:{width}",
            f"beats of {width} bytes, as wide as steps: after a launch one packet is taken, as "
            "steps are while a job runs, else its bytes are counted and discarded; each wrong beat "
            "raises its error, that of TKEEP when it is taken",
            lambda width=width: component(Receiver(width, width)), _receives,
            ("o_ready & ~keep_is_right", "~keep_is_right"),
        )  # fmt: skip
    yield Claim(
        "tiles",
        "loops over rows of tiles, single tiles and blocks of K, wherever they are, of any counts: "
        "after a reset the first step, then which one comes next, and whether it is a tile's, a "
        "row's or a job's last",
        lambda: replace(component(Loop()), cycles=3), _steps,
        ("k_blocks_done + 16'h1;", "k_blocks_done + 16'h1 & 16'hfbff;"),
        bits=3 * Shape.cast(TilesLayout()).width + 1,
    )  # fmt: skip


def _receives(m: Module, p: Any) -> Value:
    waits, taken = Signal(), beat_taken(p, "s")
    offered = waits & p.running & p.s_tvalid
    with m.If(p.launch):
        m.d.sync += waits.eq(1)
    with m.Elif(taken & p.s_tlast):
        m.d.sync += waits.eq(0)
    raised = packet_errors(p, "s", offered, p.ends)
    wrong = Cat(
        p.s_tready != (waits & (p.o_ready | ~p.running)),
        p.o_valid != offered,
        offered & (p.o_payload != p.s_tdata),
        p.closed == waits,
        p.errors.as_value() != Cat(raised[name] for name in STREAM_ERRORS),
        p.discarded != Mux(taken & ~p.running, sum(p.s_tkeep[1:], p.s_tkeep[0]), 0),
    )
    return ~p.rst & wrong.any()


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


def _steps(m: Module, p: Any) -> Value:
    """First cycle: after a reset all loops are at their first step, else `ends` and the counts tell
    where each is. Second cycle: they go on, under any counts. Third cycle: their marks are checked,
    under any counts again.
    """
    here, then = Signal(TilesLayout()), Signal(TilesLayout())
    is_here, is_then = Signal(init=1), Signal()
    m.d.sync += [is_here.eq(p.ends & ~p.advance), is_then.eq(is_here)]
    carry = p.advance
    for name in reversed(TilesLayout().members):  # the innermost loop first
        count, done = getattr(p.tiles, name), getattr(here, name)
        m.d.sync += [
            getattr(here, name).eq(count - 1),
            getattr(then, name).eq(Mux(carry, Mux(done + 1 == count, 0, done + 1), done)),
        ]
        carry &= done + 1 == count
    lasts = {
        name: getattr(then, name) + 1 == getattr(p.tiles, name) for name in TilesLayout().members
    }
    told = Cat(p.first, p.last, p.row_last, p.ends)
    wanted = Cat(then.k_blocks == 0, lasts["k_blocks"], lasts["n_tiles"], Cat(lasts.values()).all())
    return is_then & (told != wanted)


def _reads(m: Module, p: Any) -> Value:
    """Keep the word of the last read that was taken, except for STATUS and IRQ_ENABLE."""
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


def _writes(m: Module, p: Any) -> Value:
    """Keeps registers of its own, and does with each write what the map says."""
    address, word, strobes = Signal(8), Signal(32), Signal(4)
    has_address, has_word, answered, answer = Signal(), Signal(), Signal(), Signal(2)
    go = has_address & has_word & ~answered
    outside = {
        "M_TILES": p.tiles.m_tiles, "N_TILES": p.tiles.n_tiles, "K_BLOCKS": p.tiles.k_blocks,
        "FORMAT": p.mode, "OPTIONS": p.use_d,
    }  # fmt: skip
    kept = {name: Signal(len(value), name=f"kept_{name}") for name, value in outside.items()}
    kept["IRQ_ENABLE"] = enable = Signal(2, name="kept_IRQ_ENABLE")
    bit = {field.name: 1 << field.low for field in STATUS.fields}
    status, raised, cleared = Signal(32), Signal(32), Signal(32)
    accepted, start, reset = Signal(), Signal(), Signal()
    given = Cat(Mux(strobes[i // 8], word[i], 0) for i in range(32))

    m.d.comb += raised.eq(
        sum((Mux(p.errors[name], bit[name], 0) for name in ERRORS), Mux(p.done, bit["done"], 0))
    )
    with m.If(go & (address[2:] == REGISTERS["CONTROL"].offset // 4)):
        m.d.comb += [accepted.eq(1), reset.eq(given[1]), start.eq(given[0] & ~given[1])]
    with m.If(go & (address[2:] == STATUS.offset // 4)):
        m.d.comb += [accepted.eq(1), cleared.eq(given)]
    refused: list[Value] = []
    for name, value in kept.items():
        old = Cat(value, C(0, 32 - len(value)))
        new = Cat(Mux(strobes[i // 8], word[i], old[i]) for i in range(32))
        here = go & (address[2:] == REGISTERS[name].offset // 4)
        busy = p.busy if name in CONFIGURED else C(0, 1)
        too_large = new >= 1 << len(value)
        refused.append(Mux(here & busy, bit["busy_write"], 0))
        refused.append(Mux(here & ~busy & too_large, bit["bad_value"], 0))
        with m.If(here & ~busy & ~too_large):
            m.d.comb += accepted.eq(1)
            m.d.sync += value.eq(new)
    with m.If(start & ~p.busy):
        m.d.comb += cleared.eq(bit["done"])
    errors = sum(refused, C(0, 32))[:32]
    m.d.sync += status.eq((status & ~cleared) | raised | errors)

    with m.If(p.bus_awvalid & p.bus_awready):
        m.d.sync += [has_address.eq(1), address.eq(p.bus_awaddr)]
    with m.If(p.bus_wvalid & p.bus_wready):
        m.d.sync += [has_word.eq(1), word.eq(p.bus_wdata), strobes.eq(p.bus_wstrb)]
    with m.If(answered & p.bus_bready):
        m.d.sync += answered.eq(0)
    with m.If(go):
        m.d.sync += [has_address.eq(0), has_word.eq(0), answered.eq(1)]
        m.d.sync += answer.eq(Mux(accepted, OKAY, SLVERR))
    unlike = [outside[name] != kept[name] for name in outside]
    failed = (status[STATUS.field("done").low + 1 :]).any()
    happened = Mux(enable[0], status[1], 0) | (enable[1] & failed)
    return (
        ~p.rst
        & Cat(
            *unlike,
            p.start != start,
            p.reset != reset,
            p.irq != happened,
            p.bus_awready == has_address,
            p.bus_wready == has_word,
            p.bus_bvalid != answered,
            answered & (p.bus_bresp != answer),
            _reads_back(m, p, {"STATUS": status | p.busy, "IRQ_ENABLE": enable}),
        ).any()
    )


def _reads_back(m: Module, p: Any, words: dict[str, Value]) -> Value:
    """True when one of these words is read as another."""
    told, known = Signal(32), Signal()
    here = Array(words.values())
    places = [p.bus_araddr >> 2 == REGISTERS[name].offset // 4 for name in words]
    with m.If(p.bus_arvalid & p.bus_arready):
        m.d.sync += [told.eq(Mux(places[0], here[0], here[1])), known.eq(Cat(places).any())]
    return p.bus_rvalid & known & (p.bus_rdata != told)
