"""The result of a unit's run, and the steps that runners of all kinds share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...util.files import write_file
from .job import CycleReport, Failure, UnitJob
from .toolchain import BuildError
from .verilator import Build, SimulationError

Progress = Callable[[str], None]
"""Called with the phase that a job has entered."""

TIME_LIMIT = 600.0  # seconds, for each simulation
WAVES_LIMIT = 5000  # items in bulk mode up to which waves of it are recorded
KEPT_FAILURES = 5


@dataclass
class UnitResult:
    """Results of one unit's run."""

    name: str
    config: str
    compared: int = 0
    """Dot products, or whatever the kind compares, compared with the model in all runs."""
    repeated: int = 0
    """Number of items that bulk mode sent again, part of `compared`."""
    mismatches: int = 0
    coverage: float = 0.0
    cycle_rate: float = 0.0
    bulk_rate: float = 0.0
    """Items per second of simulation."""
    unit_share: float | None = None
    """Share of the unit's own logic in the time of bulk mode, if the simulator tells it."""
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    report: str = ""
    """The failure report, for people."""
    items: str = "dot products"
    """Name of the items, in words."""
    seed: int = 0
    """The job's seed."""
    failures: list[Failure] = field(default_factory=list)
    """The first wrong results."""

    @classmethod
    def of_dict(cls, values: dict[str, Any]) -> "UnitResult":
        """The result of which `asdict` made `values`."""
        failures = [Failure(**failure) for failure in values["failures"]]
        return cls(**{**values, "failures": failures})

    @property
    def passed(self) -> bool:
        """True when something was compared and nothing was wrong."""
        return self.compared > 0 and not self.errors


def verilog_of(job: UnitJob) -> Path:
    """The job's Verilog, generated into its directory unless it brings a file."""
    if job.verilog is not None:
        return job.verilog
    from ...hw.verilog import default_top

    path = job.directory / f"{default_top(job.config)}.v"
    try:
        text = job.generate()
    except RuntimeError as error:  # a synthesis that failed
        raise BuildError(str(error)) from None
    write_file(path, text)
    return path


def assertions_of(job: UnitJob) -> Path | None:
    """File of the unit's assertions in the job's directory; None for a job without them."""
    if not job.assertions:
        return None
    from ...hw.verilog.assertions import assertions

    path = job.directory / "assertions.sv"
    write_file(path, assertions(job.config, counters=False))  # the bench sets them near their ends
    return path


def run_cycles(
    job: UnitJob,
    build: Build,
    result: UnitResult,
    test_module: str = "mxdot.sim.bench.unit_test",
    time_limit: float = TIME_LIMIT,
) -> list[Failure]:
    """Run a cocotb test that writes a CycleReport to cycle.json; adds it to `result`."""
    report_file = job.directory / "cycle.json"
    report_file.unlink(missing_ok=True)
    run = build.run(
        test_module,
        results_xml=job.directory / "cycle.xml",
        env={"MXDOT_JOB": str(job.write())},
        seed=job.seed % 2**31,
        waves=job.directory / "cycle.fst" if job.waves else None,
        time_limit=time_limit,
    )
    if not report_file.is_file():
        raise SimulationError(
            f"the bench broke off without a report\n{run.log_file.read_text(errors='replace')}"
        )
    report = CycleReport.load(report_file)
    result.compared += report.compared
    result.mismatches += report.mismatches
    result.coverage = report.coverage
    result.cycle_rate = report.compared / max(report.seconds, 1e-9)
    result.errors += report.errors
    if not run.passed and not report.errors:
        result.errors.append(f"the bench failed (log: {run.log_file})")
    return report.failures
