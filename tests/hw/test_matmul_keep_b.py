"""A matrix unit that keeps B: sent once where the buffer holds all of it, given for every row."""

from dataclasses import replace

import numpy as np
import pytest

from matmul_jobs import DOT, Job, run_jobs
from matmul_records import operand
from mxdot.model.units.matmul.config import MatmulConfig, Tiles
from mxdot.model.units.matmul.layout import pack_b
from mxdot.model.units.matmul.registers import constants


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
