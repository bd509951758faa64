"""Monitors of both streams: what passes on the pins, assembled to items and results."""

from cocotb.handle import LogicObject
from pyuvm import uvm_analysis_port, uvm_monitor

from .context import context_of
from .scoreboard import RESET
from .subject import Assembler


class Monitor(uvm_monitor):
    """Assembles what passes on one stream from the pins."""

    valid: LogicObject
    ready: LogicObject
    assembler: Assembler

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)
        self.connect_pins()

    def connect_pins(self) -> None:
        """Choose the stream: its valid, its ready, its assembler."""
        raise NotImplementedError

    async def run_phase(self) -> None:
        """Write each item, RESET for each reset."""
        pins, in_reset = self.context.pins, 0
        while True:
            await pins.edge
            if int(pins.rst.value):
                if not in_reset:
                    self.ap.write(RESET)
                in_reset = 1
                self.assembler.reset()
                continue
            in_reset = 0
            if int(self.valid.value) and int(self.ready.value):
                item = self.assembler.beat()
                if item is not None:
                    self.ap.write(item)


class InputMonitor(Monitor):
    """Sees the items that the unit accepted."""

    def connect_pins(self) -> None:
        """The input stream."""
        pins = self.context.pins
        self.valid, self.ready = pins.in_valid, pins.in_ready
        self.assembler = self.context.subject.sent()


class OutputMonitor(Monitor):
    """Sees the results that the unit delivered."""

    def connect_pins(self) -> None:
        """The output stream."""
        pins = self.context.pins
        self.valid, self.ready = pins.out_valid, pins.out_ready
        self.assembler = self.context.subject.delivered()
