"""The rounding shift in RTL against the model: every small value, every shift, both ends."""

import numpy as np
import pytest

from hw_bench import Evaluator, assert_same
from mxdot.hw.arithmetic.shift import RoundingShift
from mxdot.model.requantize import INTEGERS, FixedRescale, ShiftRescale, requantize_traced

LOW, HIGH = -(2**31), 2**31 - 1


def check(component, value, rescale, shift, fmt, zero, sums):
    got = Evaluator(component)(value=value, shift=shift, zero=zero & (2**fmt.bits - 1))
    want = requantize_traced(sums, rescale, fmt, zero_point=zero)
    assert_same(
        got,
        {
            "result": want.integers & (2**fmt.bits - 1),
            "inexact": want.inexact,
            "clipped": want.clipped,
        },
        value=value,
        shift=shift,
        zero=zero,
    )


@pytest.mark.parametrize("fmt", INTEGERS.values(), ids=str)
@pytest.mark.contract("I7")
def test_every_small_value_by_every_shift(fmt):
    sums, shift = (x.ravel() for x in np.meshgrid(np.arange(-600, 600), np.arange(32)))
    zero = np.random.default_rng(1).integers(fmt.lowest, fmt.highest + 1, sums.shape)
    check(RoundingShift(32, 5, fmt), sums, ShiftRescale(shift), shift, fmt, zero, sums)


@pytest.mark.parametrize("fmt", INTEGERS.values(), ids=str)
@pytest.mark.contract("I8")
def test_ties_and_limits_of_every_shift(fmt):
    """Sums at and next to every tie, and at both ends of the output's range and of INT32."""
    shift = np.arange(32)[:, None, None]
    near = np.array([-1, 0, 1])
    wanted = np.arange(fmt.lowest - 3, fmt.highest + 4)[:, None]
    half = (1 << shift) >> 1
    for zero in (fmt.lowest, 0, fmt.highest):
        sums = ((wanted - zero) << shift) - half + near
        sums = np.clip(sums, LOW, HIGH).ravel()
        shifts = np.broadcast_to(shift, (32, len(wanted), 3)).ravel()
        zeros = np.full(sums.shape, zero)
        check(RoundingShift(32, 5, fmt), sums, ShiftRescale(shifts), shifts, fmt, zeros, sums)


@pytest.mark.parametrize("fmt", INTEGERS.values(), ids=str)
@pytest.mark.contract("I6")
def test_products_of_a_multiplier(fmt):
    rng = np.random.default_rng(2)
    n = 63 * 300
    shift = np.arange(n) % 63
    sums = rng.integers(LOW, HIGH + 1, n) >> rng.integers(0, 32, n)
    sums[:252] = np.repeat([LOW, HIGH, -1, 0], 63)
    multiplier = np.where(
        rng.random(n) < 0.5, rng.integers(0, 2**31, n), 1 << rng.integers(0, 31, n)
    )
    multiplier[:252] = 2**31 - 1
    zero = rng.integers(fmt.lowest, fmt.highest + 1, n)
    rescale = FixedRescale(multiplier, shift)
    check(RoundingShift(63, 6, fmt), sums * multiplier, rescale, shift, fmt, zero, sums)
