"""Monitors of both streams: what passes on the pins, assembled to items and results."""

from pyuvm import uvm_analysis_port, uvm_monitor

from .context import context_of
from .scoreboard import RESET
from .subject import Assembler
from .watch import Seen


class Monitor(uvm_monitor):
    """Assembles what passes on one stream from the pins; writes each item, RESET for each reset."""

    assembler: Assembler

    def build_phase(self) -> None:
        """Nothing has passed yet."""
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)
        self.in_reset = False

    def see(self, seen: Seen) -> None:
        """Look at a cycle."""
        if seen.rst:
            if not self.in_reset:
                self.ap.write(RESET)
            self.assembler.reset()
        elif self.passes(seen):
            item = self.assembler.beat()
            if item is not None:
                self.ap.write(item)
        self.in_reset = seen.rst

    def passes(self, seen: Seen) -> bool:
        """Whether a beat of the stream passes."""
        raise NotImplementedError


class InputMonitor(Monitor):
    """Sees the items that the unit accepted."""

    def build_phase(self) -> None:
        """The input stream."""
        super().build_phase()
        self.assembler = self.context.subject.sent()

    def passes(self, seen: Seen) -> bool:
        """A beat is accepted."""
        return seen.in_valid and seen.in_ready


class OutputMonitor(Monitor):
    """Sees the results that the unit delivered."""

    def build_phase(self) -> None:
        """The output stream."""
        super().build_phase()
        self.assembler = self.context.subject.delivered(self.context.payload)

    def passes(self, seen: Seen) -> bool:
        """A beat is taken."""
        return seen.out_valid and seen.out_ready
