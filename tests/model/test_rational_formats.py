"""Hand-checked facts that pin the oracle's formats, and its and the model's quantisation."""

import random
from fractions import Fraction

import numpy as np
import pytest

from compare import FULL
from format_codes import ML_DTYPES
from rational import formats as rational_formats
from rational.by_hand import INF, MAX_FINITE, MINUS_INF, bits
from rational.dot import NAN
from rational.formats import FORMATS, Status, decode, encode, encode_float32, round_float32, value

OF_ML_DTYPES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


# Section 1: the format table --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "bias", "emax", "largest", "smallest"),
    [
        ("e4m3", 7, 8, 448, Fraction(1, 2**9)),
        ("e5m2", 15, 15, 57344, Fraction(1, 2**16)),
        ("e3m2", 3, 4, 28, Fraction(1, 2**4)),
        ("e2m3", 1, 2, Fraction(15, 2), Fraction(1, 2**3)),
        ("e2m1", 1, 2, 6, Fraction(1, 2)),
        ("int8", 0, 0, Fraction(127, 64), Fraction(1, 64)),
    ],
)
def test_format_table(fmt, bias, emax, largest, smallest):
    row = FORMATS[fmt]
    assert (row.bias, row.emax, row.largest) == (bias, emax, largest)
    finite = [value(fmt, c) for c in range(1 << row.bits) if len(decode(fmt, c)) == 3]
    assert max(finite) == largest
    assert min(x for x in finite if x > 0) == smallest
    assert rational_formats.floor_log2(Fraction(largest)) == emax


def test_decode_worked_examples():
    assert decode("e4m3", 0x7E) == (0, 14, 5)
    assert decode("e4m3", 0x01) == (0, 1, -9)
    assert decode("e4m3", 0x80) == (1, 0, -9)
    assert decode("e5m2", 0x7B) == (0, 7, 13)
    assert decode("e2m1", 0xF) == (1, 3, 1)
    assert decode("int8", 0x80) == (1, 128, -6)
    assert decode("int8", 0xFF) == (1, 1, -6)
    assert value("int8", 0x80) == -2


def test_special_codes():
    def special(fmt):
        return {c: decode(fmt, c) for c in range(256) if len(decode(fmt, c)) < 3}

    assert special("e4m3") == dict.fromkeys((0x7F, 0xFF), ("nan",))
    nans = dict.fromkeys((0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF), ("nan",))
    assert special("e5m2") == {0x7C: ("inf", 0), 0xFC: ("inf", 1)} | nans
    assert special("int8") == {}
    for fmt in ("e3m2", "e2m3", "e2m1"):
        assert all(len(decode(fmt, c)) == 3 for c in range(1 << FORMATS[fmt].bits))


@pytest.mark.parametrize("fmt", OF_ML_DTYPES)
def test_decode_agrees_with_ml_dtypes(fmt):
    for code in range(1 << FORMATS[fmt].bits):
        theirs = np.uint8(code).view(ML_DTYPES[fmt]).astype(np.float64)
        match decode(fmt, code):
            case ("nan",):
                assert np.isnan(theirs)
            case ("inf", sign):
                assert theirs == (-np.inf if sign else np.inf)
            case (sign, significand, exponent):
                assert theirs == (-1) ** sign * significand * 2.0**exponent
                assert np.signbit(theirs) == sign


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_finite_code_encodes_to_itself(fmt):
    """All codes of TF32 with FULL=1, otherwise an odd share."""
    step = 23 if fmt == "tf32" and not FULL else 1
    for code in range(0, 1 << FORMATS[fmt].bits, step):
        element = decode(fmt, code)
        if (
            len(element) == 3
            and element[1] != 0
            and (fmt, code) not in (("int8", 0x80), ("int5", 16), ("int4", 8), ("int3", 4))
        ):
            for rounding in ("nearest_even", "toward_zero"):
                assert encode(fmt, value(fmt, code), rounding) == code


@pytest.mark.parametrize("fmt", OF_ML_DTYPES)
def test_rounding_between_neighbours(fmt):
    """At every midpoint, and just beside it, for both signs."""
    largest = encode(fmt, FORMATS[fmt].largest, "toward_zero")
    negative = 1 << (FORMATS[fmt].bits - 1)
    for low in range(largest):
        middle = (value(fmt, low) + value(fmt, low + 1)) / 2
        eps = middle / 2**15  # float32 holds middle +- eps
        even = low + low % 2
        for x, nearest in ((middle - eps, low), (middle, even), (middle + eps, low + 1)):
            assert encode(fmt, x, "nearest_even") == nearest
            assert encode(fmt, -x, "nearest_even") == nearest | negative
            assert encode(fmt, x, "toward_zero") == low
            assert np.float32(x).astype(ML_DTYPES[fmt]).view(np.uint8) == nearest


def test_encode_saturates_and_keeps_the_sign_of_zero():
    for fmt, largest in (("e4m3", 0x7E), ("e5m2", 0x7B), ("e3m2", 0x1F), ("e2m1", 0x7)):
        assert encode(fmt, Fraction(10**9), "nearest_even") == largest
    assert encode("e4m3", Fraction(470), "nearest_even") == 0x7E
    assert encode("e4m3", Fraction(-1, 2**20), "nearest_even") == 0x80
    assert encode("int8", Fraction(-1, 2**20), "nearest_even") == 0x00
    assert encode("int8", Fraction(-2), "nearest_even") == 0x81
    assert encode("int8", Fraction(5, 128), "nearest_even") == 0x02
    assert encode("int8", Fraction(-7, 128), "nearest_even") == 0xFC


@pytest.mark.contract("Q8")
def test_stochastic_rounding_compares_with_the_word():
    def up(x, word):
        return value("e2m1", encode("e2m1", x, "stochastic", word))

    assert up(Fraction(5, 4), 2**31) == Fraction(3, 2)
    assert up(Fraction(5, 4), 2**31 - 1) == 1
    assert up(Fraction(-5, 4), 2**31) == Fraction(-3, 2)
    assert up(Fraction(11, 8), 2**30) == Fraction(3, 2)
    assert up(Fraction(1), 2**32 - 1) == 1
    # Less than 2^-32 of a step above 1 is cut off; exactly 2^-32 of a step is seen.
    assert up(1 + Fraction(1, 2**34), 2**32 - 1) == 1
    assert up(1 + Fraction(1, 2**33), 2**32 - 1) == Fraction(3, 2)
    assert up(Fraction(7), 2**32 - 1) == 6
    with pytest.raises(ValueError, match="random_bits"):
        encode("e2m1", Fraction(1), "stochastic")


# Section 2: quantisation ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "amax", "floor", "even", "ceil"),
    [
        ("e4m3", 448, 0, 0, 0),
        ("e4m3", 449, 0, 0, 1),
        ("e4m3", 480, 0, 0, 1),
        ("e4m3", 495.9375, 0, 0, 1),
        ("e4m3", 496, 0, 1, 1),
        ("e4m3", 512, 1, 1, 1),
        ("e4m3", 256, 0, 0, 0),
        ("e4m3", 1, -8, -8, -8),
        ("e5m2", 57344, 0, 0, 0),
        ("e5m2", 57345, 0, 0, 1),
        ("e5m2", 61440, 0, 1, 1),
        ("e3m2", 30, 0, 1, 1),
        ("e2m3", 7.5, 0, 0, 0),
        ("e2m3", 7.75, 0, 1, 1),
        ("e2m1", 6, 0, 0, 0),
        ("e2m1", 6.5, 0, 0, 1),
        ("e2m1", 7, 0, 1, 1),
        ("int8", 1, 0, 0, 0),
        ("int8", 127 / 64, 0, 0, 0),
        ("int8", 127.25 / 64, 0, 0, 1),
        ("int8", 127.5 / 64, 0, 1, 1),
        ("int8", 2.0**-10, -10, -10, -10),
    ],
)
def test_scale_rules(quantize_block, fmt, amax, floor, even, ceil):
    rules = {"floor": floor, "even": even, "ceil": ceil, "twice": floor + 1}
    for rule, exponent in rules.items():
        scale, _ = quantize_block([bits(-amax), bits(0)], fmt, rule, "nearest_even", "poison")
        assert scale == 127 + exponent, rule


def test_quantised_elements(quantize_block):
    xs = [500.0, -500.0, 1.0, -0.0, 2.0**-20, -(2.0**-20)]
    block_of = [bits(x) for x in xs]
    assert quantize_block(block_of, "e4m3", "floor", "nearest_even", "poison") == (
        127, [0x7E, 0xFE, 0x38, 0x80, 0x00, 0x80],
    )  # fmt: skip
    assert quantize_block(block_of, "e4m3", "ceil", "nearest_even", "poison") == (
        128, [0x78, 0xF8, 0x30, 0x80, 0x00, 0x80],
    )  # fmt: skip
    assert quantize_block(block_of, "e4m3", "ceil", "toward_zero", "poison") == (
        128, [0x77, 0xF7, 0x30, 0x80, 0x00, 0x80],
    )  # fmt: skip
    assert quantize_block([bits(1.999), bits(-1.999), bits(-0.0)], "int8", "floor",
                          "nearest_even", "poison") == (127, [0x7F, 0x81, 0])  # fmt: skip
    assert quantize_block([bits(5.0), bits(6.0)], "e2m1", "floor", "stochastic", "poison",
                          [2**31, 2**31 - 1]) == (127, [0x7, 0x7])  # fmt: skip


@pytest.mark.contract("Q6")
def test_scale_ends(quantize_block):
    for fmt, minus_zero in (("e2m1", 8), ("e4m3", 0x80), ("int8", 0)):
        zeros = quantize_block([0, 0x80000000], fmt, "ceil", "nearest_even", "poison")
        assert zeros == (0, [0, minus_zero])
    # 2^-149 lies far below the smallest element at the smallest scale.
    assert quantize_block([1], "e2m1", "floor", "nearest_even", "poison") == (0, [0])
    assert quantize_block([0x80000001], "e5m2", "ceil", "nearest_even", "poison") == (0, [0x80])
    # A subnormal amax counts with its own leading bit: 2^-127 = 2^(0 - 127), clamped or not.
    assert quantize_block([0x00400000], "int8", "floor", "nearest_even", "poison") == (0, [0x40])
    assert quantize_block([bits(2.0**-126)], "e5m2", "floor", "nearest_even", "poison") == (
        0, [0x40],
    )  # fmt: skip
    assert quantize_block([MAX_FINITE], "e4m3", "floor", "nearest_even", "poison") == (246, [0x7E])
    assert quantize_block([MAX_FINITE], "int8", "ceil", "nearest_even", "poison") == (254, [0x7F])


@pytest.mark.contract("Q9", "Q10")
def test_nonfinite_policies(quantize_block):
    xs = [bits(448.0), INF, MINUS_INF, 0xFFC00001]

    def quantised(values, fmt, nonfinite):
        return quantize_block(values, fmt, "floor", "nearest_even", nonfinite)

    assert quantised(xs, "e4m3", "poison") == (0xFF, [0, 0, 0, 0])
    assert quantised(xs, "e4m3", "element") == (127, [0x7E, 0x7E, 0xFE, 0x7F])
    scale, elements = quantised(xs, "e5m2", "element")
    assert (scale, elements[1:]) == (127 + 8 - 15, [0x7C, 0xFC, 0x7E])
    for fmt in ("e3m2", "e2m3", "e2m1", "int8"):
        assert quantised(xs, fmt, "element") == (0xFF, [0, 0, 0, 0])
    assert quantised([INF, MINUS_INF], "e2m1", "element") == (0, [0x7, 0xF])
    assert quantised([INF, MINUS_INF, 0], "int8", "element") == (0, [0x7F, 0x81, 0])


# float32 ----------------------------------------------------------------------------------------


def test_round_float32_agrees_with_numpy():
    rng = random.Random(1)
    for _ in range(2000):
        x = rng.choice((-1, 1)) * rng.getrandbits(rng.choice((24, 25, 26, 40, 53)))
        x *= 2.0 ** rng.choice((rng.randint(-220, 90), rng.randint(-180, -140)))
        with np.errstate(over="ignore", under="ignore"):
            theirs = np.float32(x)
        ours = round_float32(Fraction(x), "nearest_even", Status())
        assert encode_float32(ours, NAN) == int((theirs + 0).view(np.uint32))


def test_float32_codes_round_trip():
    for code in (1, 0x007FFFFF, 0x00800000, 0x3F800000, MAX_FINITE, INF, 0x80000001, MINUS_INF):
        assert encode_float32(rational_formats.decode_float32(code), NAN) == code
    assert rational_formats.decode_float32(0x3FC00000) == Fraction(3, 2)
    assert rational_formats.decode_float32(0x80000001) == -Fraction(1, 2**149)
    assert rational_formats.decode_float32(0xFF800001) is rational_formats.Special.NAN
