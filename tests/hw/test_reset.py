"""Reset at any moment empties the unit: what comes after it owes nothing to what came before."""

import numpy as np
import pytest

from compare import generator, some
from mxdot.model import DotConfig
from unit_bench import Run, drive, evaluate, random_work, simulate

CONFIGS = [
    DotConfig(formats="e4m3,int8", lanes=4, accumulator=accumulator, stages=stages)
    for accumulator, stages in [
        ("exact", 5),
        ("aligned:13", 1),
        ("fused:13", 5),
        ("fixed:24:-8", 4),
        ("float32", 4),
        ("hopper-promoted", 5),
        ("blackwell", 2),
    ]
]
CONFIGS.append(DotConfig("e2m1", 4, "exact", 6, interleave=3))


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_resets_at_random(config):
    """Under gaps and stalls as well; the products that a reset meets are lost and no others."""
    rng = generator("resets", str(config))
    work = random_work(config, rng, rng.integers(1, 6, 600))
    for gap, stall in ((0.0, 0.0), (0.3, 0.3)):
        run: Run = evaluate(config, drive(work, rng, streams=50, gap=gap, stall=stall, reset=0.05))
        run.check()
        assert 20 < run.lost.sum() < 400


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_reset_at_every_phase(config):
    """Each stream is reset one cycle later: before, inside and after a chain of four blocks, and
    with its result waiting.
    """
    rng = generator("phase", str(config))
    phases = config.latency + 4 * config.interval + 6
    lengths = [4, 1, 3, 2]
    work = random_work(config, rng, lengths * phases)
    run: Run = evaluate(
        config, drive(work, rng, streams=phases, stall=0.2, reset_at=np.arange(phases))
    )
    run.check()
    lost = run.lost.reshape(phases, len(lengths))
    assert not lost[0].any()  # reset before anything was accepted
    assert lost[1:, 0].sum() >= config.latency
    # Lost are the products from the first one without a result to the last one with a block in.
    for stream in lost:
        where = np.flatnonzero(stream)
        assert (np.diff(where) == 1).all()


@pytest.mark.parametrize("config", some(CONFIGS[5:0:-2], 3), ids=str)
def test_resets_in_the_simulator(config):
    rng = generator("simulated resets", str(config))
    work = random_work(config, rng, rng.integers(1, 5, 25))
    run: Run = simulate(config, drive(work, rng, gap=0.2, stall=0.2, reset=0.1))
    run.check()
    assert run.lost.any()
    assert not run.lost.all()


def test_a_reset_inside_a_promotion_group():
    """The next product's groups count from its own first block."""
    config = DotConfig(formats="e4m3", lanes=4, accumulator="hopper-promoted")
    rng = generator("group")
    work = random_work(config, rng, [40] * 32)
    reset_at = np.arange(3, 99, 3)
    run: Run = evaluate(config, drive(work, rng, streams=16, reset_at=reset_at[:16]))
    run.check()
    assert run.lost.any()
    assert not run.lost.all()
