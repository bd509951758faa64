"""One quantiser in a regression: cycle by cycle, then in bulk."""

from dataclasses import replace

import numpy as np

from .. import bulk, verilator
from ..job import Failure, UnitJob
from ..unit import (
    KEPT_FAILURES,
    TIME_LIMIT,
    WAVES_LIMIT,
    Progress,
    UnitResult,
    run_cycles,
    verilog_of,
)
from .build import build_quantizer
from .bulk import read_results, write_records
from .item import Batch, Outcome, blocks, concatenate, plain, result
from .report import describe_failure
from .stimulus import bulk_traffic
from .tensors import tensor_traffic

BULK_GAP, BULK_STALL = 8, 16  # chances in 256 per cycle


def run(job: UnitJob, progress: Progress, found: UnitResult) -> None:
    """Simulate; what was found goes to `found`."""
    progress("verilog")
    verilog = verilog_of(job)
    progress("build")
    build = build_quantizer(job.config, verilog, job.build_directory / "build", waves=job.waves)
    progress("traffic")
    failures = run_cycles(job, build, found)
    if job.bulk:
        progress("bulk")
        failures += _run_bulk(job, build, found)
    if failures:
        found.report = describe_failure(job, failures[0])


def _run_bulk(job: UnitJob, build: verilator.Build, found: UnitResult) -> list[Failure]:
    config = job.config
    batches = concatenate(bulk_traffic(config, job.rng("bulk"), job.bulk) + tensor_traffic(job))
    order = job.rng("bulk order").permutation(sum(map(len, batches)))
    batches = _numbered(batches, np.argsort(order))
    records, results = job.directory / "bulk.records", job.directory / "bulk.results"
    write_records(records, config, batches, order)
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
    got, marks = read_results(results, config)
    if not job.waves:
        records.unlink()
        results.unlink()
    found.bulk_rate = report.results / config.beats / max(report.seconds, 1e-9)
    outcomes = [job.predict()(config, batch) for batch in batches]
    codes = np.concatenate([outcome.codes for outcome in outcomes])[order]
    scale = np.concatenate([outcome.scale for outcome in outcomes])[order]
    if len(got.scale) != len(order):
        found.errors.append(f"bulk: {len(order)} blocks gave {len(got.scale)}")
    if marks:
        found.errors.append(f"bulk: {marks} beats have another scale or last than their block")
    count = min(len(order), len(got.scale))
    found.compared += count
    differs = (got.codes[:count] != codes[:count]).any(axis=1)
    wrong = np.flatnonzero(differs | (got.scale[:count] != scale[:count]))
    found.mismatches += len(wrong)
    if len(wrong):
        found.errors.append(f"bulk: {len(wrong)} blocks differ from the model's")
    want = Outcome(codes, scale)
    return [
        Failure(
            _plain(job, batches, int(order[i])),
            [list(beat) for beat in result(config, got, i)],
            [list(beat) for beat in result(config, want, i)],
            f"bulk, block {i}",
        )
        for i in wrong[:KEPT_FAILURES].tolist()
    ]


def _numbered(batches: list[Batch], place: np.ndarray) -> list[Batch]:
    """The batches with the place of each block in the run."""
    ends = np.cumsum([len(batch) for batch in batches])
    return [
        replace(batch, number=place[end - len(batch) : end])
        for batch, end in zip(batches, ends, strict=True)
    ]


def _plain(job: UnitJob, batches: list[Batch], number: int) -> dict:
    """The block of this number, counted through the batches."""
    for batch in batches:
        if number < len(batch):
            return plain(blocks(job.config, batch.take(slice(number, number + 1)))[0])
        number -= len(batch)
    raise IndexError(number)
