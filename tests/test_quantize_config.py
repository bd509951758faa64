"""QuantizeConfig: what it takes, refuses and says; the words of its shift registers."""

import re
from itertools import pairwise

import numpy as np
import pytest

from mxdot.model import E4M3, INT8, QuantizeConfig, lfsr, quantize
from mxdot.model.outputs import BFLOAT16


def test_defaults():
    config = QuantizeConfig()
    assert str(config) == "quantize float32 to e4m3 x32 floor nearest_even poison stages 4"
    assert (config.latency, config.interval, config.lanes, config.bits) == (4, 1, 32, 8)
    assert (config.mode_bits, config.rule_bits, config.word_bits) == (0, 0, 0)


def test_everything():
    config = QuantizeConfig(
        [E4M3, INT8, "e2m1"], 64, BFLOAT16, ["floor", "even"], "stochastic", "element",
        beats=8, random="lfsr", seed=255, stages=7,
    )  # fmt: skip
    assert QuantizeConfig(**config.arguments) == config
    assert str(config) == (
        "quantize bfloat16 to e4m3,int8,e2m1 x64 floor,even stochastic element stages 7 "
        "beats 8 lfsr 0xff"
    )
    assert (config.latency, config.interval, config.lanes, config.bits) == (7, 8, 8, 8)
    assert (config.mode_bits, config.rule_bits, config.word_bits) == (2, 1, 0)
    assert QuantizeConfig(rounding="stochastic").word_bits == 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"formats": "e4m3,bf16"},
            "formats of a quantiser must have at most 8 bits, not those of bf16",
        ),
        ({"formats": "e9m9"}, "formats must be one of e4m3, e5m2, e3m2, e2m3, e2m1, int8, int4, "),
        ({"formats": "e4m3,e4m3"}, "formats must not repeat one, as 'e4m3,e4m3' does"),
        ({"formats": 4}, "formats must be a name or several, not 4"),
        ({"formats": []}, "formats must be a name or several, not []"),
        ({"block": 3}, "block must be one of 4, 8, 16, 32, 64, 128, not 3"),
        ({"source": "float64"}, "source must be one of float32, bfloat16, float16, not 'float64'"),
        ({"scale_rule": "round"}, "scale_rule must be one of floor, ceil, even, not 'round'"),
        ({"rounding": "up"}, "rounding must be one of nearest_even, toward_zero, stochastic, not"),
        ({"nonfinite": "keep"}, "nonfinite must be one of poison, element, not 'keep'"),
        ({"beats": 3}, "beats of blocks of 32 must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ({"beats": True}, "beats of blocks of 32 must be one of 1, 2, 4, 8, 16, 32, not True"),
        ({"random": "lfsr"}, "random must be stream with rounding nearest_even, not lfsr"),
        ({"random": "dice"}, "random must be one of stream, lfsr, not 'dice'"),
        ({"seed": 0}, "seed must be from 1 to 4294967295, not 0"),
        ({"stages": 10}, "stages of blocks of 32 in 1 beats must be from 1 to 9, not 10"),
        ({"stages": 0, "beats": 2}, "stages of blocks of 32 in 2 beats must be from 1 to 9, not 0"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises((TypeError, ValueError), match="^" + re.escape(message)):
        QuantizeConfig(**arguments)


def test_quantize_is_the_models():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    words = rng.integers(0, 2**32, x.shape, dtype=np.uint32)
    config = QuantizeConfig("e4m3,int8", 16, "float32", "floor,ceil", "stochastic", "element")
    got = config.quantize(x, words, mode=1, rule=1)
    want = quantize(
        x, "int8", block_size=16, scale_rule="ceil", rounding="stochastic", rng=words,
        nonfinite="element",
    )  # fmt: skip
    assert (got.codes == want.codes).all()
    assert (got.scales == want.scales).all()
    assert got.format is INT8


def test_quantize_refuses():
    x = np.zeros((2, 32))
    config = QuantizeConfig("e4m3,int8")
    with pytest.raises(TypeError, match="x must be float32, the unit's source, not float64"):
        config.quantize(x)
    with pytest.raises(ValueError, match="mode must be from 0 to 1, not 2"):
        config.quantize(x.astype(np.float32), mode=2)
    with pytest.raises(ValueError, match="rule must be from 0 to 0, not 1"):
        config.quantize(x.astype(np.float32), rule=1)


def test_words_follow_the_definition():
    """xorshift32 with 13, 17, 5, by Python's integers, and with the seed of Marsaglia's paper."""
    words = lfsr.words(2463534242, 1, 1000)[:, 0].tolist()
    assert words[1] == 723471715
    for state, after in pairwise(words):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        assert after == state


def test_lanes_are_far_apart():
    """Lane i is lane 0 after i x 2^25 steps, and lanes of a period of 2^32 - 1 never meet."""
    seeds = lfsr.lane_seeds(99, 128)
    assert lfsr.words(99, 1, 1, first=5 * 2**25)[0, 0] == seeds[5]
    assert len(set(seeds)) == 128
    whole = 2**32 - 1
    assert lfsr.words(99, 1, 1, first=whole)[0, 0] == 99
    for prime in (3, 5, 17, 257, 65537):  # no shorter period
        assert lfsr.words(99, 1, 1, first=whole // prime)[0, 0] != 99


def test_words_of_a_unit():
    config = QuantizeConfig("e4m3", 8, rounding="stochastic", beats=4, random="lfsr", seed=7)
    words = config.random_words(6)
    assert words.shape == (6, 8)
    assert (words.reshape(24, 2) == lfsr.words(7, 2, 24)).all()
    assert (config.random_words(2, first=3) == words[3:5]).all()
    x = np.random.default_rng(2).standard_normal((6, 8)).astype(np.float32)
    assert (config.quantize(x).codes == config.quantize(x, words).codes).all()
