"""A claim about what software writes into a matrix unit's registers, and what it leaves alone."""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value

from ...hw.matmul.registers import ERRORS, Registers
from ...model.units.matmul.registers import CONFIGURED, REGISTERS
from .claim import Claim
from .observer import component
from .software import CONFIG

STATUS = REGISTERS["STATUS"]
OKAY, SLVERR = 0b00, 0b10


def claims() -> Iterator[Claim]:
    """Of the module by itself."""
    yield Claim(
        "registers:write",
        "a write, its address and word in any order, is answered once and changes what the map "
        "says of its address, in the bytes that it has, and nothing else: registers of a job, of "
        "the interrupt, start, reset, STATUS; SLVERR where it must change nothing, with an error "
        "for a register of a job while one runs and for a value that is too large; STATUS keeps "
        "what happens until it is cleared, irq follows it, both are read so",
        lambda: component(Registers(CONFIG)), _writes, ("irq_enable[1] & ", "irq_enable[0] & "),
    )  # fmt: skip


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
            _reads(m, p, {"STATUS": status | p.busy, "IRQ_ENABLE": enable}),
        ).any()
    )


def _reads(m: Module, p: Any, words: dict[str, Value]) -> Value:
    """Whether one of these words is read as another."""
    told, known = Signal(32), Signal()
    here = Array(words.values())
    places = [p.bus_araddr >> 2 == REGISTERS[name].offset // 4 for name in words]
    with m.If(p.bus_arvalid & p.bus_arready):
        m.d.sync += [told.eq(Mux(places[0], here[0], here[1])), known.eq(Cat(places).any())]
    return p.bus_rvalid & known & (p.bus_rdata != told)
