"""Quotients and sums rounded to odd at 53 bits, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from compare import generator
from mxdot.model import FORMATS
from mxdot.model.products import largest_magnitude
from mxdot.model.rounding import add_to_odd, quotient

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


@pytest.mark.parametrize("name", FORMATS)
def test_largest_magnitudes(name):
    fmt = FORMATS[name]
    values = fmt.values[np.isfinite(fmt.values)].astype(float)
    assert largest_magnitude(fmt) == max(abs(Fraction(x)) for x in values) / Fraction(2) ** fmt.lsb
