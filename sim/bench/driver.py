"""Drivers of both streams, with pauses at random. Only the input's knows the items."""

from typing import Any

from pyuvm import uvm_driver

from .context import context_of
from .watch import Seen


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
        self.left = 0
        """Cycles of the stall that are still to come."""

    def start_of_simulation_phase(self) -> None:
        """Begin ready."""
        self.context.pins.out_ready.value = 1

    def see(self, seen: Seen) -> None:
        """Drive out_ready for the next cycle."""
        pins, timing = self.context.pins, self.context.timing
        if self.left:
            self.left -= 1
            if not self.left:
                pins.out_ready.value = 1
            return
        self.left = timing.pause(self.rng, timing.stall)
        if self.left:
            pins.out_ready.value = 0
