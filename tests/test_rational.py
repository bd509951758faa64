"""Hand-checked facts that pin the rational oracle itself; sections are those of the contract."""

import random
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import rational
from rational import decode, dot, encode, quantize_block, value

ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
PRESETS = ("hopper", "hopper-promoted", "hopper-mx", "hopper-fp16", "ada", "blackwell")
ACCUMULATORS = (
    "exact", "aligned:13", "fused:25", "fixed:48:-20", "fixed:48:-20:wrap", "float32", *PRESETS,
)  # fmt: skip
UNIT = 127
INF, MINUS_INF, NAN, PRESET_NAN = 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FFFFFFF
MAX_FINITE = 0x7F7FFFFF


def bits(x: float | Fraction) -> int:
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


def codes(fmt: str, xs) -> list[int]:
    """The codes of numbers that the format holds exactly."""
    result = [encode(fmt, Fraction(x), "nearest_even") for x in xs]
    assert [value(fmt, code) for code in result] == list(xs)
    return result


def block(fmt: str, xs, ys=None, s: int = 0, fmt_b: str | None = None):
    """A block of exactly held numbers (ys: ones) at scale 2^s."""
    ys = [1] * len(xs) if ys is None else ys
    half = s // 2
    return codes(fmt, xs), codes(fmt_b or fmt, ys), UNIT + half, UNIT + s - half


def flags(result: rational.Result) -> set[str]:
    return {name for name in result._fields[1:] if getattr(result, name)}


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
    row = rational.FORMATS[fmt]
    assert (row.bias, row.emax, row.largest) == (bias, emax, largest)
    finite = [value(fmt, c) for c in range(1 << row.bits) if len(decode(fmt, c)) == 3]
    assert max(finite) == largest
    assert min(x for x in finite if x > 0) == smallest
    assert rational.floor_log2(Fraction(largest)) == emax


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
        assert all(len(decode(fmt, c)) == 3 for c in range(1 << rational.FORMATS[fmt].bits))


@pytest.mark.parametrize("fmt", ML_DTYPES)
def test_decode_agrees_with_ml_dtypes(fmt):
    for code in range(1 << rational.FORMATS[fmt].bits):
        theirs = np.uint8(code).view(ML_DTYPES[fmt]).astype(np.float64)
        match decode(fmt, code):
            case ("nan",):
                assert np.isnan(theirs)
            case ("inf", sign):
                assert theirs == (-np.inf if sign else np.inf)
            case (sign, significand, exponent):
                assert theirs == (-1) ** sign * significand * 2.0**exponent
                assert np.signbit(theirs) == sign


@pytest.mark.parametrize("fmt", rational.FORMATS)
def test_every_finite_code_encodes_to_itself(fmt):
    for code in range(1 << rational.FORMATS[fmt].bits):
        element = decode(fmt, code)
        if len(element) == 3 and element[1] != 0 and (fmt, code) != ("int8", 0x80):
            for rounding in ("nearest_even", "toward_zero"):
                assert encode(fmt, value(fmt, code), rounding) == code


@pytest.mark.parametrize("fmt", ML_DTYPES)
def test_rounding_between_neighbours(fmt):
    """At every midpoint, and just beside it, for both signs."""
    largest = encode(fmt, rational.FORMATS[fmt].largest, "toward_zero")
    negative = 1 << (rational.FORMATS[fmt].bits - 1)
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
        ("e5m2", 57344, 0, 0, 0),
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
def test_scale_rules(fmt, amax, floor, even, ceil):
    for rule, exponent in (("floor", floor), ("even", even), ("ceil", ceil)):
        scale, _ = quantize_block([bits(-amax), bits(0)], fmt, rule, "nearest_even", "poison")
        assert scale == 127 + exponent, rule


def test_quantised_elements():
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


def test_scale_ends():
    assert quantize_block([0, 0x80000000], "e2m1", "ceil", "nearest_even", "poison") == (0, [0, 8])
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


def test_nonfinite_policies():
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
        ours = rational.round_float32(Fraction(x), "nearest_even", rational.Status())
        assert rational.encode_float32(ours, NAN) == int((theirs + 0).view(np.uint32))


def test_float32_codes_round_trip():
    for code in (1, 0x007FFFFF, 0x00800000, 0x3F800000, MAX_FINITE, INF, 0x80000001, MINUS_INF):
        assert rational.encode_float32(rational.decode_float32(code), NAN) == code
    assert rational.decode_float32(0x3FC00000) == Fraction(3, 2)
    assert rational.decode_float32(0x80000001) == -Fraction(1, 2**149)
    assert rational.decode_float32(0xFF800001) is rational.Special.NAN


# Section 3: special values ----------------------------------------------------------------------


@pytest.mark.parametrize("accumulator", ACCUMULATORS)
def test_special_values(accumulator):
    nan = PRESET_NAN if accumulator in PRESETS else NAN

    def of(codes_a, codes_b, scales=(UNIT, UNIT), c=0, more=()):
        return dot("e5m2", "e5m2", [(codes_a, codes_b, *scales), *more], accumulator, c)

    inf, minus_inf, nan_code, one, zero, minus_zero = 0x7C, 0xFC, 0x7E, 0x3C, 0x00, 0x80
    minus_inf_block = ([minus_inf], [one], UNIT, UNIT)
    one_block = ([one], [one], UNIT, UNIT)
    assert of([inf, one], [one, one]) == (INF, False, False, False, False, False)
    assert of([inf, one], [0xBC, one]).bits == MINUS_INF
    assert of([inf], [inf]).bits == INF
    assert of([minus_inf], [minus_inf]).bits == INF
    assert of([inf, inf], [one, one], more=[one_block]).bits == INF
    for result in (
        of([nan_code, one], [one, one]),
        of([nan_code], [zero]),
        of([nan_code], [inf]),
        of([inf], [zero]),
        of([minus_zero], [inf]),
        of([inf, minus_inf], [one, one]),
        of([inf], [one], more=[one_block, minus_inf_block]),
        of([one], [one], scales=(0xFF, UNIT)),
        of([one], [one], scales=(UNIT, 0xFF)),
        of([zero], [zero], scales=(0, 0xFF)),
        of([one], [one], c=0x7F800001),
        of([one], [one], c=0xFFC00000, more=[one_block]),
        of([minus_inf], [one], c=INF),
        of([inf, one], [one, one], c=MINUS_INF),
    ):
        assert result == (nan, True, False, False, False, False)
    assert of([one], [one], c=MINUS_INF).bits == MINUS_INF
    assert of([inf], [one], c=INF).bits == INF


@pytest.mark.parametrize("accumulator", ACCUMULATORS)
def test_zero_is_positive(accumulator):
    minus_zeros = ([0x80] * 32, [0x38] * 32, UNIT, UNIT)
    for c in (0, 0x80000000):
        assert dot("e4m3", "e4m3", [minus_zeros], accumulator, c) == (0,) + (False,) * 5
    cancelling = block("e4m3", [3, -3])
    assert dot("e4m3", "e4m3", [cancelling], accumulator) == (0,) + (False,) * 5
    assert dot("e4m3", "e4m3", [cancelling], accumulator, 0x80000000).bits == 0


def test_special_step_raises_no_flags_but_earlier_ones_stand():
    lossy = block("e5m2", [2**15, 1], [2**15, 1])
    infinite = ([0x7C, 0x3C], [0x3C, 0x3C], UNIT, UNIT)
    assert flags(dot("e5m2", "e5m2", [lossy], "fused:13")) == {"inexact"}
    assert dot("e5m2", "e5m2", [lossy, infinite], "fused:13") == (
        INF, False, False, False, True, False,
    )  # fmt: skip
    assert flags(dot("e5m2", "e5m2", [infinite, lossy], "fused:13")) == set()
    assert flags(dot("e5m2", "e5m2", [lossy], "fused:13", PRESET_NAN)) == {"invalid"}


# Section 4: accumulators ------------------------------------------------------------------------


def tensor_core(xs, ys, accumulator="hopper", fmt="e5m2", c=0.0):
    return dot(fmt, fmt, [block(fmt, xs, ys)], accumulator, bits(c))


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
@pytest.mark.parametrize("accumulator", ["hopper", "hopper-promoted", "fused:13"])
def test_hopper_facts(fmt, accumulator):
    def result(small, count):
        xs = [256] + [small] * count + [0] * (31 - count)
        return tensor_core(xs, [256] + [1] * 31, accumulator, fmt)

    assert result(8, 1)[::4] == (bits(2.0**16 + 8), False)
    assert result(7, 31)[::4] == (bits(2.0**16), True)
    assert result(-7, 31)[::4] == (bits(2.0**16), True)
    assert result(8, 31)[::4] == (bits(2.0**16 + 248), False)
    assert result(-8, 31)[::4] == (bits(2.0**16 - 248), False)


def test_zero_product_takes_no_part_in_the_largest_exponent():
    tiny = Fraction(1, 2**9)
    for accumulator in ACCUMULATORS:
        if not accumulator.startswith("fixed"):
            result = tensor_core([448, tiny], [0, tiny], accumulator, "e4m3")
            assert result == (bits(2.0**-18), *(False,) * 5)


def test_cancelled_c_takes_no_part_in_the_largest_exponent():
    blocks = [block("e5m2", [2**10]), block("e5m2", [-(2**10)]), block("e5m2", [2**-16], [2**-16])]
    assert dot("e5m2", "e5m2", blocks, "hopper").bits == bits(2.0**-32)


def test_hopper_truncates_c_alone():
    def alone(c, accumulator="hopper"):
        return dot("e4m3", "e4m3", [block("e4m3", [0] * 32)], accumulator, c)

    assert alone(0x3FFFFFFF)[::4] == (0x3FFFFC00, True)
    assert alone(0xBFFFFFFF)[::4] == (0xBFFFFC00, True)
    assert alone(0x000007FF)[::4] == (0x00000400, True)
    assert alone(0x800003FF)[::4] == (0, True)
    assert alone(0x00000400)[::4] == (0x00000400, False)
    assert alone(0x00FFFFFF)[::4] == (0x00FFFC00, True)
    assert alone(0x000007FF, "fused:13")[::4] == (0x00000400, True)
    assert alone(0x3FFFFFFF, "blackwell")[::4] == (0x3FFFFFFF, False)
    assert alone(0x80000001, "blackwell")[::4] == (0x80000001, False)
    # Promoted, c is no part of the tensor core's sum.
    assert alone(0x3FFFFFFF, "hopper-promoted")[::4] == (0x3FFFFFFF, False)


@pytest.mark.parametrize("accumulator", ["hopper", "hopper-promoted", "ada"])
def test_result_has_13_fraction_bits(accumulator):
    # The 8 lies on the grid of the sum, 2^16 x 2^-13, but not among the result's 13 bits.
    xs, ys = [256] * 15 + [8], [256] * 15 + [1]
    assert tensor_core(xs, ys, accumulator)[::4] == (bits(15 * 2.0**16), True)
    assert tensor_core(xs, ys, "fused:13")[::4] == (bits(15 * 2.0**16 + 8), False)


def test_steps_of_the_presets():
    # Two products cancel; only a later step can see the small one.
    def seen(accumulator, place, k, x=Fraction(7)):
        xs = [256, -256] + [0] * (k - 2)
        xs[place] = x
        return tensor_core(xs, [256, 256] + [1] * (k - 2), accumulator).bits == bits(x)

    assert [seen("hopper", place, 128) for place in (31, 32, 127)] == [False, True, True]
    assert [seen("hopper", place, 48) for place in (16, 31, 32, 47)] == [False, False, True, True]
    assert [seen("ada", place, 32) for place in (15, 16, 31)] == [False, True, True]
    assert [seen("fused:13", place, 48) for place in (16, 47)] == [False, False]
    tiny = Fraction(1, 2**10)
    assert [seen("blackwell", place, 64, tiny) for place in (31, 32)] == [False, True]
    # Never across blocks: k = 8 is a step of its own.
    blocks = [block("e5m2", [256, -256] + [0] * 6, [256] * 8), block("e5m2", [7] + [0] * 7)]
    assert dot("e5m2", "e5m2", blocks, "hopper").bits == bits(7.0)


def test_promotion_after_128_elements():
    def chain(k, places, accumulator="hopper-promoted"):
        blocks, first = [], 0
        while first <= max(places):
            xs = [7 if first + i in places else 0 for i in range(k)]
            ys = [1] * k
            if first == 0:
                xs[0], ys[0] = 256, 256
            blocks.append(block("e5m2", xs, ys))
            first += k
        return dot("e5m2", "e5m2", blocks, accumulator).bits - bits(2.0**16)

    seven = bits(2.0**16 + 7) - bits(2.0**16)
    for k in (8, 32, 64, 128, 256):
        assert chain(k, {127}) == 0
        assert chain(k, {128}) == seven
        assert chain(k, {128}, "hopper") == 0
    # Blocks of 96 are three steps; the fourth step, elements 96 to 127, promotes.
    assert chain(96, {96 + 31}) == 0
    assert chain(96, {96 + 32}) == seven
    # Blocks of 48 are steps of 32 and 16: 48, 96, and the next step of 32 reaches 128.
    assert chain(48, {127}) == 0
    assert chain(48, {128}) == seven
    # Blocks of 56 are steps of 32 and 24: 56, 112, 144.
    assert chain(56, {143}) == 0
    assert chain(56, {144}) == seven


def test_promotion_rounds_to_nearest_even():
    assert tensor_core([1], [1], "hopper-promoted", c=2.0**24).bits == bits(2.0**24)
    assert tensor_core([3], [1], "hopper-promoted", c=2.0**24).bits == bits(2.0**24 + 4)
    assert flags(tensor_core([3], [1], "hopper-promoted", c=2.0**24)) == {"inexact"}


def test_blackwell_keeps_25_fraction_bits():
    def result(small, count):
        xs, ys = [256] + [small] * count, [256] + [1] * count
        return tensor_core(xs, ys, "blackwell")

    ulp = 2.0**-7  # of 2^16
    assert result(Fraction(1, 2**9), 4)[::4] == (bits(2.0**16 + ulp), False)
    assert result(Fraction(1, 2**9), 7)[::4] == (bits(2.0**16 + ulp), True)
    assert result(Fraction(1, 2**10), 8)[::4] == (bits(2.0**16), True)
    # Negative terms: an exact sum just below 2^16, truncated toward zero.
    assert result(-Fraction(1, 2**9), 1)[::4] == (bits(2.0**16 - ulp / 2), True)


def test_scales_join_first_in_fused_and_last_in_aligned():
    # 7 x 2^-3 lies on the grid of 2^16 x 2^-3; beside c = 2^16 it does not.
    one = block("e5m2", [8], s=-3)
    assert dot("e5m2", "e5m2", [one], "fused:13", bits(2.0**16)).bits == bits(2.0**16)
    assert dot("e5m2", "e5m2", [one], "aligned:13", bits(2.0**16)).bits == bits(2.0**16 + 1)
    up = block("e5m2", [8], s=3)
    assert dot("e5m2", "e5m2", [up], "fused:13", bits(2.0**16 + 7)).bits == bits(2.0**16 + 64)
    assert dot("e5m2", "e5m2", [up], "aligned:13", bits(2.0**16 + 7)).bits == bits(2.0**16 + 71)


def test_aligned_truncates_terms_then_the_sum():
    assert tensor_core([256, 7], [256, 1], "aligned:13")[::4] == (bits(2.0**16), True)
    assert tensor_core([256, 7], [256, 1], "aligned:14")[::4] == (bits(2.0**16 + 4), True)
    assert tensor_core([256, -7], [256, 1], "aligned:14")[::4] == (bits(2.0**16 - 4), True)
    # F = 30 keeps 25 significant bits of the sum, of which D keeps 24.
    assert tensor_core([2**12, 1.5], [2**12, 1], "aligned:30")[::4] == (bits(2.0**24), True)
    assert tensor_core([2**12, 1.5], [2**12, 1], "exact").bits == bits(2.0**24 + 2)
    # No non-zero product: D = 0, and c passes unchanged, whatever its bits.
    assert tensor_core([0], [1], "aligned:1", c=1.0 + 2.0**-23)[::4] == (0x3F800001, False)


def test_unit_digits():
    # INT8 has no exponents: every U is 0, so F counts bits below 1 x 1 however small the values.
    product = rational.product("int8", "int8", 0x01, 0x81)
    assert product == (-127, -12, 0)
    assert dot("int8", "int8", [([1], [1], UNIT, UNIT)], "aligned:12").bits == bits(2.0**-12)
    assert dot("int8", "int8", [([1], [1], UNIT, UNIT)], "aligned:11").bits == 0
    # A subnormal product is not renormalised: 2^-9 x 2^-9 has U = -12.
    assert rational.product("e4m3", "e4m3", 0x01, 0x81) == (-1, -18, -12)
    assert rational.product("e4m3", "e5m2", 0x38, 0x3C) == (8 * 4, -5, 0)
    assert tensor_core([2**-9], [Fraction(1, 2**9)], "aligned:6", "e4m3").bits == bits(2.0**-18)
    assert tensor_core([2**-9], [Fraction(1, 2**9)], "aligned:5", "e4m3").bits == 0


def test_exact_rounds_once_per_block_to_nearest_even():
    assert tensor_core([1], [1], "exact", c=2.0**24)[::4] == (bits(2.0**24), True)
    assert tensor_core([3], [1], "exact", c=2.0**24)[::4] == (bits(2.0**24 + 4), True)
    assert tensor_core([1, 1], [1, 1], "exact", c=2.0**24)[::4] == (bits(2.0**24 + 2), False)
    two = [block("e5m2", [1]), block("e5m2", [1])]
    assert dot("e5m2", "e5m2", two, "exact", bits(2.0**24)).bits == bits(2.0**24)
    far = tensor_core([2**15, 2**-16, -(2**15)], [2**15, 2**-16, 2**15], "exact")
    assert far[::4] == (bits(2.0**-32), False)


def test_exact_sum_equals_the_sum_of_values():
    rng = random.Random(2)
    for fmt_a in rational.FORMATS:
        for fmt_b in rational.FORMATS:
            finite_a, finite_b = (
                [c for c in range(1 << rational.FORMATS[f].bits) if len(decode(f, c)) == 3]
                for f in (fmt_a, fmt_b)
            )
            pairs = [(rng.choice(finite_a), rng.choice(finite_b)) for _ in range(32)]
            products = [rational.product(fmt_a, fmt_b, *pair) for pair in pairs]
            finite = [p for p in products if isinstance(p, rational.Product)]
            assert rational.exact_sum(finite) == sum(
                value(fmt_a, a) * value(fmt_b, b) for a, b in pairs
            )


def test_float32_tree_of_adjacent_pairs():
    big = 2**15
    assert tensor_core([big, 1, -big, 1], [big, 1, big, 1], "float32")[::4] == (0, True)
    assert tensor_core([big, -big, 1, 1], [big, big, 1, 1], "float32")[::4] == (bits(2.0), False)
    assert tensor_core([big, 1, -big], [big, 1, big], "float32")[::4] == (0, True)
    assert tensor_core([big, -big, 1], [big, big, 1], "float32")[::4] == (bits(1.0), False)
    # Five: (0,1) and (2,3) join, then 4 with their sum.
    five = tensor_core([1, 1, big, -big, 3], [1, 1, big, big, 1], "float32")
    assert five.bits == bits(5.0)
    # The scaled tree and c are rounded once, together.
    assert tensor_core([1], [1], "float32", c=2.0**24).bits == bits(2.0**24)


def test_int32():
    def of(xs, ys, s=0, c=0.0):
        return dot("int8", "int8", [(xs, ys, UNIT + s, UNIT)], "int32", bits(c))

    assert of([0x80] * 32, [0x80] * 32).bits == bits(32 * 4.0)
    assert of([0x7F, 0x81], [0x7F, 0x01]).bits == bits((127 * 127 - 127) / 4096)
    assert of([1], [1], s=12, c=2.0**24).bits == bits(2.0**24)
    assert of([1, 2], [1, 1], s=12, c=2.0**24).bits == bits(2.0**24 + 4)
    with pytest.raises(ValueError, match="int32"):
        dot("e4m3", "int8", [([1], [1], UNIT, UNIT)], "int32")


def fixed(text, xs, c=0.0, s=0):
    blocks = [block("e4m3", [x] if not isinstance(x, list) else x, s=s) for x in xs]
    result = dot("e4m3", "e4m3", blocks, text, bits(c))
    return rational.decode_float32(result.bits), flags(result)


def test_fixed_saturates_or_wraps():
    assert fixed("fixed:8:0", [96, 30]) == (126, set())
    assert fixed("fixed:8:0", [96, 96]) == (127, {"saturated"})
    assert fixed("fixed:8:0", [96, 96, -96]) == (31, {"saturated"})
    assert fixed("fixed:8:0", [-96, -96, 96]) == (-32, {"saturated"})
    assert fixed("fixed:8:0:wrap", [96, 96]) == (-64, {"saturated"})
    assert fixed("fixed:8:0:wrap", [96, 96, -96]) == (96, {"saturated"})
    assert fixed("fixed:8:0", [-128]) == (-128, set())
    assert fixed("fixed:8:0", [128]) == (127, {"saturated"})
    # Inside a block the sum is exact; only the register is narrow.
    assert fixed("fixed:8:0", [[96, 96, -96]]) == (96, set())
    assert fixed("fixed:8:5", [96, 64], s=1) == (320, set())


def test_fixed_truncates_each_block_toward_zero():
    assert fixed("fixed:16:0", [1.5, 1.5]) == (2, {"inexact"})
    assert fixed("fixed:16:0", [-1.5, -1.5]) == (-2, {"inexact"})
    assert fixed("fixed:16:0", [[1.5, 1.5]]) == (3, set())
    assert fixed("fixed:16:3", [-7]) == (0, {"inexact"})


def test_fixed_loads_c():
    assert fixed("fixed:8:0", [0], c=1.75) == (1, {"inexact"})
    assert fixed("fixed:8:0", [0], c=-1.75) == (-1, {"inexact"})
    assert fixed("fixed:8:0", [-1], c=300.0) == (126, {"saturated"})
    assert fixed("fixed:8:0:wrap", [0], c=-129.0) == (127, {"saturated"})


def test_fixed_result_rounds_to_nearest_even():
    assert fixed("fixed:40:0", [1], c=2.0**24) == (2**24, {"inexact"})
    assert fixed("fixed:40:0", [3], c=2.0**24) == (2**24 + 4, {"inexact"})
    # 3 x 2^-150 is a tie between one and two units of the last subnormal place.
    assert fixed("fixed:64:-170", [3], s=-150) == (Fraction(2, 2**149), {"inexact", "underflow"})
    wide = dot("e4m3", "e4m3", [block("e4m3", [256], s=120)], "fixed:640:-320")
    assert wide == (INF, False, True, False, True, False)
    # A Kulisch register loses nothing between blocks.
    assert fixed("fixed:640:-320", [1], s=-200, c=1.0) == (1, {"inexact"})
    kulisch = [block("e4m3", [x], s=s) for x, s in ((1, 100), (1, -100), (-1, 100))]
    assert dot("e4m3", "e4m3", kulisch, "fixed:640:-320").bits == bits(2.0**-100)


# Overflow and underflow -------------------------------------------------------------------------


def power(exponent, sign=1):
    """A block that is worth +-2^exponent."""
    return block("e5m2", [sign], s=exponent)


@pytest.mark.parametrize("accumulator", ["exact", "aligned:13", "float32"])
def test_nearest_even_overflows_at_half_an_ulp(accumulator):
    def of(*blocks, c=MAX_FINITE):
        return dot("e5m2", "e5m2", blocks, accumulator, c)

    assert of(power(103)) == (INF, False, True, False, True, False)
    assert of(power(102)) == (MAX_FINITE, False, False, False, True, False)
    minus_max = MAX_FINITE | 1 << 31
    assert of(power(103, -1), c=minus_max).bits == MINUS_INF
    assert of(power(128), c=0) == (INF, False, True, False, True, False)
    # The overflow counts as Inf from then on.
    assert of(power(103), power(120, -1)).bits == INF
    minus_inf = ([0xFC], [0x3C], UNIT, UNIT)
    assert of(power(103), minus_inf) == (NAN, True, True, False, True, False)


def test_toward_zero_overflows_at_2_to_128():
    def of(block_, accumulator):
        return dot("e5m2", "e5m2", [block_], accumulator, MAX_FINITE)

    assert of(power(103), "fused:30") == (MAX_FINITE, False, False, False, True, False)
    assert of(power(104), "fused:30") == (INF, False, True, False, True, False)
    # Hopper's grid at 2^127 is 2^114, to which c is truncated first.
    assert of(power(113), "hopper").bits == 0x7F7FFC00
    assert of(power(114), "hopper") == (INF, False, True, False, True, False)


def test_subnormal_results():
    smallest = 1

    def of(exponent, c=0, accumulator="exact", x=Fraction(1)):
        return dot("e5m2", "e5m2", [block("e5m2", [x], s=exponent)], accumulator, c)

    assert of(-149) == (smallest, *(False,) * 5)
    assert of(-150) == (0, False, False, True, True, False)
    assert of(-150, x=Fraction(3, 2)) == (smallest, False, False, True, True, False)
    assert of(-150, c=1) == (2, False, False, True, True, False)
    assert of(-150, c=2) == (2, False, False, True, True, False)
    assert of(-150, c=0x80000001).bits == 0
    assert of(-149, c=0x80000001) == (0, *(False,) * 5)
    # Rounded up to the smallest normal: inexact, but no underflow.
    assert flags(of(-150, c=0x007FFFFF)) == {"inexact"}
    assert of(-150, c=0x007FFFFF).bits == 0x00800000
    assert of(-150, c=1, accumulator="fused:25") == (1, False, False, True, True, False)
    # Only a rounding to float32 underflows; here the alignment has discarded every bit before it.
    assert of(-254, accumulator="fused:13") == (0, False, False, False, True, False)
    assert of(-254, accumulator="aligned:13") == (0, False, False, True, True, False)


# Section 5 and bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "lsb", "width"),
    [("e4m3", -18, 41), ("e5m2", -32, 69), ("e3m2", -8, 23), ("e2m3", -6, 17), ("e2m1", -2, 13)],
)
def test_exact_widths(fmt, lsb, width):
    row = rational.FORMATS[fmt]
    smallest = value(fmt, 1)
    assert smallest**2 == rational.pow2(lsb)
    assert (32 * row.largest**2 / smallest**2).numerator.bit_length() == width


def test_bad_input():
    good = ([1], [1], UNIT, UNIT)
    for blocks, text, message in (
        ([([], [], UNIT, UNIT)], "exact", "k >= 1"),
        ([([1], [1, 2], UNIT, UNIT)], "exact", "not 1 and 2"),
        ([([256], [1], UNIT, UNIT)], "exact", "code of e4m3 must be from 0 to 255, not 256"),
        ([([1], [1], 256, UNIT)], "exact", "scale must be from 0 to 255, not 256"),
        ([good], "aligned", "no accumulator"),
        ([good], "aligned:-1", "F must be"),
        ([good], "fused:x", "F must be"),
        ([good], "fixed:8", "no accumulator"),
        ([good], "fixed:8:0:clip", "no accumulator"),
        ([good], "exact:1", "no accumulator"),
        ([good], "volta", "no accumulator"),
    ):
        with pytest.raises(ValueError, match=message):
            dot("e4m3", "e4m3", blocks, text)
    with pytest.raises(ValueError, match="e8m7"):
        dot("e8m7", "e4m3", [good], "exact")
