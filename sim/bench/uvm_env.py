"""The pyuvm environment: items, sequences, agents for both streams, and how they are connected.

The driver knows the items; monitors, scoreboard, protocol checker and coverage know only the pins.
"""

from collections.abc import Iterable

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

from ..item import Product
from .context import context_of, make
from .coverage import Coverage
from .protocol import ProtocolChecker
from .scoreboard import RESET, Scoreboard


class DotItem(uvm_sequence_item):
    """A whole dot product; the driver breaks it into beats."""

    def __init__(self, product: Product) -> None:
        super().__init__("dot")
        self.product = product


class DotSequence(uvm_sequence):
    """Dot products in the order given."""

    def __init__(self, products: Iterable[Product]) -> None:
        super().__init__("dots")
        self.products = products

    async def body(self) -> None:
        """Send them all."""
        for product in self.products:
            item = DotItem(product)
            await self.start_item(item)
            await self.finish_item(item)


class InputDriver(uvm_driver):
    """Drives the blocks of each item, with random gaps; gives an item up that a reset cuts."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.rng = self.context.random("driver")

    async def run_phase(self) -> None:
        """Drive items as they come."""
        while True:
            item = await self.seq_item_port.get_next_item()
            await self._send(item.product)
            self.seq_item_port.item_done()

    async def _send(self, product: Product) -> None:
        pins, timing = self.context.pins, self.context.timing
        for index, block in enumerate(product.blocks):
            for _ in range(timing.pause(self.rng, timing.gap)):
                await pins.edge
                if index and int(pins.rst.value):
                    return
            self._drive(product, index, block)
            while True:
                await pins.edge
                if int(pins.rst.value):
                    if index:
                        pins.in_valid.value = 0
                        return
                elif int(pins.in_ready.value):
                    break
            pins.in_valid.value = 0

    def _drive(self, product: Product, index: int, block: tuple[int, ...]) -> None:
        pins = self.context.pins
        for pin, bits in zip(pins.block, block, strict=True):
            pin.value = bits
        pins.in_first.value = index == 0
        pins.in_last.value = index == len(product.blocks) - 1
        if pins.in_c is not None:
            # Used with the first block only: others carry noise.
            pins.in_c.value = self.rng.getrandbits(32) if index else product.c
        if pins.in_mode is not None:
            pins.in_mode.value = product.mode
        pins.in_valid.value = 1


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


class InputMonitor(uvm_monitor):
    """Assembles the dot products that the unit accepted from the pins."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)

    async def run_phase(self) -> None:
        """Write a Product for each dot product, RESET for each reset."""
        pins = self.context.pins
        blocks: list[tuple[int, ...]] = []
        mode = c = in_reset = 0
        while True:
            await pins.edge
            if int(pins.rst.value):
                if not in_reset:
                    self.ap.write(RESET)
                in_reset, blocks = 1, []
                continue
            in_reset = 0
            if not (int(pins.in_valid.value) and int(pins.in_ready.value)):
                continue
            if int(pins.in_first.value):
                blocks = []
                c = 0 if pins.in_c is None else int(pins.in_c.value)
                mode = 0 if pins.in_mode is None else int(pins.in_mode.value)
            blocks.append(tuple(int(pin.value) for pin in pins.block))
            if int(pins.in_last.value):
                self.ap.write(Product(mode, c, tuple(blocks)))


class OutputMonitor(uvm_monitor):
    """Sees the results that the unit delivered."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)

    async def run_phase(self) -> None:
        """Write (result, flags) for each result, RESET for each reset."""
        pins = self.context.pins
        in_reset = 0
        while True:
            await pins.edge
            if int(pins.rst.value):
                if not in_reset:
                    self.ap.write(RESET)
                in_reset = 1
                continue
            in_reset = 0
            if int(pins.out_valid.value) and int(pins.out_ready.value):
                self.ap.write(pins.result())


class InputAgent(uvm_agent):
    """Sequencer, driver and monitor of the stream of blocks."""

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


class DotEnv(uvm_env):
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
        self.scoreboard.ap.connect(self.coverage.products.analysis_export)
        self.protocol.ap.connect(self.coverage.events.analysis_export)
