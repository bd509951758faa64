"""The protocol checker: the stream rules, latency and throughput, cycle by cycle on the pins.

Rules of the result stream: once valid, it stays valid and unchanged until taken; nothing is valid
in the cycle after a reset. Rules of time, exact while nothing has stalled: a result appears
`config.latency` cycles after its last block entered, blocks enter one per cycle, and one that needs
the running value enters the loop `config.interval` cycles after the block before it. Under stalls a
result may come later, never earlier.
"""

from collections import deque
from dataclasses import dataclass

from pyuvm import uvm_analysis_port, uvm_component

from ...model import DotConfig
from .context import context_of

HANG = 2000  # cycles that a block is kept waiting, or that a result is owed and none comes


@dataclass
class Event:
    """What coverage learns of one cycle."""

    source: str
    sink: str
    gap: str = ""
    taken: str = ""
    reset: str = ""


class Timeline:
    """When blocks enter the loop and results come out of a unit that nothing stalls."""

    def __init__(self, config: DotConfig) -> None:
        sections, registered = config.pipeline.sections, config.pipeline.registered
        loop = next((i for i, s in enumerate(sections) if s.loop), len(sections))
        self.before = sum(i < loop for i in registered)
        """Registers in front of the loop."""
        self.after = config.latency - self.before
        self.interval = config.interval
        promote = getattr(config.accumulator, "promote", None)
        self.group = max(1, promote // config.lanes) if promote else 0
        """Blocks after which the loop starts afresh; 0 for never."""
        self.reset()

    def reset(self) -> None:
        """The unit is empty."""
        self.entries: deque[int] = deque()  # of blocks that may still wait for the loop
        self.entered = -(10**9)
        self.place = 0
        self.due: deque[int] = deque()  # when results come

    def entry(self, now: int, first: bool) -> int:
        """When a block accepted now enters the loop."""
        place = 0 if first else self.place
        chained = place % self.group if self.group else not first
        earliest = self.entered + (self.interval if chained else 1)
        return max(now + self.before, earliest)

    def must_accept(self, now: int, first: bool) -> bool:
        """True when the unit has room for this block now."""
        if self.before == 0:
            return self.entry(now, first) == now
        while self.entries and self.entries[0] < now:
            self.entries.popleft()
        return len(self.entries) < self.before or self.entries[0] == now

    def accept(self, now: int, first: bool, last: bool) -> None:
        """A block was accepted."""
        entry = self.entry(now, first)
        self.place = 1 if first else self.place + 1
        self.entered = entry
        if self.before:
            self.entries.append(entry)
        if last:
            self.due.append(entry + self.after)


class ProtocolChecker(uvm_component):
    """Watches the pins; writes an Event per cycle to `ap`."""

    def build_phase(self) -> None:
        """Find the pins."""
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)
        self.line = Timeline(self.context.config)
        self.now = 0
        self.last_transfer = 0
        self.waiting = 0
        """Cycles that the block offered has not been accepted."""
        self.hung = False
        self._empty()

    def _empty(self) -> None:
        """State of the streams after a reset."""
        self.line.reset()
        self.open = False
        """A product has begun and not ended."""
        self.stalled: tuple[int, int] | None = None
        """The result that was offered and not taken in the cycle before."""
        self.stall_length = 0
        self.exact = True
        """No stall since the unit was last empty."""
        self.shown = False
        """The oldest result has been checked for its time of arrival."""
        self.previous_accepted = self.previous_taken = False

    @property
    def owed(self) -> int:
        """Results that are still to come."""
        return len(self.line.due)

    @property
    def state(self) -> str:
        """What a reset would hit now."""
        if self.stalled is not None:
            return "result stalled"
        if self.open:
            return "partial product"
        return "result on its way" if self.owed else "idle"

    async def run_phase(self) -> None:
        """Check every cycle."""
        pins = self.context.pins
        previous_reset = True
        while True:
            await pins.edge
            self.now += 1
            in_valid, out_valid = int(pins.in_valid.value), int(pins.out_valid.value)
            if int(pins.rst.value):
                if not previous_reset:
                    self.ap.write(Event("reset", "reset", reset=self.state))
                self._empty()
                self.last_transfer, self.waiting = self.now, 0
                previous_reset = True
                continue
            if previous_reset and out_valid:
                self.context.error(f"cycle {self.now}: a result is valid right after a reset")
            previous_reset = False
            accepted = in_valid and int(pins.in_ready.value)
            taken = out_valid and int(pins.out_ready.value)
            event = Event(
                "accepted" if accepted else "blocked" if in_valid else "idle",
                "taken" if taken else "stalled" if out_valid else "idle",
            )
            # The result first: a block accepted now cannot have caused it.
            self._result(out_valid, taken, event)
            self._block(in_valid, accepted, event)
            self.ap.write(event)
            self.waiting = self.waiting + 1 if event.source == "blocked" else 0
            self._progress(bool(accepted or taken))

    def _block(self, in_valid: int, accepted: int, event: Event) -> None:
        first = bool(in_valid and int(self.context.pins.in_first.value))
        if in_valid and not accepted and self.exact and self.line.must_accept(self.now, first):
            self.context.error(f"cycle {self.now}: in_ready is low though nothing is in the way")
        if accepted:
            last = bool(int(self.context.pins.in_last.value))
            if self.previous_accepted:
                event.gap = "none"
            else:
                event.gap = "inside a product" if self.open else "between products"
            self.line.accept(self.now, first, last)
            self.open = not last
        self.previous_accepted = bool(accepted)

    def _result(self, out_valid: int, taken: int, event: Event) -> None:
        payload = self.context.pins.result() if out_valid else None
        if self.stalled is not None and payload != self.stalled:
            what = "changed" if out_valid else "was withdrawn"
            self.context.error(f"cycle {self.now}: the result {what} while it was stalled")
        if out_valid and not self.shown:
            self._arrival()
        self.shown = bool(out_valid and not taken)
        if taken:
            if self.line.due:
                self.line.due.popleft()
            lengths = ((0, "at once"), (1, "1 cycle"), (7, "2 to 7 cycles"))
            length = self.stall_length
            event.taken = next((name for most, name in lengths if length <= most), "8 or more")
            self.stall_length = 0
        elif out_valid:
            self.stall_length += 1
            self.exact = False
        if not out_valid and self.exact and self.line.due and self.line.due[0] <= self.now:
            self.context.error(f"cycle {self.now}: no result, due in cycle {self.line.due[0]}")
            self.exact = False
        self.stalled = payload if out_valid and not taken else None

    def _arrival(self) -> None:
        if not self.line.due:
            self.context.error(f"cycle {self.now}: a result that no dot product asked for")
            return
        due = self.line.due[0]
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
            self.hung = True
            self.context.error(f"cycle {self.now}: in_ready has been low for {HANG} cycles")
        elif quiet > HANG and self.owed:
            self.hung = True
            self.context.error(f"cycle {self.now}: no result for {HANG} cycles, {self.owed} owed")
