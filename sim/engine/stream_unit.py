"""Units with one stream in and one out, from build to failures: cycle by cycle, then in bulk.

A kind of such units is a subclass of `StreamUnit`, which is the runner of its row in kinds.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..bench import bulk
from .job import Failure, UnitJob
from .unit import (
    KEPT_FAILURES,
    TIME_LIMIT,
    WAVES_LIMIT,
    Progress,
    UnitResult,
    run_cycles,
    verilog_of,
)
from .verilator import Build

BULK_GAP, BULK_STALL = 8, 16  # chances in 256 per cycle


class Batch(Protocol):
    """n items as the model takes them."""

    def __len__(self) -> int: ...

    def take(self, rows: slice) -> Self:
        """The items of these rows."""
        ...


class StreamUnit(ABC):
    """One job; what is the kind's own is in the subclass. A result is a row of 32-bit words."""

    def __init__(self, job: UnitJob) -> None:
        self.job, self.config = job, job.config

    @abstractmethod
    def build(self, verilog: Path) -> Build:
        """The unit in its bench top."""

    @abstractmethod
    def batches(self) -> Sequence[Any]:
        """The items of bulk mode, a `Batch` for each group that the model takes at once."""

    def placed(self, batch: Any, places: NDArray[np.int64]) -> Any:
        """`batch` that knows the place of each item in the run, where results depend on it."""
        return batch

    def arranged(self, batches: Sequence[Any], order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order in which the results of items sent in about this order come."""
        return order

    @abstractmethod
    def write(self, path: Path, batches: Sequence[Any], order: NDArray[np.int64]) -> None:
        """The records of all items in this order: indices into the batches, one after the other."""

    @abstractmethod
    def words(self, outcome: Any) -> NDArray[np.uint32]:
        """What the bench top writes of the model's outcome for a batch, (n, words)."""

    def placed_words(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The words of all results in their order, with what depends on that."""
        return words

    @abstractmethod
    def result(self, words: NDArray[np.uint32]) -> list[Any]:
        """A row of words as plain values, for reports."""

    @abstractmethod
    def plain(self, batch: Any, place: int) -> dict[str, Any]:
        """The item of a batch of one, at a place of the run, as plain values, for reports."""

    @abstractmethod
    def report(self, verilog: Path, failure: Failure) -> str:
        """What people read of a failure."""

    @classmethod
    def run(cls, job: UnitJob, progress: Progress, found: UnitResult) -> None:
        """Simulate; what was found goes to `found`."""
        unit = cls(job)
        progress("verilog")
        verilog = verilog_of(job)
        progress("build")
        build = unit.build(verilog)
        failures: list[Failure] = []
        if job.traffic:
            progress("traffic")
            failures = run_cycles(job, build, found)
        try:
            if job.bulk:
                progress("bulk")
                failures += unit._run_bulk(build, found)
        finally:  # a deadlock in bulk mode does not hide what was found before
            if failures and job.explains:
                progress("report")
                found.report = unit.report(verilog, failures[0])

    def _run_bulk(self, build: Build, found: UnitResult) -> list[Failure]:
        job = self.job
        batches = self.batches()
        ends = np.cumsum([len(batch) for batch in batches])
        order = self.arranged(batches, job.rng("bulk order").permutation(ends[-1]))
        places = np.argsort(order)
        batches = [
            self.placed(batch, places[end - len(batch) : end])
            for batch, end in zip(batches, ends, strict=True)
        ]
        records, results = job.directory / "bulk.records", job.directory / "bulk.results"
        self.write(records, batches, order)
        report = bulk.run(
            build,
            records,
            results,
            gap=BULK_GAP,
            stall=BULK_STALL,
            seed=job.seed % 2**31,
            waves=job.directory / "bulk.fst" if job.waves and job.bulk <= WAVES_LIMIT else None,
            time_limit=TIME_LIMIT,
        )
        predict = job.predict()
        want = [self.words(predict(self.config, batch)) for batch in batches]
        want = self.placed_words(np.concatenate(want)[order])
        got = bulk.read_results(results, want.shape[1])
        if not job.waves:
            records.unlink()
            results.unlink()
        count = min(len(got), len(want))
        wrong = np.flatnonzero((got[:count] != want[:count]).any(axis=1))
        found.bulk_rate = len(got) / max(report.seconds, 1e-9)
        found.compared += count
        found.mismatches += len(wrong)
        if len(got) != len(want):
            found.errors.append(f"bulk: {len(want)} {found.items} gave {len(got)} results")
        if len(wrong):
            found.errors.append(f"bulk: {len(wrong)} results differ from the model's")
        return [
            Failure(
                self.plain(_item(batches, int(order[i])), i),
                self.result(got[i]),
                self.result(want[i]),
                f"bulk, {found.items[:-1]} {i}",
            )
            for i in wrong[:KEPT_FAILURES].tolist()
        ]


def _item(batches: Sequence[Batch], number: int) -> Batch:
    """The item of this number, counted through the batches, as a batch of one."""
    for batch in batches:
        if number < len(batch):
            return batch.take(slice(number, number + 1))
        number -= len(batch)
    raise IndexError(number)
