"""One dot unit from its build to its failures: cycle by cycle, in bulk, replayed."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..model import DotConfig
from . import bulk, verilator
from .item import Batch, Outcome, concatenate, products
from .job import Failure, UnitJob
from .report import describe_failure
from .stimulus import traffic
from .tensors import tensor_traffic
from .unit import (
    KEPT_FAILURES,
    TIME_LIMIT,
    WAVES_LIMIT,
    Progress,
    UnitResult,
    run_cycles,
    verilog_of,
)
from .unit_build import build_unit

BULK_GAP, BULK_STALL = 8, 16  # chances in 256 per cycle
TENSOR_BLOCKS = 25_000  # of real tensors in bulk mode, unless all are asked for


def run(job: UnitJob, progress: Progress, result: UnitResult) -> None:
    """Simulate; what was found goes to `result`."""
    progress("verilog")
    verilog = verilog_of(job)
    progress("build")
    build = build_unit(job.config, verilog, job.build_directory / "build", waves=job.waves)
    progress("traffic")
    failures = run_cycles(job, build, result)
    if job.bulk:
        progress("bulk")
        failures += _run_bulk(job, build, result)
    if failures:
        progress("replay")
        result.report = describe_failure(job, verilog, failures[0])


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
    result.compared += count
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
        [int(got.result[place]), int(got.flags[place])],
        [int(want.result[place]), int(want.flags[place])],
        f"bulk, dot product {place}",
    )
