"""One unit from Verilog to verdict: generate, build, run cycle by cycle, run in bulk, report."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..model import DotConfig
from . import bulk, verilator
from .item import Batch, Outcome, concatenate, products
from .job import CycleReport, Failure, UnitJob
from .report import describe_failure
from .stimulus import traffic
from .tensors import tensor_traffic
from .unit_build import build_unit

Progress = Callable[[str], None]

TIME_LIMIT = 600.0  # seconds, for each simulation
WAVES_LIMIT = 5000  # dot products in bulk mode up to which waves of it are recorded
BULK_GAP, BULK_STALL = 8, 16  # chances in 256 per cycle
TENSOR_BLOCKS = 25_000  # of real tensors in bulk mode, unless all are asked for
KEPT_FAILURES = 5


@dataclass
class UnitResult:
    """What one unit's run found."""

    name: str
    config: str
    products: int = 0
    """Dot products compared with the model, cycle by cycle and in bulk."""
    mismatches: int = 0
    coverage: float = 0.0
    cycle_rate: float = 0.0
    bulk_rate: float = 0.0
    """Dot products per second of simulation."""
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    report: str = ""
    """The failure report, for people."""

    @property
    def passed(self) -> bool:
        """True when dot products were compared and nothing was wrong."""
        return self.products > 0 and not self.errors


def run_unit(job: UnitJob, progress: Progress = lambda phase: None) -> UnitResult:
    """Run one job; every failure is in the result.

    Raises ToolError when the toolchain is missing.
    """
    started = time.perf_counter()
    result = UnitResult(job.name, str(job.config))
    failures: list[Failure] = []
    job.directory.mkdir(parents=True, exist_ok=True)
    try:
        progress("verilog")
        verilog = job.verilog or _generate(job)
        progress("build")
        build = build_unit(job.config, verilog, job.build_directory / "build", waves=job.waves)
        progress("traffic")
        failures += _run_cycles(job, build, result)
        if job.bulk:
            progress("bulk")
            failures += _run_bulk(job, build, result)
        if failures:
            progress("replay")
            result.report = describe_failure(job, verilog, failures[0])
    except (verilator.BuildError, verilator.SimulationError) as error:
        log = job.directory / "error.log"
        log.write_text(str(error))
        lines = [line for line in str(error).splitlines() if line.strip()]
        result.errors.append(f"{lines[0]} (log: {log})")
        result.report = "\n".join(lines[-15:])
    result.seconds = time.perf_counter() - started
    return result


def _generate(job: UnitJob) -> Path:
    from ..hw.verilog import generate

    path = job.directory / "mxdot_dot.v"
    beside = path.with_suffix(".part")
    beside.write_text(generate(job.config))
    beside.replace(path)
    return path


def _run_cycles(job: UnitJob, build: verilator.Build, result: UnitResult) -> list[Failure]:
    report_file = job.directory / "cycle.json"
    report_file.unlink(missing_ok=True)
    run = build.run(
        "mxdot.sim.bench.dot_test",
        results_xml=job.directory / "cycle.xml",
        env={"MXDOT_JOB": str(job.write())},
        seed=job.seed % 2**31,
        waves=job.directory / "cycle.fst" if job.waves else None,
        time_limit=TIME_LIMIT,
    )
    if not report_file.is_file():
        raise verilator.SimulationError(
            f"the bench broke off without a report\n{run.log_file.read_text(errors='replace')}"
        )
    report = CycleReport.load(report_file)
    result.products += report.products
    result.mismatches += report.mismatches
    result.coverage = report.coverage
    result.cycle_rate = report.products / max(report.seconds, 1e-9)
    result.errors += report.errors
    if not run.passed and not report.errors:
        result.errors.append(f"the bench failed (log: {run.log_file})")
    return report.failures


def _run_bulk(job: UnitJob, build: verilator.Build, result: UnitResult) -> list[Failure]:
    config = job.config
    batches = traffic(config, job.rng("bulk"), job.bulk)
    batches = concatenate(batches + tensor_traffic(job, None if job.all_tensors else TENSOR_BLOCKS))
    order = job.rng("bulk order").permutation(sum(map(len, batches)))
    records, results = job.directory / "bulk.records", job.directory / "bulk.results"
    _write(config, batches, order, records)
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
    got = bulk.read_results(results)
    if not job.waves:
        records.unlink()
        results.unlink()
    result.bulk_rate = report.results / max(report.seconds, 1e-9)
    predict = job.predict()
    outcomes = [predict(config, batch) for batch in batches]
    want = Outcome(
        np.concatenate([part.result for part in outcomes])[order],
        np.concatenate([part.flags for part in outcomes])[order],
    )
    if len(got.result) != len(order):
        result.errors.append(f"bulk: {len(order)} dot products gave {len(got.result)} results")
    count = min(len(order), len(got.result))
    result.products += count
    wrong = np.flatnonzero(
        (got.result[:count] != want.result[:count]) | (got.flags[:count] != want.flags[:count])
    )
    result.mismatches += len(wrong)
    if len(wrong):
        result.errors.append(f"bulk: {len(wrong)} results differ from the model's")
    return [
        _failure(config, batches, int(order[i]), int(i), got, want) for i in wrong[:KEPT_FAILURES]
    ]


def _write(config: DotConfig, batches: list[Batch], order: NDArray[np.int64], path: Path) -> None:
    """The records of all blocks, their dot products in the given order."""
    lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in batches])
    starts = np.cumsum(lengths) - lengths
    lengths, starts = lengths[order], starts[order]
    ends = np.cumsum(lengths)
    step = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    index = np.repeat(starts, lengths) + step

    def blocks(name: str) -> NDArray:
        parts = [getattr(batch, name) for batch in batches]
        return np.concatenate([p.reshape(-1, *p.shape[2:]) for p in parts])[index]

    c = np.concatenate([batch.c for batch in batches])[order]
    mode = np.concatenate([np.full(len(batch), batch.mode) for batch in batches])[order]
    bulk.write_records(
        path,
        blocks("a"),
        blocks("b"),
        blocks("scale_a"),
        blocks("scale_b"),
        np.repeat(c, lengths),
        step == 0,
        step == np.repeat(lengths, lengths) - 1,
        np.repeat(mode, lengths),
        a_bits=config.bits_a,
        b_bits=config.bits_b,
        side=[(_side(batches, name)[index], bits) for name, bits in config.side_inputs.items()],
    )


def _side(batches: list[Batch], name: str) -> NDArray[np.uint64]:
    """A side input of all blocks."""
    return np.concatenate([batch.side[name].reshape(-1) for batch in batches])


def _failure(
    config: DotConfig,
    batches: list[Batch],
    number: int,
    place: int,
    got: bulk.BulkResults,
    want: Outcome,
) -> Failure:
    ends = np.cumsum([len(batch) for batch in batches])
    which = int(np.searchsorted(ends, number, side="right"))
    row = number - int(ends[which]) + len(batches[which])
    product = products(config, batches[which].take(slice(row, row + 1)))[0]
    values = {"mode": product.mode, "c": product.c, "blocks": [list(b) for b in product.blocks]}
    return Failure(
        values,
        int(got.result[place]),
        int(want.result[place]),
        int(got.flags[place]),
        int(want.flags[place]),
        f"bulk, dot product {place}",
    )
