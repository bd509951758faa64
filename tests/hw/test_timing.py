"""DotUnit's cycles: latency and interval as the configuration says, for every number of stages."""

import numpy as np
import pytest

from compare import generator, some
from mxdot.model import DotConfig
from unit_bench import Run, Work, drive, evaluate, random_work, simulate

KINDS = {
    "exact": {"formats": "e2m1"},
    "int32": {"formats": "int8"},
    "aligned:13": {"formats": "e2m1", "out": "bfloat16"},
    "fused:13": {"formats": "e2m1"},
    "fixed:24:-8": {"formats": "e2m1"},
    "float32": {"formats": "e2m1"},
    "hopper": {"formats": "e2m1", "out": "float16"},
    "hopper-promoted": {"formats": "e2m1"},
    "blackwell": {"formats": "e2m1"},
    "ada": {"formats": "e2m1", "lanes": 32},  # two steps
}


def config_of(name: str, stages: int | None = None, **options) -> DotConfig:
    stages_option = {} if stages is None else {"stages": stages}
    return DotConfig(**{"lanes": 4, "accumulator": name, **KINDS[name], **stages_option, **options})


EVERY = [
    config_of(name, stages)
    for name in KINDS
    for low, high in [config_of(name).stage_limits]
    for stages in range(low, high + 1)
]


def short_work(config: DotConfig, lengths: list[int]) -> tuple[Work, np.random.Generator]:
    rng = generator("timing", str(config))
    return random_work(config, rng, lengths), rng


def starts(work: Work) -> np.ndarray:
    """Blocks that need no running value: first ones, and those that begin a promotion group."""
    first = work.blocks["first"].astype(bool)
    promote = work.config.accumulator.promotes_every
    if promote is None:
        return first
    number = np.arange(len(first)) - np.repeat(work.start[:-1], np.diff(work.start))
    return first | (number % max(1, promote // work.config.lanes) == 0)


def check_schedule(run: Run, product: int = 0) -> None:
    """A stream, from this product on, that never pauses: each block enters one cycle after the one
    before or, where it must wait for it, `interval` cycles; each result comes `latency` cycles
    after its last block."""
    work, config = run.work, run.work.config
    block = work.start[product]
    enters = np.cumsum(np.where(starts(work), 1, config.interval))[block:]
    accepted = run.accepted[block:]
    enters += accepted[0] - enters[0]
    want = enters[work.start[product + 1 :] - 1 - block] + config.latency
    assert run.delivered[product:].tolist() == want.tolist()
    # Registers before the loop fill up with blocks that wait.
    assert (accepted <= enters).all()
    assert (accepted >= enters - config.latency * config.interval).all()


def test_every_number_of_stages_is_here():
    assert len(EVERY) > 50  # each legal number of each accumulator
    aligned = {config.stages for config in EVERY if str(config.accumulator) == "aligned:13"}
    assert aligned == set(range(1, 26))


MOST = [c for c in EVERY if c.stages == c.stage_limits[1]]


@pytest.mark.parametrize("config", dict.fromkeys([*MOST, *some(EVERY, 41)]), ids=str)
def test_every_number_of_stages(config):
    """The most stages of each accumulator and every forty-first number; with FULL=1 all.

    Latency is exact when nothing waits, the schedule when nothing pauses, and results are right.
    """
    lengths = [1, 1, 4, 1, 3, 2, 1] + [35, 1] * (str(config.accumulator) == "hopper-promoted")
    work, rng = short_work(config, 2 * lengths)
    pace = np.array([config.interval, 1])
    run: Run = evaluate(config, drive(work, rng, streams=2, pace=pace))
    run.check()
    assert config.latency == config.stages == len(config.pipeline.registered)
    assert set(run.latencies()[: len(lengths)]) == {config.latency}
    check_schedule(run, len(lengths))
    check_single_blocks(config)
    check_chain(config)


def check_single_blocks(config: DotConfig) -> None:
    """With a c from outside, no accumulator pauses: one block in and one result out per cycle."""
    work, rng = short_work(config, [1] * 15)
    run: Run = evaluate(config, drive(work, rng))
    assert set(np.diff(run.accepted)) == {1}
    assert set(np.diff(run.delivered)) == {1}


def check_chain(config: DotConfig) -> None:
    """Chained blocks are accepted every `interval` cycles, once there are some that wait."""
    blocks = config.latency + 4  # within a promotion group
    work, rng = short_work(config, [blocks])
    run: Run = evaluate(config, drive(work, rng))
    waiting = run.accepted[config.latency if config.interval > 1 else 0 :]
    assert set(np.diff(waiting)) == {config.interval}
    assert run.delivered[0] == run.accepted[0] + (blocks - 1) * config.interval + config.latency


@pytest.mark.parametrize("name", ["fixed:24:-8", "float32"])
def test_loops_of_one_section_have_no_interval(name):
    assert {c.interval for c in EVERY if str(c.accumulator) == name} == {1}


@pytest.mark.parametrize("name", ["exact", "int32", "aligned:13"])
def test_registers_go_into_the_float_loop_last(name):
    """Before all other places have one a block is accepted every cycle."""
    units = [c for c in EVERY if str(c.accumulator) == name]
    intervals = [c.interval for c in units if not c.is_cut_finer]
    assert intervals == [1] * (len(intervals) - 6) + [2, 3, 4, 5, 6, 7]
    finer = [c.interval for c in units if c.is_cut_finer]
    assert finer == list(range(15 - len(finer) + 1, 16))


@pytest.mark.parametrize("config", [config_of(name) for name in some(KINDS, 7)], ids=str)
def test_latency_and_schedule_in_the_simulator(config):
    work, rng = short_work(config, [1, 3, 1, 2])
    run: Run = simulate(config, drive(work, rng, pace=config.interval))
    run.check()
    assert set(run.latencies()) == {config.latency}
    run = simulate(config, drive(work, rng))
    run.check()
    check_schedule(run)


def test_a_deeper_loop_has_a_longer_interval():
    intervals = {c.stages: c.interval for c in EVERY if str(c.accumulator) == "fused:13"}
    assert intervals[1] == 1
    assert max(intervals.values()) == 3
    assert sorted(intervals.values()) == list(intervals.values())
    ada = [c.interval for c in EVERY if str(c.accumulator) == "ada"]
    assert max(ada) == 6  # two steps of three sections each


@pytest.mark.parametrize(("name", "lanes"), some([("hopper-mx", 32), ("hopper-promoted", 128)], 2))
def test_a_promotion_every_block_needs_no_loop(name, lanes):
    """A block is a whole promotion group: chains stream one per cycle."""
    config = DotConfig(formats="e2m1", lanes=lanes, accumulator=name)
    assert config.interval == 1
    work, rng = short_work(config, [1, 3, 1, 5, 2, 1])
    run: Run = evaluate(config, drive(work, rng))
    run.check()
    assert set(np.diff(run.accepted)) == {1}
    assert set(run.latencies()) == {config.latency}
    # Flags of one product do not reach the next one through the partial sums.
    lengths = rng.integers(1, 4, 120)
    work = random_work(config, rng, lengths, scales=["top", "bottom", "moderate"])
    assert 0 < work.want["overflow"].mean() < 0.9
    evaluate(config, drive(work, rng, streams=12, gap=0.2, stall=0.2)).check()
