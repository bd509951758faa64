"""A soak: units again and again in bulk mode, each time with a fresh seed."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...sim.engine.job import UnitJob
from ...sim.engine.regression import UnitTask, unit_processes
from ...sim.engine.regression_units import Unit
from ...sim.engine.stream_unit import StallChances
from ...sim.engine.toolchain import find_tools
from ...sim.engine.unit import UnitResult
from ...sim.engine.verilator import SimulationError
from ...util.cache import locked
from ...util.children import terminate_as_interrupt
from ...util.files import write_file
from ...util.jobs import results
from ...util.runs import own_directory
from . import vector
from .minimise import Minimiser, Stimulus
from .state import Count, State, verilog_digest
from .vector import Vector

BUILD = Path("build/soak")
COUNT = 100_000
"""Items of a run."""


@dataclass(frozen=True)
class Settings:
    """Choices for a soak.

    hours: after which no run begins. seed: instead, one run of each unit with this seed. count:
    items of a run. rounds, simulator: as a `UnitJob`'s, of the runs; what failed is replayed by
    Verilator. verilog: simulate this file instead of the generated unit. repeat: the command
    that repeats a run, in which {name} and {seed} stand for its own; replay: that which replays the
    vector {file}.
    """

    hours: float = 1.0
    seed: int | None = None
    count: int = COUNT
    rounds: int = 1
    workers: int | None = None
    directory: Path = BUILD
    verilog: Path | None = None
    simulator: str | None = None
    repeat: str = ""
    replay: str = ""


def random_seed() -> int:
    """A seed from the operating system, of 63 bits: no two runs have the same."""
    return int.from_bytes(os.urandom(8), "little") >> 1


def failure_lines(job: UnitJob, result: UnitResult) -> list[str]:
    """Lines for people about a failed run."""
    return [f"FAILED {job.name}: {job.config}", *result.errors, "", result.report]


def run_soak(units: Sequence[Unit], settings: Settings) -> bool:
    """Run `units` until the time is over; True when nothing failed.

    The unit that was compared least comes next; one that failed, never again. ToolError when the
    toolchain is missing, ValueError for a state file that cannot be read.
    """
    if not units:
        raise ValueError("there must be at least one unit to simulate, not none")
    find_tools()
    with terminate_as_interrupt(), own_directory(settings.directory / "runs", 0) as session:
        return _Soak(units, settings, session).run()


@dataclass
class _Soak:
    units: Sequence[Unit]
    settings: Settings
    session: Path
    failed: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    """Names of units."""
    verilog: dict[str, Path] = field(default_factory=dict)
    """Files of units that have run, generated once."""

    def __post_init__(self) -> None:
        self.state = State(self.settings.directory)
        self.started = time.monotonic()
        self.total = 0

    @property
    def failures(self) -> Path:
        """Folder of vectors."""
        return self.settings.directory / "failures"

    def run(self) -> bool:
        """True when nothing failed."""
        settings = self.settings
        backend = unit_processes(min(settings.workers or os.cpu_count() or 1, len(self.units)))
        known = sum(count.compared for count in self.state.load().values())
        first = f"{len(self.units)} units, {backend.width} at a time"
        print(f"{first}; {known:,} compared so far", flush=True)
        for path in sorted(self.failures.glob("*.json")):
            self._minimise(path)
        with closing(results(map(UnitTask.of, self._jobs()), backend)) as outcomes:
            for task, outcome in outcomes:
                self._take(task.job, task.take(outcome))
        self._summary()
        return not self.failed

    def _jobs(self) -> Iterator[UnitJob]:
        """The next run for each free worker, until the time is over."""
        if self.settings.seed is not None:
            yield from (self._begun(unit, self.settings.seed) for unit in self.units)
            return
        while time.monotonic() < self.started + 3600 * self.settings.hours:
            sound = [unit for unit in self.units if unit.name not in self.failed]
            idle = [unit for unit in sound if unit.name not in self.running]
            if not sound:
                return
            counts = self.state.load()
            compared = {name: count.compared for name, count in counts.items()}
            # A second run of a unit at a time only where workers would wait.
            unit = min(idle or sound, key=lambda unit: compared.get(unit.name, 0))
            yield self._begun(unit, random_seed())

    def _begun(self, unit: Unit, seed: int) -> UnitJob:
        self.running.append(unit.name)
        return self._job(unit, seed)

    def _job(self, unit: Unit, seed: int) -> UnitJob:
        repeat = self.settings.repeat.replace("{name}", unit.name).replace("{seed}", str(seed))
        return UnitJob(
            name=unit.name,
            config=unit.config,
            seed=seed,
            directory=Path(tempfile.mkdtemp(dir=self.session)),
            traffic=0,
            bulk=self.settings.count,
            rounds=self.settings.rounds,
            verilog=self.settings.verilog or self.verilog.get(unit.name),
            simulator=self.settings.simulator,
            builds=self.settings.directory / "builds" / unit.name,
            repeat=repeat,
        )

    def _take(self, job: UnitJob, result: UnitResult) -> None:
        """Count a run, and keep what failed."""
        self.running.remove(job.name)
        verilog = job.verilog or next(iter(job.directory.glob("*.v")), None)
        text = f"{job.name}: {result.compared:,} {result.items}, {result.seconds:.1f} s"
        if verilog is not None:
            run = Count(verilog_digest(verilog), result.items, result.compared)
            run.runs, run.fresh = 1, result.compared - result.repeated
            run.failed, run.seconds = int(not result.passed), result.seconds
            count = self.state.add(job.name, run)
            text += f"; {count.compared:,} in {count.runs} runs"
            if job.name not in self.verilog:
                self.verilog[job.name] = self.session / f"{job.name}.v"
                shutil.copy(verilog, self.verilog[job.name])
        self.total += result.compared
        print(f"{'ok    ' if result.passed else 'FAILED'} {text}", flush=True)
        if not result.passed:
            self.failed.append(job.name)
            self._keep(job, result)
        shutil.rmtree(job.directory, ignore_errors=True)

    def _keep(self, job: UnitJob, result: UnitResult) -> None:
        """The report of a failed run, and the vector that fails, as small as can be."""
        path = self.failures / f"{job.name}-{job.seed}.json"
        lines = failure_lines(job, result)
        write_file(path.with_suffix(".txt"), "\n".join(lines) + "\n")
        first = next((failure for failure in result.failures if failure.timing), None)
        if first is None:  # no result to begin with
            print("\n".join(lines), flush=True)
            return
        found = {
            "unit": job.name,
            "seed": job.seed,
            "count": job.bulk,
            "where": first.where,
            "got": first.got,
            "want": first.want,
            "repeat": job.repeat,
        }
        items = [*first.before, first.item]
        Vector(job.config, items, StallChances(**first.timing), len(items) - 1, found=found).save(
            path
        )
        self._minimise(path)

    def _minimise(self, path: Path) -> None:
        """Make the vector of a file small, unless that was done, and print its report."""
        with locked(self.settings.directory / "minimise.lock"):
            kept = vector.load(path)
            if kept.state != vector.FOUND:
                return
            job = self._job(Unit(kept.config), int(kept.found.get("seed", 0)))
            replayed = self.settings.replay.replace("{file}", str(path))
            job = replace(job, repeat=replayed)
            unit = vector.stream_unit(job)
            verilog = vector.verilog_of(job)
            build = unit.build(verilog)
            small = Minimiser(unit, build).smallest(Stimulus(kept.items, kept.timing), kept.wrong)
            if small is None:
                replace(kept, state=vector.LOST).save(path)
                print(f"{path}: does not fail when it is replayed; {vector.summary(kept.found)}")
                return
            kept = replace(kept, items=small.items, timing=small.timing, state=vector.MINIMISED)
            try:
                shown = unit.replay(build, small.items, small.timing)
                kept = replace(kept, wrong=(shown.wrong or [0])[0])
                text = vector.report(unit, verilog, kept, shown)
            except SimulationError as error:
                text = job.report(f"replay: {str(error).splitlines()[0]}", [])
            kept.save(path)
        lines = [text, f"found with: {vector.summary(kept.found)}", f"kept as {path}"]
        write_file(path.with_suffix(".txt"), "\n".join(lines) + "\n")
        print("\n".join(lines), flush=True)

    def _summary(self) -> None:
        """Each unit's count, and one line of totals."""
        counts = self.state.load()
        for unit in self.units:
            if (count := counts.get(unit.name)) is not None:
                failed = f", {count.failed} FAILED" if count.failed else ""
                compared = f"{count.compared:16,} {count.items} in {count.runs} runs"
                print(f"{compared}{failed}: {unit.name}")
        every = sum(count.compared for count in counts.values())
        fresh = sum(count.fresh for count in counts.values())
        verdict = f"FAILED: {', '.join(self.failed)}" if self.failed else "nothing failed"
        hours = (time.monotonic() - self.started) / 3600
        print(
            f"{self.total:,} compared in {hours:.2f} hours, {every:,} in all, "
            f"{fresh:,} of them drawn anew: {verdict}"
        )
