"""Requantisation against exact rational arithmetic: every rule, every boundary."""

import re
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from int32_sums import ENDS, HIGH, LOW, sums_of
from mxdot.model.formats import IntegerFormat
from mxdot.model.requantize import (
    INTEGERS,
    LARGEST_SHIFT,
    SHIFT_BITS,
    FixedRescale,
    FloatRescale,
    ShiftRescale,
    requantize,
    requantize_traced,
)


def half_up(x: Fraction) -> int:
    return floor(x + Fraction(1, 2))


def nearest_even(x: Fraction) -> int:
    below = floor(x)
    rest = x - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def float32(x: Fraction) -> Fraction:
    """RNE to float32's grid, subnormals kept; nothing here overflows."""
    if x == 0:
        return x
    exponent = 0
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    return nearest_even(x / unit) * unit


@pytest.mark.parametrize("output", INTEGERS.values(), ids=str)
@pytest.mark.contract("I7")
def test_shift_alone_for_every_shift_and_every_small_sum(output):
    shifts = np.arange(32)
    small = np.arange(-(2**11), 2**11)
    near = (np.arange(-300, 300)[:, None] * 2**shifts + np.array([[-1], [0], [1]])[:, None]).ravel()
    near = near[(near >= LOW) & (near <= HIGH)]
    sums = np.unique(np.concatenate([small, near, ENDS]))[:, None]
    got = requantize(sums + 0 * shifts, ShiftRescale(shifts), output)
    for column, shift in enumerate(shifts.tolist()):
        unit = 2**shift
        want = [(2 * s + unit) // (2 * unit) for s in sums[:, 0].tolist()]  # half up
        assert got[:, column].tolist() == [min(max(w, output.lowest), output.highest) for w in want]


@pytest.mark.parametrize("output", ["int8_full", "uint8", "int4_symmetric"])
@pytest.mark.parametrize("shift", range(63))
@pytest.mark.contract("I6", "I8")
def test_multiplier_and_every_shift(output, shift):
    rng = np.random.default_rng(shift)
    fmt = INTEGERS[output]
    sums = sums_of(rng, 50)
    multiplier = np.concatenate(
        [[0, 1, 2, 3, 2**30, 2**30 + 1, 2**31 - 2, 2**31 - 1], rng.integers(0, 2**31, 20)]
    )
    zero = rng.integers(fmt.lowest, fmt.highest + 1, multiplier.shape)
    got = requantize_traced(
        np.broadcast_to(sums[:, None], (len(sums), len(multiplier))),
        FixedRescale(multiplier, shift),
        output,
        zero_point=zero,
    )
    for i, total in enumerate(sums.tolist()):
        for j, m in enumerate(multiplier.tolist()):
            exact = Fraction(total * m, 2**shift)
            want = half_up(exact) + int(zero[j])
            assert got.integers[i, j] == min(max(want, fmt.lowest), fmt.highest)
            assert got.inexact[i, j] == (exact.denominator != 1)
            assert got.clipped[i, j] == (not fmt.lowest <= want <= fmt.highest)


def test_shifts_have_as_many_bits_as_the_largest():
    assert 2**SHIFT_BITS - 1 == LARGEST_SHIFT + 1


@pytest.mark.contract("I6", "I13")
def test_ties_go_up():
    sums = np.array([-5, -3, -1, 1, 3, 5])
    assert requantize(sums, ShiftRescale(1)).tolist() == [-2, -1, 0, 1, 2, 3]
    assert requantize(sums, FixedRescale(2**30, 31)).tolist() == [-2, -1, 0, 1, 2, 3]
    assert requantize(sums, FloatRescale(0.5)).tolist() == [-2, -2, 0, 0, 2, 2]  # to even


@pytest.mark.contract("T25", "I5")
def test_float_rule():
    rng = np.random.default_rng(3)
    sums = sums_of(rng, 400)
    scales = np.array([1.0, 0.5, 2.0**-31, 1 / 3, 0.1, 2.0**-149, 2.0**-126, 1e-5, 3e7], np.float32)
    shape = (len(sums), len(scales))
    got = requantize_traced(np.broadcast_to(sums[:, None], shape), FloatRescale(scales))
    for i, total in enumerate(sums.tolist()):
        for j, scale in enumerate(scales.tolist()):
            wide = float32(Fraction(total))
            product = float32(wide * Fraction(scale))
            want = nearest_even(product)
            assert got.integers[i, j] == min(max(want, -128), 127)
            exact = wide == total and product == wide * Fraction(scale) and want == product
            assert got.inexact[i, j] == (not exact)


@pytest.mark.contract("I9")
def test_float_rule_beyond_float32():
    largest = np.finfo(np.float32).max
    assert requantize([LOW, -1, 0, 1, HIGH], FloatRescale(largest)).tolist() == [
        -128,
        -128,
        0,
        127,
        127,
    ]


@pytest.mark.contract("I5", "I13")
def test_sum_becomes_float32_first():
    """2^24 + 1 is no float32: the tie that it would make is lost before the product."""
    assert requantize([2**24 + 1], FloatRescale(2.0**-25)).tolist() == [0]
    assert requantize([2**24 + 1], FixedRescale(2**30, 55)).tolist() == [1]


@pytest.mark.contract("I1", "I2", "I3")
def test_clipping_range_and_zero_point():
    sums = np.arange(-400, 400)
    got = requantize(sums, ShiftRescale(0), "uint8", zero_point=10, low=10, high=200)
    assert got.tolist() == [min(max(s + 10, 10), 200) for s in sums.tolist()]
    assert got.dtype == np.int32


@pytest.mark.contract("I1", "I2", "I3")
def test_zero_point_joins_before_clipping():
    """A rescaled sum far outside, moved by z, is clipped once."""
    assert requantize([300, -300], ShiftRescale(0), zero_point=-128).tolist() == [127, -128]
    assert requantize([HIGH, LOW], FixedRescale(2**31 - 1, 0), zero_point=-1).tolist() == [
        127,
        -128,
    ]


@pytest.mark.contract("I4")
def test_channels():
    rng = np.random.default_rng(4)
    sums = rng.integers(-(10**6), 10**6, (5, 3))
    rescale = FixedRescale.of([1e-4, 3e-4, 7e-5])
    whole = requantize(sums, rescale, zero_point=[0, 5, -5])
    for channel in range(3):
        alone = FixedRescale(rescale.multiplier[channel], rescale.shift[channel])
        column = requantize(sums[:, channel], alone, zero_point=5 * [0, 1, -1][channel])
        assert (whole[:, channel] == column).all()


@pytest.mark.contract("I10")
def test_multiplier_of_a_scale():
    rng = np.random.default_rng(5)
    scales = np.concatenate(
        [
            2.0 ** rng.uniform(-32, 30.9, 2000),
            2.0 ** np.arange(-32, 31),
            [1 - 2.0**-53, 0.5 + 2.0**-33, 0.5 + 3 * 2.0**-33, 2.0**31 - 1],
        ]
    )
    got = FixedRescale.of(scales)
    for m, shift, scale in zip(got.multiplier.tolist(), got.shift.tolist(), scales, strict=True):
        assert 2**30 <= m < 2**31
        exact = Fraction(float(scale))
        unit = Fraction(1, 2**shift)
        assert abs(m * unit - exact) <= unit / 2
        if abs(m * unit - exact) == unit / 2 and m != 2**30:
            assert m % 2 == 0


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.contract("I11")
def test_multiplier_of_few_bits(bits):
    scales = np.random.default_rng(bits).uniform(2.0**-20, 1, 500)
    made = FixedRescale.of(scales, bits)
    assert made.multiplier.min() >= 2 ** (bits - 1)
    assert made.multiplier.max() < 2**bits
    for m, n, s in zip(made.multiplier.tolist(), made.shift.tolist(), scales.tolist(), strict=True):
        error = abs(Fraction(m, 2**n) - Fraction(s))
        others = (m - 1, n), (m + 1, n)
        assert all(error <= abs(Fraction(o, 2**k) - Fraction(s)) for o, k in others)
    with pytest.raises(
        ValueError, match=rf"^scale must be from 2\^-32 to less than 2\^{bits}, not "
    ):
        FixedRescale.of(2.0**bits, bits)


@pytest.mark.contract("I10")
def test_multiplier_at_both_ends():
    assert vars(FixedRescale.of(2.0**-32)) == {"multiplier": 2**30, "shift": 62}
    assert vars(FixedRescale.of(2.0**30)) == {"multiplier": 2**30, "shift": 0}
    assert vars(FixedRescale.of(1 - 2.0**-40)) == {"multiplier": 2**30, "shift": 30}


@pytest.mark.contract("I12")
def test_shift_of_a_power_of_two():
    assert ShiftRescale.of(2.0 ** -np.arange(32)).shift.tolist() == list(range(32))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: FixedRescale.of(2.0**-33),
            ValueError,
            f"scale must be from 2^-32 to less than 2^31, not {2.0**-33}",
        ),
        (
            lambda: FixedRescale.of(2.0**31 - 2.0**-10),
            ValueError,
            f"scale must be from 2^-32 to less than 2^31, not {2.0**31 - 2.0**-10}",
        ),
        (
            lambda: FixedRescale.of([1.0, np.nan, 2.0**-40]),
            ValueError,
            "scale must be from 2^-32 to less than 2^31, not nan",
        ),
        (
            lambda: ShiftRescale.of(0.75),
            ValueError,
            "scale must be a power of two from 2^-31 to 1, not 0.75",
        ),
        (
            lambda: ShiftRescale.of(2.0),
            ValueError,
            "scale must be a power of two from 2^-31 to 1, not 2.0",
        ),
        (lambda: FloatRescale("a"), TypeError, "scale must be real numbers, not <U1"),
        (lambda: FixedRescale.of("a"), TypeError, "scale must be real numbers, not <U1"),
        (lambda: FixedRescale.of(1j), TypeError, "scale must be real numbers, not complex128"),
        (lambda: ShiftRescale.of([True]), TypeError, "scale must be real numbers, not bool"),
        (lambda: FloatRescale(0.0), ValueError, "scale must be positive and finite, not 0.0"),
        (lambda: FloatRescale(np.inf), ValueError, "scale must be positive and finite, not inf"),
        (
            lambda: FloatRescale(0.1),
            ValueError,
            (
                "scale of dtype float64 must hold float32 values, not 0.1: astype(np.float32) "
                "rounds them"
            ),
        ),
        (
            lambda: FixedRescale(2**31, 0),
            ValueError,
            "multiplier must be from 0 to 2147483647, not 2147483648",
        ),
        (lambda: FixedRescale.of(0.3, 3), ValueError, "bits must be from 4 to 31, not 3"),
        (
            lambda: requantize([1], ShiftRescale(0), IntegerFormat("u", 32, 0, 2**32 - 1)),
            ValueError,
            "highest of output must be from 1 to 2147483647, not 4294967295",
        ),
        (lambda: FixedRescale(1, 63), ValueError, "shift must be from 0 to 62, not 63"),
        (lambda: ShiftRescale(32), ValueError, "shift must be from 0 to 31, not 32"),
        (lambda: ShiftRescale(1.0), TypeError, "shift must be integers from 0 to 31, not float64"),
        (
            lambda: requantize([2**31], ShiftRescale(0)),
            ValueError,
            "sums must be from -2147483648 to 2147483647, not 2147483648",
        ),
        (
            lambda: requantize([1], ShiftRescale(0), "int4_symmetric", zero_point=-8),
            ValueError,
            "zero_point must be from -7 to 7, not -8",
        ),
        (
            lambda: requantize([1], ShiftRescale(0), low=3, high=2),
            ValueError,
            "high must be from 3 to 127, not 2",
        ),
        (
            lambda: requantize([1], ShiftRescale(0), "int3"),
            ValueError,
            (
                "output must be one of int8_full, int8_symmetric, uint8, int4_full, "
                "int4_symmetric, not 'int3'"
            ),
        ),
        (
            lambda: requantize([1, 2], ShiftRescale([1, 2, 3])),
            ValueError,
            "shift must broadcast to the sums' shape (2,), not (3,)",
        ),
        (
            lambda: requantize([1], 0.5),  # type: ignore[arg-type]
            TypeError,
            "rescale must be a FloatRescale, FixedRescale or ShiftRescale, not 0.5",
        ),
    ],
)
@pytest.mark.contract("I12")
def test_refusals(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
