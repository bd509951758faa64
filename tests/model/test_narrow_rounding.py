"""Floats of 16 bits: every value, every midpoint and what lies beside them, by both roundings."""

import numpy as np
import pytest

from mxdot.model import rounding
from mxdot.model.outputs import BFLOAT16, FLOAT16, convert
from rational.formats import pow2

NARROW = [BFLOAT16, FLOAT16]


def grid(fmt):
    """The value of each finite code without a sign, exact, and the power of two that ends them.

    By NumPy's and ml_dtypes' own types; the first and the last few by rational arithmetic.
    """
    codes = np.arange((2**fmt.exponent_bits - 1) << fmt.mantissa_bits, dtype=np.uint16)
    values = codes.view(fmt.dtype).astype(np.float64)
    steps = pow2(fmt.emin - fmt.mantissa_bits)
    subnormal = 2 ** (fmt.mantissa_bits + 1)  # and the first binade, as finely
    assert all(values[code] == code * steps for code in range(subnormal))
    assert values[-1] == (2 - pow2(-fmt.mantissa_bits)) * pow2(fmt.emax)
    return np.append(values, 2.0 ** (fmt.emax + 1))


def cases(fmt):
    """(values, what each rounds to by RNE, toward zero), positive."""
    values = grid(fmt)
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2  # exact, and so are the values beside it
    even = np.where(np.arange(len(low)) % 2 == 0, low, high)
    infinite = np.where(high == values[-1], np.inf, high)
    even = np.where(even == values[-1], np.inf, even)
    below, above = np.nextafter(middle, 0), np.nextafter(middle, np.inf)
    parts = [
        (low, low, low),
        (np.nextafter(low, np.inf), low, low),
        (below, low, low),
        (middle, even, low),
        (above, infinite, low),
        (np.nextafter(high, 0), infinite, low),
        (values[-1:], np.array([np.inf]), np.array([np.inf])),
    ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def differences(fmt):
    """How many of the cases, of both signs, each rounding gets wrong."""
    x, nearest, cut = cases(fmt)
    wrong = {}
    for name, got, want in (
        ("nearest_even", rounding.nearest_even, nearest),
        ("toward_zero", rounding.toward_zero_in, cut),
    ):
        results = [sign * got(sign * x, fmt).astype(np.float64) for sign in (1.0, -1.0)]
        wrong[name] = sum(int((result != want).sum()) for result in results)
    return wrong


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_running_values_of_16_bits(fmt):
    assert differences(fmt) == {"nearest_even": 0, "toward_zero": 0}


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_results_of_16_bits(fmt):
    """float32 inputs: every midpoint, and its float32 neighbours."""
    values = grid(fmt)
    low, high = values[:-1], values[1:]
    middle = ((low + high) / 2).astype(np.float32)
    even = np.arange(len(low)) % 2
    moves = np.array([-1, 0, 1])
    bits = middle.view(np.uint32).astype(np.int64)[:, None] + moves
    codes = np.arange(len(low))[:, None] + np.stack([0 * even, even, 0 * even + 1], axis=1)
    got = convert(bits.astype(np.uint32).view(np.float32), fmt).view(np.uint16)
    np.testing.assert_array_equal(got, codes)
    negative = convert(-bits.astype(np.uint32).view(np.float32), fmt).view(np.uint16)
    np.testing.assert_array_equal(negative, np.where(codes, codes | 1 << 15, 0))


@pytest.mark.parametrize("fmt", NARROW, ids=str)
@pytest.mark.parametrize("places", [-1, 1])
def test_a_wrong_grid_of_subnormals_is_caught(fmt, places, monkeypatch):
    """One bit too fine, one bit too coarse."""
    right = rounding._narrowed

    def narrowed(x, fmt, to_integers):
        exponent = np.frexp(np.abs(x))[1] - 1
        unit = np.ldexp(1.0, fmt.emin - fmt.mantissa_bits + places)
        subnormal = np.where(exponent < fmt.emin, x, 0.0)
        wrong = (to_integers(subnormal / unit) * unit).astype(np.float32)
        return np.where(exponent < fmt.emin, wrong, right(x, fmt, to_integers))

    monkeypatch.setattr(rounding, "_narrowed", narrowed)
    assert all(count > 0 for count in differences(fmt).values())


def test_a_wrong_end_of_the_range_is_caught(monkeypatch):
    """Infinite one binade too late; of bfloat16 float32 has no such binade."""
    fmt, right = FLOAT16, rounding._narrowed

    def narrowed(x, _, to_integers):
        late = right(x / 2.0, fmt, to_integers) * np.float32(2)
        return np.where(np.abs(x) >= 2.0**fmt.emax, late, right(x, fmt, to_integers))

    monkeypatch.setattr(rounding, "_narrowed", narrowed)
    assert all(count > 0 for count in differences(fmt).values())
