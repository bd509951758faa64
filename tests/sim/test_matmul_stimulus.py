"""The traffic of the matrix bench: short for every unit, and it reaches every goal."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from mxdot.model import E8M0, DotConfig, MXArray
from mxdot.model.formats import E4M3, FLOAT32
from mxdot.model.trace import FLAG_NAMES
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import TRAFFIC
from mxdot.sim.matmul.faults import holed
from mxdot.sim.matmul.features import WAITS, goals, hits
from mxdot.sim.matmul.item import predict
from mxdot.sim.matmul.stimulus import (
    LONG_JOB,
    LOST,
    PEELED,
    job_held_back,
    least_cycles,
    level_products,
    many_along,
    products,
    random_product,
)
from mxdot.sim.matmul.unit import bulk_products

DOT = DotConfig("e4m3", 4)
INTEGER = DotConfig("int8", 32, "int32", out="float16")
UNITS = [
    MatmulConfig(DOT, 1, 1, 4),
    MatmulConfig(DOT, 2, 3, 16, c_bytes=3, initial_c=True),
    MatmulConfig(INTEGER, 1, 1, 1024),
    MatmulConfig(INTEGER, 4, 1, 1024),
    MatmulConfig(INTEGER, 4, 1, 1024, 1, 1, 1, 1, initial_c=True),
    MatmulConfig(DotConfig("e4m3", 32), 8, 8, 32, 1),
    MatmulConfig(DotConfig("e4m3,e5m2,e2m1,int8", 4), 1, 2, 512, 1, 1, 1),
    MatmulConfig(DotConfig("e2m1", 4, "exact", scales="e4m3"), 1, 1, 4),
]


@pytest.mark.parametrize("config", UNITS, ids=str)
@pytest.mark.parametrize(("seed", "results"), [(1, 1), (2, 1), (3, 1), (1, TRAFFIC), (2, TRAFFIC)])
def test_products_are_short_and_reach_every_shape(config, seed, results):
    missed = {
        name: set(bins)
        for name, bins in goals(config, ()).items()
        if name in ("tiles", "blocks", "side", "mode", "initial_c", "scale")
    }
    cycles = 0
    for product in products(config, np.random.default_rng(seed), results):
        cycles += least_cycles(config, product.tiles(config))
        assert cycles <= 100_000
        hit = hits(config, product, dict.fromkeys(WAITS, 0), set())
        for name in missed:
            missed[name] -= hit[name]
    assert not any(missed.values())


@pytest.mark.parametrize("seed", range(5))
def test_special_operands_have_a_scale_that_is_nan(seed):
    config = MatmulConfig(DotConfig("int5", 2, "cdna1-bf16", scales="e4m3"), 1, 1, 4)
    product = random_product(config, np.random.default_rng(seed), 0, 2, 1, 1, "special")
    for operand in (product.a, product.b):
        assert np.isnan(E4M3.decode(operand.scales)).any()


@pytest.mark.parametrize("initial_c", [False, True])
def test_the_first_digits_of_all_results_cancel_down_to_any(initial_c):
    """Results of three blocks, or of a D and a block, over the first block's."""
    config = MatmulConfig(DotConfig("e2m1", 4, "exact"), 2, 1, 4, initial_c=initial_c)
    depths = set()
    for seed in range(6):
        product = random_product(config, np.random.default_rng(seed), 0, 8, 8, 3, PEELED)
        if initial_c and product.d is not None:
            made = replace(product, a=first_block(product.a), b=first_block(product.b))
        else:
            made = replace(product, d=None)
        left = predict(config, made).result
        first = replace(product, a=first_block(product.a), b=first_block(product.b), d=None)
        whole = predict(config, first).result
        both = (left != 0) & (whole != 0)
        depths |= set((np.frexp(whole)[1] - np.frexp(left)[1])[both].tolist())
    assert depths >= set(range(1, 24))


@pytest.mark.parametrize(("name", "accumulator"), [("e2m1", "exact"), ("e4m3", "aligned:13")])
def test_a_digit_of_a_sum_decides_some_results(name, accumulator):
    """Results are others without the second block, which is less than half a unit of them."""
    config = MatmulConfig(DotConfig(name, 4, accumulator), 2, 1, 4)
    decided = 0
    for seed in range(20):
        product = random_product(config, np.random.default_rng(seed), 0, 32, 32, 3, LOST)
        result = predict(config, product).result.astype(np.float32)
        assert np.isfinite(result).all()
        codes = product.a.codes.copy()
        codes[:, 4:8] = 0
        a = MXArray(codes, product.a.scales, product.a.format, 4)
        without = predict(config, replace(product, a=a)).result
        of_a, of_b = (E8M0.decode(x.scales[:, 1]).astype(float) for x in (product.a, product.b))
        digit = of_a[:, None] * of_b
        decided += np.count_nonzero((without != result) & (digit < np.spacing(abs(result)) / 2))
    assert decided > 100


def first_block(operand):
    """The first four elements along K."""
    return MXArray(operand.codes[:, :4], operand.scales[:, :1], operand.format, 4)


@pytest.mark.parametrize("seed", range(3))
def test_a_hole_ends_a_beat_that_is_not_the_last(seed):
    for size, width in ((9, 3), (10, 4), (3, 1)):
        keep = holed(Random(seed), size, width, ends=True)
        beats = [keep[at : at + width] for at in range(0, size, width)]
        (short,) = [beat for beat in beats if 0 in beat]
        assert short == sorted(short, reverse=True)
        assert all(beats[-1])
    assert holed(Random(seed), 3, 4, ends=True).count(0) == 1


def test_numbers_of_blocks_are_left_out_only_where_a_tile_takes_too_long():
    deep, narrow = UNITS[3:5]
    assert goals(deep, ())["blocks"] == [1, 2, 1023, 1024, 1025, 2048, 2049]
    assert goals(narrow, ())["blocks"] == [1, 2]


@pytest.mark.parametrize("config", UNITS, ids=str)
def test_bulk_products_are_short_and_have_the_longest_that_is_no_goal(config, tmp_path):
    bulk = bulk_products(UnitJob("matmul", config, 1, tmp_path, bulk=45_000))
    lanes = config.rows * config.columns * config.dot.lanes
    for product in bulk:
        assert least_cycles(config, product.tiles(config)) * lanes <= 300_000_000
    longest = 2 * config.depth + 1
    assert longest in goals(config, ())["blocks"] or bulk[-1].tiles(config).k_blocks == longest


@pytest.mark.parametrize("initial_c", [False, True])
def test_results_of_every_exponent_are_in_a_job_that_does_not_underflow(initial_c):
    """A flag that is raised by mistake is then not hidden by another result's."""
    config = MatmulConfig(DotConfig("e2m1", 4, "exact"), 2, 1, 4, initial_c=initial_c)
    exponents = set()
    for product in level_products(config, np.random.default_rng(1)):
        made = predict(config, product)
        if not made.flags & 1 << FLAG_NAMES.index("underflow"):
            fields = made.result.astype(np.float32).view(np.uint32) >> FLOAT32.mantissa_bits & 0xFF
            exponents |= set(fields.ravel().tolist())
    assert len(exponents) > 230


@pytest.mark.parametrize("config", [*UNITS, MatmulConfig(DOT, 32, 32, 4, c_bytes=1)], ids=str)
def test_long_counts_are_of_a_job_that_is_not_too_long(config):
    """A tile of one block of the last unit is too long."""
    for axis in range(3):
        tiles = many_along(config, axis)
        assert tiles[axis] > 1
        assert tiles[axis] == 2 or least_cycles(config, tiles) <= LONG_JOB


def test_a_job_is_held_back_where_its_steps_are_sure_to_wait():
    """The goals ask for waits of these units alone."""

    def held(stages=4, interleave=1, **options):
        dot = DotConfig("e2m1", 4, "fused:13", stages, interleave=interleave)
        config = MatmulConfig(dot, 1, 1, depth=4, **options)
        assert ("WAIT_UNIT" in goals(config, ())["counter"]) == (job_held_back(config) is not None)
        return job_held_back(config)

    narrow = {"a_bytes": 1, "b_bytes": 1}
    assert held(1) is None
    assert held() == ("a", (1, 1), 10)
    assert held(**narrow) == ("a", (1, 2), 4)
    assert held(**narrow, interleave=6) is None
    assert held(**narrow, interleave=6, keep_b=True) == ("b", (2, 1), 4)
    assert held(**narrow, interleave=6, initial_c=True) == ("d", (1, 1), 8)
