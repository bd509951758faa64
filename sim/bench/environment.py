"""The pyuvm environment of one unit: sequence, drivers, monitors, agents and scoreboard.

The driver knows the items; monitors, scoreboard, protocol checker and coverage know only the pins.
"""

from collections.abc import Iterable
from typing import Any

from pyuvm import (
    uvm_agent,
    uvm_analysis_port,
    uvm_driver,
    uvm_env,
    uvm_monitor,
    uvm_scoreboard,
    uvm_sequence,
    uvm_sequence_item,
    uvm_sequencer,
    uvm_tlm_analysis_fifo,
)

from ..engine.job import Failure
from .context import Seen, Watch, context_of, drain, make
from .coverage import Coverage
from .protocol import ProtocolChecker
from .subject import Assembler

RESET = None
"""Marks a reset in both streams."""

BATCH = 4096  # items predicted at once
KEPT_FAILURES = 5


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
        for content in self.contents:
            item = UnitItem(content)
            await self.start_item(item)
            await self.finish_item(item)


class InputDriver(uvm_driver):
    """Drives the beats of each item, with random gaps; gives up an item that a reset cuts."""

    def build_phase(self) -> None:
        self.context = context_of(self)
        self.rng = self.context.random("driver")

    async def run_phase(self) -> None:
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
        self.context = context_of(self)
        self.rng = self.context.random("ready")
        self.left = 0
        """Remaining cycles of the stall."""

    def start_of_simulation_phase(self) -> None:
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


class Monitor(uvm_monitor):
    """Assembles the beats of one stream; writes each item, and RESET for each reset."""

    assembler: Assembler

    def build_phase(self) -> None:
        self.context = context_of(self)
        self.ap = uvm_analysis_port("ap", self)
        self.in_reset = False

    def see(self, seen: Seen) -> None:
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
        """True when a beat of the stream passes."""
        raise NotImplementedError


class InputMonitor(Monitor):
    """Sees the items that the unit accepted."""

    def build_phase(self) -> None:
        super().build_phase()
        self.assembler = self.context.subject.sent()

    def passes(self, seen: Seen) -> bool:
        return seen.in_valid and seen.in_ready


class OutputMonitor(Monitor):
    """Sees the results that the unit delivered."""

    def build_phase(self) -> None:
        super().build_phase()
        self.assembler = self.context.subject.delivered(self.context.payload)

    def passes(self, seen: Seen) -> bool:
        return seen.out_valid and seen.out_ready


class InputAgent(uvm_agent):
    """Sequencer, driver and monitor of the input stream."""

    def build_phase(self) -> None:
        super().build_phase()
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = make(InputDriver, "driver", self)
        self.monitor = make(InputMonitor, "monitor", self)

    def connect_phase(self) -> None:
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class OutputAgent(uvm_agent):
    """Driver and monitor of the stream of results."""

    def build_phase(self) -> None:
        super().build_phase()
        self.driver = make(OutputDriver, "driver", self)
        self.monitor = make(OutputMonitor, "monitor", self)


class Scoreboard(uvm_scoreboard):
    """Compares results with the model's predictions for the accepted items, in the extract phase.

    It sees only what the monitors saw. A reset cuts both streams into epochs. Results still owed at
    the end of an epoch are lost, but never more than the unit can hold, and none in the last epoch.
    (batch, predicted outcome) goes to `ap` for coverage.
    """

    def build_phase(self) -> None:
        self.context = context_of(self)
        self.subject = self.context.subject
        self.accepted = uvm_tlm_analysis_fifo("accepted", self)
        self.delivered = uvm_tlm_analysis_fifo("delivered", self)
        self.ap = uvm_analysis_port("ap", self)

    @property
    def lengths(self) -> tuple[int, int]:
        """Entries in the streams so far: accepted items and delivered results, and resets."""
        return self.accepted.size(), self.delivered.size()

    def extract_phase(self) -> None:
        accepted, delivered = _epochs(drain(self.accepted)), _epochs(drain(self.delivered))
        pairs: list[tuple[Any, Any]] = []
        for number, (items, results) in enumerate(zip(accepted, delivered, strict=True)):
            self._count(items, results, last=number == len(accepted) - 1)
            pairs += zip(items, results, strict=False)
        self.context.report.compared = len(pairs)
        if not pairs:
            self.context.error(f"no {self.subject.items[:-1]} went through the unit")
        for start in range(0, len(pairs), BATCH):
            self._compare(pairs[start : start + BATCH], start)

    def _count(self, sent: list, results: list, last: bool) -> None:
        missing = len(sent) - len(results)
        items, capacity = self.subject.items, self.subject.capacity
        if missing < 0:
            self.context.error(f"{-missing} results more than {items} accepted")
        elif last and missing:
            self.context.error(f"{missing} accepted {items} left without a result")
        elif missing > capacity:
            self.context.error(
                f"{missing} {items} without a result at a reset, more than the {capacity} that "
                "the unit holds"
            )

    def _compare(self, pairs: list[tuple[Any, Any]], start: int) -> None:
        report, job = self.context.report, self.context.job
        groups: dict[Any, list[int]] = {}
        for i, (item, _) in enumerate(pairs):
            groups.setdefault(self.subject.group(item), []).append(i)
        wrong: list[tuple[int, Failure]] = []
        for rows in groups.values():
            batch = self.subject.batch([pairs[i][0] for i in rows])
            outcome = job.predict()(job.config, batch)
            for row, i in enumerate(rows):
                item, got = pairs[i]
                want = self.subject.result(outcome, row, item)
                if got != want:
                    where = f"traffic, {self.subject.items[:-1]} {start + i}"
                    failure = Failure(self.subject.plain(item), list(got), list(want), where)
                    wrong.append((i, failure))
            self.ap.write((batch, outcome))
        report.mismatches += len(wrong)
        wrong.sort(key=lambda entry: entry[0])
        report.failures += [failure for _, failure in wrong[:KEPT_FAILURES]]
        del report.failures[KEPT_FAILURES:]


def _epochs(stream: Iterable) -> list[list]:
    epochs: list[list] = [[]]
    for item in stream:
        if item is RESET:
            epochs.append([])
        else:
            epochs[-1].append(item)
    return epochs


class UnitEnv(uvm_env):
    """Both agents, scoreboard, protocol checker and coverage."""

    def build_phase(self) -> None:
        self.input = make(InputAgent, "input", self)
        self.output = make(OutputAgent, "output", self)
        self.scoreboard = make(Scoreboard, "scoreboard", self)
        self.protocol = make(ProtocolChecker, "protocol", self)
        self.watch = make(Watch, "watch", self)
        self.coverage = make(Coverage, "coverage", self)

    @property
    def watching(self) -> tuple[Monitor | ProtocolChecker | OutputDriver, ...]:
        """Components that see every cycle, in their order."""
        return self.input.monitor, self.output.monitor, self.protocol, self.output.driver

    def connect_phase(self) -> None:
        """Connect the monitors to the scoreboard, and both checkers to the coverage."""
        self.watch.watchers += [part.see for part in self.watching]
        self.input.monitor.ap.connect(self.scoreboard.accepted.analysis_export)
        self.output.monitor.ap.connect(self.scoreboard.delivered.analysis_export)
        self.scoreboard.ap.connect(self.coverage.batches.analysis_export)
        self.protocol.ap.connect(self.coverage.events)
