"""The scoreboard: what the unit delivered against what the model predicts for what it accepted.

It sees only what the monitors saw. A reset cuts both streams into epochs: results still owed at its
end are lost with the reset, but never more than the unit can hold; in the last epoch none may be.
"""

from collections.abc import Iterable

from pyuvm import uvm_analysis_port, uvm_scoreboard, uvm_tlm_analysis_fifo

from ..item import Batch, Outcome, Product, batch_of
from ..job import Failure
from .context import context_of, drain

RESET = None
"""In both streams, marks a reset."""

BATCH = 4096  # products predicted at once
KEPT_FAILURES = 5


class Scoreboard(uvm_scoreboard):
    """Compares in the extract phase; writes (batch, predicted outcome) to `ap` for coverage."""

    def build_phase(self) -> None:
        """Make the streams."""
        self.context = context_of(self)
        self.accepted = uvm_tlm_analysis_fifo("accepted", self)
        self.delivered = uvm_tlm_analysis_fifo("delivered", self)
        self.ap = uvm_analysis_port("ap", self)

    @property
    def lengths(self) -> tuple[int, int]:
        """Entries in the streams so far: accepted products and delivered results, and resets."""
        return self.accepted.size(), self.delivered.size()

    def extract_phase(self) -> None:
        """Compare both streams."""
        accepted, delivered = _epochs(drain(self.accepted)), _epochs(drain(self.delivered))
        pairs: list[tuple[Product, tuple[int, int]]] = []
        for number, (products, results) in enumerate(zip(accepted, delivered, strict=True)):
            self._count(products, results, last=number == len(accepted) - 1)
            pairs += zip(products, results, strict=False)
        self.context.report.products = len(pairs)
        if not pairs:
            self.context.error("no dot product went through the unit")
        for start in range(0, len(pairs), BATCH):
            self._compare(pairs[start : start + BATCH], start)

    def _count(self, products: list, results: list, last: bool) -> None:
        missing = len(products) - len(results)
        if missing < 0:
            self.context.error(f"{-missing} results more than dot products accepted")
        elif last and missing:
            self.context.error(f"{missing} accepted dot products left without a result")
        elif missing > self.context.config.latency:
            self.context.error(
                f"{missing} dot products without a result at a reset, more than the "
                f"{self.context.config.latency} that the unit holds"
            )

    def _compare(self, pairs: list[tuple[Product, tuple[int, int]]], start: int) -> None:
        report, predict = self.context.report, self.context.job.predict()
        groups: dict[tuple[int, int], list[int]] = {}
        for i, (product, _) in enumerate(pairs):
            groups.setdefault((product.mode, len(product.blocks)), []).append(i)
        wrong: list[tuple[int, Failure]] = []
        for rows in groups.values():
            batch = batch_of(self.context.config, [pairs[i][0] for i in rows])
            want = predict(self.context.config, batch)
            for row, i in enumerate(rows):
                failure = _difference(pairs[i], want, row, f"traffic, dot product {start + i}")
                if failure is not None:
                    wrong.append((i, failure))
            self._publish(batch, want)
        report.mismatches += len(wrong)
        wrong.sort(key=lambda entry: entry[0])
        report.failures += [failure for _, failure in wrong[:KEPT_FAILURES]]
        del report.failures[KEPT_FAILURES:]

    def _publish(self, batch: Batch, want: Outcome) -> None:
        self.ap.write((batch, want))


def _difference(
    pair: tuple[Product, tuple[int, int]], want: Outcome, row: int, where: str
) -> Failure | None:
    product, (got, got_flags) = pair
    result, flags = int(want.result[row]), int(want.flags[row])
    if (got, got_flags) == (result, flags):
        return None
    values = {"mode": product.mode, "c": product.c, "blocks": [list(b) for b in product.blocks]}
    return Failure(values, got, result, got_flags, flags, where)


def _epochs(stream: Iterable) -> list[list]:
    epochs: list[list] = [[]]
    for item in stream:
        if item is RESET:
            epochs.append([])
        else:
            epochs[-1].append(item)
    return epochs
