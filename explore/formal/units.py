"""Claims about whole small units: what they compute, and how their streams behave."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from ...model import DotConfig
from .claim import Claim
from .observer import Rule, unit

E2M1_HALVES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Values of the codes of E2M1, in halves: the table of the OCP specification."""


def claims() -> Iterator[Claim]:
    """Of units of E2M1, the smallest format."""
    for accumulator in ("exact", "aligned:3"):
        for stages in (1, 2, 3, 4):
            config = DotConfig("e2m1", 4, accumulator, stages, load_c=False, status=False)
            yield _stream(config)
            yield _order(config)


READY_TOO_SOON = ("assign in_ready = ", "assign in_ready = in_valid | ")
"""The bug of claims about streams: a block is taken whether or not there is room."""


def _stream(config: DotConfig) -> Claim:
    return Claim(
        f"stream:{str(config.accumulator).replace(':', '')}-{config.stages}",
        f"{config.accumulator}, {config.stages} stages: as many results as products; in the "
        "documented latency and interval; a result stays until it is taken; no deadlock",
        lambda: unit(config), _handshake(config), READY_TOO_SOON,
    )  # fmt: skip


def _handshake(config: DotConfig) -> Rule:
    """Counts products in the unit: those taken whose last block came, less the results."""
    latency = config.latency

    def wrong(m: Module, p: Any) -> Value:
        enters, leaves, held = Signal(), Signal(), Signal()
        inside, previous = Signal(range(latency + 2)), Signal.like(p.out_result)
        # Whether a product entered in each of the last cycles; for how long results were taken.
        entered, flowing = Signal(latency), Signal(range(latency + 1))
        flows = flowing == latency
        m.d.comb += [
            enters.eq(p.in_valid & p.in_ready & p.in_last),
            leaves.eq(p.out_valid & p.out_ready),
        ]
        m.d.sync += [
            inside.eq(inside + enters - leaves),
            held.eq(p.out_valid & ~p.out_ready),
            previous.eq(p.out_result),
            entered.eq(Cat(enters, entered)),
            flowing.eq(Mux(p.out_ready, Mux(flows, latency, flowing + 1), 0)),
        ]
        return (
            ~p.rst
            & Cat(
                p.out_valid & (inside == 0),  # duplicated
                inside > latency,  # lost
                flows & (inside != sum(entered)),  # lost or duplicated
                flows & (p.out_valid != entered[-1]),  # not in time
                p.out_ready & ~p.in_ready,  # a wait that the interval, 1, does not allow
                (inside == 0) & flows & ~p.in_ready,  # a deadlock
                held & (~p.out_valid | (p.out_result != previous)),  # a result that did not stay
            ).any()
        )

    return wrong


def _order(config: DotConfig) -> Claim:
    """Products of one block, in which only lane 0 counts: its value is the result."""
    tied = {"in_b": 2, "in_scale_a": 127, "in_scale_b": 127, "in_first": 1, "in_last": 1}

    def wrong(m: Module, p: Any) -> Value:
        depth = config.latency + 1
        queue = Array(Signal(4, name=f"queue{i}") for i in range(depth))
        count = Signal(range(depth + 1))
        enters, leaves = Signal(), Signal()
        m.d.comb += [enters.eq(p.in_valid & p.in_ready), leaves.eq(p.out_valid & p.out_ready)]
        with m.If(leaves):
            m.d.sync += [queue[i].eq(queue[i + 1]) for i in range(depth - 1)]
        with m.If(enters):
            m.d.sync += queue[count - leaves].eq(p.in_a[:4])
        m.d.sync += count.eq(count + enters - leaves)
        floats = [int(np.float32(value / 2).view(np.uint32)) for value in E2M1_HALVES]
        want = Array(Const(bits, 32) for bits in floats)
        return ~p.rst & p.out_valid & ((count == 0) | (p.out_result != want[queue[0]]))

    name = str(config.accumulator).replace(":", "")
    return Claim(
        f"order:{name}-{config.stages}",
        f"{config.accumulator}, {config.stages} stages: each result is that of its product, in "
        "order, whatever the gaps and stalls",
        lambda: replace(unit(config), tied=tied), wrong, READY_TOO_SOON,
    )  # fmt: skip
