"""Rounding of real numbers to element codes: every tie and its neighbours, in every format."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from format_codes import FLOATS, ML_DTYPES, all_codes, boundaries
from mxdot.model import E8M0, FORMATS
from mxdot.model.formats import FLOAT16, FLOAT64, FloatFormat, Specials
from rational.formats import encode_signed

DETERMINISTIC = ("nearest_even", "toward_zero")
BYTES = [name for name, fmt in FORMATS.items() if fmt.bits <= 8]


def oracle_codes(name, values, rounding, words=None):
    """Codes by the oracle of finite float64 values, a zero keeping its sign."""
    words = [None] * len(values) if words is None else words.tolist()
    return [
        encode_signed(name, int(np.signbit(x)), abs(Fraction(float(x))), rounding, word)
        for x, word in zip(values, words, strict=True)
    ]


@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.contract("Q7")
def test_encode_at_every_boundary(name, rounding):
    points = boundaries(name)
    got = FORMATS[name].encode(points, rounding)
    assert got.tolist() == oracle_codes(name, points, rounding)


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.contract("Q7")
def test_nearest_is_nearest(name):
    """No oracle's algorithm: no value near the chosen one is nearer, the even code wins."""
    fmt = FORMATS[name]
    codes = np.flatnonzero(np.isfinite(fmt.values) & (np.abs(fmt.values) <= fmt.largest_finite))
    codes = codes[np.argsort(fmt.values[codes], kind="stable")]
    values = [Fraction(float(fmt.values[code])) for code in codes]
    places = {int(code): place for place, code in enumerate(codes)}
    points = boundaries(name)
    for x, got in zip(points, fmt.encode(points).tolist(), strict=True):
        clamped = max(min(Fraction(float(x)), values[-1]), values[0])
        place = places[got]
        distance = abs(values[place] - clamped)
        # Two on each side, for there may be two zeros. Values farther off are farther from x.
        for near in range(max(place - 2, 0), min(place + 3, len(codes))):
            other = abs(values[near] - clamped)
            assert other >= distance
            if other == distance and values[near] != values[place]:
                assert got % 2 == 0


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_encodes_to_itself(name):
    fmt = FORMATS[name]
    codes = all_codes(name)
    special = np.isnan(fmt.values) | (np.isfinite(fmt.values) & (fmt.values < -fmt.largest_finite))
    for rounding in DETERMINISTIC:
        again = fmt.encode(fmt.values[codes[~special]], rounding)
        np.testing.assert_array_equal(again, codes[~special])


@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize("name", FORMATS)
def test_every_bfloat16(name, rounding):
    """All finite bfloat16 values equal the oracle, and ml_dtypes where that is defined.

    Exceptions: the ml_dtypes of E4M3 and E5M2 overflow to NaN and Inf where this model, as the
    contract says, saturates; and ml_dtypes has RNE only.
    """
    bits = np.arange(2**16, dtype=np.uint16)
    x = bits[bits & 0x7F80 != 0x7F80].view(ml_dtypes.bfloat16).astype(np.float64)
    got = FORMATS[name].encode(x, rounding)
    # Far outside the range of every format a sample is enough for the slow oracle.
    ordinary = (np.abs(x) > 2.0**-30) & (np.abs(x) < 2.0**30)
    chosen = ordinary | (np.arange(len(x)) % 97 == 0)
    assert got[chosen].tolist() == oracle_codes(name, x[chosen], rounding)
    if name in ML_DTYPES and rounding == "nearest_even":
        with np.errstate(over="ignore"):
            theirs = x.astype(np.float32).astype(ML_DTYPES[name])
        finite = np.isfinite(theirs.astype(np.float32))
        np.testing.assert_array_equal(got[finite], theirs.view(FORMATS[name].dtype)[finite])
        largest = FORMATS[name].largest_finite
        assert (np.abs(FORMATS[name].values[got[~finite]]) == largest).all()
        assert finite.all() == (name in ("e3m2", "e2m3", "e2m1", "bf16"))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.contract("F10", "Q8")
def test_saturates_and_keeps_signs(name):
    fmt = FORMATS[name]
    sign = 1 << (fmt.bits - 1)
    big = fmt.largest_code
    zeros = fmt.encode(np.array([0.0, -0.0, 1e-300, -1e-300]))
    assert zeros.tolist() == [0, sign, 0, sign]
    assert fmt.encode(np.array([1e300, -1e300])).tolist() == [big, big | sign]
    infinite = big if fmt.inf_code is None else fmt.inf_code
    assert fmt.encode(np.array([np.inf, -np.inf])).tolist() == [infinite, infinite | sign]


@pytest.mark.parametrize("name", ["e4m3fnuz", "e5m2fnuz"])
@pytest.mark.contract("F3", "F12")
def test_fnuz_has_one_zero_and_one_nan(name):
    fmt = FORMATS[name]
    got = fmt.encode(np.array([0.0, -0.0, 1e-300, -1e-300, 1e300, -1e300, np.inf, -np.inf]))
    assert got.tolist() == [0, 0, 0, 0, 0x7F, 0xFF, 0x7F, 0xFF]
    assert fmt.encode(np.array([np.nan, -np.nan])).tolist() == [0x80, 0x80]
    assert fmt.negated(np.array([0, 0x80, 0x7F, 0xFF], np.uint8)).tolist() == [0, 0x80, 0xFF, 0x7F]


@pytest.mark.contract("F6")
def test_int8_has_one_zero_and_no_minus_two():
    fmt = FORMATS["int8"]
    got = fmt.encode(np.array([0.0, -0.0, -1e-9, -2.0, -np.inf, np.inf, -1.0, 1.992]))
    assert got.tolist() == [0, 0, 0, 0x81, 0x81, 0x7F, 0xC0, 0x7F]


@pytest.mark.contract("F11")
def test_nan():
    nans = np.array([np.nan, -np.nan])
    assert FORMATS["e4m3"].encode(nans).tolist() == [0x7F, 0x7F]
    assert FORMATS["e5m2"].encode(nans).tolist() == [0x7E, 0x7E]
    for name in ("e3m2", "e2m3", "e2m1", "int8", "int4"):
        with pytest.raises(ValueError, match=rf"^values must hold no NaN: format {name} has none$"):
            FORMATS[name].encode(nans)


# Stochastic rounding ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.contract("Q8")
def test_stochastic_equals_the_oracle(name):
    rng = np.random.default_rng(1)
    points = np.concatenate([boundaries(name)] * 3)
    thresholds = np.array([0, 1, 2**30, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    edge = rng.random(len(points)) < 0.5
    words = np.where(edge, rng.choice(thresholds, len(points)), rng.integers(0, 2**32, len(points)))
    words = words.astype(np.uint32)
    got = FORMATS[name].encode(points, "stochastic", words)
    assert got.tolist() == oracle_codes(name, points, "stochastic", words)


def test_stochastic_rounds_up_in_proportion():
    words = (np.arange(4096, dtype=np.uint64) << 20).astype(np.uint32)  # evenly over 2^32
    for quarters in range(5):
        x = np.full(4096, 1 + quarters / 4 * 0.125)
        up = FORMATS["e4m3"].encode(x, "stochastic", words) == 0x39
        assert up.sum() == 1024 * quarters


def test_stochastic_needs_words():
    e4m3, x = FORMATS["e4m3"], np.zeros((2, 3))
    for random, got in [
        (None, "None"),
        (np.zeros((2, 3), np.uint64), r"uint64 \(2, 3\)"),
        (np.zeros(6, np.uint32), r"uint32 \(6,\)"),
    ]:
        match = rf"^random must be uint32 words of shape \(2, 3\), not {got}$"
        with pytest.raises(ValueError, match=match):
            e4m3.encode(x, "stochastic", random)
    with pytest.raises(
        ValueError,
        match=r"^rounding must be one of nearest_even, toward_zero, stochastic, not 'up'$",
    ):
        e4m3.encode(x, "up")


@given(x=st.floats(allow_nan=False), name=st.sampled_from(sorted(FORMATS)))
def test_any_float64(x, name):
    for rounding in DETERMINISTIC:
        got = int(FORMATS[name].encode(x, rounding))
        infinity = FORMATS[name].inf_code
        if np.isinf(x) and infinity is not None:
            assert got == infinity | (x < 0) << (FORMATS[name].bits - 1)
        else:
            finite = float(np.clip(x, -1e300, 1e300))
            assert [got] == oracle_codes(name, [finite], rounding)


def wide_floats():
    """float64 of all magnitudes, subnormal ones, zeros and the largest among them."""
    rng = np.random.default_rng(11)
    bits = rng.integers(-(2**63), 2**63, 20_000, np.int64)
    bits[:5000] &= np.int64(-(2**63) | 2**53 - 1)  # subnormal, or nearly
    x = bits.view(np.float64)
    return np.concatenate([x[np.isfinite(x)], [0.0, -0.0, np.finfo(np.float64).max, 5e-324]])


def test_encode_of_float64_is_itself():
    x = np.concatenate([wide_floats(), [np.inf, -np.inf]])
    for rounding in DETERMINISTIC:
        got = FLOAT64.encode(x, rounding)
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got.view(np.int64), x.view(np.int64))
    assert np.isnan(FLOAT64.encode(np.nan))


@pytest.mark.parametrize("mantissa_bits", [1, 20, 51])
def test_encode_of_eleven_exponent_bits(mantissa_bits):
    """RNE and RZ of the bits of float64: fewer fraction bits, of subnormals too."""
    fmt = FloatFormat("wide", 11, mantissa_bits, Specials.IEEE)
    x = wide_floats()
    bits, discarded = x.view(np.uint64) & np.uint64(2**63 - 1), np.uint64(52 - mantissa_bits)
    one = np.uint64(1)
    half = (one << (discarded - one)) - one + (bits >> discarded & one)
    sign = np.signbit(x).astype(np.uint64) << np.uint64(11 + mantissa_bits)
    top = np.uint64(fmt.largest_code)
    for rounding, rounded in (("nearest_even", bits + half), ("toward_zero", bits)):
        got = fmt.encode(x, rounding)
        assert got.dtype == fmt.dtype
        want = np.minimum(rounded >> discarded, top) | sign
        np.testing.assert_array_equal(got.astype(np.uint64), want)


@pytest.mark.parametrize("fmt", [*FORMATS.values(), FLOAT16, E8M0], ids=str)
def test_a_scalar_gives_a_scalar(fmt):
    """NumPy's functions do the same: they return no arrays without axes."""
    assert isinstance(fmt.encode(1), fmt.dtype.type)
    assert isinstance(fmt.encode(np.ones(())), fmt.dtype.type)
    assert fmt.encode([1]).shape == (1,)
