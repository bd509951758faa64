"""A regression: units side by side, progress, summary, JUnit and coverage files."""

import fnmatch
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from ...model import DotConfig
from ...model.units.dot import ComposedUnitConfig
from ...util.data.tensors import REAL_FILE, load_tensors, modes_taking
from ...util.files import beside, write_file
from ...util.runs import own_directory
from .display import display, summary
from .job import UnitJob
from .merge import merge_coverage
from .parallel import run_jobs
from .regression_units import Unit
from .toolchain import find_tools
from .unit import UnitResult

BUILD = Path("build/sim")
TRAFFIC = 2000
QUICK_TRAFFIC = 1000
"""Of each unit of the default matrix."""
_RESULTS, _COVERAGE = "results.xml", "coverage"


@dataclass(frozen=True)
class Settings:
    """Choices for a whole regression; None takes the default of the unit.

    traffic, bulk: dot products of each unit cycle by cycle and in bulk mode. tensors: a file of
    real data for every unit, and names of two arrays in it. generator, simulator: as `UnitJob`'s.
    repeat: the command line that repeats a unit, in which {name} stands for it.
    """

    seed: int
    workers: int | None = None
    traffic: int = TRAFFIC
    bulk: int | None = None
    waves: bool = False
    tensors: Path | None = None
    tensor_names: tuple[str, ...] = ()
    generator: tuple[str, ...] | None = None
    simulator: str | None = None
    repeat: str = ""
    directory: Path = BUILD


def random_seed() -> int:
    """A seed from the operating system."""
    return int.from_bytes(os.urandom(4), "little")


def select(units: Sequence[Unit], names: Sequence[str]) -> list[Unit]:
    """The units of these names or shell patterns; ValueError for one that fits none."""
    chosen: list[Unit] = []
    for name in names:
        found = [unit for unit in units if fnmatch.fnmatchcase(unit.name, name)]
        if not found:
            raise ValueError(f"only must name units of the matrix (see --list), not {name!r}")
        chosen += [unit for unit in found if unit not in chosen]
    return chosen


def run_regression(units: Sequence[Unit], settings: Settings) -> bool:
    """Simulate `units`; True when all passed.

    Files go to a directory of this run, in `settings.directory`. There, runs share their builds,
    and the one that ended last leaves its results and coverage. Raises ToolError when the toolchain
    is missing, ValueError for unusable settings.
    """
    if not units:
        raise ValueError("there must be at least one unit to simulate, not none")
    find_tools()
    x, y = load_tensors(_tensors(settings), settings.tensor_names)
    for unit in units:
        config = unit.config.dot if isinstance(unit.config, ComposedUnitConfig) else unit.config
        if isinstance(config, DotConfig):
            modes_taking(config, x, y)
    with own_directory(settings.directory / "runs") as directory:
        return _run(units, settings, directory)


def _run(units: Sequence[Unit], settings: Settings, directory: Path) -> bool:
    """Simulate in a directory that no other run writes to."""
    jobs = [_job(unit, settings, directory) for unit in units]
    workers = min(settings.workers or os.cpu_count() or 1, len(jobs))
    counted = f"{len(jobs)} units, {workers} at a time"
    print(f"seed {settings.seed}: {counted}, files in {directory}", flush=True)
    started = time.perf_counter()
    results: dict[str, UnitResult] = {}
    with display(len(jobs)) as show:
        for result in run_jobs(jobs, workers, show.phase):
            results[result.name] = result
            show.done(result)
    ordered = [results[job.name] for job in jobs]
    seconds = time.perf_counter() - started
    _junit(ordered, settings.seed, seconds, directory / _RESULTS)
    files = [path for job in jobs if (path := job.directory / "coverage.yml").is_file()]
    merged = directory / _COVERAGE
    coverage = None
    if settings.traffic:
        coverage = merge_coverage(files, merged.with_suffix(".yml"), merged.with_suffix(".xml"))
    for path in (directory / _RESULTS, *directory.glob(f"{_COVERAGE}.*")):
        with beside(settings.directory / path.name) as copy:
            shutil.copyfile(path, copy)
    return summary(ordered, seconds, coverage)


def _tensors(settings: Settings) -> Path:
    return settings.tensors or REAL_FILE


def _job(unit: Unit, settings: Settings, directory: Path) -> UnitJob:
    return UnitJob(
        name=unit.name,
        config=unit.config,
        seed=settings.seed,
        directory=directory / unit.name,
        builds=settings.directory / "builds" / unit.name,
        traffic=settings.traffic,
        bulk=unit.bulk if settings.bulk is None else settings.bulk,
        waves=settings.waves,
        generator=settings.generator,
        simulator=settings.simulator,
        tensors=_tensors(settings),
        tensor_names=settings.tensor_names,
        all_tensors=settings.tensors is not None,
        repeat=settings.repeat.replace("{name}", unit.name),
    )


def _junit(results: Sequence[UnitResult], seed: int, seconds: float, path: Path) -> None:
    """JUnit XML: a test case for each unit."""
    failed = sum(not result.passed for result in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "time": f"{seconds:.3f}"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "mxdot sim", **counts})
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="seed", value=str(seed))
    for result in results:
        case = ET.SubElement(
            suite,
            "testcase",
            {"classname": "mxdot.sim", "name": result.name, "time": f"{result.seconds:.3f}"},
        )
        if not result.passed:
            message = (result.errors or ["nothing was compared"])[0]
            failure = ET.SubElement(case, "failure", message=_printable(message))
            failure.text = _printable("\n".join([result.config, *result.errors, result.report]))
    ET.indent(suites)
    write_file(path, ET.tostring(suites, encoding="unicode") + "\n")


def _printable(text: str) -> str:
    """`text` without the control characters that XML cannot hold."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", text)
