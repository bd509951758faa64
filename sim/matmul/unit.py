"""One matrix unit in a regression: cycle by cycle among faults, then products in bulk."""

from ...model.matmul_config import MatmulConfig
from .. import verilator
from ..job import Failure, UnitJob
from ..unit import TIME_LIMIT, Progress, UnitResult, run_cycles, verilog_of
from .build import build_matmul
from .bulk import run_bulk
from .product import Product, compare, describe
from .stimulus import random_product, tensor_product

BULK_GAP, BULK_STALL = 16, 16  # chances in 256 per cycle
BULK_BLOCKS = 48  # of K, of the random product
TEST = "mxdot.sim.matmul.matmul_test"


def run(job: UnitJob, progress: Progress, result: UnitResult) -> None:
    """Simulate; what was found goes to `result`."""
    progress("verilog")
    verilog = verilog_of(job)
    progress("build")
    build = build_matmul(job.config, verilog, job.build_directory / "build", waves=job.waves)
    progress("traffic")
    failures = run_cycles(job, build, result, TEST)
    try:
        if job.bulk:
            progress("bulk")
            failures += _run_bulk(job, build, result)
    finally:  # a deadlock in bulk mode does not hide what was found before
        if failures:
            first = failures[0]
            result.report = job.report(f"{first.where}: result differs", first.item["lines"])


def _run_bulk(job: UnitJob, build: verilator.Build, result: UnitResult) -> list[Failure]:
    """Products of `job.bulk` results and more, of real tensors first."""
    failures: list[Failure] = []
    seconds, compared = 0.0, 0
    for number, product in enumerate(_products(job)):
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
        want = job.predict()(job.config, product)
        where = f"bulk, product {number} ({product.name}), (M, N, K) = {product.shape}"
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


def _products(job: UnitJob) -> list[Product]:
    """The tensors' product, whole or a slice, and one of random operands in every mode."""
    config: MatmulConfig = job.config
    modes = range(len(config.dot.formats))
    products = []
    if job.tensors is not None:
        limit = None if job.all_tensors else max(1, int((job.bulk / 2) ** 0.5))
        products.append(tensor_product(config, 0, job.tensors, job.tensor_names, limit))
    side = max(1, int((job.bulk / 2 / len(modes)) ** 0.5))
    rng = job.rng("bulk")
    products += [random_product(config, rng, m, side, side, BULK_BLOCKS, "wide") for m in modes]
    return products
