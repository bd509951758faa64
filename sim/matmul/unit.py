"""One matrix unit in a regression: cycle by cycle among faults, then products in bulk."""

from bisect import bisect_right

from ...model.units.matmul.config import MatmulConfig
from ...util.data.tensors import load_tensors, modes_taking
from ..engine import verilator
from ..engine.job import Failure, UnitJob
from ..engine.unit import TIME_LIMIT, Progress, UnitResult, run_cycles, verilog_of
from .build import build_matmul
from .bulk import run_bulk
from .item import Product, compare, describe
from .stimulus import (
    CYCLES,
    block_counts,
    least_cycles,
    random_product,
    real_product,
    shapes,
    total_cycles,
)

BULK_GAP, BULK_STALL = 16, 16  # chances in 256 per cycle
BULK_BLOCKS = 48  # of K, of the random product
BULK_COST = 300_000_000  # of a product, as `_cost`: what costs more has fewer results
BULK_COST_PER_RESULT = 10_000  # the same where very many results are asked for
TEST = "mxdot.sim.matmul.unit_test"


def run(job: UnitJob, progress: Progress, result: UnitResult) -> None:
    """Simulate; what was found goes to `result`."""
    progress("verilog")
    verilog = verilog_of(job)
    progress("build")
    build = build_matmul(
        job.config,
        verilog,
        job.build_directory / "build",
        executable=job.directory / "sim",
        waves=job.waves,
        coverage=job.coverage,
    )
    failures: list[Failure] = []
    if job.traffic:
        progress("traffic")
        work = total_cycles(job.config, shapes(job.config)) / CYCLES
        failures = run_cycles(job, build, result, TEST, TIME_LIMIT * max(1, work))
    try:
        if job.bulk:
            progress("bulk")
            failures += _run_bulk(job, build, result)
    finally:  # a deadlock in bulk mode does not hide what was found before
        if failures and job.explains:
            first = failures[0]
            result.report = job.report(f"{first.where}: result differs", first.item["lines"])


def _run_bulk(job: UnitJob, build: verilator.Build, result: UnitResult) -> list[Failure]:
    """Products of `job.bulk` results and more, of real tensors first."""
    failures: list[Failure] = []
    seconds, compared = 0.0, 0
    for number, product in enumerate(bulk_products(job)):
        where = f"bulk, product {number} ({product.name}), (M, N, K) = {product.shape}"
        try:
            ran = run_bulk(
                build,
                job.config,
                product,
                job.directory / f"bulk{number}",
                gap=BULK_GAP,
                stall=BULK_STALL,
                seed=job.seed % 2**31,
                keep=job.waves,
                time_limit=TIME_LIMIT,
            )
        except verilator.SimulationError as error:
            raise verilator.SimulationError(f"{where}: {error}") from None
        want = job.predict()(job.config, product)
        wrong = compare(job.config, product, ran.packet, want)
        if wrong is not None:
            result.mismatches += wrong.count
            result.errors.append(f"{where}: {wrong.count} results differ from the model's")
            lines = {"lines": describe(job.config, product, wrong)}
            failures.append(Failure(lines, [wrong.got], [wrong.want], where))
        if ran.flags != want.flags:
            result.errors.append(f"{where}: FLAGS are {ran.flags:05b}, wanted {want.flags:05b}")
        seconds, compared = seconds + ran.seconds, compared + want.result.size
    result.compared += compared
    result.bulk_rate = compared / max(seconds, 1e-9)
    return failures


def bulk_products(job: UnitJob) -> list[Product]:
    """The tensors' product, whole or a slice, and one of random operands in every mode."""
    config: MatmulConfig = job.config
    modes = range(len(config.dot.formats))
    products = []
    if job.tensors is not None:
        x, y = load_tensors(job.tensors, job.tensor_names)
        blocks = -(-x.shape[1] // config.dot.lanes)
        limit = None if job.all_tensors else _side(config, job.bulk / 2, blocks)
        mode = modes_taking(config.dot, x, y)[0]
        products.append(real_product(config, mode, x[:limit], y[:limit]))
    side = _side(config, job.bulk / 2 / len(modes), BULK_BLOCKS)
    rng = job.rng("bulk")
    products += [random_product(config, rng, m, side, side, BULK_BLOCKS, "wide") for m in modes]
    longest = block_counts(config)[-1]
    tile = config.rows, config.columns
    driven = {blocks for _, blocks in shapes(config)}
    if longest not in driven and _cost(config, *tile, longest) <= BULK_COST:
        products.append(random_product(config, rng, 0, *tile, longest))
    return products


def _side(config: MatmulConfig, results: float, blocks: int) -> int:
    """M and N of a product of so many results, or fewer where those cost too much."""

    def cost(side: int) -> int:
        return _cost(config, side, side, blocks)

    wanted = range(1, int(results**0.5) + 1)
    return max(1, bisect_right(wanted, max(BULK_COST, BULK_COST_PER_RESULT * results), key=cost))


def _cost(config: MatmulConfig, m: int, n: int, blocks: int) -> int:
    """Cycles of a product times lanes of the array, by which the time of its simulation grows."""
    cycles = least_cycles(config, config.tiles(m, n, blocks * config.dot.lanes))
    return cycles * config.rows * config.columns * config.dot.lanes
