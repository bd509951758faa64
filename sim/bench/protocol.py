"""The protocol checker: the stream rules, latency and throughput, cycle by cycle on the pins.

Rules of the result stream: once valid, it stays valid and unchanged until taken; nothing is valid
in the cycle after a reset. Rules of time, exact while nothing has stalled: beats are taken and
results come when the subject's timeline says. Under stalls a result may come later, never earlier;
of a unit that runs on then, when it is due and the one before has been taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cocotb.triggers import Event
from pyuvm import uvm_analysis_port, uvm_component

from .context import Seen, context_of
from .subject import IDLE

HANG = 2000  # cycles that a beat is kept waiting, or that a result is owed and none comes


@dataclass
class StreamEvent:
    """One cycle, for coverage."""

    source: str
    sink: str
    gap: str = ""
    taken: str = ""
    reset: str = ""
    own: Mapping[str, set[object]] = field(default_factory=dict)
    """Bins of the kind's `Watcher`."""


class ProtocolChecker(uvm_component):
    """Watches the pins; writes a StreamEvent per cycle to `ap`."""

    def build_phase(self) -> None:
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)
        self.subject = self.context.subject
        self.line = self.subject.timeline()
        self.watcher = self.subject.watcher()
        self.now = 0
        self.last_transfer = 0
        self.waiting = 0
        """Cycles for which the offered beat has waited."""
        self.hangs = Event()
        self.in_reset = True
        """True when the previous cycle was one of a reset."""
        self._empty()

    def _empty(self) -> None:
        """State of the streams after a reset."""
        self.line.reset()
        self.open = 0
        """Items that have begun and not ended."""
        self.stalled: tuple[int, ...] | None = None
        """The result that was offered and not taken in the previous cycle."""
        self.stall_length = 0
        self.exact = True
        """True while no stall has moved a result since the unit was last empty."""
        self.shown = False
        """True when the oldest result's time of arrival has been checked."""
        self.previous_accepted = self.previous_taken = False

    @property
    def hung(self) -> bool:
        return self.hangs.is_set()

    @property
    def owed(self) -> int:
        """Number of results that are still to come."""
        return len(self.line.due)

    @property
    def state(self) -> str:
        """The state that a reset would hit now."""
        if self.stalled is not None:
            return "result stalled"
        if self.open:
            return "partial item"
        return "result on its way" if self.owed else IDLE

    def see(self, seen: Seen) -> None:
        self.now += 1
        if seen.rst:
            if not self.in_reset:
                self.ap.write(StreamEvent("reset", "reset", reset=self.state))
                self.watcher.reset()
            self._empty()
            self.last_transfer, self.waiting = self.now, 0
            self.in_reset = True
            return
        if self.in_reset and seen.out_valid:
            self.context.error(f"cycle {self.now}: a result is valid right after a reset")
        self.in_reset = False
        accepted = seen.in_valid and seen.in_ready
        taken = seen.out_valid and seen.out_ready
        event = StreamEvent(
            "accepted" if accepted else "blocked" if seen.in_valid else "idle",
            "taken" if taken else "stalled" if seen.out_valid else "idle",
        )
        # The result first: a beat accepted now cannot have caused it.
        self._result(seen.out_valid, taken, event)
        self._beat(seen.in_valid, accepted, event)
        self.ap.write(event)
        self.waiting = self.waiting + 1 if event.source == "blocked" else 0
        self._progress(accepted or taken)

    def _beat(self, in_valid: bool, accepted: bool, event: StreamEvent) -> None:
        first, last = self.subject.marks() if in_valid else (False, False)
        if in_valid and not accepted and self.exact and self.line.must_accept(self.now, first):
            self.context.error(f"cycle {self.now}: in_ready is low though nothing is in the way")
        if in_valid and not accepted:
            event.own = self.watcher.wait(first, self.line.lacks_room(self.now, first))
        if accepted:
            if self.previous_accepted:
                event.gap = "none"
            else:
                event.gap = "inside an item" if self.open else "between items"
            self.line.accept(self.now, first, last)
            event.own = self.watcher.accept(first, last, self.previous_accepted)
            self.open += int(first) - int(last)
        self.previous_accepted = accepted

    def _result(self, out_valid: bool, taken: bool, event: StreamEvent) -> None:
        payload = self.context.payload() if out_valid else None
        if self.stalled is not None and payload != self.stalled:
            what = "changed" if out_valid else "was withdrawn"
            self.context.error(f"cycle {self.now}: the result {what} while it was stalled")
        if out_valid and not self.shown:
            self._arrival()
        self.shown = out_valid and not taken
        if taken:
            if self.line.due:
                self.line.take(self.now)
            lengths = ((0, "at once"), (1, "1 cycle"), (7, "2 to 7 cycles"))
            length = self.stall_length
            event.taken = next((name for most, name in lengths if length <= most), "8 or more")
            self.stall_length = 0
        elif out_valid:
            self.stall_length += 1
            self.exact &= self.line.runs_on
        if not out_valid and self.exact and self.line.due and self.line.due[0] <= self.now:
            self.context.error(f"cycle {self.now}: no result, due in cycle {self.line.due[0]}")
            self.exact = False
        self.stalled = payload if out_valid and not taken else None

    def _arrival(self) -> None:
        if not self.line.due:
            self.context.error(f"cycle {self.now}: a result that nothing asked for")
            return
        due = max(self.line.due[0], self.line.taken + 1)
        if self.now < due:
            self.context.error(f"cycle {self.now}: a result before its time, cycle {due}")
        elif self.now > due and self.exact:
            self.context.error(f"cycle {self.now}: a result after its time, cycle {due}")

    def _progress(self, transfer: bool) -> None:
        if transfer:
            self.last_transfer = self.now
        quiet = self.now - self.last_transfer
        if quiet > self.line.after + (self.line.before + 1) * self.line.interval and not self.owed:
            self.exact = True
        if self.hung:
            return
        if self.waiting > HANG:
            self.hangs.set()
            self.context.error(f"cycle {self.now}: in_ready has been low for {HANG} cycles")
        elif quiet > HANG and self.owed:
            self.hangs.set()
            self.context.error(f"cycle {self.now}: no result for {HANG} cycles, {self.owed} owed")
