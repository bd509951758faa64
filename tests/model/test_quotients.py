"""Quotients, sums and products against exact fractions; ranges of products."""

from fractions import Fraction

import numpy as np
import pytest

from compare import generator
from mxdot.model import FORMATS
from mxdot.model.products import Pair, largest_magnitude
from mxdot.model.rounding import add_to_odd, quotient, two_product

COUNT = 2000


def to_odd(exact):
    """The float64 with an odd last bit next to `exact`, which no float64 is; else `exact`."""
    near = float(exact)
    if Fraction(near) == exact:
        return near
    other = np.nextafter(near, np.inf if Fraction(near) < exact else -np.inf)
    return next(x for x in (near, float(other)) if int(np.float64(x).view(np.int64)) & 1)


def operands(name):
    rng = generator(name)
    a = rng.standard_normal(COUNT) * np.exp2(rng.integers(-30, 30, COUNT))
    b = rng.uniform(0.5, 2.0, COUNT) * np.exp2(rng.integers(-30, 30, COUNT))
    a[::3] = np.round(a[::3] * 2**20) / 2**20
    b[::4] = np.round(b[::4] * 2**31) / 2**31 + 2.0**-31
    return a, b


def test_quotients():
    a, b = operands("quotients")
    want = [to_odd(Fraction(x) / Fraction(y)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(quotient(a, b), want)


def test_sums():
    a, b = operands("sums")
    for sign in (1, -1):
        want = [to_odd(Fraction(x) + sign * Fraction(y)) for x, y in zip(a, b, strict=True)]
        np.testing.assert_array_equal(add_to_odd(a, sign * b), want)


def test_products():
    a, b = operands("products")
    product, error = two_product(a, b)
    np.testing.assert_array_equal(product, a * b)
    for each in zip(a, b, product, error, strict=True):
        x, y, high, low = map(Fraction, each)
        assert high + low == x * y, each


SMALL = [fmt for fmt in FORMATS.values() if fmt.bits <= 8]


@pytest.mark.parametrize("a", SMALL, ids=str)
def test_least_and_largest_products(a):
    for b in SMALL:
        x, y = (fmt.values[np.isfinite(fmt.values)].astype(float) for fmt in (a, b))
        products, pair = np.multiply.outer(x, y), Pair(a, b)
        assert (pair.least, pair.largest) == (products.min(), products.max()), b


@pytest.mark.parametrize("name", FORMATS)
def test_largest_magnitudes(name):
    fmt = FORMATS[name]
    values = fmt.values[np.isfinite(fmt.values)].astype(float)
    assert largest_magnitude(fmt) == max(abs(Fraction(x)) for x in values) / Fraction(2) ** fmt.lsb
