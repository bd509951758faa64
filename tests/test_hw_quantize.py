"""The quantiser in RTL against the model: values, scales, roundings, policies, beats, timing."""

from itertools import product

import numpy as np
import pytest

from compare import some
from hw_bench import Evaluator
from mxdot.hw.quantize.lfsr import LaneWords
from mxdot.model import QuantizeConfig, lfsr
from quantize_bench import (
    EVERY_FORMAT,
    EVERY_RULE,
    Blocks,
    check_blocks,
    random_blocks,
    run_streams,
    with_choices,
)

SOURCES = ("float32", "bfloat16", "float16")
ROUNDINGS = ("nearest_even", "toward_zero", "stochastic")


@pytest.mark.parametrize(
    ("nonfinite", "source", "rounding"),
    some(product(["poison", "element"], SOURCES, ROUNDINGS), 2),
)
def test_every_format_and_rule(source, rounding, nonfinite):
    config = QuantizeConfig(EVERY_FORMAT, 4, source, EVERY_RULE, rounding, nonfinite)
    check_blocks(config, random_blocks(config, np.random.default_rng(1), 6000))


@pytest.mark.parametrize(("fmt", "source"), some(product(EVERY_FORMAT.split(","), SOURCES), 2))
def test_one_format(fmt, source):
    """A unit of one format has narrower lanes than one with a mode."""
    config = QuantizeConfig(fmt, 4, source, EVERY_RULE, nonfinite="element", stages=2)
    check_blocks(config, random_blocks(config, np.random.default_rng(2), 2000))


@pytest.mark.parametrize("fmt", EVERY_FORMAT.split(","))
def test_every_bfloat16_as_amax(fmt):
    """Every scale that there is: each finite value alone in its block, under every rule."""
    config = QuantizeConfig(fmt, 4, "bfloat16", EVERY_RULE)
    bits = np.zeros((3 * 65536, 4), np.uint32)
    bits[:, 1] = np.arange(len(bits)) % 65536
    zeros = np.zeros(len(bits), np.int64)
    rule = np.repeat(np.arange(3), 65536)
    check_blocks(config, Blocks(bits, zeros, rule, np.zeros(bits.shape, np.uint32)))


@pytest.mark.parametrize("rounding", ["nearest_even", "stochastic"])
@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "int8"])
def test_subnormal_floats(fmt, rounding):
    """Blocks whose values are all below 2^-110: E8M0's lower end, and normalisation in lanes."""
    config = QuantizeConfig(fmt, 4, "float32", EVERY_RULE, rounding)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 17 << 23, (6000, 4)) >> rng.integers(0, 27, (6000, 4))
    check_blocks(config, with_choices(config, rng, bits | rng.integers(0, 2, bits.shape) << 31))


@pytest.mark.parametrize(
    ("random", "beats"), some(product(["stream", "lfsr"], [1, 2, 4, 8, 16]), 2)
)
def test_streams_of_beats(beats, random):
    config = QuantizeConfig(
        "e4m3,int8", 16, "bfloat16", "floor,even", "stochastic", beats=beats, random=random
    )
    rng = np.random.default_rng(4)
    streams, each = 30, 8
    blocks = random_blocks(config, rng, streams * each)
    if random == "lfsr":  # every stream's unit has the same words
        words = np.tile(config.random_words(each), (streams, 1))
        blocks = Blocks(blocks.bits, blocks.mode, blocks.rule, words)
    for gap, stall in ((0.0, 0.0), (0.0, 0.5), (0.4, 0.3)):
        run_streams(config, blocks, rng, streams, gap=gap, stall=stall)
    for cycle in (5, 16, 38):
        run_streams(config, blocks, rng, streams, gap=0.2, stall=0.4, reset_at=cycle)


@pytest.mark.parametrize("beats", [1, 4, 16])
def test_latency_and_throughput(beats):
    """Every number of registers: the first codes after `latency`, then a beat in every cycle."""
    most = len(QuantizeConfig("e2m1", 16, beats=beats).pipeline.sections)
    for stages in range(1, most + 1, 2):
        config = QuantizeConfig("e2m1", 16, beats=beats, stages=stages)
        rng = np.random.default_rng(stages)
        run = run_streams(config, random_blocks(config, rng, 12), rng, 2)
        total = 6 * beats
        assert (run.accepted == np.arange(total)).all()
        assert (run.given == np.arange(total) + config.latency + beats - 1).all()
        assert config.latency == stages
        assert config.interval == beats


def test_words_of_the_shift_registers():
    unit = Evaluator(LaneWords(77, 5))
    steps = np.random.default_rng(5).random(400) < 0.7
    want, number = lfsr.words(77, 5, 400), 0
    for step in steps:
        assert (unit(step=np.array([int(step)]))["words"][0] == want[number]).all()
        number += step
