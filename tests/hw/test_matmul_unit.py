"""The matrix unit against the golden model, in Amaranth's simulator: products and cycles.

A unit that keeps B receives it once if the buffer holds all of it, and gives it for every row.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compare import FULL, some
from matmul_jobs import DOT, SMALL, Job, run_jobs
from matmul_records import operand
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig, Tiles
from mxdot.model.units.matmul.layout import pack_b
from mxdot.model.units.matmul.registers import COUNTERS, constants

SIDE = 2 if FULL else 1
"""Rows and columns of arrays whose shape does not matter."""

# Products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial_c", "blocks"), some(product([False, True], [1, 4, 5, 8, 9, 2, 3]), 3)
)
def test_lengths_around_the_depth(blocks, initial_c):
    """k_blocks of 1, of a kept panel (4 at most) and past it; several rows and columns of tiles."""
    config = MatmulConfig(DOT, rows=2, columns=2, depth=4, initial_c=initial_c)
    jobs = [
        Job(config, m, n, blocks, seed, use_d=initial_c and seed != 1)
        for seed, (m, n) in enumerate([(4, 4), (1, 1), (5, 3)])
    ]
    run_jobs(config, jobs)


COLUMNS = 3 if FULL else 1
WIDTHS = {
    # A step is 6 bytes of A, 3 of B; a row is 4 bytes.
    1: [(1, 1, 1, 1, 0, 0.3), (7, 5, 3, 3, 0.1, 0.1), (6, 3, 4, 4, 0.3, 0.3)],
    # A step is 6 bytes of A, 9 of B; a row is 12 bytes.
    3: [
        (1, 1, 1, 1, 0, 0.3),
        (4, 7, 5, 9, 0.3, 0.5),
        (6, 12, 16, 16, 0.7, 0),
        (7, 15, 3, 7, 0.1, 0.1),
        (24, 5, 24, 1, 0, 0.8),
        (5, 8, 32, 64, 0.5, 0.5),
        (6, 9, 12, 12, 0.3, 0.3),
    ],
}
"""By columns of the array: narrower, equal, wider, no divisor."""


@pytest.mark.parametrize(("a", "b", "c", "d", "gap", "stall"), WIDTHS[COLUMNS])
def test_widths_of_streams_under_stalls(a, b, c, d, gap, stall):
    config = MatmulConfig(DOT, 2, COLUMNS, 4, a, b, c, d, initial_c=True)
    jobs = [Job(config, 3, 5 if FULL else 2, blocks, blocks, use_d=True) for blocks in (2, 5)]
    run_jobs(config, jobs, gap=gap, stall=stall)


@pytest.mark.parametrize(
    "dot",
    some(
        [
            DotConfig("e4m3", 4, "fused:25", stages=5),
            DotConfig("e5m2xe4m3", 4, "exact", stages=1),
            DotConfig("e2m1,e3m2,e4m3xe5m2", 4, "hopper", out="bfloat16"),
            DotConfig("int8,e4m3", 4, "float32", stages=3),
            DotConfig("e3m2xe2m3", 8, "fixed:40:-20", out="float16", status=False),
            DotConfig("int8xint4", 4, "int32"),
            DotConfig("e2m1", 8, "exact", scales="e4m3"),
            DotConfig("e2m1", 8, "fused:13", scales="e4m3", scale_block=4),
            DotConfig("e4m3", 8, "fused:13", scale_block=4),
        ],
        2,
    ),
    ids=str,
)
def test_dot_units(dot):
    """Accumulators, formats, modes and results; a pipelined fused loop makes the array wait.

    By default of one dot unit: the simulator takes time for each, to compile and to run."""
    config = MatmulConfig(dot, SIDE, SIDE, depth=4)
    m, n = (3, 4) if FULL else (2, 2)
    jobs = [Job(config, m, n, 3 + mode, mode, mode) for mode in range(len(dot.formats))]
    counts = run_jobs(config, jobs, gap=0.1, stall=0.2)
    assert all((each["WAIT_UNIT"] > 0) == (dot.interval > 1) for each in counts)


@pytest.mark.parametrize(
    "dot",
    [
        DotConfig("int5", 4, "fixed:24:-6"),
        DotConfig("e3m2xint3", 4, "fixed:24:-6"),
        DotConfig("int3xtf32", 4, "fused:13"),
        DotConfig("int5", 4, "fused:13", scales="e4m3"),
        *[DotConfig("tf32", 4, machine) for machine in ("ampere-tf32", "cdna3-xf32")] * FULL,
    ],
    ids=str,
)
def test_blocks_that_end_inside_a_byte(dot):
    """Random bits fill them up. Beats begin anywhere in a block, and a step has several."""
    for widths in ((None, None), (3, 4)):
        config = MatmulConfig(dot, 2, 1, 4, *widths)
        run_jobs(config, [Job(config, 3, 2, 3)])


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (3, 1), *([(1, 4), (4, 2)] if FULL else [(1, 3), (3, 2)])]
)
def test_shapes_of_the_array(rows, columns):
    config = MatmulConfig(DOT, rows, columns, 4)
    side = 5 if FULL else 4
    run_jobs(config, [Job(config, side, side, 3), Job(config, rows, columns, 6)], stall=0.3)


def test_overflow_and_nan_reach_the_flags():
    config = MatmulConfig(DotConfig("e5m2", 4, "exact"), SIDE, SIDE, 4)
    large, nan = range(250, 255), range(255, 256)
    jobs = [Job(config, 2, 2, 2, scales=scales) for scales in (large, nan)]
    run_jobs(config, [*jobs, Job(config, 2, 2, 2)])
    assert [job.golden.flags for job in jobs] == [0b01010, 0b00001]


# Time ---------------------------------------------------------------------------------------------


def test_every_cycle_of_an_unhindered_job_is_known():
    """Two cycles until the first step, a step in each cycle, then latency, rows and registers."""
    config = SMALL
    (counts,) = run_jobs(config, [Job(config, 8, 8, 4)])
    latency, rows = config.dot.latency, config.rows
    assert counts == dict.fromkeys(COUNTERS, 0) | {
        "CYCLES": 2 + 64 + latency + rows + 2,
        "STEPS": 64,
        "WAIT_A": 2,
        "TAIL": latency + rows + 2,
    }


def test_results_that_are_not_taken_hold_the_array():
    """A tile of one step computes in a cycle and leaves in as many as it has rows."""
    config = MatmulConfig(DOT, rows=4, columns=1, depth=4)
    (counts,) = run_jobs(config, [Job(config, 16, 4, 1)])
    assert counts["WAIT_DRAIN"] > 2 * counts["STEPS"]
    assert counts["CYCLES"] <= 16 * 4 + 16


def test_narrow_operands_are_waited_for():
    """Half a step per beat: every other cycle is without a step, and its counter names the reason.

    A panel of A that is kept comes at this pace only once per four tiles: only the first is waited
    for.
    """
    narrow_b = MatmulConfig(DOT, 1, 2, 4, b_bytes=3)
    (counts,) = run_jobs(narrow_b, [Job(narrow_b, 2, 4, 4)])
    assert 15 <= counts["WAIT_B"] <= 18
    narrow_a = MatmulConfig(DOT, 2, 1, 4, a_bytes=3)
    kept, sent_again = run_jobs(narrow_a, [Job(narrow_a, 4, 4, 4), Job(narrow_a, 4, 2, 5)])
    assert kept["WAIT_A"] <= 8
    assert 19 <= sent_again["WAIT_A"] <= 24
    with_d = MatmulConfig(DOT, 2, 2, 4, d_bytes=1, initial_c=True)
    (counts,) = run_jobs(with_d, [Job(with_d, 4, 4, 4, use_d=True)])
    assert counts["WAIT_D"] > 4 * 10


# B kept ------------------------------------------------------------------------------------------


def unit(interleave=1, **options):
    dot = replace(DOT, interleave=interleave)
    return MatmulConfig(dot, rows=2, columns=1, depth=4, keep_b=True, **options)


def test_what_is_kept():
    """Eight steps at most, whatever their shape."""
    config, plain = unit(), MatmulConfig(unit().dot, 2, 1, 4)
    for n_tiles in range(1, 10):
        for k_blocks in range(1, 10):
            tiles = Tiles(3, n_tiles, k_blocks)
            assert config.keeps_b(tiles) == (n_tiles * k_blocks <= 8)
            assert not plain.keeps_b(tiles)
            times = 1 if config.keeps_b(tiles) else 3
            assert config.bytes_of("b", tiles) == times * n_tiles * k_blocks * 3
    assert not config.keeps_b(Tiles(1, 65535, 65535))
    features, version = (constants(config)[name] for name in ("FEATURES", "VERSION"))
    assert (features["keep_b"], features["interleave"], version["major"]) == (1, 0, 2)
    assert str(config).startswith("2x1 depth 4 keep-b of e2m1")


@pytest.mark.parametrize("interleave", [1, 3])
def test_the_packet_is_that_of_one_row(interleave):
    config = unit(interleave)
    x = operand(np.random.default_rng(0), config.dot.formats[0][1], 4, 2)
    assert pack_b(x, config, 6) == pack_b(x, config, 1)
    longer = operand(np.random.default_rng(0), config.dot.formats[0][1], 4, 3)
    assert pack_b(longer, config, 6) == 3 * pack_b(longer, config, 1)


@pytest.mark.parametrize("interleave", [1, 3])
def test_products_around_what_is_kept(interleave):
    """A ring filled to its last step, one step, and a step too many; one after the other."""
    config = unit(interleave)
    shapes = [(5, 2, 4), (3, 1, 8), (4, 8, 1), (3, 1, 1), (4, 3, 3), (3, 1, 9), (4, 4, 2)]
    run_jobs(config, [Job(config, m, n, k, k) for m, n, k in shapes], gap=0.2, stall=0.2)


def test_counts_far_above_the_buffer_are_not_taken_for_small_ones():
    """The low four bits of 16 and of 17 steps, which make 0 and 1, are not all."""
    config = unit()
    run_jobs(config, [Job(config, 3, 16, 1), Job(config, 3, 17, 1), Job(config, 3, 1, 17)])


def test_a_narrow_stream_of_b_is_waited_for_once():
    """At a third of a step a cycle, 8 of 32 steps come: the rest are there."""
    (counts,) = run_jobs(unit(b_bytes=1), [Job(unit(b_bytes=1), 8, 2, 4)])
    assert counts["WAIT_B"] <= 2 * 8 + 4
    plain = MatmulConfig(unit().dot, 2, 1, 4, b_bytes=1)
    (counts,) = run_jobs(plain, [Job(plain, 8, 2, 4)])
    assert counts["WAIT_B"] >= 2 * 32 - 4
