"""The system around the matrix unit: the ends of its streams, and its software."""

import itertools
import logging
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiProt,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import COUNTERS, REGISTERS, fields, word

Access = Callable[[], Coroutine[Any, Any, None]]

STATES = ("busy", "done")
"""Fields of STATUS that are no errors."""


class HangError(AssertionError):
    """The unit is still busy at the time limit."""


class Ends:
    """AXI-Stream sources of the operands, a sink of C, and accesses to the registers by name."""

    def __init__(self, dut: Any, config: MatmulConfig) -> None:
        self.dut, self.config = dut, config
        self.sources = {
            side: AxiStreamSource(_stream(dut, f"s_axis_{side}"), dut.clk, dut.ends_rst)
            for side in config.inputs
        }
        self.sink = AxiStreamSink(_stream(dut, "m_axis_c"), dut.clk, dut.ends_rst)
        self.software: Any = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self._fill_bytes_not_written()
        self._protections = itertools.cycle(map(AxiProt, range(8)))
        self.counter_registers = _counter_registers(dut)
        """Registers of the counters that the simulation has, by name."""
        loggers = [end.log for end in (*self.sources.values(), self.sink)]
        loggers += [self.software.write_if.log, self.software.read_if.log]
        for log in loggers:
            log.setLevel(logging.ERROR)

    def _fill_bytes_not_written(self) -> None:
        """Put ones into bytes whose WSTRB is 0; the library sends zeros."""
        channel = self.software.write_if.w_channel
        send = channel.send

        async def filled(beat: Any) -> None:
            for byte in range(4):
                if not beat.wstrb >> byte & 1:
                    beat.wdata |= 0xFF << 8 * byte
            await send(beat)

        channel.send = filled

    # Clock and reset ------------------------------------------------------------------------------

    async def cycles(self, count: int = 1) -> None:
        if count > 0:
            await ClockCycles(self.dut.clk, count)

    async def reset(self, cycles: int = 2) -> None:
        """Pull the reset pin, and empty all ends of streams."""
        self.dut.rst.value = 1
        await self.flush(cycles)
        self.dut.rst.value = 0
        await self.cycles()

    async def flush(self, cycles: int = 1) -> None:
        """Drop everything that ends of streams have."""
        self.dut.ends_rst.value = 1
        await self.cycles(cycles)
        self.dut.ends_rst.value = 0
        for end in (*self.sources.values(), self.sink):
            end.clear()
        await self.cycles()

    def drop_c(self) -> None:
        """Drop everything that the receiver of C has."""
        self.sink.assert_reset()
        self.sink.clear()

    # Streams --------------------------------------------------------------------------------------

    def pause(self, shares: dict[str, float], length: float, rng: Random) -> None:
        """Set the share of the cycles that each end pauses, and the mean length of a pause; 0 is
        never.

        shares: by side of the streams; "software" stands for all channels of the registers.
        """
        write, read = self.software.write_if, self.software.read_if
        channels = (write.aw_channel, write.w_channel, write.b_channel)
        channels += (read.ar_channel, read.r_channel)
        ends = [*self.ends.items(), *(("software", channel) for channel in channels)]
        for side, end in ends:
            share = shares.get(side, 0.0)
            seed = rng.getrandbits(32)
            end.set_pause_generator(_pauses(share, length, Random(seed)) if share else None)
            end.pause = False

    def stop(self, side: str) -> None:
        """Pause this end of a stream until `resume`."""
        self.ends[side].clear_pause_generator()
        self.ends[side].pause = True

    def slow(self, side: str, cycles: int) -> None:
        """Let this end of a stream move once in so many cycles."""
        self.ends[side].set_pause_generator(itertools.cycle([False, *[True] * (cycles - 1)]))

    def resume(self, side: str) -> None:
        self.ends[side].pause = False

    @property
    def ends(self) -> dict[str, AxiStreamSource | AxiStreamSink]:
        """The ends of all streams, by side."""
        return {**self.sources, "c": self.sink}

    def send(self, side: str, packet: bytes, keep: list[int] | None = None) -> None:
        """Queue a packet; keep: a bit for each byte, all ones when None."""
        self.sources[side].send_nowait(AxiStreamFrame(packet, tkeep=keep))

    @property
    def quiet(self) -> bool:
        """True when no source has anything left and no beat of C waits."""
        return all(source.idle() for source in self.sources.values()) and self.sink.empty()

    # Registers ------------------------------------------------------------------------------------

    async def write(self, register: str, **values: int) -> bool:
        """Write fields, the others 0; True when it was accepted."""
        return await self.poke(REGISTERS[register].offset, word(REGISTERS[register], values))

    async def poke(self, address: int, value: int, size: int = 4) -> bool:
        """Write bytes at an address; True when it was accepted."""
        data = value.to_bytes(size, "little")
        done = await self.software.write(address, data, next(self._protections))
        return done.resp == AxiResp.OKAY

    async def peek(self, address: int) -> tuple[int, bool]:
        """A word, and whether the read was accepted."""
        got = await self.software.read(address, 4, next(self._protections))
        return int.from_bytes(got.data, "little"), got.resp == AxiResp.OKAY

    async def read(self, register: str) -> dict[str, int]:
        """The fields of a register."""
        value, accepted = await self.peek(REGISTERS[register].offset)
        assert accepted, f"{register} cannot be read"
        return fields(REGISTERS[register], value)

    async def counters(self) -> dict[str, int]:
        values = {}
        for name in COUNTERS:
            low, high = await self.read(name), await self.read(f"{name}_HIGH")
            values[name] = low["count"] | high["count"] << 32
        return values

    async def errors(self) -> set[str]:
        """The errors that STATUS has."""
        status = await self.read("STATUS")
        return {name for name, value in status.items() if value and name not in STATES}

    async def clear_status(self) -> None:
        """Clear everything sticky in STATUS."""
        await self.poke(REGISTERS["STATUS"].offset, 2**32 - 1)

    async def configure(self, words: dict[str, dict[str, int]]) -> None:
        """Describe a job."""
        for register, values in words.items():
            assert await self.write(register, **values), f"{register} cannot be written"

    async def start(self) -> bool:
        """Start the job; True when the write was accepted."""
        return await self.write("CONTROL", start=1)

    async def ended(self, timeout: int, meanwhile: Access | None = None) -> dict[str, int]:
        """STATUS once the unit is not busy; HangError after `timeout` cycles of the clock.

        meanwhile: called after each look at a busy unit.
        """
        for _ in range(timeout // POLL + 1):
            status = await self.read("STATUS")
            if not status["busy"]:
                return status
            if meanwhile is not None:
                await meanwhile()
            await self.cycles(POLL)
        raise HangError(f"busy after {timeout} cycles")


POLL = 16  # cycles between reads of STATUS


def _counter_registers(dut: Any) -> dict[str, Any]:
    try:
        unit = dut.ports.dut.counters
    except AttributeError:
        return {}
    registers = {name: getattr(unit, f"values_{name}_register", None) for name in COUNTERS}
    return {name: register for name, register in registers.items() if register is not None}


def _stream(dut: Any, prefix: str) -> AxiStreamBus:
    return AxiStreamBus.from_prefix(dut, prefix)


def _pauses(share: float, length: float, rng: Random) -> Iterator[bool]:
    """True in cycles of a pause."""
    begins = share / (length * (1 - share) + share)
    while True:
        pause = rng.random() < begins
        cycles = 1 + int(rng.expovariate(1 / (length - 0.5))) if pause and length > 1 else 1
        yield from itertools.repeat(pause, cycles)


async def until(dut: Any, condition: Any, timeout: int) -> bool:
    """Wait for a condition on the pins, at most `timeout` cycles; True when it came."""
    edge = RisingEdge(dut.clk)
    for _ in range(timeout):
        await edge
        if condition():
            return True
    return False
