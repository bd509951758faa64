"""The timing diagrams of the documentation, drawn from a simulation of the matrix unit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from matmul_bench import packet
from mxdot.hw.matmul import MatmulUnit
from mxdot.model import DotConfig, quantize
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.layout import pack_a, pack_b
from mxdot.model.units.matmul.registers import REGISTERS

UNIT = MatmulConfig(DotConfig("e4m3", lanes=4), rows=2, columns=2, depth=4)
WIDTH = 4  # characters of a cycle


def levels(name: str, values: Sequence[Any]) -> str:
    """A line of a signal of one bit, by its value in each cycle."""
    text, before = "", values[0]
    for value in values:
        level = "-" if value else "_"
        text += level if value == before else "/" if value else "\\"
        text += level * (WIDTH - 1)
        before = value
    return f"{name:10}{text}"


def words(name: str, values: Sequence[Any]) -> str:
    """A line of a bus, by what it holds in each cycle; nothing of interest where that is empty."""
    text, at = "", 0
    while at < len(values):
        end = at
        while end < len(values) and values[end] == values[at]:
            end += 1
        width = WIDTH * (end - at)
        text += f"<{values[at]:^{width - 2}}>" if values[at] else "x" * width
        at = end
    return f"{name:10}{text}"


def draw() -> str:
    """A job of one tile and two blocks of K, from the write of CONTROL to the interrupt."""
    a = quantize(np.ones((2, 8), np.float32), "e4m3", block_size=4)
    beats = {"a": packet(pack_a(a, UNIT, 2), 10), "b": packet(pack_b(a, UNIT, 2), 10)}
    unit: Any = MatmulUnit(UNIT)
    seen: list[dict[str, Any]] = []

    async def bench(ctx):
        at = dict.fromkeys("abc", 0)
        ctx.set(unit.m_axis_c.tready, 1)
        ctx.set(unit.s_axil.bready, 1)
        for name, value in {"M_TILES": 1, "N_TILES": 1, "K_BLOCKS": 2, "IRQ_ENABLE": 1}.items():
            offer(ctx, unit, name, value)
            await ctx.tick()
            withdraw(ctx, unit)
            await ctx.tick().until(unit.s_axil.bvalid)
        for cycle in range(18):
            if cycle == 1:
                offer(ctx, unit, "CONTROL", 1)
            for side, port in (("a", unit.s_axis_a), ("b", unit.s_axis_b)):
                left = beats[side][at[side] :]
                ctx.set(port.tvalid, len(left) > 0)
                ctx.set(port.tlast, len(left) == 1)
                ctx.set(port.tkeep, 2**10 - 1)
            seen.append(observe(ctx, unit, at))
            await ctx.tick()
            if cycle == 1:
                withdraw(ctx, unit)

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()

    def column(name):
        return [each[name] for each in seen]

    lines = [f"{'aclk':10}" + "/-\\_" * len(seen)]
    lines += [levels("awvalid", column("valid")), levels("awready", column("ready"))]
    lines += [levels("bvalid", column("bvalid"))]
    for side in "abc":
        for name in HANDSHAKE:
            lines.append(levels(f"{side} {name}", column(f"{side} {name}")))
        lines.append(words(f"{side} tdata", column(f"{side} tdata")))
    lines.append(levels("irq", column("irq")))
    return "\n".join(lines)


HANDSHAKE = ("tvalid", "tready", "tlast")


def observe(ctx, unit, at: dict[str, int]) -> dict[str, Any]:
    """Pins in this cycle; `at`: number of beats taken so far per stream."""
    bus = unit.s_axil
    now: dict[str, Any] = {
        "valid": ctx.get(bus.awvalid),
        "ready": ctx.get(bus.awready),
        "bvalid": ctx.get(bus.bvalid),
        "irq": ctx.get(unit.irq),
    }
    for side, port in {"a": unit.s_axis_a, "b": unit.s_axis_b, "c": unit.m_axis_c}.items():
        now |= {f"{side} {name}": ctx.get(getattr(port, name)) for name in HANDSHAKE}
        now[f"{side} tdata"] = f"{side.upper()}{at[side]}" if ctx.get(port.tvalid) else ""
        at[side] += ctx.get(port.tvalid) and ctx.get(port.tready)
    return now


def offer(ctx, unit, name: str, value: int) -> None:
    """Offer a write."""
    bus = unit.s_axil
    ctx.set(bus.awaddr, REGISTERS[name].offset)
    ctx.set(bus.wdata, value)
    ctx.set(bus.wstrb, 15)
    ctx.set(bus.awvalid, 1)
    ctx.set(bus.wvalid, 1)


def withdraw(ctx, unit) -> None:
    """The write that was offered is taken."""
    ctx.set(unit.s_axil.awvalid, 0)
    ctx.set(unit.s_axil.wvalid, 0)


if __name__ == "__main__":
    print(draw())
