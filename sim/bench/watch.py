"""One look at the pins in every cycle, for all who only watch them.

Each of them would else be a task of its own, woken in every cycle to read the same pins.
"""

from collections.abc import Callable
from typing import NamedTuple

from pyuvm import uvm_component

from .context import context_of


class Seen(NamedTuple):
    """The pins that every unit has, before a rising edge."""

    rst: bool
    in_valid: bool
    in_ready: bool
    out_valid: bool
    out_ready: bool


class Watch(uvm_component):
    """Calls `watchers` with what it sees, in their order."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.watchers: list[Callable[[Seen], None]] = []

    async def run_phase(self) -> None:
        """Look at every cycle."""
        pins = self.context.pins
        handles = [getattr(pins, name) for name in Seen._fields]
        while True:
            await pins.edge
            self.context.forget_payload()
            seen = Seen(*[bool(handle.value) for handle in handles])
            for watcher in self.watchers:
                watcher(seen)
