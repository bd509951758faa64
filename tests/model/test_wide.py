"""Sums that need more than one float64."""

from fractions import Fraction

import numpy as np
import pytest

from compare import generator
from mxdot.model import FORMATS, MXArray, dot
from mxdot.model.wide import exact_sum, exact_sum_fits


@pytest.mark.parametrize(
    ("bits", "count"), [(53, 1), (52, 2), (51, 3), (51, 4), (45, 256), (44, 257), (21, 2**32)]
)
def test_the_longest_sum_of_one_float64(bits, count):
    assert exact_sum_fits(bits, count)
    assert not exact_sum_fits(bits + 1, count)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 32, 33])
@pytest.mark.parametrize("bits", [8, 49, 50, 51, 52, 53])
def test_a_sum_is_exact(bits, count):
    """Sums of the largest terms, of signs at random, and with a unit beside them."""
    rng = generator("wide", bits, count)
    terms = rng.choice([-1.0, 1.0], (64, count)) * rng.integers(1, 2**bits, (64, count))
    terms[0], terms[1] = 2.0**bits - 1, 1 - 2.0**bits
    terms[::4, -1] = 1
    got = exact_sum(np.ldexp(terms, -20), bits, -20)
    low = np.zeros(64) if got.low is None else got.low
    for row, high, rest in zip(terms.tolist(), got.high.tolist(), low.tolist(), strict=True):
        want = Fraction(sum(map(int, row)), 2**20)
        assert Fraction(high) + Fraction(rest) == want, (row, high, rest)


@pytest.mark.parametrize("below", [0, 3])
def test_a_sum_as_an_integer(below):
    """Sums of two float64, or of terms too far apart for those, in their unit and a smaller one."""
    terms = np.array([[2.0**60, 1, 2.0**30, -1, 3], [2.0**200, 2.0**100, 1, -(2.0**200), 5]])
    got = exact_sum(np.ldexp(terms, -4), 202, -4)
    assert got.whole is not None
    want = [sum(map(int, row)) << below for row in terms.tolist()]
    assert got.integers(-4 - below).tolist() == want


@pytest.mark.parametrize(
    ("formats", "k", "scale_format", "scale", "factor"),
    [(("e5m2", "e4m3"), 16, "e8m0", 127, 1), (("e5m2", "int8"), 128, "e4m3", 0x3F, 1.875**2)],
)
def test_one_long_sum_keeps_its_least_digit(formats, k, scale_format, scale, factor):
    """A sum of 54 bits in a fixed register; the next block takes all but its least digit away."""
    a, b = (FORMATS[name] for name in formats)
    codes = np.zeros((2, 1, 2, k), np.uint8)
    for side, fmt in enumerate((a, b)):
        extreme = fmt.extremes[0] if side else fmt.extremes[1]
        codes[side, :, :, :-1] = fmt.encode(np.float32(extreme))
        codes[side, 0, 0, -1] = fmt.encode(np.float32(2.0**fmt.lsb))
    codes[0, :, 1, :-1] = a.encode(np.float32(-a.extremes[1]))
    x, y = (
        MXArray(side.reshape(1, 2 * k), np.full((1, 2), scale, np.uint8), fmt, k)
        for side, fmt in zip(codes, (a, b), strict=True)
    )
    want = 2.0 ** (a.lsb + b.lsb) * factor
    assert dot(x, y, "fixed:100:-60", scale_format=scale_format) == want
