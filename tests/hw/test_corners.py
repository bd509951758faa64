"""Corners of dot units that few random operands meet:

- a block of zeros next to c, and a product that c cancels except for a few digits, under every
  scale;
- a product that is the only one to lose its last digits, at every distance in every lane;
- a tiny running value that decides the rounding of a 16-bit result.
"""

import itertools

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Mux, Value

from cases import Cases
from compare import generator
from mxdot.hw.arithmetic.shift import Normalizer
from mxdot.hw.dot import float_round
from mxdot.hw.dot.lane import AlignShifter
from mxdot.model import E2M1, DotConfig, MXArray
from mxdot.sim.bench.operands import split_scale
from unit_bench import drive, evaluate, evaluator_of, join, products
from wrong_units import breaks

SUMS = DotConfig("e2m1", 4, "aligned:13", 3)
SHIFTS = DotConfig("e4m3", 4, "aligned:13", 3)
NARROW = DotConfig("e4m3", 4, "fused:25", 3, "bfloat16")
FOUR, TWO, ONE = 0x48, 0x40, 0x38  # of E4M3
MINUS = 0x80
LARGEST = float(np.finfo(np.float32).max)


def check(config, a, b, s, c):
    """Compare products of codes (n, blocks x lanes), under scales 2^s (n, blocks) or, for one
    block, (n,), plus c, bits of a float32.
    """
    rng = generator("corners", str(config))
    scales = split_scale(rng, np.reshape(s, (len(a), -1)))
    left, right = (
        MXArray(codes, scale, config.formats[0][0], config.lanes)
        for codes, scale in zip((a, b), scales, strict=True)
    )
    cases = Cases(left, right, np.asarray(c, np.uint32).view(np.float32))
    work = join(config, products(config, cases))
    evaluate(config, drive(work, rng, streams=len(work))).check()


def zero_blocks():
    """Every exponent that two scales have; c subnormal, of the least and the largest exponents."""
    fields = [0, 0, 0, 0, 1, 1, *range(244, 255)]
    fractions = [1, 0x10, 0x7FF, 0x7FFFFF, 0, 5, *[0, 0x7FFFFF, 0x123456] * 3, 0, 1]
    c = np.array(fields) << 23 | np.array(fractions)
    s, c = (np.ravel(x) for x in np.meshgrid(np.arange(-254, 255), c, indexing="ij"))
    zeros = np.zeros((len(s), SUMS.lanes), np.uint8)
    check(SUMS, zeros, zeros, s, c)


def cancelled():
    """A product under every scale, and a c that takes all of it away but some last digits."""
    products_of = [(0x1, 0x1), (0x2, 0x2), (0x7, 0x7), (0x7, 0xF)]  # 1/4, 1, 36, -36
    away = [0, 1, -1, 2, -2, 5, 1 << 7, 1 << 12, -(1 << 18)]
    rows = list(itertools.product(np.arange(-160, 130), products_of, away))
    a, b = np.zeros((2, len(rows), SUMS.lanes), np.uint8)
    s, codes, moved = (np.array(column) for column in zip(*rows, strict=True))
    a[:, 1], b[:, 1] = codes.T
    value = np.prod(E2M1.values[codes], axis=1) * 2.0**s
    c = np.minimum(np.abs(value), LARGEST).astype(np.float32).view(np.uint32)
    c = np.clip(c.astype(np.int64) + moved, 0, 0x7F7FFFFF) | (value > 0).astype(np.int64) << 31
    check(SUMS, a, b, s, c)


def single_products():
    """Eight next to products of any significands, 3 to 15 digits below: no other product is
    inexact.
    """
    exponents = [0x38, 0x30, 0x20, 0x10, 0x08, 0x00]
    significands = np.arange(8)
    rows = list(
        itertools.product(exponents, exponents, significands, significands, range(SHIFTS.lanes))
    )
    a, b = np.zeros((2, len(rows), SHIFTS.lanes), np.uint8)
    for row, (of_a, of_b, in_a, in_b, lane) in enumerate(rows):
        a[row, lane - 1], b[row, lane - 1] = FOUR, TWO
        a[row, lane], b[row, lane] = of_a + in_a, of_b + in_b
    check(SHIFTS, a, b, np.zeros(len(rows), int), np.zeros(len(rows)))


def decided():
    """A first block from far below to far above the least float32, then half of the least bfloat16:
    a tie except for the running value.
    """
    rows = list(itertools.product(range(-158, -134), range(8), (0, MINUS), (0, MINUS)))
    least, fraction, sign, other = (np.array(column) for column in zip(*rows, strict=True))
    a, b = np.zeros((2, len(rows), 2 * NARROW.lanes), np.uint8)
    a[:, 0], a[:, NARROW.lanes] = ONE + fraction | sign, ONE | other
    b[:, 0] = b[:, NARROW.lanes] = ONE
    check(NARROW, a, b, np.stack([least, np.full(len(rows), -134)], axis=1), np.zeros(len(rows)))


@pytest.mark.parametrize("corners", [zero_blocks, cancelled, single_products, decided])
def test_corners(corners):
    corners()


def fails(corners):
    """Corners find a wrong unit."""
    evaluator_of.cache_clear()
    with pytest.raises(AssertionError):
        corners()
    evaluator_of.cache_clear()


def _wrong_stop(place, stuck):
    """One place at which normalising stops is wrong: never, or for exponents far above too."""
    right = float_round.stop_of

    def wrong(m, exponent, window):
        stop = right(m, exponent, window)
        bit = Const(0, 1) if stuck else right(m, exponent[:8], window)[place]
        return Cat(stop[:place], bit, stop[place + 1 :])

    return wrong


@pytest.mark.parametrize(("place", "stuck"), [(23, True), (31, False)])
def test_a_block_of_zeros_finds_a_wrong_stop(place, stuck, monkeypatch):
    """Two mutants that bulk runs of some 20,000 did not meet."""
    monkeypatch.setattr(float_round, "stop_of", _wrong_stop(place, stuck))
    fails(zero_blocks)


def _wrong_range(start, count):
    """Give places of 16 exponents of the block those of the exponents 16 above."""
    right = float_round.stop_of

    def wrong(m, exponent, window):
        moved = (exponent >= start) & (exponent < start + 16)
        other = (exponent >= start + 16) & (exponent < start + 32)
        lies = Mux(other & (count > 0), exponent - 16, Mux(moved, 0x3FF, exponent))
        return right(m, Value.cast(lies[: len(exponent)]), window)

    return wrong


@pytest.mark.parametrize(("start", "count"), [(48, 0), (64, 1)])
def test_a_cancelled_sum_finds_wrong_stops(start, count, monkeypatch):
    """Stops of 16 exponents are missing; sometimes the next 16 exponents have them."""
    monkeypatch.setattr(float_round, "stop_of", _wrong_range(start, count))
    fails(cancelled)


@breaks(AlignShifter)
def deaf_to_a_digit(shifter, m):
    """The digit of place 12 on the grid counts as cut off one place later."""
    gone = Cat(shifter.distance > place for place in (7, 8, 9, 10, 11, 13, 13, 14))
    m.d.comb += shifter.sticky.eq((gone & shifter.significand).any())


def test_a_single_product_finds_a_lost_sticky_bit(monkeypatch):
    """Only a flag shows this error."""
    deaf_to_a_digit(monkeypatch)
    fails(single_products)


@pytest.mark.parametrize("digit", [0, 1, 2])
def test_a_tie_finds_a_wrong_place_of_small_sums(digit, monkeypatch):
    """A digit of the least limits of normalising is inverted: results of 16 bits hide such sums."""

    def wrong(normalizer, m):
        if normalizer.limit_bits:
            places = normalizer.limit ^ (1 << digit)
            with m.If((normalizer.limit < 8) & ~(normalizer.value >> (normalizer.bits - 8)).any()):
                m.d.comb += normalizer.result.eq(normalizer.value << places[:4])

    breaks(Normalizer)(wrong)(monkeypatch)
    fails(decided)
