"""Tiles of the matrix unit that take turns: groups, the order of streams, products and cycles."""

import numpy as np
import pytest

from matmul_jobs import Job, run_jobs
from matmul_records import operand, step
from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig, Tiles
from mxdot.model.units.matmul.layout import pack_a, pack_b
from mxdot.model.units.matmul.registers import REGISTERS, constants, word
from mxdot.sim.engine.regression_units import default_matrix


def unit(rule, stages, interleave, formats="e4m3", initial_c=False, **options):
    dot = DotConfig(formats, 4, rule, stages, interleave=interleave, **options)
    return MatmulConfig(dot, rows=2, columns=1, depth=4, initial_c=initial_c)


TWO = unit("aligned:13", 3, 3)
"""A loop of two registers, and three running values: every row of two tiles or more fills it."""
THREE = unit("aligned:13", 8, 3)
"""Three running values in three registers: the last group of a row may be too small."""


# Configuration ------------------------------------------------------------------------------------


def test_groups_by_hand():
    assert (TWO.dot.interval, TWO.group) == (2, 2)
    assert [TWO.groups(n) for n in range(1, 6)] == [[1], [2], [3], [2, 2], [2, 3]]
    assert (THREE.dot.interval, THREE.group) == (3, 3)
    assert [THREE.groups(n) for n in range(1, 6)] == [[1], [2], [3], [3, 1], [3, 2]]
    assert MatmulConfig().groups(3) == [1, 1, 1]
    assert sum(TWO.groups(65535)) == 65535


def test_the_regression_has_both_kinds_of_groups():
    configs = [unit.config for unit in default_matrix() if isinstance(unit.config, MatmulConfig)]
    turns = [config for config in configs if config.dot.interleave > 1]
    assert {config.group < config.dot.interleave for config in turns} == {False, True}


@pytest.mark.parametrize("stages", range(1, 10))
@pytest.mark.parametrize("interleave", [1, 2, 3, 4, 5, 7, 16])
def test_groups_are_the_row_and_fill_the_loop_where_they_can(stages, interleave):
    config = unit("aligned:13", stages, interleave)
    loop = config.dot.interval
    for n_tiles in range(1, 40):
        groups = config.groups(n_tiles)
        assert sum(groups) == n_tiles
        assert all(1 <= size <= interleave for size in groups)
        if interleave >= 2 * loop - 1 and n_tiles >= loop:
            assert min(groups) >= loop
            assert config.waits(Tiles(2, n_tiles, 5)) == 0
        if interleave == 1:
            assert config.waits(Tiles(2, n_tiles, 5)) == 2 * n_tiles * 4 * (loop - 1)


def test_what_registers_say():
    features = {"interleave": 3, "interval": 2, "group": 2, "latency": 3, "status": 1}
    assert constants(TWO)["FEATURES"] == features | {"initial_c": 0, "keep_b": 0}
    assert constants(TWO)["VERSION"] == {"major": 2, "minor": 0}
    # A unit of one tile at a time has the map of before, bit for bit.
    plain = constants(MatmulConfig())
    assert word(REGISTERS["VERSION"], plain["VERSION"]) == 1 << 16
    assert word(REGISTERS["FEATURES"], plain["FEATURES"]) == 1 << 16 | 4 << 8 | 0b10


# Streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 4, 5])
@pytest.mark.parametrize(("m", "n"), [(2, 1), (5, 4), (3, 7)])
@pytest.mark.parametrize("config", [TWO, THREE], ids=str)
def test_every_record_is_where_the_order_of_work_says(config, m, n, blocks):
    """Written out as loops: rows of tiles, groups, blocks of K, tiles of the group."""
    rng = np.random.default_rng(blocks)
    (pair,) = config.dot.formats
    a, b = operand(rng, pair[0], m, blocks), operand(rng, pair[1], n, blocks)
    tiles = config.tiles(m, n, blocks * 4)
    want_a, want_b = b"", b""
    for i in range(tiles.m_tiles):
        j = 0
        while j < tiles.n_tiles:
            left = tiles.n_tiles - j
            group = range(j, tiles.n_tiles if left <= 3 else j + config.group)
            for kb in range(blocks):
                if j == 0 or blocks > 4:
                    want_a += step(a, 8, range(2 * i, 2 * i + 2), kb)
                for tile in group:
                    want_b += step(b, 8, range(tile, tile + 1), kb)
            j = group.stop
    assert pack_a(a, config, n) == want_a
    assert pack_b(b, config, m) == want_b
    assert len(want_a) == config.bytes_of("a", tiles)
    assert len(want_b) == config.bytes_of("b", tiles)


# Products and cycles ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        unit("exact", 5, 3, "e2m1"),
        unit("fused:25", 5, 5, initial_c=True),
        unit("fixed:40:-20", 4, 2, initial_c=True, out="bfloat16"),
        unit("float32", 4, 4),
        unit("hopper-promoted", 6, 3, "e2m1,e4m3"),
        unit("int32", 4, 2, "int8"),
    ],
    ids=str,
)
def test_every_family_of_accumulators(config):
    """A row of all groups that there are, and one tile; under stalls, and without."""
    most, mode = config.dot.interleave, len(config.dot.formats) - 1
    use_d = config.initial_c
    jobs = [Job(config, 2, n, k, k, mode, use_d) for n, k in ((most + 1, 5), (1, 2))]
    for counts, job in zip(run_jobs(config, jobs, gap=0.2, stall=0.3), jobs, strict=True):
        assert counts["WAIT_UNIT"] <= config.waits(job.tiles)


@pytest.mark.parametrize("n_tiles", [2, 3, 5])
def test_two_tiles_or_more_take_a_step_every_cycle(n_tiles):
    """Two cycles until the first step, a step in each cycle, then the last group leaves."""
    config = TWO
    (counts,) = run_jobs(config, [Job(config, 4, n_tiles, 4)])
    last = config.groups(n_tiles)[-1]
    tail = config.latency + last * (config.rows - 1) + 5
    assert counts | {"STEPS": 8 * n_tiles, "WAIT_A": 2, "TAIL": tail} == counts
    assert counts["CYCLES"] == 2 + 8 * n_tiles + tail
    assert counts["WAIT_UNIT"] == 0


def test_a_group_smaller_than_the_loop_waits():
    """One tile alone, except for what waits before the loop when the last step is taken."""
    one, row = Job(THREE, 2, 1, 9), Job(THREE, 2, 4, 9)
    for counts, job in zip(run_jobs(THREE, [one, row]), (one, row), strict=True):
        before = THREE.latency - THREE.dot.interval
        assert 16 == THREE.waits(job.tiles) >= counts["WAIT_UNIT"] >= 16 - 2 * before > 0
