"""The pyuvm environment: items, sequences, agents for both streams, and how they are connected.

The driver knows the items; monitors, scoreboard, protocol checker and coverage know only the pins.
"""

from collections.abc import Iterable
from typing import Any

from cocotb.handle import LogicObject
from pyuvm import (
    uvm_agent,
    uvm_analysis_port,
    uvm_driver,
    uvm_env,
    uvm_monitor,
    uvm_sequence,
    uvm_sequence_item,
    uvm_sequencer,
)

from .context import context_of, make
from .coverage import Coverage
from .protocol import ProtocolChecker
from .scoreboard import RESET, Scoreboard
from .subject import Assembler


class UnitItem(uvm_sequence_item):
    """A whole item of the subject; the driver breaks it into beats."""

    def __init__(self, content: Any) -> None:
        super().__init__("item")
        self.content = content


class UnitSequence(uvm_sequence):
    """Items in the order given."""

    def __init__(self, contents: Iterable[Any]) -> None:
        super().__init__("items")
        self.contents = contents

    async def body(self) -> None:
        """Send them all."""
        for content in self.contents:
            item = UnitItem(content)
            await self.start_item(item)
            await self.finish_item(item)


class InputDriver(uvm_driver):
    """Drives the beats of each item, with random gaps; gives an item up that a reset cuts."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.rng = self.context.random("driver")

    async def run_phase(self) -> None:
        """Drive items as they come."""
        while True:
            item = await self.seq_item_port.get_next_item()
            await self._send(item.content)
            self.seq_item_port.item_done()

    async def _send(self, content: Any) -> None:
        subject, pins, timing = self.context.subject, self.context.pins, self.context.timing
        for index in range(subject.beats(content)):
            for _ in range(timing.pause(self.rng, timing.gap)):
                await pins.edge
                if index and int(pins.rst.value):
                    return
            subject.drive(content, index, self.rng)
            pins.in_valid.value = 1
            while True:
                await pins.edge
                if int(pins.rst.value):
                    if index:
                        pins.in_valid.value = 0
                        return
                elif int(pins.in_ready.value):
                    break
            pins.in_valid.value = 0


class OutputDriver(uvm_driver):
    """Takes results, with random stalls."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.rng = self.context.random("ready")

    async def run_phase(self) -> None:
        """Drive out_ready."""
        pins, timing = self.context.pins, self.context.timing
        pins.out_ready.value = 1
        while True:
            await pins.edge
            pause = timing.pause(self.rng, timing.stall)
            if pause:
                pins.out_ready.value = 0
                for _ in range(pause):
                    await pins.edge
                pins.out_ready.value = 1


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


class InputAgent(uvm_agent):
    """Sequencer, driver and monitor of the input stream."""

    def build_phase(self) -> None:
        """Make them."""
        super().build_phase()
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = make(InputDriver, "driver", self)
        self.monitor = make(InputMonitor, "monitor", self)

    def connect_phase(self) -> None:
        """Connect driver and sequencer."""
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class OutputAgent(uvm_agent):
    """Driver and monitor of the stream of results."""

    def build_phase(self) -> None:
        """Make them."""
        super().build_phase()
        self.driver = make(OutputDriver, "driver", self)
        self.monitor = make(OutputMonitor, "monitor", self)


class UnitEnv(uvm_env):
    """Both agents and those who watch them."""

    def build_phase(self) -> None:
        """Make the components."""
        self.input = make(InputAgent, "input", self)
        self.output = make(OutputAgent, "output", self)
        self.scoreboard = make(Scoreboard, "scoreboard", self)
        self.protocol = make(ProtocolChecker, "protocol", self)
        self.coverage = make(Coverage, "coverage", self)

    def connect_phase(self) -> None:
        """Connect the monitors to the scoreboard, and both checkers to the coverage."""
        self.input.monitor.ap.connect(self.scoreboard.accepted.analysis_export)
        self.output.monitor.ap.connect(self.scoreboard.delivered.analysis_export)
        self.scoreboard.ap.connect(self.coverage.batches.analysis_export)
        self.protocol.ap.connect(self.coverage.events.analysis_export)
