"""The integer pieces of the datapath: trees, shifters, normaliser, alignment."""

# Components defined here get their attributes while they run.
# pyright: reportAttributeAccessIssue=false

from itertools import product

import numpy as np
import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from compare import generator, some
from hw_bench import Evaluator, assert_same
from mxdot.hw.arithmetic.adders import AdderTree, signed_sum
from mxdot.hw.arithmetic.select import LargestExponent
from mxdot.hw.arithmetic.shift import (
    Normalizer,
    ShiftRight,
    leading_zeros,
    place_left,
    place_right,
    shift_left,
)
from mxdot.hw.dot.lane import AlignShifter
from mxdot.model import DotConfig
from mxdot.model.pipeline.widths import Widths


def integers(rng: np.random.Generator, width: int, shape) -> np.ndarray:
    """Uniform, sparse and dense numbers of `width` bits, ends among them."""
    any_bits = rng.integers(0, 2**width, shape)
    sparse = any_bits & rng.integers(0, 2**width, shape) & rng.integers(0, 2**width, shape)
    ends = rng.choice([0, 1, 2 ** (width - 1), 2**width - 1], shape)
    kind = rng.integers(0, 4, shape)
    return np.choose(kind, [any_bits, sparse, 2**width - 1 - sparse, ends])


# Largest exponent --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 6, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 16, 31, 32, 128])
def test_largest_exponent(count, width):
    rng = generator("largest", count, width)
    n = 3000
    exponent = integers(rng, width, (n, count))
    share = rng.choice([0.0, 0.1, 0.9, 1.0], (n, 1))
    nonzero = rng.random((n, count)) < share
    weights = 1 << np.arange(count, dtype=object)
    got = Evaluator(LargestExponent(count, width))(
        exponent=exponent, nonzero=(nonzero * weights).sum(axis=1)
    )
    want = {"largest": np.where(nonzero, exponent, 0).max(axis=1), "any": nonzero.any(axis=1)}
    assert_same(got, want, exponent=exponent, nonzero=nonzero)


def test_largest_exponent_of_every_case_of_three_terms():
    exponent = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3)
    got = Evaluator(LargestExponent(3, 2))
    for mask in range(8):
        nonzero = np.array([mask >> i & 1 for i in range(3)])
        want = {"largest": (exponent * nonzero).max(axis=1), "any": np.full(64, mask != 0)}
        assert_same(got(exponent=exponent, nonzero=mask), want, exponent=exponent)


# Shifters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "amount_bits"), [(1, 1), (1, 3), (2, 1), (5, 5), (8, 2), (8, 6)])
def test_shift_right_of_every_value_by_every_amount(width, amount_bits):
    value = np.repeat(np.arange(2**width), 2**amount_bits)
    amount = np.tile(np.arange(2**amount_bits), 2**width)
    got = Evaluator(ShiftRight(width, amount_bits))(value=value, amount=amount)
    want = {"result": value >> amount, "sticky": value & ((1 << amount) - 1) != 0}
    assert_same(got, want, value=value, amount=amount)


@pytest.mark.parametrize("width", [7, 16, 17, 27, 33, 63])
@pytest.mark.parametrize("amount_bits", [3, 6, 11])
def test_shift_right_by_every_amount(width, amount_bits):
    """Far beyond the width too, where all is lost."""
    rng = generator("shift", width)
    amount = np.repeat(np.arange(2**amount_bits), 20)
    value = integers(rng, width, len(amount))
    got = Evaluator(ShiftRight(width, amount_bits))(value=value, amount=amount)
    near = np.minimum(amount, 63)  # what NumPy can shift by
    result = value >> near
    assert_same(
        got, {"result": result, "sticky": result << near != value}, value=value, amount=amount
    )


class ShiftLeft(wiring.Component):
    """`shift_left` with ports."""

    def __init__(self, width, amount_bits):
        super().__init__({"value": In(width), "amount": In(amount_bits), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(shift_left(m, self.value, self.amount))
        return m


@pytest.mark.parametrize(("width", "amount_bits"), [(1, 1), (5, 4), (12, 3), (9, 4)])
def test_shift_left_by_every_amount(width, amount_bits):
    value = np.repeat(np.arange(2**width), 2**amount_bits)
    amount = np.tile(np.arange(2**amount_bits), 2**width)
    got = Evaluator(ShiftLeft(width, amount_bits))(value=value, amount=amount)
    assert_same(got["o"], (value << amount) % 2**width, value=value, amount=amount)


class Place(wiring.Component):
    """`place_left` and `place_right` with ports."""

    def __init__(self, width, amounts):
        self.amounts = amounts
        bits = amounts[-1].bit_length()
        wide = width + amounts[-1] - amounts[0]
        ports = {"value": In(width), "amount": In(bits), "fill": In(1)}
        super().__init__({**ports, "left": Out(wide), "right": Out(width)})

    def elaborate(self, platform):
        m = Module()
        placed = place_left(m, self.value, self.amount, self.amounts, "left", self.fill)
        shifted = place_right(m, self.value, self.amount, "right", self.fill)
        m.d.comb += [self.left.eq(placed), self.right.eq(shifted)]
        return m


@pytest.mark.parametrize("width", [1, 4, 7])
@pytest.mark.parametrize(
    "amounts", [range(2), range(1, 5), range(2, 7), range(3, 4), range(2, 31), range(50)]
)
def test_places_of_every_value(width, amounts):
    value = np.repeat(np.arange(2**width), len(amounts))
    amount = np.tile(np.array(amounts), 2**width)
    place = Evaluator(Place(width, amounts))
    wide = width + amounts[-1] - amounts[0]
    for fill in (0, 1):
        # Around inverted digits, inverted zeros.
        ones, all_ones = (2**width - 1) * fill, np.uint64((2**wide - 1) * fill)
        got = place(value=value ^ ones, amount=amount, fill=fill)
        left = (value.astype(np.uint64) << (amount - amounts[0]).astype(np.uint64)) ^ all_ones
        want = {"left": left, "right": (value >> np.minimum(amount, 62)) ^ ones}
        for name, expected in want.items():
            assert [int(x) for x in got[name]] == [int(x) for x in expected], (name, fill)


# Adder tree --------------------------------------------------------------------------------------


def check_tree(count: int, width: int, total_bits: int, magnitude, sign) -> None:
    got = Evaluator(AdderTree(count, width, total_bits))(
        terms={"magnitude": magnitude, "sign": sign}
    )
    want = np.where(sign, -magnitude, magnitude).sum(axis=1)
    assert_same(got["total"], want, magnitude=magnitude, sign=sign)


@pytest.mark.parametrize(
    ("count", "width"),
    [
        *some(product([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 5, 41]), 2),
        *some([(17, 2), (17, 15), (32, 15), (32, 2), (33, 2), (33, 15)], 2),
        (129, 3),
    ],
)
def test_adder_tree(count, width):
    """Random terms and the extremes: all largest, all most negative, all minus zero."""
    rng = generator("tree", count, width)
    n = 1000
    magnitude = integers(rng, width, (n, count))
    sign = rng.random((n, count)) < rng.choice([0.0, 0.1, 0.5, 1.0], (n, 1))
    largest = 2**width - 1
    magnitude[:4] = np.array([[largest], [largest], [0], [0]])
    sign[:4] = np.array([[False], [True], [True], [False]])
    # The narrowest total that holds the sum, and a wider one.
    exact = (count * largest).bit_length() + 1
    check_tree(count, width, exact, magnitude, sign)
    if count < 10:
        check_tree(count, width, exact + 7, magnitude, sign)


def test_adder_tree_of_every_case_of_three_terms():
    bits = np.arange(2**9)
    magnitude = np.stack([bits & 3, bits >> 2 & 3, bits >> 4 & 3], axis=1)
    sign = np.stack([bits >> 6 & 1, bits >> 7 & 1, bits >> 8 & 1], axis=1) == 1
    check_tree(3, 2, 5, magnitude, sign)


class SignedSum(wiring.Component):
    """`signed_sum` with ports."""

    def __init__(self, count, width):
        total = width + (count - 1).bit_length()
        layout = data.ArrayLayout(signed(width), count)
        super().__init__({"words": In(layout), "o": Out(signed(total))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(signed_sum(m, "sum", list(self.words)))
        return m


@pytest.mark.parametrize(("count", "width"), some(product([1, 2, 4, 8, 32, 128], [2, 8, 16]), 2))
def test_signed_sum(count, width):
    """Random words and the extremes: all most negative, all largest, all -1, all 0."""
    rng = generator("signed sum", count, width)
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    words = rng.integers(low, high + 1, (1000, count))
    words[:4] = np.array([[low], [high], [-1], [0]])
    got = Evaluator(SignedSum(count, width))(words=words)
    assert_same(got["o"], words.sum(axis=1), words=words)


# Normaliser --------------------------------------------------------------------------------------


class LeadingZeros(wiring.Component):
    """`leading_zeros` with ports."""

    def __init__(self, width):
        super().__init__({"value": In(width), "o": Out(width.bit_length())})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(leading_zeros(m, self.value))
        return m


def every_pattern(rng: np.random.Generator, width: int) -> np.ndarray:
    """Every value of a small width; else every position of the leading one, random below it."""
    if width <= 12:
        return np.arange(2**width)
    tops = 1 << np.repeat(np.arange(width), 50)
    return np.concatenate([[0], 1 << np.arange(width), tops | rng.integers(0, tops)])


def bit_lengths(values: np.ndarray) -> np.ndarray:
    return np.array([int(v).bit_length() for v in values])


@pytest.mark.parametrize("width", range(1, 34))
def test_leading_zeros_and_normalizer(width):
    value = every_pattern(generator("normalize", width), width)
    zeros = width - bit_lengths(value)
    assert_same(Evaluator(LeadingZeros(width))(value=value)["o"], zeros, value=value)
    want = {"result": value << zeros, "amount": zeros}
    assert_same(Evaluator(Normalizer(width))(value=value), want, value=value)


@pytest.mark.parametrize("limit_bits", [1, 3, 7])
@pytest.mark.parametrize("width", [1, 2, 5, 8, 9, 28])
def test_normalizer_stops_at_its_limit(width, limit_bits):
    value = every_pattern(generator("limit", width), width)
    normalizer = Evaluator(Normalizer(width, limit_bits=limit_bits))
    for limit in range(2**limit_bits):
        got = normalizer(value=value, limit=limit)
        amount = np.minimum(width - bit_lengths(value), limit)
        want = {"result": value << amount, "amount": amount}
        assert_same(got, want, value=value, limit=np.full(len(value), limit))


# Alignment ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction_bits", [0, 1, 3, 6, 7, 13, 25])
@pytest.mark.parametrize("formats", ["e4m3", "e5m2", "e2m1", "int8", "e5m2xe2m3", "e2m1xint8"])
def test_align_shifter(formats, fraction_bits):
    """RZ(product x 2^(F - fraction - distance)) at every distance, over products of every size."""
    widths = Widths(DotConfig(formats=formats, lanes=4, accumulator=f"aligned:{fraction_bits}"))
    distance_bits = widths.exponent_bits
    products = np.arange(2**widths.product_bits)[:: max(1, 2**widths.product_bits // 512)]
    distance = np.repeat(np.arange(2**distance_bits), len(products))
    terms = np.tile(products, 2**distance_bits)
    shift = fraction_bits - widths.product_fraction_bits - distance
    left, right = np.maximum(shift, 0), np.minimum(np.maximum(-shift, 0), 62)
    magnitude = (terms << left) >> right
    sticky = (magnitude << right) >> left != terms
    shifter = Evaluator(AlignShifter(widths, distance_bits))
    for inverts in (0, 1):
        got = shifter(significand=terms, distance=distance, inverts=inverts)
        word = magnitude ^ (2**widths.term_bits - 1) * inverts
        assert_same(got, {"word": word, "sticky": sticky}, product=terms, distance=distance)
