"""Units with one stream in and one out, from build to failures: cycle by cycle, then in bulk.

A kind of these units is a subclass of `StreamUnit`, which is the runner of its row in kinds.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ...model.units import UnitConfig
from ..bench import bulk
from ..bench.bulk import Layout
from ..kinds import kind_of, named
from . import verilator
from .job import Failure, UnitJob
from .unit import (
    KEPT_FAILURES,
    TIME_LIMIT,
    WAVES_LIMIT,
    Progress,
    UnitResult,
    assertions_of,
    run_cycles,
    verilog_of,
)
from .verilator import ONES, Build, SimulationError

T = TypeVar("T")
Simulation = Build | bulk.Streaming
NEIGHBOURS = 64  # items before the first failure that are kept with it, for one that needs them
REPLAY_LIMIT = 60.0  # seconds
MOST_PAIRS = 40  # members of which every pair is tried


class Batch(Protocol):
    """n items as the model takes them."""

    def __len__(self) -> int: ...

    def take(self, rows: slice) -> Self:
        """The items of these rows."""
        ...


@dataclass(frozen=True)
class StallChances:
    """Chances of a gap and of a stall in 1/256 per cycle in a bulk run, and the seed of both."""

    gap: int = 8
    stall: int = 16
    seed: int = 1

    def __str__(self) -> str:
        return f"gap {self.gap}/256, stall {self.stall}/256, seed {self.seed}"


CHANCES = (0, 8, 32, 96)  # of a gap or a stall, in 1/256
AT_ONCE = StallChances(0, 0)
"""No gap and no stall."""


@dataclass(frozen=True)
class Sent:
    """One bulk run: batches, the order of their items in the stream of results, and words."""

    batches: Sequence[Any]
    order: NDArray[np.int64]
    got: NDArray[np.uint32]
    want: NDArray[np.uint32]
    report: bulk.BulkReport
    timing: StallChances


@dataclass(frozen=True)
class Replayed:
    """Results of a few items in their order, as plain values; None for one that did not come."""

    got: list[list[Any] | None]
    want: list[list[Any]]
    surplus: int
    """Results that nothing asked for."""

    @property
    def wrong(self) -> list[int]:
        """The items whose results are not the model's."""
        pairs = enumerate(zip(self.got, self.want, strict=True))
        return [i for i, (got, want) in pairs if got != want]

    @property
    def failed(self) -> bool:
        """True when anything was wrong."""
        return bool(self.wrong or self.surplus)


class StreamUnit(ABC):
    """One job of a kind with one stream in and one out. A result is a row of 32-bit words.

    bench: the bench top. module: the unit's module in it. failures: the kind's failures.py.
    """

    bench: ClassVar[Path]
    module: ClassVar[str]
    failures: ClassVar[ModuleType]

    def __init__(self, job: UnitJob) -> None:
        self.job, self.config = job, job.config

    @abstractmethod
    def layout(self) -> Layout:
        """Places of its pins in records and results."""

    @abstractmethod
    def batches(self) -> Sequence[Any]:
        """The items of bulk mode, a `Batch` for each group that the model takes at once."""

    def placed(self, batch: Any, places: NDArray[np.int64]) -> Any:
        """The batch with the place of each item in the run, where results depend on it."""
        return batch

    def aimed(self, batch: Any) -> Any:
        """The batch of bulk mode with items that their places in the run call for."""
        return batch

    def arranged(self, batches: Sequence[Any], order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order of results, of items sent in about this order."""
        return order

    @abstractmethod
    def write(self, path: Path, batches: Sequence[Any], order: NDArray[np.int64]) -> None:
        """Write the records of all items in this order: numbers counted through the batches."""

    @abstractmethod
    def words(self, outcome: Any) -> NDArray[np.uint32]:
        """Words that the bench top writes for the model's outcome of a batch, (n, words)."""

    def placed_words(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The words of all results in their order, with all that depends on the order."""
        return words

    @abstractmethod
    def result(self, words: NDArray[np.uint32]) -> list[Any]:
        """A row of words as plain values, for reports."""

    @abstractmethod
    def plain(self, batch: Any, place: int) -> dict[str, Any]:
        """The item of a batch of one, at a place of the run, as plain values, for reports."""

    @abstractmethod
    def gathered(self, items: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Any], list[int]]:
        """The inverse of `plain`: batches, and the place of each item, counted through them."""

    def simpler(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Items with less in them, one or several steps towards the simplest."""
        return self.failures.simpler(self.config, item)

    def complexity(self, item: Mapping[str, Any]) -> tuple[int, ...]:
        """A key that is less for a simpler item; the most important part comes first."""
        return self.failures.complexity(self.config, item)

    def report(self, verilog: Path, failure: Failure) -> str:
        """The report of a failure, for people."""
        return self.failures.describe_failure(self.job, failure)

    @classmethod
    def run(cls, job: UnitJob, progress: Progress, result: UnitResult) -> None:
        """Simulate the job; results go to `result`."""
        unit = cls(job)
        progress("verilog")
        verilog = verilog_of(job)
        progress("build")
        build = unit.simulation(verilog)
        failures: list[Failure] = []
        if job.traffic and job.simulator is None:
            progress("traffic")
            failures = run_cycles(job, cast(Build, build), result)
        try:
            if job.bulk:
                progress("bulk")
                failures += unit._run_bulk(build, result)
        finally:  # a deadlock in bulk mode does not hide what was found before
            result.failures = failures
            if failures and job.explains:
                progress("report")
                result.report = unit.report(verilog, failures[0])

    def simulation(self, verilog: Path) -> Simulation:
        """The unit in its bench top, or in the simulator that the job names."""
        job = self.job
        if job.simulator is None:
            return self.build(verilog)
        return named(job.simulator)(
            self.module,
            verilog,
            job.build_directory / "second",
            self.layout(),
            executable=job.directory / "sim",
        )

    def build(self, verilog: Path) -> Build:
        """The unit in its bench top."""
        job = self.job
        return self.bench_build(
            verilog,
            "build",
            executable=job.directory / "sim",
            coverage=job.coverage,
            assertions=assertions_of(job),
        )

    def bench_build(self, verilog: Path, folder: str, **options: Any) -> Build:
        """The unit in its bench top, with options of `verilator.build`."""
        return verilator.build(
            verilog,
            verilator.BENCH_TOP,
            self.job.build_directory / folder,
            extra_sources=[self.bench],
            parameters=self.layout().parameters,
            defines={"UNIT": self.module},
            waves=self.job.waves,
            **options,
        )

    def replay(
        self,
        build: Simulation,
        items: Sequence[Mapping[str, Any]],
        timing: StallChances = AT_ONCE,
        waves: Path | None = None,
    ) -> Replayed:
        """Results of these items after a reset, one after the other, or mixed where the unit
        interleaves.

        SimulationError for a unit that does not finish them.
        """
        batches, places = self.gathered(items)
        order = self.arranged(batches, np.array(places, np.int64))
        (sent,) = self._send(build, batches, order, [timing], "replay", waves, REPLAY_LIMIT)
        came = np.argsort(order)[places].tolist()
        return Replayed(
            [self.result(sent.got[i]) if i < len(sent.got) else None for i in came],
            [self.result(sent.want[i]) for i in came],
            max(0, len(sent.got) - len(items)),
        )

    def _send(
        self,
        build: Simulation,
        batches: Sequence[Any],
        order: NDArray[np.int64],
        timings: Sequence[StallChances],
        name: str,
        waves: Path | None,
        time_limit: float,
    ) -> Iterator[Sent]:
        """Stream the items in their order through the unit, once for each timing.

        Files are called `name`. SimulationError for a run that does not end; its text begins with
        the timing.
        """
        batches = self._placed(batches, order)
        records, results = (
            self.job.directory / f"{name}.{what}" for what in ("records", "results")
        )
        self.write(records, batches, order)
        predict = self.job.predict()
        want = None
        try:
            for timing in timings:
                try:
                    report = bulk.run(
                        build,
                        records,
                        results,
                        gap=timing.gap,
                        stall=timing.stall,
                        seed=timing.seed,
                        start=ONES,  # any other values where cycles are driven one by one
                        waves=waves,
                        time_limit=time_limit,
                    )
                    if want is None:  # no sooner: a unit that hangs is told at once
                        words = [self.words(predict(self.config, batch)) for batch in batches]
                        want = self.placed_words(np.concatenate(words)[order])
                    got = bulk.read_results(results, want.shape[1])
                except SimulationError as error:
                    raise SimulationError(f"{timing}: {error}") from None
                yield Sent(batches, order, got, want, report, timing)
        finally:
            if not self.job.waves:
                records.unlink()
                results.unlink(missing_ok=True)

    def _placed(self, batches: Sequence[Any], order: NDArray[np.int64]) -> list[Any]:
        """The batches, whose items know their places in this order."""
        places = np.argsort(order)
        ends = np.cumsum([len(batch) for batch in batches])
        return [
            self.placed(batch, places[end - len(batch) : end])
            for batch, end in zip(batches, ends, strict=True)
        ]

    def _timings(self) -> Iterator[StallChances]:
        """Timings of the rounds of bulk mode: few gaps and stalls, then each chance in turn."""
        yield StallChances(seed=self.job.seed % 2**31)
        rng = self.job.rng("bulk rounds")
        gaps, stalls = (rng.permutation(CHANCES).tolist() for _ in range(2))
        for i in range(self.job.rounds - 1):
            turn, place = divmod(i, len(CHANCES))  # other pairs in each turn
            stall = stalls[(place + turn) % len(CHANCES)]
            yield StallChances(gaps[place], stall, int(rng.integers(2**31)))

    def _run_bulk(self, build: Simulation, result: UnitResult) -> list[Failure]:
        """Run all rounds, up to the first that fails."""
        job = self.job
        batches = self.batches()
        order = job.rng("bulk order").permutation(sum(map(len, batches)))
        recorded = job.waves and job.bulk <= WAVES_LIMIT
        waves = job.directory / "bulk.fst" if recorded else None
        order = self.arranged(batches, order)
        batches = [self.aimed(batch) for batch in self._placed(batches, order)]
        seconds = unit_seconds = 0.0
        results = 0
        failures: list[Failure] = []
        for sent in self._send(
            build, batches, order, [*self._timings()], "bulk", waves, TIME_LIMIT
        ):
            results += len(sent.got)
            seconds += max(sent.report.seconds, 1e-9)
            result.bulk_rate = results / seconds
            if sent.report.unit_seconds is not None:
                unit_seconds += sent.report.unit_seconds
                result.unit_share = unit_seconds / seconds
            before = result.compared
            failures = self._compared(sent, result)
            if results > len(sent.got):
                result.repeated += result.compared - before
            if result.errors:
                break
        return failures

    def _compared(self, sent: Sent, result: UnitResult) -> list[Failure]:
        """The first wrong items of one round."""
        got, want = sent.got, sent.want
        count = min(len(got), len(want))
        wrong = np.flatnonzero((got[:count] != want[:count]).any(axis=1))
        result.compared += count
        result.mismatches += len(wrong)
        if len(got) != len(want):
            result.errors.append(f"bulk: {len(want)} {result.items} gave {len(got)} results")
        if len(wrong):
            result.errors.append(f"bulk: {len(wrong)} results differ from the model's")
        failures = [
            Failure(
                self._plain_at(sent, i),
                self.result(got[i]),
                self.result(want[i]),
                f"bulk, {result.items[:-1]} {i}",
            )
            for i in wrong[:KEPT_FAILURES].tolist()
        ]
        for failure, i in zip(failures[:1], wrong.tolist(), strict=False):
            failure.before = [self._plain_at(sent, j) for j in range(max(0, i - NEIGHBOURS), i)]
            failure.timing = asdict(sent.timing)
        return failures

    def _plain_at(self, sent: Sent, place: int) -> dict[str, Any]:
        """The item at a place of the stream of results."""
        return self.plain(_item(sent.batches, int(sent.order[place])), place)


def _item(batches: Sequence[Batch], number: int) -> Batch:
    """The item of this number, counted through the batches, as a batch of one."""
    for batch in batches:
        if number < len(batch):
            return batch.take(slice(number, number + 1))
        number -= len(batch)
    raise IndexError(number)


def stream_unit_of(config: UnitConfig) -> type[StreamUnit] | None:
    """The `StreamUnit` that runs units of this kind; None for a kind with another runner."""
    return getattr(kind_of(config).run, "__self__", None)


def restarts(config: UnitConfig) -> bool:
    """True when the unit's records may be dealt to many runs, each after a reset."""
    kind = stream_unit_of(config)
    return kind is not None and kind(UnitJob("", config, 0, Path())).layout().restarts


def in_groups(items: Sequence[T], key: Callable[[T], Hashable]) -> tuple[list[list[T]], list[int]]:
    """Groups of items of one key each, and the place of each item, counted through the groups."""
    groups: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    order = [i for rows in groups.values() for i in rows]
    places = sorted(range(len(order)), key=order.__getitem__)
    return [[items[i] for i in rows] for rows in groups.values()], places


def parts(members: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Proper parts of a set, to try when something smaller that still fails is looked for.

    None, each one, each pair of up to `MOST_PAIRS`, halves to eighths, all but one.
    """
    yield ()
    if len(members) > 1:
        yield from ((member,) for member in members)
    if 2 < len(members) <= MOST_PAIRS:
        yield from combinations(members, 2)
    for count in (8, 4, 2):
        if len(members) >= 2 * count:
            size = -(-len(members) // count)
            yield from (tuple(members[i : i + size]) for i in range(0, len(members), size))
    if len(members) > 3:
        yield from (
            tuple(other for j, other in enumerate(members) if j != i) for i in range(len(members))
        )


def fewer_ones(bits: int) -> Iterator[int]:
    """Positive numbers with fewer of the ones of `bits`: without the lowest, without a half."""
    lowest = bits & -bits
    if bits != lowest:
        yield bits ^ lowest
    places = [i for i in range(bits.bit_length()) if bits >> i & 1]
    if len(places) > 3:
        kept = places[len(places) // 2 :]
        yield sum(1 << i for i in kept)
