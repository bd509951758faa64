"""Hand-checked facts that pin oracle and model; sections are those of the contract.

Its formats are in test_rational_formats.py, tensor cores in test_rational_presets.py.
"""

import random
from fractions import Fraction

import pytest

from rational import dot as oracle
from rational import formats as rational_formats
from rational.by_hand import (
    ACCUMULATORS,
    INF,
    MAX_FINITE,
    MINUS_INF,
    PRESETS,
    UNIT,
    bits,
    block,
    flags,
    one_block,
)
from rational.dot import NAN, NVIDIA_NAN
from rational.formats import FORMATS, decode, pow2, value

# Section 3: special values ----------------------------------------------------------------------


@pytest.mark.parametrize("accumulator", ACCUMULATORS)
@pytest.mark.contract("P4", "P5", "P6", "A12")
def test_special_values(dot, accumulator):
    nan = NVIDIA_NAN if accumulator in PRESETS else NAN

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
@pytest.mark.contract("P7")
def test_zero_is_positive(dot, accumulator):
    minus_zeros = ([0x80] * 32, [0x38] * 32, UNIT, UNIT)
    for c in (0, 0x80000000):
        assert dot("e4m3", "e4m3", [minus_zeros], accumulator, c) == (0,) + (False,) * 5
    cancelling = block("e4m3", [3, -3])
    assert dot("e4m3", "e4m3", [cancelling], accumulator) == (0,) + (False,) * 5
    assert dot("e4m3", "e4m3", [cancelling], accumulator, 0x80000000).bits == 0


@pytest.mark.contract("A15", "G1")
def test_special_step_raises_no_flags_but_earlier_ones_stand(dot):
    lossy = block("e5m2", [2**15, 1], [2**15, 1])
    infinite = ([0x7C, 0x3C], [0x3C, 0x3C], UNIT, UNIT)
    assert flags(dot("e5m2", "e5m2", [lossy], "fused:13")) == {"inexact"}
    assert dot("e5m2", "e5m2", [lossy, infinite], "fused:13") == (
        INF, False, False, False, True, False,
    )  # fmt: skip
    assert flags(dot("e5m2", "e5m2", [infinite, lossy], "fused:13")) == set()
    assert flags(dot("e5m2", "e5m2", [lossy], "fused:13", NVIDIA_NAN)) == {"invalid"}


# Section 4: accumulators ------------------------------------------------------------------------


@pytest.mark.contract("A4")
def test_scales_join_first_in_fused_and_last_in_aligned(dot):
    # 7 x 2^-3 lies on the grid of 2^16 x 2^-3; beside c = 2^16 it does not.
    one = block("e5m2", [8], s=-3)
    assert dot("e5m2", "e5m2", [one], "fused:13", bits(2.0**16)).bits == bits(2.0**16)
    assert dot("e5m2", "e5m2", [one], "aligned:13", bits(2.0**16)).bits == bits(2.0**16 + 1)
    up = block("e5m2", [8], s=3)
    assert dot("e5m2", "e5m2", [up], "fused:13", bits(2.0**16 + 7)).bits == bits(2.0**16 + 64)
    assert dot("e5m2", "e5m2", [up], "aligned:13", bits(2.0**16 + 7)).bits == bits(2.0**16 + 71)


@pytest.mark.contract("A3")
def test_aligned_truncates_terms_then_the_sum(dot):
    assert one_block(dot, [256, 7], [256, 1], "aligned:13")[::4] == (bits(2.0**16), True)
    assert one_block(dot, [256, 7], [256, 1], "aligned:14")[::4] == (bits(2.0**16 + 4), True)
    assert one_block(dot, [256, -7], [256, 1], "aligned:14")[::4] == (bits(2.0**16 - 4), True)
    # F = 30 keeps 25 significant bits of the sum, of which D keeps 24.
    assert one_block(dot, [2**12, 1.5], [2**12, 1], "aligned:30")[::4] == (bits(2.0**24), True)
    assert one_block(dot, [2**12, 1.5], [2**12, 1], "exact").bits == bits(2.0**24 + 2)
    # No non-zero product: D = 0, and c passes unchanged, whatever its bits.
    assert one_block(dot, [0], [1], "aligned:1", c=1.0 + 2.0**-23)[::4] == (0x3F800001, False)


@pytest.mark.contract("P2")
def test_unit_digits(dot):
    # INT8 has no exponents: every U is 0, so F counts bits below 1 x 1 however small the values.
    int8_product = oracle.product("int8", "int8", 0x01, 0x81)
    assert int8_product == (-127, -12, 0)
    assert dot("int8", "int8", [([1], [1], UNIT, UNIT)], "aligned:12").bits == bits(2.0**-12)
    assert dot("int8", "int8", [([1], [1], UNIT, UNIT)], "aligned:11").bits == 0
    # A subnormal product is not renormalised: 2^-9 x 2^-9 has U = -12.
    assert oracle.product("e4m3", "e4m3", 0x01, 0x81) == (-1, -18, -12)
    assert oracle.product("e4m3", "e5m2", 0x38, 0x3C) == (8 * 4, -5, 0)
    assert one_block(dot, [2**-9], [Fraction(1, 2**9)], "aligned:6", "e4m3").bits == bits(2.0**-18)
    assert one_block(dot, [2**-9], [Fraction(1, 2**9)], "aligned:5", "e4m3").bits == 0


@pytest.mark.contract("A2")
def test_exact_rounds_once_per_block_to_nearest_even(dot):
    assert one_block(dot, [1], [1], "exact", c=2.0**24)[::4] == (bits(2.0**24), True)
    assert one_block(dot, [3], [1], "exact", c=2.0**24)[::4] == (bits(2.0**24 + 4), True)
    assert one_block(dot, [1, 1], [1, 1], "exact", c=2.0**24)[::4] == (bits(2.0**24 + 2), False)
    two = [block("e5m2", [1]), block("e5m2", [1])]
    assert dot("e5m2", "e5m2", two, "exact", bits(2.0**24)).bits == bits(2.0**24)
    far = one_block(dot, [2**15, 2**-16, -(2**15)], [2**15, 2**-16, 2**15], "exact")
    assert far[::4] == (bits(2.0**-32), False)


@pytest.mark.contract("P1")
def test_exact_sum_equals_the_sum_of_values():
    rng = random.Random(2)
    finite_codes = {
        fmt: [c for c in range(1 << row.bits) if len(decode(fmt, c)) == 3]
        for fmt, row in FORMATS.items()
    }
    for fmt_a, finite_a in finite_codes.items():
        for fmt_b, finite_b in finite_codes.items():
            pairs = [(rng.choice(finite_a), rng.choice(finite_b)) for _ in range(32)]
            products = [oracle.product(fmt_a, fmt_b, *pair) for pair in pairs]
            finite = [p for p in products if isinstance(p, oracle.Term)]
            assert oracle.exact_sum(finite) == sum(
                value(fmt_a, a) * value(fmt_b, b) for a, b in pairs
            )


@pytest.mark.contract("A6")
def test_float32_tree_of_adjacent_pairs(dot):
    big = 2**15
    assert one_block(dot, [big, 1, -big, 1], [big, 1, big, 1], "float32")[::4] == (0, True)
    assert one_block(dot, [big, -big, 1, 1], [big, big, 1, 1], "float32")[::4] == (bits(2.0), False)
    assert one_block(dot, [big, 1, -big], [big, 1, big], "float32")[::4] == (0, True)
    assert one_block(dot, [big, -big, 1], [big, big, 1], "float32")[::4] == (bits(1.0), False)
    # Five: (0,1) and (2,3) join, then 4 with their sum.
    five = one_block(dot, [1, 1, big, -big, 3], [1, 1, big, big, 1], "float32")
    assert five.bits == bits(5.0)
    # The scaled tree and c are rounded once, together.
    assert one_block(dot, [1], [1], "float32", c=2.0**24).bits == bits(2.0**24)


@pytest.mark.contract("A8")
def test_int32(dot):
    def of(xs, ys, s=0, c=0.0):
        return dot("int8", "int8", [(xs, ys, UNIT + s, UNIT)], "int32", bits(c))

    assert of([0x80] * 32, [0x80] * 32).bits == bits(32 * 4.0)
    assert of([0x7F, 0x81], [0x7F, 0x01]).bits == bits((127 * 127 - 127) / 4096)
    assert of([1], [1], s=12, c=2.0**24).bits == bits(2.0**24)
    assert of([1, 2], [1, 1], s=12, c=2.0**24).bits == bits(2.0**24 + 4)
    with pytest.raises(ValueError, match="int32"):
        dot("e4m3", "int8", [([1], [1], UNIT, UNIT)], "int32")


def fixed(dot, text, xs, c=0.0, s=0):
    blocks = [block("e4m3", [x] if not isinstance(x, list) else x, s=s) for x in xs]
    result = dot("e4m3", "e4m3", blocks, text, bits(c))
    return rational_formats.decode_float32(result.bits), flags(result)


@pytest.mark.contract("A5", "A11")
def test_fixed_saturates_or_wraps(dot):
    assert fixed(dot, "fixed:8:0", [96, 30]) == (126, set())
    assert fixed(dot, "fixed:8:0", [96, 96]) == (127, {"saturated"})
    assert fixed(dot, "fixed:8:0", [96, 96, -96]) == (31, {"saturated"})
    assert fixed(dot, "fixed:8:0", [-96, -96, 96]) == (-32, {"saturated"})
    assert fixed(dot, "fixed:8:0:wrap", [96, 96]) == (-64, {"saturated"})
    assert fixed(dot, "fixed:8:0:wrap", [96, 96, -96]) == (96, {"saturated"})
    assert fixed(dot, "fixed:8:0", [-128]) == (-128, set())
    assert fixed(dot, "fixed:8:0", [128]) == (127, {"saturated"})
    # Inside a block the sum is exact; only the register is narrow.
    assert fixed(dot, "fixed:8:0", [[96, 96, -96]]) == (96, set())
    assert fixed(dot, "fixed:8:5", [96, 64], s=1) == (320, set())


@pytest.mark.contract("A5")
def test_fixed_truncates_each_block_toward_zero(dot):
    assert fixed(dot, "fixed:16:0", [1.5, 1.5]) == (2, {"inexact"})
    assert fixed(dot, "fixed:16:0", [-1.5, -1.5]) == (-2, {"inexact"})
    assert fixed(dot, "fixed:16:0", [[1.5, 1.5]]) == (3, set())
    assert fixed(dot, "fixed:16:3", [-7]) == (0, {"inexact"})


@pytest.mark.contract("A10")
def test_fixed_loads_c(dot):
    assert fixed(dot, "fixed:8:0", [0], c=1.75) == (1, {"inexact"})
    assert fixed(dot, "fixed:8:0", [0], c=-1.75) == (-1, {"inexact"})
    assert fixed(dot, "fixed:8:0", [-1], c=300.0) == (126, {"saturated"})
    assert fixed(dot, "fixed:8:0:wrap", [0], c=-129.0) == (127, {"saturated"})


@pytest.mark.contract("A5")
def test_fixed_result_rounds_to_nearest_even(dot):
    assert fixed(dot, "fixed:40:0", [1], c=2.0**24) == (2**24, {"inexact"})
    assert fixed(dot, "fixed:40:0", [3], c=2.0**24) == (2**24 + 4, {"inexact"})
    # 3 x 2^-150 is a tie between one and two units of the last subnormal place.
    assert fixed(dot, "fixed:64:-170", [3], s=-150) == (
        Fraction(2, 2**149),
        {"inexact", "underflow"},
    )
    wide = dot("e4m3", "e4m3", [block("e4m3", [256], s=120)], "fixed:640:-320")
    assert wide == (INF, False, True, False, True, False)
    # A Kulisch register loses nothing between blocks.
    assert fixed(dot, "fixed:640:-320", [1], s=-200, c=1.0) == (1, {"inexact"})
    kulisch = [block("e4m3", [x], s=s) for x, s in ((1, 100), (1, -100), (-1, 100))]
    assert dot("e4m3", "e4m3", kulisch, "fixed:640:-320").bits == bits(2.0**-100)


# Overflow and underflow -------------------------------------------------------------------------


def power(exponent, sign=1):
    """A block that is worth +-2^exponent."""
    return block("e5m2", [sign], s=exponent)


@pytest.mark.parametrize("accumulator", ["exact", "aligned:13", "float32"])
@pytest.mark.contract("C2", "P8")
def test_nearest_even_overflows_at_half_an_ulp(dot, accumulator):
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


@pytest.mark.contract("C2", "P8")
def test_toward_zero_overflows_at_2_to_128(dot):
    def of(block_, accumulator):
        return dot("e5m2", "e5m2", [block_], accumulator, MAX_FINITE)

    assert of(power(103), "fused:30") == (MAX_FINITE, False, False, False, True, False)
    assert of(power(104), "fused:30") == (INF, False, True, False, True, False)
    # Hopper's grid at 2^127 is 2^114, to which c is truncated first.
    assert of(power(113), "hopper").bits == 0x7F7FFC00
    assert of(power(114), "hopper") == (INF, False, True, False, True, False)


@pytest.mark.contract("P7")
def test_subnormal_results(dot):
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
    # Only a rounding to float32 underflows: beside a subnormal c the alignment has discarded every
    # bit before it. A zero c takes no part, and the product comes as far as the rounding.
    assert of(-254, c=1, accumulator="fused:13") == (0, False, False, False, True, False)
    assert of(-254, accumulator="fused:13") == (0, False, False, True, True, False)
    assert of(-149, accumulator="fused:0") == (smallest, *(False,) * 5)
    assert of(-254, accumulator="aligned:13") == (0, False, False, True, True, False)


# Section 5 and bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "lsb", "width"),
    [("e4m3", -18, 41), ("e5m2", -32, 69), ("e3m2", -8, 23), ("e2m3", -6, 17), ("e2m1", -2, 13)],
)
@pytest.mark.contract("W1")
def test_exact_widths(fmt, lsb, width):
    row = FORMATS[fmt]
    smallest = value(fmt, 1)
    assert smallest**2 == pow2(lsb)
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
        ([good], "pascal", "no accumulator"),
    ):
        with pytest.raises(ValueError, match=message):
            oracle.dot("e4m3", "e4m3", blocks, text)
    with pytest.raises(ValueError, match="e8m7"):
        oracle.dot("e8m7", "e4m3", [good], "exact")
