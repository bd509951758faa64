"""Sums that need more than one float64."""

from fractions import Fraction

import numpy as np
import pytest

from compare import generator
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
