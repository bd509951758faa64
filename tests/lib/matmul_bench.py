"""Drives MatmulUnits in Amaranth's simulator: software on AXI4-Lite, packets on AXI4-Stream.

Written against the AXI rules and the register map's documentation alone.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from mxdot.hw.matmul import MatmulUnit
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.registers import REGISTERS, fields

LIMIT = 20_000


@dataclass(frozen=True)
class Beat:
    """One transfer of an AXI4-Stream."""

    data: bytes
    keep: int
    last: bool


def packet(data: bytes, width: int) -> list[Beat]:
    """`data` as the beats of one packet, the last one's TKEEP as short as it must be."""
    chunks = [data[i : i + width] for i in range(0, len(data), width)]
    return [
        Beat(chunk.ljust(width, b"\xa5"), 2 ** len(chunk) - 1, i == len(chunks) - 1)
        for i, chunk in enumerate(chunks)
    ]


def data_of(beats: Iterable[Beat]) -> bytes:
    """The bytes that TKEEP keeps."""
    return b"".join(
        bytes(byte for i, byte in enumerate(beat.data) if beat.keep >> i & 1) for beat in beats
    )


@dataclass
class Bench:
    """A unit with queues at its streams.

    send: beats for s_axis_NAME, offered as soon as they are there and withdrawn only when the list
    is cleared, as by the reset of a sender; got: the beats of m_axis_c. gap, stall: the chance in
    each cycle that nothing new is offered, nothing taken. `run` calls `software` with the bench and
    ends with it.
    """

    config: MatmulConfig
    seed: int = 0
    gap: float = 0.0
    stall: float = 0.0
    send: dict[str, list[Beat]] = field(default_factory=dict)
    got: list[Beat] = field(default_factory=list)
    cycle: int = 0
    unit: Any = field(init=False)
    ctx: Any = field(init=False)
    resets: bool = False

    def run(self, software: Callable[["Bench"], Coroutine]) -> None:
        self.send = {side: [] for side in self.config.inputs}
        self.rng = np.random.default_rng(self.seed)
        self.stall_now = self.stall
        self.gap_now = dict.fromkeys(self.send, self.gap)
        # One that breaks off is not used again.
        simulation = _SIMULATIONS.pop(self.config, None) or _Simulation(self.config)
        self.unit = simulation.unit
        simulation.run(self, software)
        _SIMULATIONS[self.config] = simulation

    async def source(self, side: str, ctx: Any) -> None:
        """Offers the beats of one stream."""
        port, beats = getattr(self.unit, f"s_axis_{side}"), self.send[side]
        while True:
            if not beats or self.rng.random() < self.gap_now[side]:
                await ctx.tick()
                continue
            beat = beats[0]
            ctx.set(port.tdata, int.from_bytes(beat.data, "little"))
            ctx.set(port.tkeep, beat.keep)
            ctx.set(port.tlast, beat.last)
            ctx.set(port.tvalid, 1)
            ready = 0
            while not ready and beats:
                *_, ready = await ctx.tick().sample(port.tready)
            ctx.set(port.tvalid, 0)
            del beats[:1]

    async def sink(self, ctx: Any) -> None:
        """Takes the beats of C."""
        port = self.unit.m_axis_c
        waiting = None
        while True:
            ctx.set(port.tready, self.rng.random() >= self.stall_now)
            sampled = ctx.tick().sample(
                port.tdata, port.tkeep, port.tlast, port.tvalid, port.tready
            )
            _, _, data, keep, last, valid, ready = await sampled
            self.cycle += 1
            beat = Beat(data.to_bytes(self.config.c_bytes, "little"), keep, bool(last))
            assert waiting is None or (valid and beat == waiting), "a beat was withdrawn or changed"
            waiting = beat if valid and not ready and not self.resets else None
            if valid and ready:
                self.got.append(beat)

    async def tick(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            await self.ctx.tick()

    async def write(self, name: str | int, value: int, strobe: int = 15) -> int:
        """Write a register, or at an offset; BRESP."""
        bus, ctx = self.unit.s_axil, self.ctx
        self.resets = name == "CONTROL" and bool(value & 2)
        offset = REGISTERS[name].offset if isinstance(name, str) else name
        ctx.set(bus.awaddr, offset)
        ctx.set(bus.wdata, value)
        ctx.set(bus.wstrb, strobe)
        waits = {"aw": int(self.rng.integers(0, 3)), "w": int(self.rng.integers(0, 3))}
        ctx.set(bus.bready, 1)
        for cycle in range(LIMIT):
            for channel, wait in waits.items():
                if cycle == wait:
                    ctx.set(getattr(bus, f"{channel}valid"), 1)
            *_, aw, w, valid, response = await ctx.tick().sample(
                bus.awvalid & bus.awready, bus.wvalid & bus.wready, bus.bvalid, bus.bresp
            )
            if aw:
                ctx.set(bus.awvalid, 0)
            if w:
                ctx.set(bus.wvalid, 0)
            if valid:
                ctx.set(bus.bready, 0)
                self.resets = False
                return response
        raise AssertionError("no response to a write")

    async def read(self, name: str | int) -> tuple[int, int]:
        """(word, RRESP)."""
        bus, ctx = self.unit.s_axil, self.ctx
        offset = REGISTERS[name].offset if isinstance(name, str) else name
        ctx.set(bus.araddr, offset)
        ctx.set(bus.arvalid, 1)
        for _ in range(LIMIT):
            *_, taken = await ctx.tick().sample(bus.arready)
            if taken:
                break
        ctx.set(bus.arvalid, 0)
        await self.tick(int(self.rng.integers(0, 3)))
        ctx.set(bus.rready, 1)
        *_, word, response = await ctx.tick().sample(bus.rdata, bus.rresp).until(bus.rvalid)
        ctx.set(bus.rready, 0)
        return word, response

    async def get(self, name: str) -> dict[str, int]:
        """The fields of a register."""
        word, response = await self.read(name)
        assert response == 0
        return fields(REGISTERS[name], word)

    async def count(self, name: str) -> int:
        """The value of a counter: its low word, for the high one takes longer to leave 0."""
        return (await self.read(name))[0]

    async def status(self) -> set[str]:
        """The bits of STATUS that are set."""
        return {name for name, bit in (await self.get("STATUS")).items() if bit}

    async def start(
        self, m_tiles: int, n_tiles: int, k_blocks: int, mode: int = 0, use_d: int = 0
    ) -> None:
        """Write the shape and start."""
        values = {"M_TILES": m_tiles, "N_TILES": n_tiles, "K_BLOCKS": k_blocks}
        for name, value in {**values, "FORMAT": mode, "OPTIONS": use_d}.items():
            assert await self.write(name, value) == 0
        assert await self.write("CONTROL", 1) == 0

    async def wait(self) -> None:
        """Until the unit is not busy."""
        for _ in range(LIMIT // 10):
            if not (await self.get("STATUS"))["busy"]:
                return
            await self.tick(5)
        raise AssertionError(f"busy after {self.cycle} cycles")


class _Simulation:
    """A unit in Amaranth's simulator, compiled once for all benches of a configuration."""

    def __init__(self, config: MatmulConfig) -> None:
        self.unit = MatmulUnit(config)
        self.sides = tuple(config.inputs)
        self.simulator: Simulator | None = None

    def run(self, bench: Bench, software: Callable[[Bench], Coroutine]) -> None:
        self.bench, self.software = bench, software
        if self.simulator is None:
            self.simulator = self._compile()
        else:
            self.simulator.reset()
        self.simulator.run()

    def _compile(self) -> Simulator:
        simulator = Simulator(self.unit)
        simulator.add_clock(1e-6)
        for side in self.sides:
            simulator.add_testbench(self._source(side), background=True)
        simulator.add_testbench(self._sink, background=True)
        simulator.add_testbench(self._main)
        return simulator

    def _source(self, side: str) -> Callable:
        async def source(ctx):
            await self.bench.source(side, ctx)

        return source

    async def _sink(self, ctx):
        await self.bench.sink(ctx)

    async def _main(self, ctx):
        self.bench.ctx = ctx
        await self.software(self.bench)


_SIMULATIONS: dict[MatmulConfig, _Simulation] = {}
