"""What the pins of the matrix unit show, cycle by cycle: protocol, phases of a job, its length."""

from collections.abc import Callable
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from ...model.units.matmul.config import MatmulConfig

HANDSHAKES = {(1, 0): "waits", (1, 1): "moves", (0, 1): "starves"}
"""(valid, ready) of a stream, and what it is called."""


class Channel:
    """What the unit offers on one channel: when it is not taken it stays as it is."""

    def __init__(self, dut: Any, prefix: str, payload: tuple[str, ...], name: str) -> None:
        self.name = name
        self.valid, self.ready = (getattr(dut, f"{prefix}{pin}") for pin in ("valid", "ready"))
        self.payload = [getattr(dut, f"{prefix}{pin}") for pin in payload]
        self.offer: tuple[int, ...] | None = None

    def kept(self) -> bool:
        """Called once a cycle: whether what was offered the cycle before and not taken is there."""
        now = tuple(int(pin.value) for pin in self.payload) if int(self.valid.value) else None
        kept = self.offer in (None, now)
        # Reading a pin takes longer than the rest: `ready` where it matters.
        self.offer = None if now is None or int(self.ready.value) else now
        return kept


class Watch:
    """Looks at the pins at every rising edge.

    Since the last `forget`: events, (side, HANDSHAKES) seen; by side, beats taken, bytes of them by
    TKEEP, and bytes_late, those taken while irq was high: with the interrupt of errors alone
    enabled, what the unit must discard. withdrawn: set while software resets the unit, for
    what it offers of C then may go.
    """

    def __init__(self, dut: Any, config: MatmulConfig, error: Callable[[str], None]) -> None:
        self.dut, self.error = dut, error
        prefixes = {side: f"s_axis_{side}" for side in config.inputs} | {"c": "m_axis_c"}
        names = ("tvalid", "tready", "tlast", "tkeep")
        self.pins = {
            side: tuple(getattr(dut, f"{prefix}_{name}") for name in names)
            for side, prefix in prefixes.items()
        }
        self.channels = [
            Channel(dut, "m_axis_c_t", ("data", "keep", "last"), "a beat of C"),
            Channel(dut, "s_axil_b", ("resp",), "the response to a write"),
            Channel(dut, "s_axil_r", ("data", "resp"), "the response to a read"),
        ]
        self.write_pins = [
            (getattr(dut, f"s_axil_{name}valid"), getattr(dut, f"s_axil_{name}ready"))
            for name in ("aw", "w")
        ]
        self.events: set[tuple[str, str]] = set()
        self.beats = dict.fromkeys(self.pins, 0)
        self.bytes = dict.fromkeys(self.pins, 0)
        self.bytes_late = dict.fromkeys(self.pins, 0)
        self.ended: set[str] = set()
        self.now = self.written = self.launched = self.finished = self.fed = 0
        self.withdrawn = False
        cocotb.start_soon(self._run())

    def forget(self) -> None:
        """A new job begins."""
        self.events.clear()
        self.ended.clear()
        for counts in (self.beats, self.bytes, self.bytes_late):
            counts.update(dict.fromkeys(self.pins, 0))

    def launch(self) -> None:
        """The last write of a register was a start."""
        self.launched = self.written

    @property
    def length(self) -> int:
        """Cycles of the last job, from the one after its start to that of C's last beat."""
        # The write of the start is taken, carried out, and seen in the cycle after.
        return self.finished - self.launched - 1

    @property
    def sending(self) -> int:
        """Cycles from the last beat of A and B to the last one of C."""
        return self.finished - self.fed

    @property
    def phase(self) -> str:
        """How far the streams of a job have come."""
        inputs = set(self.pins) - {"c"}
        if not any(self.beats.values()):
            return "start"
        if self.beats["c"] == 0:
            return "operands"
        return "tail" if {"a", "b"} <= self.ended & inputs else "results"

    async def _run(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            self.now += 1
            if int(dut.rst.value):
                for channel in self.channels:
                    channel.offer = None
                continue
            for valid, ready in self.write_pins:  # the later of both completes the write
                if int(valid.value) and int(ready.value):
                    self.written = self.now
            for side, (valid, ready, last, keep) in self.pins.items():
                shake = int(valid.value), int(ready.value)
                if shake != (0, 0):
                    self.events.add((side, HANDSHAKES[shake]))
                if shake == (1, 1):
                    self._count(side, int(keep.value).bit_count(), bool(int(last.value)))
            self._check_channels()

    def _check_channels(self) -> None:
        for channel in self.channels:
            may_go = self.withdrawn and channel is self.channels[0]
            if not channel.kept() and not may_go:
                self.error(f"cycle {self.now}: {channel.name} changed before it was taken")

    def _count(self, side: str, size: int, last: bool) -> None:
        """A beat of so many bytes was taken."""
        self.beats[side] += 1
        self.bytes[side] += size
        self.bytes_late[side] += size * int(self.dut.irq.value)
        if last:
            self.ended.add(side)
            self.finished = self.now
            if side in "ab":
                self.fed = self.now
