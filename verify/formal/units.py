"""Claims about the streams of whole small dot units: of any number of blocks, from any state."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from ...hw.verilog import generate
from ...model import DotConfig
from . import streams
from .claim import Claim
from .engine import decide_first
from .netlists import OTHER, beside, differ, equivalent
from .observer import Rule, unit
from .streams import READY_TOO_SOON, Inside, Queue

E2M1_HALVES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Values of the codes of E2M1, in halves: the table of the OCP specification."""
ONE_OR_NAN = "-1111111"
"""E8M0 scales of 1, 127, and of NaN, 255."""
NO_ROOM = ("assign room = ", "assign room = 1'b1 | ")
"""The bug of claims about units with products in flight: a queue of results takes too many."""
TOO_SOON = ("_go = ", "_go = 1'b1 | ")
"""The bug of claims about loops: a block does not wait for its running value."""

STRAIGHT = [(name, stages, 1) for name in ("exact", "aligned:3") for stages in (1, 2, 3, 4)]
WAITING = [
    ("float32", 2, 1), ("float16", 5, 1), ("fused:3", 2, 1), ("fused:3", 3, 1), ("fused:3", 4, 1),
    ("exact", 6, 1), ("hopper-promoted", 3, 1),
    ("float32", 1, 2), ("fused:3", 2, 2), ("float32", 1, 3), ("float32", 2, 4),
    ("fused:3", 3, 3),
]  # fmt: skip
"""Accumulator, stages, products in flight: loops of one cycle and of more."""
FIRST_CYCLES = {("exact", 6, 1): 16, ("fused:3", 3, 3): 16}
"""Units whose chain ABC proves for some cycles alone in minutes: registers cut the addition of c,
or many blocks wait."""

GATED = [("exact", 4), ("aligned:3", 3), ("fused:3", 3)]
"""Accumulator and stages of units with `gate_idle`; a register follows the products."""
UNGATED = ("{16{in_valid}}", "{16{out_ready}}")
"""The bug of claims about `gate_idle`: operands pass at other times."""


def claims() -> Iterator[Claim]:
    """Claims about units of E2M1, the smallest format."""
    for accumulator, stages, interleave in [*STRAIGHT, *WAITING]:
        config = DotConfig("e2m1", 4, accumulator, stages, load_c=False, status=False,
                           interleave=interleave)  # fmt: skip
        yield _stream(config)
        yield _order(config)
        chain, cycles = _chain(config), FIRST_CYCLES.get((accumulator, stages, interleave))
        yield chain if cycles is None else _first(chain, cycles)
    for accumulator, stages in GATED:
        yield _gated(DotConfig("e2m1", 4, accumulator, stages, gate_idle=True))
    yield _order(DotConfig("e2m1", 4, "fused:3", 2, load_c=False, status=False, interleave=2,
                           gate_idle=True))  # fmt: skip


def _name(config: DotConfig) -> str:
    turns = f"-i{config.interleave}" if config.interleave > 1 else ""
    turns += "-gated" * config.gate_idle
    return f"{str(config.accumulator).replace(':', '')}-{config.stages}{turns}"


def _subject(config: DotConfig) -> str:
    """Accumulator, stages and products in flight, in words."""
    turns = f", {config.interleave} in flight" if config.interleave > 1 else ""
    turns += ", gated while idle" * config.gate_idle
    return f"{config.accumulator}, {config.stages} stages{turns}"


def _bug(config: DotConfig) -> tuple[str, str]:
    return NO_ROOM if config.interleave > 1 else READY_TOO_SOON


def _room(config: DotConfig) -> int:
    """Results that may be in the unit: with products in flight others wait in a queue."""
    return config.latency + (config.latency + 1 if config.interleave > 1 else 0)


def _slot(m: Module, p: Any, config: DotConfig) -> Value:
    """Value of the block that is offered."""
    last = config.interleave - 1
    slot = Signal(range(max(2, config.interleave)))
    if last:
        m.d.comb += slot.eq(Mux(p.in_slot > last, last, p.in_slot))
    return slot


def _stream(config: DotConfig) -> Claim:
    return Claim(
        f"stream:{_name(config)}",
        f"{_subject(config)}: as many results as products; in the "
        "documented latency and interval; a result stays until it is taken; no deadlock",
        lambda: unit(config), _handshake(config), _bug(config),
    )  # fmt: skip


def _handshake(config: DotConfig) -> Rule:
    """Products are in the unit from their last block on."""
    latency, interval = config.latency, config.interval

    def wrong(m: Module, p: Any) -> Value:
        takes = p.in_valid & p.in_ready
        inside = Inside(m, p, takes & p.in_last, latency, _room(config))
        if interval == config.interleave == 1:
            flows = streams.ready_for(m, p.out_ready, latency)
            late = p.out_ready & ~p.in_ready
        else:
            # Nothing waits inside after a rest, until something comes sooner than `interval` says.
            soon = _too_soon(m, p, config, takes)
            flows = Signal(init=1)
            most = latency * interval if config.interleave == 1 else inside.room
            rest = streams.ready_for(m, p.out_ready & ~takes, most)
            if config.interleave > 1:
                late = p.in_ready == soon
                rest |= inside.count == 0
                m.d.sync += flows.eq(p.out_ready & (flows | rest))
                longest = max(1, interval - 1)  # until there is room again, for one cycle
            else:
                late = p.in_valid & ~soon & ~p.in_ready & p.out_ready
                m.d.sync += flows.eq(p.out_ready & (flows | rest) & ~(p.in_valid & soon))
                longest = interval - 1
            late = (flows & late) | streams.waits_longer(m, p, longest)
        return ~p.rst & Cat(inside.wrong(flows), late, streams.changes(m, p)).any()

    return wrong


def _too_soon(m: Module, p: Any, config: DotConfig, takes: Value) -> Value:
    """Whether a block is there less than `interval` cycles after the last one of its product."""
    slot = _slot(m, p, config)
    recent = Array(Signal(config.interval - 1, name=f"recent{i}") for i in range(config.interleave))
    for number, cycles in enumerate(recent):
        m.d.sync += cycles.eq(Cat(takes & (slot == number), cycles))
    soon = Signal()
    m.d.comb += soon.eq(~p.in_first & recent[slot].any())
    return soon


def _order(config: DotConfig) -> Claim:
    """Products of one block, in which only lane 0 counts: its value is the result."""
    tied = {"in_b": 2, "in_scale_a": 127, "in_scale_b": 127, "in_first": 1, "in_last": 1}

    def wrong(m: Module, p: Any) -> Value:
        enters = p.in_valid & p.in_ready
        item = Cat(p.in_a[:4], _slot(m, p, config))
        queue = Queue(m, len(item), _room(config) + 1, enters, item, streams.leaves(p))
        floats = [int(np.float32(value / 2).view(np.uint32)) for value in E2M1_HALVES]
        want = Array(Const(bits, 32) for bits in floats)
        unlike = p.out_result != want[queue.oldest[:4]]
        return ~p.rst & p.out_valid & (queue.empty | unlike | _elsewhere(p, queue.oldest[4:]))

    return Claim(
        f"order:{_name(config)}",
        f"{_subject(config)}: each result is that of its product, in "
        "order, whatever the gaps and stalls",
        lambda: replace(unit(config), tied=tied), wrong, _bug(config),
    )  # fmt: skip


def _elsewhere(p: Any, slot: Value) -> Value:
    """Whether a result says that it is of another slot."""
    return p.out_slot != slot if hasattr(p, "out_slot") else Const(0, 1)


def _chain(config: DotConfig) -> Claim:
    """Products of any number of blocks of zeros, some of them NaN by their scale."""
    tied = {"in_a": 0, "in_b": 0, "in_scale_b": 127, "in_scale_a": ONE_OR_NAN}

    def wrong(m: Module, p: Any) -> Value:
        takes, slot = p.in_valid & p.in_ready, _slot(m, p, config)
        poisoned = Array(Signal(name=f"poisoned{i}") for i in range(config.interleave))
        # What comes before a first block belongs to no product.
        begun = Array(Signal(name=f"begun{i}") for i in range(config.interleave))
        nan = p.in_scale_a[7] | (poisoned[slot] & ~p.in_first)
        known = p.in_first | begun[slot]
        with m.If(takes):
            m.d.sync += [poisoned[slot].eq(nan), begun[slot].eq(known)]
        item = Cat(nan, known, slot)
        left, enters = streams.leaves(p), takes & p.in_last
        queue = Queue(m, len(item), _room(config) + 1, enters, item, left)
        want_nan, known, slot = queue.oldest[0], queue.oldest[1], queue.oldest[2:]
        is_nan = p.out_result[23:31].all() & p.out_result[:23].any()
        unlike = known & Mux(want_nan, ~is_nan, p.out_result != 0)
        return ~p.rst & p.out_valid & (queue.empty | unlike | _elsewhere(p, slot))

    return Claim(
        f"chain:{_name(config)}",
        f"{_subject(config)}: a result is NaN where a block of its product is, however many "
        "blocks it has, whatever the gaps and stalls",
        lambda: replace(unit(config), tied=tied), wrong,
        TOO_SOON if config.interval > 1 else _bug(config),
    )  # fmt: skip


def _first(claim: Claim, cycles: int) -> Claim:
    """The claim for the first `cycles` alone."""
    return replace(
        claim,
        says=f"{claim.says}, in the first {cycles} cycles after a reset",
        decide=partial(decide_first, cycles=cycles),
        cycles=f"each of {cycles} cycles",
    )


def _gated(config: DotConfig) -> Claim:
    """The unit with gates beside the one without."""
    plain = replace(config, gate_idle=False)
    return Claim(
        f"gate-idle:{_name(plain)}",
        f"{_subject(config)}: each output is that of the unit without gates in every cycle after a "
        "reset",
        lambda: beside(plain, generate(config, OTHER)), differ, UNGATED, equivalent,
        state="registers of 0",
    )  # fmt: skip
