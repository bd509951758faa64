"""The quantiser in RTL against the model: values, scales, roundings, policies, beats, timing."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compare import FULL, some
from hw_bench import Evaluator
from mxdot.hw.quantize.encode import LaneWords
from mxdot.hw.quantize.scale import Classify
from mxdot.model import E4M3, QuantizeConfig, lfsr
from quantize_bench import (
    EVERY_FORMAT,
    EVERY_RULE,
    Blocks,
    check_blocks,
    elaborated,
    random_blocks,
    run_streams,
    with_choices,
)
from wrong_units import breaks

SOURCES = ("float32", "bfloat16", "float16")
ROUNDINGS = ("nearest_even", "toward_zero", "stochastic")


@pytest.mark.parametrize(
    ("nonfinite", "source", "rounding"), some(product(["poison", "element"], SOURCES, ROUNDINGS), 2)
)
@pytest.mark.contract("Q3", "Q4", "Q5")
def test_every_format_and_rule(source, rounding, nonfinite):
    config = QuantizeConfig(EVERY_FORMAT, 4, source, EVERY_RULE, rounding, nonfinite)
    check_blocks(config, random_blocks(config, np.random.default_rng(1), 6000))


@pytest.mark.parametrize(
    ("formats", "options"),
    [
        ("e3m2,e2m3,e5m2", {}),
        ("e4m3,e5m2,e2m3", {"nonfinite": "element"}),
        ("e2m1,int8,int4", {"scales": "e4m3"}),
        ("sm8,sm4,int8", {"micro": True}),
    ],
)
def test_a_mode_past_the_last_selects_the_last_format(formats, options):
    config = QuantizeConfig(formats, 4, "bfloat16", **options)
    blocks = random_blocks(config, np.random.default_rng(15), 1000)
    check_blocks(config, replace(blocks, mode=np.full(1000, 3)))


@pytest.mark.parametrize(("fmt", "source"), some(product(EVERY_FORMAT.split(","), SOURCES), 2))
@pytest.mark.contract("F10", "Q7", "Q9", "Q10")
def test_one_format(fmt, source):
    """A unit of one format has narrower lanes than one with a mode."""
    config = QuantizeConfig(fmt, 4, source, EVERY_RULE, nonfinite="element", stages=2)
    check_blocks(config, random_blocks(config, np.random.default_rng(2), 2000))


@pytest.mark.parametrize("fmt", EVERY_FORMAT.split(","))
@pytest.mark.contract("Q2", "Q6")
def test_every_bfloat16_as_amax(fmt):
    """Every scale that there is: each finite value alone in its block, under every rule."""
    config = QuantizeConfig(fmt, 4, "bfloat16", EVERY_RULE)
    bits = np.zeros((3 * 65536, 4), np.uint32)
    bits[:, 1] = np.arange(len(bits)) % 65536
    zeros = np.zeros(len(bits), np.int64)
    rule = np.repeat(np.arange(3), 65536)
    check_blocks(config, Blocks(bits, zeros, rule, np.zeros(bits.shape, np.uint32)))


@pytest.mark.parametrize(
    ("rounding", "fmt"), some(product(["nearest_even", "stochastic"], ["e4m3", "e5m2", "int8"]), 2)
)
def test_subnormal_floats(fmt, rounding):
    """Blocks whose values are all below 2^-110: E8M0's lower end, and normalisation in lanes."""
    config = QuantizeConfig(fmt, 4, "float32", EVERY_RULE, rounding)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 17 << 23, (6000, 4)) >> rng.integers(0, 27, (6000, 4))
    check_blocks(config, with_choices(config, rng, bits | rng.integers(0, 2, bits.shape) << 31))


@pytest.mark.parametrize(("nonfinite", "source"), some(product(["poison", "element"], SOURCES), 2))
@pytest.mark.contract("S33")
def test_scales_under_an_outer_scale(source, nonfinite):
    """E4M3 scales of any float32 outer scale: both ends, subnormal ones, and what is no scale."""
    config = QuantizeConfig("e2m1", 4, source, nonfinite=nonfinite, scales="e4m3")
    check_blocks(config, random_blocks(config, np.random.default_rng(6), 6000))


@pytest.mark.parametrize("rounding", some(["nearest_even", "toward_zero"], 2))
def test_every_format_under_an_outer_scale(rounding):
    formats = f"{EVERY_FORMAT},sm4"
    config = QuantizeConfig(formats, 4, rounding=rounding, nonfinite="element", scales="e4m3")
    check_blocks(config, random_blocks(config, np.random.default_rng(7), 8000 if FULL else 3000))


@pytest.mark.parametrize(("fmt", "rounding"), [("e2m1", "nearest_even"), ("e4m3", "toward_zero")])
@pytest.mark.contract("S13")
def test_ties_under_every_scale(fmt, rounding):
    """Every E4M3 scale, under outer scales of many digits and subnormal ones: elements and their
    midpoints, exact, and the adjacent floats.
    """
    config = QuantizeConfig(fmt, 4, rounding=rounding, scales="e4m3")
    rng, (element,) = np.random.default_rng(8), config.formats
    values = np.unique(np.abs(element.values[np.isfinite(element.values)]))
    places = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    places = places[:: 1 if FULL else 1 + len(places) // 50]
    assert E4M3.nan_code is not None
    scale = np.repeat(E4M3.values[1 : E4M3.nan_code], len(places))
    digits = rng.integers(2**14, 2**15, len(scale)) * 2 + 1  # 24 with those of the other two
    outer = np.ldexp(digits.astype(np.float64), rng.integers(-152, 92, len(scale)))
    outer = outer.astype(np.float32)
    x = np.zeros((3, len(scale), 4), np.float32)
    at = (outer * scale * np.tile(places, E4M3.nan_code - 1)).astype(np.float32)
    x[..., 2] = at, np.nextafter(at, np.float32(0)), np.nextafter(at, np.float32(np.inf))
    x[..., 1] = -(outer * scale * element.largest_finite)
    bits = x.reshape(-1, 4).view(np.uint32)
    outers = np.tile(outer.view(np.uint32), 3)
    choices = with_choices(config, rng, bits)
    check_blocks(config, replace(choices, outer=outers))


def nans_of_one_digit(source: str) -> None:
    """A NaN in each lane alone, with each digit of its fraction alone."""
    config = QuantizeConfig("e2m1", 16, source, scales="e4m3")
    fmt = config.source
    lane, digit = np.divmod(np.arange(config.lanes * fmt.mantissa_bits), fmt.mantissa_bits)
    bits = np.full((len(lane), config.lanes), fmt.encode(1.0), np.uint32)
    infinity = ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits
    bits[np.arange(len(lane)), lane] = infinity | 1 << digit
    blocks = with_choices(config, np.random.default_rng(12), bits)
    one = np.full(len(lane), np.float32(1).view(np.uint32))
    check_blocks(config, replace(blocks, outer=one))


@pytest.mark.parametrize("source", SOURCES)
def test_a_nan_of_one_digit_is_seen(source):
    nans_of_one_digit(source)


def test_a_lane_that_does_not_see_a_digit_is_found(monkeypatch):
    """Random blocks hold few of these digits."""

    @breaks(Classify)
    def blind(classify, m):
        value = classify.i.values[9]
        with m.If(value[:-1] == 0x7F800001):
            m.d.comb += classify.o.nan.eq(0)

    blind(monkeypatch)
    elaborated.cache_clear()
    with pytest.raises(AssertionError):
        nans_of_one_digit("float32")
    elaborated.cache_clear()


@pytest.mark.contract("S15")
def test_every_boundary_of_e4m3_scales():
    """amax where the scale changes, and its adjacent floats: ties between all scales, subnormal
    ones too, both ends and beyond, and zeros only.
    """
    config = QuantizeConfig("e2m1", 4, scales="e4m3")
    rng = np.random.default_rng(9)
    scales = E4M3.values[: E4M3.nan_code]
    places = np.concatenate([scales, (scales[1:] + scales[:-1]) / 2, [2.0**-11, 464, 480, 2**20]])
    digits = rng.integers(2**16, 2**17, (60, 1))
    outer = np.ldexp(digits.astype(np.float64), rng.integers(-150, 90, (60, 1)))
    outer = (outer * np.ones(places.shape)).astype(np.float32)
    at = (outer * places * 6).astype(np.float32)
    x = np.zeros((3, *at.shape, 4), np.float32)
    x[..., 3] = at, np.nextafter(at, np.float32(0)), np.nextafter(at, np.float32(np.inf))
    bits = x.reshape(-1, 4).view(np.uint32)
    outers = np.tile(outer.ravel().view(np.uint32), 3)
    check_blocks(config, replace(with_choices(config, rng, bits), outer=outers))


@pytest.mark.parametrize(
    ("rounding", "nonfinite", "source"), some(product(ROUNDINGS, ["element", "poison"], SOURCES), 4)
)
@pytest.mark.contract("S16")
def test_micro_exponents(source, nonfinite, rounding):
    formats = "sm8,sm5,sm3,int8,int4"
    config = QuantizeConfig(formats, 4, source, EVERY_RULE, rounding, nonfinite, micro=True)
    check_blocks(config, random_blocks(config, np.random.default_rng(10), 5000))


def test_micro_exponents_of_every_pair():
    """Every bfloat16 with an amax of any exponent: the pair's exponent, and E8M0's lower end."""
    config = QuantizeConfig("sm5", 4, "bfloat16", "floor", micro=True)
    rng = np.random.default_rng(11)
    bits = np.zeros((65536, 4), np.uint32)
    bits[:, 0] = np.minimum((np.arange(65536) & 0x7FFF) + rng.integers(0, 400, 65536), 0x7F7F)
    bits[:, 2] = np.arange(65536)
    check_blocks(config, with_choices(config, rng, bits))


@pytest.mark.parametrize("source", some(SOURCES, 1))
@pytest.mark.contract("S19", "S20", "S21")
def test_sign_and_magnitude(source):
    formats = ",".join(f"sm{bits}" for bits in range(3, 9))
    config = QuantizeConfig(formats, 4, source, EVERY_RULE, nonfinite="element")
    check_blocks(config, random_blocks(config, np.random.default_rng(12), 5000))


@pytest.mark.parametrize(
    "options",
    [
        {"scale_rule": EVERY_RULE, "source": "float16", "rounding": "stochastic"},
        {"scale_rule": EVERY_RULE, "micro": True},
        {"scales": "e4m3"},
    ],
    ids=str,
)
def test_whole_integers(options):
    """Elements whose largest exponent is not 0: where no scale is as small as the rule's."""
    config = QuantizeConfig("int4_symmetric,int8_symmetric", 4, **options)
    rng = np.random.default_rng(14)
    check_blocks(config, random_blocks(config, rng, 2500))
    bits = rng.integers(0, 9 << config.source.mantissa_bits, (2500, 4)) >> rng.integers(0, 12)
    check_blocks(config, with_choices(config, rng, bits))


@pytest.mark.parametrize(
    ("options", "beats"), [({"scales": "e4m3"}, 8), ({"micro": True}, 4)], ids=str
)
def test_streams_of_beats_with_more(options, beats):
    """Outer scales count with the last beat; micro-exponents leave with the codes of their beat."""
    config = QuantizeConfig("int8,int4", 16, "bfloat16", beats=beats, **options)
    rng = np.random.default_rng(13)
    blocks = random_blocks(config, rng, 20 * 6)
    run_streams(config, blocks, rng, 20)
    run_streams(config, blocks, rng, 20, gap=0.3, stall=0.4, reset_at=21)


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
    for gap, stall in some(((0.0, 0.0), (0.0, 0.5), (0.4, 0.3)), 2):
        run_streams(config, blocks, rng, streams, gap=gap, stall=stall)
    for cycle in some((5, 16, 38), 2):
        run_streams(config, blocks, rng, streams, gap=0.2, stall=0.4, reset_at=cycle)


@pytest.mark.parametrize("beats", [1, 4, 16])
def test_latency_and_throughput(beats):
    """Every number of registers: the first codes after `latency`, then a beat in every cycle."""
    most = len(QuantizeConfig("e2m1", 16, beats=beats).pipeline.sections)
    for stages in some(range(1, most + 1), 3):
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
