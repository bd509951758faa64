"""A regression: units as tasks of the job engine, and what is made of their results."""

import base64
import fnmatch
import io
import json
import os
import shutil
import time
import traceback
import zipfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ...model import DotConfig
from ...model.errors import OUTSIDE
from ...model.units.dot import ComposedUnitConfig
from ...util.children import terminate_as_interrupt
from ...util.data.tensors import REAL_FILE, load_tensors, modes_taking
from ...util.files import replacing, write_file
from ...util.jobs import Backend, DryRun, longest_first, results
from ...util.keys import file_digest, fingerprint, task_key, version_of
from ...util.progress import display
from ...util.runs import ended, own_directory, scratch
from ...util.store import Outcome, Store
from ...util.workers import processes
from ..kinds import kind_of
from .job import UnitJob
from .regression_units import Unit
from .summary import merge_coverage, summary, write_junit, write_results
from .toolchain import BuildError, find_tools
from .unit import Progress, UnitResult
from .verilator import SimulationError

BUILD = Path("build/sim")
TRAFFIC = 2000
QUICK_TRAFFIC = 1000
"""Dot products cycle by cycle of each unit of the default matrix."""
_RESULTS, _COVERAGE = "results.xml", "coverage"
_STATE, _KEPT = "state.json", "results"
"""Seed and key of a run that is not finished, and results of its units that have passed."""
CODE = ("model", "util", "hw", "sim")
SECOND_CODE = ("synth", "verify")
"""Rooms that netlists and other simulators need as well."""
TOOLS = ("verilator", "cocotb", "pyuvm", "cocotb-coverage", "cocotbext-axi")
LARGEST = 2**28
"""Bytes of all files that come back from another machine."""
_SECONDS = {"dot": 4.2, "quantize": 3.0, "dot-quantize": 5.5, "matmul": 10.0}
"""Seconds of a core for the smallest unit of each kind, without its items."""
_BULK_RATE = {"matmul": 25_000}
"""Items in bulk per second, where they are not 100,000."""
_PRELOAD = ("mxdot.sim.engine.regression", "mxdot.hw.verilog")


# Units as tasks -----------------------------------------------------------------------------------


def unit_processes(workers: int | None = None) -> Backend:
    """Processes of this machine, a new one per unit: elaboration keeps gigabytes."""
    return processes(workers, _PRELOAD, fresh=True)


@dataclass(frozen=True)
class UnitTask:
    """A job of a regression; its value is a `UnitResult` as a dict."""

    job: UnitJob
    key: str
    brings_files: bool = False
    """True when the worker does not see this machine's files: what the job leaves comes back."""

    @classmethod
    def of(cls, job: UnitJob, brings_files: bool = False) -> "UnitTask":
        return cls(job, unit_key(job), brings_files)

    @property
    def label(self) -> str:
        return self.job.name

    @property
    def weight(self) -> float:
        """Seconds of a core, roughly: the build grows with lanes times formats."""
        job, config = self.job, self.job.config
        part = config.dot if isinstance(config, ComposedUnitConfig) else config
        build = _SECONDS[config.kind] + 0.03 * part.lanes * len(part.formats)
        bulk = job.rounds * job.bulk / _BULK_RATE.get(config.kind, 100_000)
        return build + job.traffic / 2000 + bulk

    def run(self) -> dict[str, Any]:
        if not self.brings_files:
            return asdict(_result(self.job))
        with scratch("unit") as folder:
            here = replace(self.job, directory=folder / "files", builds=folder / "builds")
            if here.tensors is not None and not here.tensors.exists():
                here = replace(here, tensors=REAL_FILE)
            if unit_key(here) != self.key:
                raise ValueError("the worker has other code, tools or tensors than this machine")
            result = _result(here)
            text = json.dumps(asdict(result))
            text = text.replace(str(here.directory), str(self.job.directory))
            everything = self.job.waves or not result.passed
            return {**json.loads(text), "files": _packed(here.directory, everything)}

    def take(self, outcome: Outcome) -> UnitResult:
        """The result, with the command that repeats a failure.

        Files that came with it go to the job's directory.
        """
        if outcome.error is not None:
            return _repeatable(self.job, _failed(self.job, outcome.error))
        values = dict(outcome.value)
        if (packed := values.pop("files", None)) is not None:
            with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed))) as archive:
                archive.extractall(self.job.directory)
        return _repeatable(self.job, UnitResult.of_dict(values))


def unit_key(job: UnitJob) -> str:
    """Equal for jobs that simulate the same with the same code, tools and data."""
    left_out = ("config", "directory", "builds", "repeat", "verilog", "tensors")
    values = {f.name: getattr(job, f.name) for f in fields(job) if f.name not in left_out}
    files = [file and file_digest(file) for file in (job.verilog, job.tensors)]
    code = CODE + (SECOND_CODE if job.generator or job.simulator else ())
    tools = [version_of(tool) for tool in TOOLS]
    config = [job.config.kind, job.config.arguments]
    return task_key("unit", config, values, files, fingerprint(code), tools)


def _result(job: UnitJob) -> UnitResult:
    try:
        return run_unit(job)
    except Exception as error:
        result = _failed(job, f"{type(error).__name__}: {error}")
        if not isinstance(error, OUTSIDE):  # anything else is a defect
            result.report = traceback.format_exc()
        return result


def _failed(job: UnitJob, error: str) -> UnitResult:
    config = str(job.config)
    return UnitResult(job.name, config, seed=job.seed, items=job.config.items, errors=[error])


def _repeatable(job: UnitJob, result: UnitResult) -> UnitResult:
    """The result; the report of a failure tells how to repeat it."""
    if not result.passed and job.repeat not in result.report:
        lines = [f"seed {job.seed}", f"repeat with: {job.repeat}"]
        result.report = "\n".join([*result.report.splitlines(), *lines])
    return result


def _packed(directory: Path, everything: bool) -> str:
    """Coverage, or all files, of a job as a ZIP archive in base 64; the largest files may miss."""
    packed, room = io.BytesIO(), LARGEST
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(directory.rglob("*"), key=lambda path: path.lstat().st_size):
            wanted = everything or path.name == "coverage.yml"
            if wanted and path.is_file() and (room := room - path.stat().st_size) >= 0:
                archive.write(path, path.relative_to(directory))
    return base64.b64encode(packed.getvalue()).decode()


def run_unit(job: UnitJob, progress: Progress = lambda phase: None) -> UnitResult:
    """Run one job; every failure is in the result.

    Raises ToolError when the toolchain is missing.
    """
    started = time.perf_counter()
    result = UnitResult(job.name, str(job.config), items=job.config.items, seed=job.seed)
    job.directory.mkdir(parents=True, exist_ok=True)
    try:
        kind_of(job.config).run(job, progress, result)
    except (BuildError, SimulationError) as error:
        log = job.directory / "error.log"
        log.write_text(str(error))
        lines = [line for line in str(error).splitlines() if line.strip()]
        result.errors.append(f"{lines[0]} (log: {log})")
        result.report = result.report or "\n".join(lines[-15:])
    result.seconds = time.perf_counter() - started
    return result


# The regression ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Choices for a whole regression; None takes the default of the unit.

    traffic, bulk: dot products of each unit cycle by cycle and in bulk mode. tensors: a file of
    real data for every unit, and names of two arrays in it. generator, simulator: as `UnitJob`'s.
    seed: of the unfinished run of the same settings, or random, when None. fresh: begin anew even
    with an unfinished run. repeat: the command line that repeats a unit, in which {name} and {seed}
    stand for its own. json: a file for the results.
    """

    seed: int | None = None
    fresh: bool = False
    traffic: int = TRAFFIC
    bulk: int | None = None
    waves: bool = False
    tensors: Path | None = None
    tensor_names: tuple[str, ...] = ()
    generator: tuple[str, ...] | None = None
    simulator: str | None = None
    repeat: str = ""
    directory: Path = BUILD
    json: Path | None = None


def random_seed() -> int:
    """A seed from the operating system."""
    return int.from_bytes(os.urandom(4), "little")


def select(units: Sequence[Unit], names: Sequence[str]) -> list[Unit]:
    """The units of these names or shell patterns; ValueError for one that fits none."""
    chosen: list[Unit] = []
    for name in names:
        matching = [unit for unit in units if fnmatch.fnmatchcase(unit.name, name)]
        if not matching:
            raise ValueError(f"only must name units of the matrix (see --list), not {name!r}")
        chosen += [unit for unit in matching if unit not in chosen]
    return chosen


def run_regression(
    units: Sequence[Unit], settings: Settings, backend: Backend | None = None
) -> bool:
    """Simulate `units`; True when all passed.

    Files go to a directory of this run, in `settings.directory`. There, runs share their builds,
    and the one that ended last leaves its results and coverage. A killed run continues with its
    seed, without the units that passed. backend: processes of this machine when None.
    Raises ToolError when the toolchain is missing, ValueError for unusable settings, DryRun for a
    backend that only lists.
    """
    if not units:
        raise ValueError("there must be at least one unit to simulate, not none")
    find_tools()
    x, y = load_tensors(_tensors(settings), settings.tensor_names)
    for unit in units:
        config = unit.config.dot if isinstance(unit.config, ComposedUnitConfig) else unit.config
        if isinstance(config, DotConfig):
            modes_taking(config, x, y)
    if backend is None:
        backend = unit_processes()
    runs = settings.directory / "runs"
    regression = _Regression(units, settings, backend)
    if backend.only_lists:
        unfinished = next(filter(regression.goes_on, ended(runs)), Path())
        todo = regression.open(unfinished)
        raise DryRun(todo, len(units) - len(todo), backend.width)
    with (
        terminate_as_interrupt(),
        own_directory(
            runs, goes_on=regression.goes_on, is_replaced=regression.is_replaced
        ) as directory,
    ):
        return regression.run(directory)


@dataclass
class _Regression:
    units: Sequence[Unit]
    settings: Settings
    backend: Backend
    seed: int = 0
    is_new: bool = True
    tasks: list[UnitTask] = field(default_factory=list)
    results: dict[str, UnitResult] = field(default_factory=dict)
    """Results of units by name."""

    def goes_on(self, directory: Path) -> bool:
        """True when this run goes on with the unfinished one of `directory`."""
        seed = None if self.settings.fresh else self._unfinished_seed(directory)
        if seed is None:
            return False
        return any(_kept(task, directory) for task in self._tasks(directory, seed))

    def is_replaced(self, directory: Path) -> bool:
        """True when that run was killed before it had a state, or this one begins it anew."""
        if not (directory / _STATE).exists() and not (directory / _RESULTS).exists():
            return True
        return self._unfinished_seed(directory) is not None

    def open(self, directory: Path) -> list[UnitTask]:
        """Take up the run of `directory`, or begin a new one there; the tasks to do."""
        seed = self._unfinished_seed(directory) if self.goes_on(directory) else self.settings.seed
        self.is_new = not self.goes_on(directory)
        self.seed = random_seed() if seed is None else seed
        self.tasks = self._tasks(directory, self.seed)
        for task in self.tasks:
            if not self.is_new and (result := _kept(task, directory)) is not None:
                self.results[task.label] = result
        return longest_first(task for task in self.tasks if task.label not in self.results)

    def run(self, directory: Path) -> bool:
        """Simulate in a directory that no other run writes to."""
        todo = self.open(directory)
        state = {"seed": self.seed, "run": _run_key(self.tasks)}
        write_file(directory / _STATE, json.dumps(state) + "\n")
        how = f"{min(self.backend.width, len(todo))} at a time, files in {directory}"
        if self.is_new:
            print(f"seed {self.seed}: {len(self.tasks)} units, {how}", flush=True)
        else:
            done = f"{len(self.results)} of {len(self.tasks)} units done"
            print(f"goes on with seed {self.seed}: {done}, {how}", flush=True)
        started = time.perf_counter()
        self._simulate(todo, directory)
        seconds = time.perf_counter() - started
        ordered = [self.results[task.label] for task in self.tasks]
        write_junit(ordered, self.seed, seconds, directory / _RESULTS)
        coverage = self._merge_coverage(directory) if self.settings.traffic else None
        for path in (directory / _RESULTS, *directory.glob(f"{_COVERAGE}.*")):
            with replacing(self.settings.directory / path.name) as copy:
                shutil.copyfile(path, copy)
        passed = summary(ordered, seconds, coverage)
        if self.settings.json is not None:
            write_results(ordered, self.seed, seconds, coverage, self.settings.json)
        (directory / _STATE).unlink()  # after the last file that may fail
        return passed

    def _unfinished_seed(self, directory: Path) -> int | None:
        """The seed of an unfinished run of these units and settings; None for any other run."""
        try:
            state = json.loads((directory / _STATE).read_text())
            seed, run = int(state["seed"]), state["run"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        if self.settings.seed not in (None, seed):
            return None
        return seed if run == _run_key(self._tasks(directory, seed)) else None

    def _simulate(self, todo: Sequence[UnitTask], directory: Path) -> None:
        store = Store(directory / _KEPT)
        for task in todo:
            shutil.rmtree(task.job.directory, ignore_errors=True)
        with (
            display(Console(highlight=False), "simulating") as observer,
            closing(results(todo, self.backend, observer.start)) as outcomes,
        ):
            observer.begin(todo, 0)
            for task, outcome in outcomes:
                result = task.take(outcome)
                self.results[task.label] = result
                if result.passed:
                    store.put(replace(outcome, value=asdict(result)))
                observer.end(task, _told(result, outcome))

    def _merge_coverage(self, directory: Path) -> float:
        """The percentage of bins hit by all units."""
        paths = [task.job.directory / "coverage.yml" for task in self.tasks]
        merged = directory / _COVERAGE
        files = [path for path in paths if path.is_file()]
        return merge_coverage(files, merged.with_suffix(".yml"), merged.with_suffix(".xml"))

    def _tasks(self, directory: Path, seed: int) -> list[UnitTask]:
        jobs = [unit_job(unit, self.settings, seed, directory) for unit in self.units]
        return [UnitTask.of(job, self.backend.is_remote) for job in jobs]


def _run_key(tasks: Sequence[UnitTask]) -> str:
    return task_key("run", [task.key for task in tasks])


def _kept(task: UnitTask, directory: Path) -> UnitResult | None:
    """The result of a unit that has passed in the run of `directory`."""
    outcome = Store(directory / _KEPT).get(task.key)
    return None if outcome is None else task.take(outcome)


def _told(result: UnitResult, outcome: Outcome) -> Outcome:
    """The outcome of a unit as a display tells it."""
    label = f"{result.name}: {result.compared:,} {result.items}"
    error = None if result.passed else (result.errors or ["nothing was compared"])[0]
    return replace(outcome, label=label, error=error)


def _tensors(settings: Settings) -> Path:
    return settings.tensors or REAL_FILE


def unit_job(unit: Unit, settings: Settings, seed: int, directory: Path) -> UnitJob:
    """The job of a unit in a regression whose files go to `directory`."""
    return UnitJob(
        name=unit.name,
        config=unit.config,
        seed=seed,
        directory=directory / unit.name,
        builds=settings.directory / "builds" / unit.name,
        traffic=settings.traffic,
        bulk=unit.bulk if settings.bulk is None else settings.bulk,
        waves=settings.waves,
        generator=settings.generator,
        simulator=settings.simulator,
        assertions=settings.generator is None and settings.simulator is None,
        tensors=_tensors(settings),
        tensor_names=settings.tensor_names,
        all_tensors=settings.tensors is not None,
        repeat=settings.repeat.replace("{name}", unit.name).replace("{seed}", str(seed)),
    )
