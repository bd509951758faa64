"""Hand-checked facts of tensor cores, by oracle and model (section 4 of the contract)."""

from fractions import Fraction

import pytest

from rational.by_hand import ACCUMULATORS, bits, block, flags, one_block


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
@pytest.mark.parametrize("accumulator", ["hopper", "hopper-promoted", "ada", "fused:13"])
def test_hopper_facts(dot, fmt, accumulator):
    def result(small, count):
        xs = [256] + [small] * count + [0] * (31 - count)
        return one_block(dot, xs, [256] + [1] * 31, accumulator, fmt)

    assert result(8, 1)[::4] == (bits(2.0**16 + 8), False)
    assert result(7, 31)[::4] == (bits(2.0**16), True)
    assert result(-7, 31)[::4] == (bits(2.0**16), True)
    assert result(8, 31)[::4] == (bits(2.0**16 + 248), False)
    assert result(-8, 31)[::4] == (bits(2.0**16 - 248), False)


def test_zero_product_takes_no_part_in_the_largest_exponent(dot):
    tiny = Fraction(1, 2**9)
    for accumulator in ACCUMULATORS:
        if not accumulator.startswith("fixed"):
            result = one_block(dot, [448, tiny], [0, tiny], accumulator, "e4m3")
            assert result == (bits(2.0**-18), *(False,) * 5)


def test_cancelled_c_takes_no_part_in_the_largest_exponent(dot):
    blocks = [block("e5m2", [2**10]), block("e5m2", [-(2**10)]), block("e5m2", [2**-16], [2**-16])]
    assert dot("e5m2", "e5m2", blocks, "hopper").bits == bits(2.0**-32)


def test_hopper_truncates_c_alone(dot):
    def alone(c, accumulator="hopper"):
        return dot("e4m3", "e4m3", [block("e4m3", [0] * 32)], accumulator, c)

    for field in (27, 115, 127, 139, 227):
        assert alone(field << 23 | 0x7FFFFF)[::4] == (field << 23 | 0x7FFC00, True)
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
def test_result_has_13_fraction_bits(dot, accumulator):
    # The 8 lies on the grid of the sum, 2^16 x 2^-13, but not among the result's 13 bits.
    xs, ys = [256] * 15 + [8], [256] * 15 + [1]
    assert one_block(dot, xs, ys, accumulator)[::4] == (bits(15 * 2.0**16), True)
    assert one_block(dot, xs, ys, "fused:13")[::4] == (bits(15 * 2.0**16 + 8), False)


@pytest.mark.contract("M6")
def test_steps_of_the_presets(dot):
    # Two products cancel; only a later step can see the small one.
    def seen(accumulator, place, k, x=Fraction(7)):
        xs = [256, -256] + [0] * (k - 2)
        xs[place] = x
        return one_block(dot, xs, [256, 256] + [1] * (k - 2), accumulator).bits == bits(x)

    assert [seen("hopper", place, 128) for place in (31, 32, 127)] == [False, True, True]
    assert [seen("hopper", place, 48) for place in (16, 31, 32, 47)] == [False, False, True, True]
    assert [seen("ada", place, 32) for place in (15, 16, 31)] == [False, True, True]
    assert [seen("fused:13", place, 48) for place in (16, 47)] == [False, False]
    tiny = Fraction(1, 2**10)
    assert [seen("blackwell", place, 64, tiny) for place in (31, 32)] == [False, True]
    # Never across blocks: k = 8 is a step of its own.
    blocks = [block("e5m2", [256, -256] + [0] * 6, [256] * 8), block("e5m2", [7] + [0] * 7)]
    assert dot("e5m2", "e5m2", blocks, "hopper").bits == bits(7.0)


@pytest.mark.contract("M7")
def test_promotion_after_128_elements(dot):
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


@pytest.mark.contract("M7")
def test_promotion_rounds_to_nearest_even(dot):
    assert one_block(dot, [1], [1], "hopper-promoted", c=2.0**24).bits == bits(2.0**24)
    assert one_block(dot, [3], [1], "hopper-promoted", c=2.0**24).bits == bits(2.0**24 + 4)
    assert flags(one_block(dot, [3], [1], "hopper-promoted", c=2.0**24)) == {"inexact"}


def test_blackwell_keeps_25_fraction_bits(dot):
    def result(small, count):
        xs, ys = [256] + [small] * count, [256] + [1] * count
        return one_block(dot, xs, ys, "blackwell")

    ulp = 2.0**-7  # of 2^16
    assert result(Fraction(1, 2**9), 4)[::4] == (bits(2.0**16 + ulp), False)
    assert result(Fraction(1, 2**9), 7)[::4] == (bits(2.0**16 + ulp), True)
    assert result(Fraction(1, 2**10), 8)[::4] == (bits(2.0**16), True)
    # Negative terms: an exact sum just below 2^16, truncated toward zero.
    assert result(-Fraction(1, 2**9), 1)[::4] == (bits(2.0**16 - ulp / 2), True)
