"""QuantizeConfig: what it takes, refuses and says; the words of its shift registers."""

import re
from fractions import Fraction
from itertools import chain, pairwise

import numpy as np
import pytest

from mxdot.model import (
    E2M1,
    E4M3,
    INT8,
    DotConfig,
    DotQuantizeConfig,
    MXArray,
    QuantizeConfig,
    lfsr,
    quantize,
    schemes,
)
from mxdot.model.outputs import BFLOAT16
from mxdot.model.schemes import ScaledArray
from mxdot.model.units.quantize_formats import magnitudes
from rational import schemes as rational_schemes


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


def test_other_scales():
    config = QuantizeConfig("e2m1", 16, scales="e4m3")
    assert QuantizeConfig(**config.arguments) == config
    assert str(config) == (
        "quantize float32 to e2m1 x16 amax nearest_even poison stages 4 scales e4m3"
    )
    assert config.name == "quantize-e2m1-x16-s4-float32-amax-nearest_even-poison-scales_e4m3"
    assert (config.scale_bits, config.outer_bits, config.micro_bits) == (7, 32, 0)
    config = QuantizeConfig("sm8", 16, beats=2, micro=True)
    assert QuantizeConfig(**config.arguments) == config
    assert str(config).endswith("beats 2 micro")
    assert (config.scale_bits, config.outer_bits, config.micro_bits) == (8, 0, 4)


def test_a_unit_that_chooses():
    config = QuantizeConfig("e2m1,int4_symmetric", 16, select=8)
    assert QuantizeConfig(**config.arguments) == config
    assert str(config) == (
        "quantize float32 to e2m1,int4_symmetric x16 floor nearest_even poison stages 4 select 8"
    )
    assert config.name.endswith("-select_8")
    assert (config.mode_bits, config.selector_bits, config.modes) == (0, 1, 1)
    assert QuantizeConfig("e3m2,e2m3,sm6", select=8).selector_bits == 2
    assert (QuantizeConfig("e2m1,int4").selector_bits, QuantizeConfig("e2m1,int4").modes) == (0, 2)
    assert str(config.with_mode) == str(config).removesuffix(" select 8")
    assert [one.formats_text for one in config.alternatives] == ["e2m1", "int4_symmetric"]
    with pytest.raises(ValueError, match=r"^mode must be from 0 to 0, not 1$"):
        config.quantize(np.ones((1, 16), np.float32), mode=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"select": 1}, "select must be from 2 to 16, not 1"),
        ({"select": 17}, "select must be from 2 to 16, not 17"),
        ({"select": True}, "select must be an integer from 2 to 16, not True"),
        ({"select": 8}, "select must be None with one format, e4m3, not 8"),
        (
            {"formats": "e4m3,e2m1", "select": 8},
            "select must be None with formats of 4 and 8 bits, not 8",
        ),
        (
            {"formats": "e4m3,e5m2", "scales": "e4m3", "select": 8},
            "select must be None with e4m3 scales, not 8",
        ),
        (
            {"formats": "sm4,int4_symmetric", "micro": True, "select": 8},
            "select must be None with micro-exponents, not 8",
        ),
        (
            {"formats": "e4m3,e5m2", "beats": 4, "select": 8},
            "select must be None with blocks of 4 beats, not 8",
        ),
        (
            {"formats": "e2m1,int4,sm4", "select": 8},
            "formats to choose from must differ in their values, as int4 and sm4 do not",
        ),
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
        (
            {"scale_rule": "round"},
            "scale_rule must be one of floor, ceil, even, twice, not 'round'",
        ),
        ({"rounding": "up"}, "rounding must be one of nearest_even, toward_zero, stochastic, not"),
        ({"nonfinite": "keep"}, "nonfinite must be one of poison, element, not 'keep'"),
        ({"beats": 3}, "beats of blocks of 32 must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ({"beats": True}, "beats of blocks of 32 must be one of 1, 2, 4, 8, 16, 32, not True"),
        ({"random": "lfsr"}, "random must be stream with rounding nearest_even, not lfsr"),
        ({"random": "dice"}, "random must be one of stream, lfsr, not 'dice'"),
        (
            {"seed": 0},
            "seed of the shift register (lfsr-seed) must be from 1 to 4294967295, not 0",
        ),
        ({"scales": "e5m2"}, "scales must be one of e8m0, e4m3, not 'e5m2'"),
        ({"scales": "e4m3", "scale_rule": "ceil"}, "scale_rule must be one of amax, not 'ceil'"),
        ({"scale_rule": "amax"}, "scale_rule must be one of floor, ceil, even, twice, not 'amax'"),
        (
            {"scales": "e4m3", "rounding": "stochastic"},
            "rounding with e4m3 scales must be nearest_even or toward_zero, not stochastic",
        ),
        (
            {"formats": "int8", "scales": "e4m3", "micro": True},
            "micro must be False with e4m3 scales, not True",
        ),
        ({"micro": 1}, "micro must be True or False, not 1"),
        ({"micro": True}, "formats with micro-exponents must be integers, not e4m3"),
        (
            {"formats": "sm8", "micro": True, "block": 4, "beats": 4},
            "beats of blocks of 4 must be one of 1, 2, not 4",
        ),
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
    assert isinstance(got, MXArray)
    assert (got.codes == want.codes).all()
    assert (got.scales == want.scales).all()
    assert got.format is INT8


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mx9", {"formats": "sm8", "micro": True}),
        ("mx6", {"formats": "sm5", "micro": True}),
        ("mx4", {"formats": "sm3", "micro": True}),
        ("mx4:ceil:b32", {"formats": "sm3", "block": 32, "scale_rule": "ceil", "micro": True}),
        ("msfp12", {"formats": "sm4"}),
        ("mixed4:b16:e8", {"formats": "e2m1,int4_symmetric", "select": 8}),
        (
            "mixed6:even:b8:e5",
            {"formats": "e2m3,e3m2", "block": 8, "scale_rule": "even", "select": 5},
        ),
        ("mixed8:e12", {"formats": "e4m3,e5m2,int8", "block": 32, "select": 12}),
    ],
)
def test_quantize_is_that_of_a_scheme(name, arguments):
    rng = np.random.default_rng(2)
    x = np.ldexp(rng.standard_normal((40, 64)), rng.integers(-140, 120, (40, 1)))
    x = x.astype(np.float32)
    x[rng.random(x.shape) < 0.01] = np.nan
    got = QuantizeConfig(**{"block": 16} | arguments).quantize(x)
    want = schemes.quantize(x, name)
    assert (got.codes == want.codes).all()
    for mine, its in zip(got.level_scales, want.scales, strict=True):
        assert (mine == its).all()
    assert (got.selectors is None) == (want.selectors is None)
    if want.selectors is not None:
        assert (np.asarray(got.selectors) == want.selectors).all()
        assert np.unique(want.selectors).tolist() == [*range(len(want.scheme.elements))]


@pytest.mark.parametrize("limit", [3.5, 1e-36, 3e38, 1e-41])
@pytest.mark.contract("S33")
def test_an_outer_scale_is_the_one_of_its_limits(limit):
    """nvfp4 with a limit: any values, under the outer scale that this limit makes."""
    rng = np.random.default_rng(3)
    with np.errstate(over="ignore"):
        x = rng.standard_normal((20, 64)) * limit * np.exp2(rng.integers(-12, 3, (20, 1)))
        x = x.astype(np.float32)
    one = np.ones((1, 1), np.float32)
    want = schemes.quantize(x, "nvfp4", limits=schemes.Limits(0 * one, np.float32(limit) * one))
    config = QuantizeConfig("e2m1", 16, scales="e4m3")
    got = config.quantize(x, outer=want.scales[0][0, 0])
    assert (got.codes == want.codes).all()
    assert (got.level_scales[1] == want.scales[1]).all()
    assert (got.dequantize() == want.dequantize())[~np.isnan(want.dequantize())].all()


def test_outer_scales_by_the_oracle():
    """Any positive float32, in rational arithmetic: its limit is the scale times its room."""
    rng = np.random.default_rng(4)
    config = QuantizeConfig("e2m1", 4, scales="e4m3")
    scheme = config.scheme()
    outer = rng.integers(1, 0x7F800000, (150, 1), dtype=np.uint32).view(np.float32)
    outer[:4, 0] = 2.0**-149, 2.0**-126, np.finfo(np.float32).max, 1.0
    outer = outer.repeat(2, axis=1)
    with np.errstate(over="ignore"):
        x = outer[:, :1] * np.exp2(rng.uniform(-12, 14, (150, 8)))
        x = np.where(rng.random(x.shape) < 0.1, np.inf, x).astype(np.float32)
    got = config.quantize(x, outer=outer)
    assert isinstance(got, ScaledArray)
    limits = [[(0, Fraction(float(s)) * 448 * 6) for s in row] for row in outer]
    want = rational_schemes.quantize(x.tolist(), scheme, limits)
    assert got.codes.tolist() == want.codes
    for mine, its in zip(got.scales[1].ravel(), chain(*want.scales[1]), strict=True):
        assert mine == 0x7F if its is None else Fraction(float(E4M3.values[mine])) == its
    assert [[Fraction(float(s)) for s in row] for row in got.scales[0]] == want.scales[0]


@pytest.mark.parametrize("bad", [0.0, -0.0, -1.0, np.inf, np.nan])
@pytest.mark.contract("S33")
def test_what_is_no_outer_scale_poisons(bad):
    config = QuantizeConfig("e2m1", 4, nonfinite="element", scales="e4m3")
    x = np.ones((1, 8), np.float32)
    got = config.quantize(x, outer=np.array([[bad, 0.5]], np.float32))
    assert (got.codes[0, :4] == 0).all()
    assert got.codes[0, 4:].all()
    assert got.scales[1].tolist() == [[0x7F, E4M3.encode(1 / 3)]]
    assert np.isnan(got.dequantize()[0, :4]).all()


def test_outer_scales_are_refused():
    x = np.zeros((2, 32), np.float32)
    config = QuantizeConfig("e2m1", 16, scales="e4m3")
    for outer, message in (
        (None, "outer must be a float32 for each block, not None"),
        (1.0, "outer must be float32 of shape (2, 2) or a scalar, not float64 of shape ()"),
        (np.ones(2, np.float32), "outer must be float32 of shape (2, 2) or a scalar, not float32"),
    ):
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            config.quantize(x, outer=outer)
    with pytest.raises(ValueError, match="outer must be None: this unit has none, not 1"):
        QuantizeConfig().quantize(x, outer=1)


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


@pytest.mark.parametrize("options", [{}, {"scales": "e4m3"}, {"formats": "sm8", "micro": True}])
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "an array in blocks must have at least one axis"),
        ((2, 15), "axis -1 must be a multiple of block_size 16 long, not 15"),
    ],
)
def test_shapes_that_a_unit_refuses(options, shape, message):
    config = QuantizeConfig(**{"formats": "e2m1", "block": 16, **options})
    with pytest.raises(ValueError, match="^" + message):
        config.quantize(np.ones(shape, np.float32), outer=np.float32(1) if config.divides else None)
    empty = np.ones((2, 0), np.float32)
    outer = np.float32(1) if config.divides else None
    assert config.quantize(empty, outer=outer).codes.shape == (2, 0)


def test_formats_that_a_unit_refuses():
    with pytest.raises(ValueError, match=r"^formats must be one of e4m3.*, sm3, .*, not 'sm9'"):
        QuantizeConfig("sm9")
    with pytest.raises(ValueError, match=r"^format after a dot unit must be one of MX, not sm8"):
        DotQuantizeConfig(DotConfig("e4m3", 32), "sm8")


def test_magnitudes_are_fractions_of_the_largest_power_of_two():
    assert magnitudes(E2M1) == (0, 0.125, 0.25, 0.375, 0.5, 0.75, 1, 1.5)
