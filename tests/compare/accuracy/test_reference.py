"""References are exact and measures are what they say."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import random_cases
from mxdot.compare.accuracy.bounds import NEVER, terms_of
from mxdot.compare.accuracy.metrics import LEAST, errors, exact_sums, finite, sqnr_db, ulp
from mxdot.model import FORMATS, MXArray
from rational import dot as oracle
from rational.formats import Special, Status, round_float32

FINITE = ("finite", "near one", "wide", "tiny", "largest", "sparse", "cancelling", "one large")
SCALES = ("unit", "moderate", "low end", "high end", "bottom", "top", "any")

terms = st.lists(
    st.builds(math.ldexp, st.integers(-(2**16), 2**16).map(float), st.integers(-290, 270)),
    min_size=1,
    max_size=40,
)
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def exact(row):
    return sum((Fraction(v) for v in row), Fraction(0))


@given(terms)
def test_sums_against_fractions(row):
    want, got = exact(row), exact_sums(np.array([row]))
    high, low = Fraction(got.high[0]), Fraction(got.low[0])
    assert got.high[0] == float(want)  # Fraction to float rounds correctly
    assert got.low[0] == float(want - high)
    assert abs(high + low - want) <= abs(low) * Fraction(1, 2**53)


@given(terms, float32)
def test_error_against_fractions(row, value):
    want = Fraction(value) - exact(row)
    got = exact_sums(np.array([row])).error_of(np.array([value], np.float32))[0]
    assert abs(Fraction(got) - want) <= abs(want) * Fraction(1, 2**51)


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=8), float32)
def test_error_is_zero_only_when_equal(tails, value):
    # Sums within a hair of a float32: value + small integers x 2^-200.
    row = [value, *(math.ldexp(t, -200) for t in tails)]
    got = exact_sums(np.array([row])).error_of(np.array([value], np.float32))[0]
    assert (got == 0) == (sum(tails) == 0)
    assert np.sign(got) == -np.sign(sum(tails))


@given(terms)
def test_nearest_float32_against_fractions(row):
    got = exact_sums(np.array([row])).nearest_float32()[0]
    assert got == np.float32(rational_float32(exact(row)))


def rational_float32(x):
    """RNE to float32 by the oracle's own rounding."""
    rounded = round_float32(x, "nearest_even", Status())
    infinities = {Special.PLUS_INF: math.inf, Special.MINUS_INF: -math.inf}
    return float(rounded) if isinstance(rounded, Fraction) else infinities[rounded]


@pytest.mark.parametrize("pair", [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("int8", "int8")])
def test_terms_against_fractions(pair):
    case = random_cases(
        np.random.default_rng(1), pair, 8, 2, 8, operands=FINITE, scales=SCALES, running=("zero",)
    )
    got = terms_of(case.a, case.b)
    codes_a, scale_a = case.a.blocks_last()
    codes_b, scale_b = case.b.blocks_last()
    for at in np.ndindex(got.values.shape):
        product = oracle.product(*pair, int(codes_a[at]), int(codes_b[at]))
        assert isinstance(product, oracle.Term)
        s = int(scale_a[at[:2]]) + int(scale_b[at[:2]]) - 254
        value = product.significand * Fraction(2) ** (product.exponent + s)
        assert Fraction(float(got.values[at])) == value
        assert got.digit[at] == (product.exponent + s if value else NEVER)
        assert got.unit[at] == (product.unit + s if value else -NEVER)


def test_terms_in_smaller_steps():
    case = random_cases(
        np.random.default_rng(2),
        ("e4m3", "e4m3"),
        4,
        3,
        10,
        operands=FINITE,
        running=("zero",),
        scales=("unit",),
    )
    whole = terms_of(case.a, case.b)
    cut = whole.in_steps(4)
    assert cut.values.shape == (4, 9, 4)
    np.testing.assert_array_equal(cut.values.reshape(4, 3, 12)[..., :10], whole.values)
    np.testing.assert_array_equal(cut.unit.reshape(4, 3, 12)[..., 10:], -NEVER)
    np.testing.assert_allclose(cut.totals, whole.totals)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
def test_terms_must_be_finite(fmt):
    good = MXArray(np.zeros((1, 4), np.uint8), np.full((1, 1), 127, np.uint8), fmt, 4)
    nan = MXArray(
        np.full((1, 4), FORMATS[fmt].nan_code, np.uint8), np.full((1, 1), 127, np.uint8), fmt, 4
    )
    poisoned = MXArray(np.zeros((1, 4), np.uint8), np.full((1, 1), 255, np.uint8), fmt, 4)
    for bad in (nan, poisoned):
        with pytest.raises(ValueError, match="operands must be finite"):
            terms_of(good, bad)


# Measures ---------------------------------------------------------------------------------------


def test_no_error():
    values = np.array([1.0, -2.0, 0.0])
    got = errors(values, values)
    assert got.sqnr_db == math.inf
    assert (got.max_relative, got.mean_relative, got.ulp_max, got.ulp_mean, got.bias) == (0,) * 5


def test_measures_by_hand():
    got = errors(np.array([1.5, -3.0, 8.0]), np.array([1.0, -4.0, 8.0]))
    assert got.sqnr_db == pytest.approx(10 * math.log10(81 / 1.25))
    assert got.max_relative == 0.5
    assert got.mean_relative == 0.25
    assert got.ulp_max == 0.5 * 2**23
    assert got.ulp_mean == pytest.approx((2**22 + 2**21) / 3)
    assert got.bias == pytest.approx((0.5 - 1) / 13)


def test_bias_is_negative_when_results_are_too_small():
    reference = np.array([1.0, -1.0, 2.0, -2.0])
    assert errors(0.9 * reference, reference).bias == pytest.approx(-0.1)


def test_zero_reference_stays_finite():
    got = errors(np.array([1e-3]), np.array([0.0]))
    assert got.max_relative == 1e-3 / LEAST
    assert -2000 < got.sqnr_db < 0


def test_sqnr_of_extreme_numbers():
    assert sqnr_db(np.array([1e300]), np.array([1e297])) == pytest.approx(60)
    assert sqnr_db(np.array([1e-40]), np.array([1e-43])) == pytest.approx(60)


def test_sqnr_of_results_that_all_vanish_is_none():
    """References below float32's range: every result is zero, and the error is the signal."""
    signal = np.array([3e-77, -2e-78])
    assert sqnr_db(signal, -signal) == pytest.approx(0, abs=1e-9)


@given(float32)
def test_ulp(value):
    field = int(np.float32(value).view(np.uint32)) >> 23 & 0xFF
    assert ulp(np.array([value]))[0] == 2.0 ** (max(field, 1) - 150)


def test_finite():
    largest = float(np.finfo(np.float32).max)
    got = finite(np.array([np.inf, -np.inf, np.nan, 2.0]))
    np.testing.assert_array_equal(got, [largest, -largest, 0, 2])
