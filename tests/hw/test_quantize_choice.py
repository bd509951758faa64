"""A quantiser that chooses its blocks' formats in RTL, against the model: values, ties, widths."""

from itertools import product

import numpy as np
import pytest

from compare import some
from hw_bench import Evaluator
from mxdot.hw.arithmetic.multiply import Square
from mxdot.hw.quantize.widths import largest_error
from mxdot.model import E8M0, QuantizeConfig
from mxdot.sim.quantize import choices, item, stimulus
from quantize_bench import (
    EVERY_RULE,
    Blocks,
    check_blocks,
    random_blocks,
    run_streams,
    with_choices,
)

MIXED = "e2m1,int4_symmetric"
BOOKS = (MIXED, "e3m2,e2m3,sm6", "e4m3,e5m2,int8", "e5m2fnuz,e4m3fnuz")
SOURCES = ("float32", "bfloat16", "float16")
ROUNDINGS = ("nearest_even", "toward_zero", "stochastic")


def common_blocks(config, rng, n):
    """Blocks of values that all formats hold, and of one more: most of them are ties."""
    fmt = config.formats[0]
    return with_choices(config, rng, stimulus.common(stimulus.Target(config, fmt), rng, n))


@pytest.mark.parametrize("largest", [1, 2, 3, 4, 7, 8, 15, 16, 31, 63, 100, 127, 128, 511])
def test_every_square(largest):
    value = np.arange(largest + 1)
    assert (Evaluator(Square(largest))(value=value)["square"] == value**2).all()


@pytest.mark.parametrize(
    ("formats", "source", "rounding", "nonfinite"),
    some(product(BOOKS, SOURCES, ROUNDINGS, ["poison", "element"]), 13),
)
@pytest.mark.contract("S25")
def test_every_book(formats, source, rounding, nonfinite):
    digits = {"float32": 8, "bfloat16": 3, "float16": 16}[source]
    config = QuantizeConfig(
        formats, 4, source, EVERY_RULE, rounding, nonfinite, select=digits, stages=2
    )
    rng = np.random.default_rng(1)
    check_blocks(config, random_blocks(config, rng, 2500))
    check_blocks(config, common_blocks(config, rng, 1500))


@pytest.mark.parametrize("digits", [2, 8])
def test_small_values(digits):
    """E8M0's lower end: e stays at -127, scales are less small than the rule's."""
    config = QuantizeConfig(MIXED, 4, scale_rule=EVERY_RULE, select=digits)
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 9 << 23, (5000, 4)) >> rng.integers(0, 27, (5000, 4))
    check_blocks(config, with_choices(config, rng, bits | rng.integers(0, 2, bits.shape) << 31))


def test_every_bfloat16_beside_others():
    """Each bfloat16 as the one value that decides, with a largest value of any exponent."""
    config = QuantizeConfig(MIXED, 4, "bfloat16", "even", nonfinite="element", select=6)
    rng = np.random.default_rng(3)
    bits = np.zeros((65536, 4), np.uint32)
    bits[:, 0] = np.minimum((np.arange(65536) & 0x7FFF) + rng.integers(0, 500, 65536), 0x7F7F)
    bits[:, 2] = np.arange(65536)
    check_blocks(config, with_choices(config, rng, bits))


@pytest.mark.parametrize("options", [{"stages": 1}, {"stages": 10, "block": 4}, {"stages": 7}])
def test_streams(options):
    config = QuantizeConfig(
        MIXED, **{"block": 8, **options}, rounding="stochastic", random="lfsr", select=8
    )
    rng = np.random.default_rng(4)
    each, streams = 8, 15
    blocks = random_blocks(config, rng, streams * each)
    words = np.tile(config.random_words(each), (streams, 1))
    blocks = Blocks(blocks.bits, blocks.mode, blocks.rule, words)
    run = run_streams(config, blocks, rng, streams)
    assert (run.given == run.accepted + config.latency).all()
    run_streams(config, blocks, rng, streams, gap=0.3, stall=0.4)
    run_streams(config, blocks, rng, streams, gap=0.2, stall=0.4, reset_at=9)


@pytest.mark.parametrize(
    ("formats", "rule", "rounding"),
    some(product(BOOKS, ["floor", "ceil", "even"], ["nearest_even", "toward_zero"]), 5),
)
def test_no_error_is_larger_than_its_bits(formats, rule, rounding):
    """The bound is kept by blocks of one value, of any size, and no digit of it is in vain."""
    config = QuantizeConfig(formats, 4, "bfloat16", rule, rounding, select=8)
    bits = np.zeros((0x7F80, 4), np.uint32)
    bits[:, 0] = np.arange(0x7F80)
    second = bits.copy()
    second[:, 1] = np.maximum(bits[:, 0].astype(int) - np.arange(0x7F80) % 300, 0)
    zeros, number = np.zeros_like(bits), np.zeros(len(bits), np.int64)
    most = np.zeros(len(config.formats))
    for part in (bits, second):
        batch = item.Batch(0, 0, part, zeros, number, zeros[:, 0])
        tried = choices.by_each_format(config, batch, item.predict(config, batch))
        errors = choices.errors(config, batch, tried)
        single = np.sqrt(errors).max(axis=1) if part is bits else most
        most = np.maximum(most, single)
    for fmt, largest in zip(config.formats, most, strict=True):
        assert largest <= largest_error(config, fmt)
        assert largest_error(config, fmt) < 4 * max(largest, 1)


def test_the_model_takes_the_least_error():
    """The bench adds errors up by itself: its least ones are the formats that the model has."""
    config = QuantizeConfig("e3m2,e2m3,sm6", 8, "float16", "ceil", nonfinite="element", select=5)
    rng = np.random.default_rng(6)
    for batch in stimulus.traffic(config, rng, 2000):
        outcome = item.predict(config, batch)
        tried = choices.by_each_format(config, batch, outcome)
        least = choices.errors(config, batch, tried).argmin(axis=0)  # the first of equals
        finite = outcome.scale != E8M0.nan_code
        assert (outcome.mode == least)[finite].all()
        assert (outcome.mode == 0)[~finite].all()
        rows = np.arange(len(batch))
        assert (outcome.codes == np.stack([t.codes for t in tried])[outcome.mode, rows]).all()
