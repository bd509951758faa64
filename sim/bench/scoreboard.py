"""The scoreboard: what the unit delivered against what the model predicts for what it accepted.

It sees only what the monitors saw. A reset cuts both streams into epochs: results still owed at its
end are lost with the reset, but never more than the unit can hold; in the last epoch none may be.
"""

from collections.abc import Iterable
from typing import Any

from pyuvm import uvm_analysis_port, uvm_scoreboard, uvm_tlm_analysis_fifo

from ..engine.job import Failure
from .context import context_of, drain

RESET = None
"""In both streams, marks a reset."""

BATCH = 4096  # items predicted at once
KEPT_FAILURES = 5


class Scoreboard(uvm_scoreboard):
    """Compares in the extract phase; writes (batch, predicted outcome) to `ap` for coverage."""

    def build_phase(self) -> None:
        """Make the streams."""
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
        """Compare both streams."""
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
