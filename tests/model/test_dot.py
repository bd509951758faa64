"""Dot products against independent sums, and by their algebra; facts by hand: test_rational.py."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import random_cases
from compare import generator
from mxdot.model import E4M3, FORMATS, PRESETS, MXArray, dot, matmul, quantize
from mxdot.model.products import product_table

UNIT = 127
ACCUMULATORS = ("exact", "aligned:13", "fused:25", "fixed:48:-20", "float32", *PRESETS)


def mx(fmt, values, k=None, scale=UNIT):
    """One row of exactly held values."""
    codes = FORMATS[fmt].encode(np.array(values, float))
    np.testing.assert_array_equal(FORMATS[fmt].decode(codes), np.float32(values))
    k = k or len(values)
    return MXArray(codes, np.full(len(values) // k, scale, np.uint8), fmt, k)


def product(terms, accumulator, fmt="e4m3", c=None, k=None, scale=UNIT):
    """The dot product of (a, b) pairs, as a float."""
    a, b = zip(*terms, strict=True)
    c = None if c is None else np.float32(c)
    return float(dot(mx(fmt, a, k, scale), mx(fmt, b, k), accumulator, c))


def bits(x):
    return int(np.float32(x).view(np.uint32))


def test_a_zero_c_takes_no_part_in_the_largest_exponent():
    """32 products of 1.5 x 2^-152: below float32, and below the grid of 2^(-126 - 25)."""
    tiny, scale = np.full(32, E4M3.encode(1.5), np.uint8), np.uint8(127 - 76)
    a = MXArray(tiny, np.array([scale]), "e4m3", 32)
    b = MXArray(np.full(32, E4M3.encode(1.0), np.uint8), np.array([scale]), "e4m3", 32)

    def result(accumulator, c=0.0):
        return bits(dot(a, b, accumulator, np.float32(c)))

    assert result("fused:25") == result("blackwell") == 6  # 48 x 2^-152 in units of 2^-149
    assert result("fused:25", -0.0) == 6
    # Steps of 16, as an H200 takes them: the first one's sum, subnormal, counts as 2^-126.
    assert result("hopper-fp16") == 3
    for c in (2.0**-149, 2.0**-126):  # a subnormal c spans the same grid as the least normal one
        assert result("fused:25", c) == bits(np.float32(c))
    assert result("fused:26", 2.0**-149) == 1 + 4  # each term cut to 2^-152
    assert result("hopper") == 0  # its results are multiples of 2^-139
    zeros = MXArray(np.zeros(32, np.uint8), np.array([scale]), "e4m3", 32)
    assert bits(dot(a, zeros, "fused:25")) == 0
    assert bits(dot(a, zeros, "fused:25", np.float32(2.0**-149))) == 1


# Against independent sums -----------------------------------------------------------------------


def finite_cases(name, fmt, n, blocks, k):
    return random_cases(
        generator(name, fmt),
        (fmt, fmt),
        n,
        blocks,
        k,
        operands=["finite", "wide", "cancelling"],
        scales=["moderate"],
        running=["zero", "normal", "cancel"],
    )


def values(x):
    """Finite values with their scales, float64 (n, blocks, k)."""
    codes, scales = x.blocks_last()
    return np.ldexp(x.format.values[codes], scales[..., None].astype(int) - UNIT)


def assert_sum_rounded_once(terms, c, result):
    """`result` is the float32 nearest to the exact sum; math.fsum rounds that sum to float64."""
    total = sum(map(Fraction, [*terms, c]), Fraction(0))
    near = math.fsum([*terms, c])
    if abs(total) >= 2**128 - 2**103:
        assert result == (np.inf if total > 0 else -np.inf)
    elif Fraction(near) == total:
        assert bits(np.float32(near) + np.float32(0)) == bits(result)
    else:
        error = abs(Fraction(float(result)) - total)
        for neighbour in np.nextafter(result, np.array([-np.inf, np.inf], np.float32)):
            if np.isfinite(neighbour):
                assert error <= abs(Fraction(float(neighbour)) - total)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.contract("A2")
def test_exact_rounds_once(fmt):
    cases = finite_cases("fsum", fmt, 2000, 1, 32)
    terms = (values(cases.a) * values(cases.b))[:, 0]
    got = dot(cases.a, cases.b, "exact", cases.c)
    for row in zip(terms.tolist(), cases.c.tolist(), got, strict=True):
        assert_sum_rounded_once(*row)


def test_a_kulisch_register_rounds_once():
    """`fixed:640:-286` rounds once over all blocks, not once per block."""
    cases = finite_cases("kulisch", "e4m3", 500, 4, 8)
    terms = (values(cases.a) * values(cases.b)).reshape(500, -1)
    got = dot(cases.a, cases.b, "fixed:640:-286", cases.c)
    for row in zip(terms.tolist(), cases.c.tolist(), got, strict=True):
        assert_sum_rounded_once(*row)


@pytest.mark.parametrize("width", [2, 20])
def test_ends_of_a_fixed_register(width):
    """One beyond them saturates, or wraps to the other."""
    low, high = -(2.0 ** (width - 1)), 2.0 ** (width - 1) - 1
    for step, end, other in ((1, high, low), (-1, low, high)):
        assert product([(0, 0)], f"fixed:{width}:0", c=end) == end
        assert product([(step, 1)], f"fixed:{width}:0", c=end) == end
        assert product([(step, 1)], f"fixed:{width}:0:wrap", c=end) == other


def test_e5m2_exact_sum_of_69_bits():
    """2^31 products beside 2^-32: c takes the large ones away and the smallest must remain."""
    large, tiny = [(57344, 57344)] * 30, [(2**-16, 2**-16)]
    c = -(30 * 57344.0**2)
    near = float(np.float32(c))
    assert near == c  # held by float32
    assert product([*large, *tiny, (0, 0)], "exact", "e5m2", c=c) == 2.0**-32
    assert product([*large, *tiny, (0, 0)], "fixed:80:-32", "e5m2", c=c) == 2.0**-32
    for sign in (1, -1):
        terms = [*large, (sign * 2**-16, 2**-16), (2**-16, 2**-16)]
        assert product(terms, "exact", "e5m2", c=c) == (sign + 1) * 2.0**-32


@pytest.mark.contract("A6")
def test_float32_is_the_numpy_tree():
    for k in (1, 2, 3, 5, 8, 31, 32):
        cases = finite_cases("tree", "e5m2", 300, 2, k)
        level = values(cases.a) * values(cases.b)
        scale = np.ldexp(1.0, cases.a.scales.astype(int) + cases.b.scales - 2 * UNIT)
        level = (level / scale[..., None]).astype(np.float32)
        while level.shape[-1] > 1:
            rest = level[..., level.shape[-1] // 2 * 2 :]
            even = level[..., : level.shape[-1] // 2 * 2]
            level = np.concatenate([even[..., 0::2] + even[..., 1::2], rest], axis=-1)
        c = cases.c
        for j in range(2):
            # float64 holds c and the scaled tree; its sum of two float32 is rounded once more,
            # harmlessly: 53 bits are more than twice 24 and two.
            exact = (
                c.astype(np.float64) + np.ldexp(level[:, j, 0].astype(np.float64), 0) * scale[:, j]
            )
            c = exact.astype(np.float32)
        got = dot(cases.a, cases.b, "float32", cases.c)
        np.testing.assert_array_equal(got, c + np.float32(0))


@pytest.mark.contract("Q12", "A8")
def test_int32_is_the_integer_sum():
    cases = finite_cases("int32", "int8", 500, 1, 32)
    integers = cases.a.codes.view(np.int8).astype(np.int64) * cases.b.codes.view(np.int8)
    scale = cases.a.scales[:, 0].astype(int) + cases.b.scales[:, 0] - 2 * UNIT - 12
    added = np.ldexp(integers.sum(axis=-1).astype(np.float64), scale)
    want = (cases.c.astype(np.float64) + added).astype(np.float32)  # at most 42 bits apart
    np.testing.assert_array_equal(dot(cases.a, cases.b, "int32", cases.c), want)


# Algebra ----------------------------------------------------------------------------------------


@given(order=st.permutations(range(16)), seed=st.integers(0, 2**32 - 1))
def test_order_inside_a_block_does_not_matter_but_to_the_tree(order, seed):
    cases = random_cases(np.random.default_rng(seed), ("e5m2", "e4m3"), 20, 1, 16)

    def permuted(x):
        return MXArray(x.codes[:, list(order)], x.scales, x.format, 16)

    for accumulator in ("exact", "aligned:13", "fused:25", "fixed:40:-10", "hopper", "ada"):
        got = dot(permuted(cases.a), permuted(cases.b), accumulator, cases.c)
        want = dot(cases.a, cases.b, accumulator, cases.c)
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("accumulator", ACCUMULATORS)
def test_operands_commute(accumulator):
    cases = random_cases(generator("commute", accumulator), ("e5m2", "e4m3"), 500, 2, 32)
    got = dot(cases.b, cases.a, accumulator, cases.c)
    want = dot(cases.a, cases.b, accumulator, cases.c)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("accumulator", ACCUMULATORS)
def test_negating_a_and_c_negates_the_result(accumulator):
    cases = random_cases(generator("negate", accumulator), ("e5m2", "e4m3"), 1000, 2, 32)
    negative = MXArray(cases.a.codes ^ np.uint8(0x80), cases.a.scales, "e5m2", 32)
    want = dot(cases.a, cases.b, accumulator, cases.c)
    got = dot(negative, cases.b, accumulator, -cases.c)
    # A saturated register alone is not symmetric, by one unit.
    trace = dot(cases.a, cases.b, accumulator, cases.c, trace=True, stages=False)
    same = ~trace.flags.saturated
    flip = np.where(np.isnan(want) | (want == 0), np.uint32(0), np.uint32(1 << 31))
    np.testing.assert_array_equal((got.view(np.uint32) ^ flip)[same], want.view(np.uint32)[same])


def test_a_wide_grid_is_exact():
    """`aligned` with every product on its grid differs from `exact` only in the rounding of D."""
    cases = finite_cases("wide grid", "e2m1", 2000, 2, 32)
    want = dot(cases.a, cases.b, "exact", cases.c)
    for accumulator in ("aligned:13", "aligned:64"):  # E2M1 sums have 13 bits: D is exact
        np.testing.assert_array_equal(dot(cases.a, cases.b, accumulator, cases.c), want)


# Shapes and matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize("accumulator", ["exact", "fixed:48:-20", "hopper"])
def test_leading_shapes(accumulator):
    cases = random_cases(generator("shapes", accumulator), ("e4m3", "e4m3"), 24, 2, 32)
    flat = dot(cases.a, cases.b, accumulator, cases.c)

    def shaped(x):
        return MXArray(x.codes.reshape(2, 3, 4, 64), x.scales.reshape(2, 3, 4, 2), "e4m3")

    got = dot(shaped(cases.a), shaped(cases.b), accumulator, cases.c.reshape(2, 3, 4))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, flat.reshape(2, 3, 4))
    for i in (0, 23):
        row = cases[i : i + 1]
        a = MXArray(row.a.codes[0], row.a.scales[0], "e4m3")
        b = MXArray(row.b.codes[0], row.b.scales[0], "e4m3")
        np.testing.assert_array_equal(dot(a, b, accumulator, row.c[0]), flat[i])


def test_many_rows_are_taken_in_chunks():
    """More rows than one chunk of the vectorised rules holds, and one row longer than a chunk."""
    cases = finite_cases("chunks", "e4m3", 5000, 1, 64)
    whole = dot(cases.a, cases.b, "aligned:13", cases.c, trace=True)
    for rows in (slice(0, 3), slice(2046, 2051), slice(4998, 5000)):
        part = cases[rows]
        got = dot(part.a, part.b, "aligned:13", part.c, trace=True)
        np.testing.assert_array_equal(got.result, whole.result[rows])
        for name, stage in got.stages.items():
            np.testing.assert_array_equal(stage, whole.stages[name][rows])
    ones = MXArray(np.full(2**18, 0x38, np.uint8), np.full(2**13, UNIT, np.uint8), "e4m3")
    assert dot(ones, ones, "exact") == 2.0**18


def test_matmul_is_dot_of_rows():
    rng = np.random.default_rng(1)
    a = quantize(rng.standard_normal((5, 96)).astype(np.float32), "e4m3")
    b = quantize(rng.standard_normal((7, 96)).astype(np.float32), "e5m2", scale_rule="ceil")
    c = rng.standard_normal((5, 7)).astype(np.float32)
    for accumulator in ACCUMULATORS:
        got = matmul(a, b, accumulator, c, trace=True)
        assert got.result.shape == (5, 7)
        for i in range(5):
            for j in range(7):
                row_a = MXArray(a.codes[i], a.scales[i], "e4m3")
                row_b = MXArray(b.codes[j], b.scales[j], "e5m2")
                want = dot(row_a, row_b, accumulator, c[i, j], trace=True)
                assert bits(want.result) == bits(got.result[i, j])
                assert want.flags.inexact == got.flags.inexact[i, j]
    np.testing.assert_array_equal(
        matmul(a, b, "exact", c[0]), matmul(a, b, "exact", np.tile(c[0], (5, 1)))
    )


def test_empty_shapes():
    def zeros(*shape):
        return MXArray(
            np.zeros(shape, np.uint8), np.zeros((*shape[:-1], shape[-1] // 32), np.uint8), "e4m3"
        )

    for accumulator in ACCUMULATORS:
        assert dot(zeros(0, 32), zeros(0, 32), accumulator).shape == (0,)
        assert matmul(zeros(0, 32), zeros(3, 32), accumulator).shape == (0, 3)
        assert matmul(zeros(3, 32), zeros(0, 32), accumulator, trace=True).result.shape == (3, 0)
        c = np.array([1, 2], np.float32)
        np.testing.assert_array_equal(dot(zeros(2, 0), zeros(2, 0), accumulator, c), c)


def test_real_matrix_is_close_to_the_float_product():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 16, 128)).astype(np.float32)
    a, b = quantize(x, "e4m3", scale_rule="ceil"), quantize(y, "e4m3", scale_rule="ceil")
    want = a.dequantize().astype(np.float64) @ b.dequantize().astype(np.float64).T
    for accumulator in ACCUMULATORS:
        np.testing.assert_allclose(matmul(a, b, accumulator), want, rtol=0, atol=0.02)


@pytest.mark.parametrize("text", ["exact", "fused:13", "fixed:40:-10", "float32", "hopper"])
@pytest.mark.parametrize("rows", [2, 20])
def test_products_of_no_elements_are_c(text, rows):
    """Table and operands agree; a fixed register takes c on its grid."""
    none = MXArray(np.zeros((rows, 0), np.uint8), np.zeros((rows, 0), np.uint8), "e4m3")
    c = np.linspace(-3, 3, rows**2, dtype=np.float32).reshape(rows, rows)
    want = np.trunc(c * 2.0**10) / 2**10 if text.startswith("fixed") else c
    np.testing.assert_array_equal(matmul(none, none, text, c), want)
    np.testing.assert_array_equal(matmul(none, none, text, c, lanes=8), want)
    if text != "fixed:40:-10" and text != "float32":
        np.testing.assert_array_equal(matmul(c[:, :0], none, text, c), c)


def test_no_table_of_products_of_wide_codes():
    message = "formats of a table of products must have at most 16 bits together, not fp16 and e4m3"
    with pytest.raises(ValueError, match=message):
        product_table(FORMATS["fp16"], FORMATS["e4m3"])
