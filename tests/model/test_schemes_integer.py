"""INT32 sums of integer schemes: exact, with zero points, up to the length where they overflow."""

import re
from dataclasses import replace

import numpy as np
import pytest

from compare import generator
from mxdot.model import schemes
from mxdot.model.requantize import FixedRescale, FloatRescale, requantize
from mxdot.model.schemes import (
    FLOAT32,
    INT4_FULL,
    INT8_FULL,
    SCHEMES,
    TENSOR,
    IntegerFormat,
    Level,
    ScaledArray,
    Scheme,
    block,
    integer_sums,
    largest_length,
    matmul,
    quantize,
)
from mxdot.model.schemes.integer import exact_product, has_integer_sums
from rational import schemes as oracle
from refused_products import Library, refused_products
from scheme_cases import random_array, random_c, shrunk

FLOAT = SCHEMES["int8_tensor"].levels[0]
FULL8 = Scheme("full8", (INT8_FULL,), (FLOAT,), "a test")
FULL4 = Scheme("full4", (INT4_FULL,), (FLOAT,), "a test")


@pytest.mark.parametrize("columns", [4095, 4097, 8191])
def test_products_of_wide_factors(columns):
    """25-bit factors in 16-bit digits: sums of more than 4096 of the largest leave float64."""
    rng = generator("wide factors", columns)
    a, b = (rng.integers(1 - 2**25, 2**25, (rows, columns)) for rows in (4, 3))
    a[0], a[1], b[0], b[1] = 2**25 - 1, 1 - 2**25, 2**25 - 1, 2**25 - 3
    got = exact_product(a.astype(np.float64), b.astype(np.float64))
    assert got.tolist() == (a.astype(object) @ b.astype(object).T).tolist()


def test_which_rows_have_integer_sums():
    schemes = [SCHEMES[name] for name in ("int8_channel", "int8_affine", "mxfp8_e4m3")]
    assert [has_integer_sums(s, schemes[0], 1024) for s in schemes] == [True, True, False]
    assert not has_integer_sums(schemes[0], schemes[0], 2**18)


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [
        ("int8_tensor", "int8_channel", 133144),  # (2^31 - 1) // 127^2
        (FULL8, FULL8, 131071),  # 2^31 / (-128)^2 less one: only the positive end overflows
        (FULL8, "int8_tensor", 132104),  # (2^31 - 1) // (128 x 127)
        ("int8_affine", "int8_affine", 33025),  # q - z from -255 to 255
        ("uint8_affine", "int8_tensor", 66311),
        ("int4_g32", "int8_channel", 2415617),
        (FULL4, FULL4, 33554431),
        ("int4_affine_g128", "int8_channel", 1127288),
        ("vsquant4_u4", "vsquant4_u4", 194783),  # 7 x 15 each
        ("vsquant8_u6", "vsquant8_u6", 33),
        ("msfp16", "msfp16", 133144),
        ("mx9", "mx9", 33286),  # a shifted 127 is 254 of the smaller unit
        ("mxint8", "mxint8", 131071),
    ],
)
@pytest.mark.contract("T22", "T24")
def test_largest_lengths(a, b, length):
    assert largest_length(a, b) == length


def test_the_most_negative_terms_limit_the_length():
    """6 x -6 is farther from 0 than any positive term."""
    up, down = IntegerFormat("up", 4, -1, 6), IntegerFormat("down", 4, -6, 1)
    a, b = (Scheme(fmt.name, (fmt,), (FLOAT,), "by hand") for fmt in (up, down))
    assert largest_length(a, b) == largest_length(b, a) == 2**31 // 36


def full(scheme, code, length, zero=None):
    """One row of one code, scale 1."""
    scales = (np.ones((1, 1), np.float32),)
    zero_points = None if zero is None else np.full((1, 1), zero, np.int32)
    return ScaledArray(scheme, np.full((1, length), code, np.uint8), scales, zero_points, None, -1)


@pytest.mark.parametrize(
    ("scheme", "codes", "zeros", "term"),
    [
        ("int8_tensor", (127, 127), (None, None), 127 * 127),
        ("int8_tensor", (127, 129), (None, None), -127 * 127),
        (FULL8, (128, 128), (None, None), 128 * 128),
        (FULL8, (128, 127), (None, None), -128 * 127),
        ("int8_affine", (127, 127), (-128, -128), 255 * 255),
        ("int8_affine", (127, 128), (-128, 127), -255 * 255),
        ("uint8_affine", (255, 0), (0, 255), -255 * 255),
        ("uint8_affine", (0, 0), (255, 255), 255 * 255),
    ],
)
@pytest.mark.contract("T22", "T24")
def test_sums_up_to_the_largest_length(scheme, codes, zeros, term):
    scheme = SCHEMES.get(scheme, scheme) if isinstance(scheme, str) else scheme
    longest = largest_length(scheme, scheme)
    for length in (longest, longest + 1):
        a, b = (full(scheme, code, length, z) for code, z in zip(codes, zeros, strict=True))
        sums = integer_sums(a, b, overflow="wrap")
        exact = term * length
        wraps = not -(2**31) <= exact < 2**31
        assert sums.sums.tolist() == [[[(exact + 2**31) % 2**32 - 2**31]]]
        assert sums.overflowed.tolist() == [[[wraps]]]
        assert wraps <= (length > longest)
        if length == longest:
            assert integer_sums(a, b).sums.tolist() == sums.sums.tolist()
            assert matmul(a, b, "int32").tolist() == [[float(np.float32(exact))]]
            continue
        message = (
            f"K of an INT32 sum of {scheme} x {scheme} must be at most {longest}, not {length}: it "
            "could overflow"
        )
        for call in (lambda: integer_sums(a, b), lambda: matmul(a, b, "int32")):  # noqa: B023
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                call()


def test_each_region_may_have_the_largest_length():
    """Two of them in a row that is longer than one may be."""
    longest = largest_length(FULL8, FULL8)
    half = Scheme("full8_halves", (INT8_FULL,), (replace(FLOAT, granularity=block(longest)),), "")
    row = np.full((1, 2 * longest), 2, np.uint8)
    x = ScaledArray(half, row, (np.ones((1, 2), np.float32),))
    assert integer_sums(x, x).sums.tolist() == [[[4 * longest, 4 * longest]]]


@pytest.mark.contract("T22", "T23", "T24")
def test_some_sum_overflows_one_past_the_largest_length():
    """The lengths are the largest ones: the worst codes overflow with one term more."""
    for scheme, codes, zeros in (
        (SCHEMES["int8_tensor"], (127, 127), (None, None)),
        (FULL8, (128, 128), (None, None)),
        (SCHEMES["int8_affine"], (127, 127), (-128, -128)),
    ):
        length = largest_length(scheme, scheme) + 1
        a, b = (full(scheme, code, length, z) for code, z in zip(codes, zeros, strict=True))
        assert integer_sums(a, b, overflow="wrap").overflowed.all()


@pytest.mark.contract("T2", "T20")
def test_correction_terms():
    """sum q_a q_b - z_b sum q_a - z_a sum q_b + K z_a z_b, each modulo 2^32, is the sum."""
    rng = generator("corrections")
    for names in (("int8_affine", "uint8_affine"), ("int8_affine_channel", "int8_channel")):
        for kind in ("one", "ends"):
            a, b = (random_array(rng, SCHEMES[name], 6, 500, kind) for name in names)
            q = [x.scheme.elements[0].values[x.codes].astype(np.int32) for x in (a, b)]
            z = [
                np.zeros((6, 1), np.int32) if x.zero_points is None
                else np.broadcast_to(x.zero_points, (6, 1)) for x in (a, b)
            ]  # fmt: skip
            sums = [v.sum(axis=1, keepdims=True, dtype=np.int32) for v in q]
            corrected = q[0] @ q[1].T - sums[0] * z[1].T - z[0] * sums[1].T + 500 * z[0] * z[1].T
            np.testing.assert_array_equal(integer_sums(a, b).sums[..., 0], corrected)


@pytest.mark.contract("T20")
def test_every_int4_code_with_every_zero_point():
    """All (q_a - z_a)(q_b - z_b): 256 rows of one element, each with a scale and z of its own."""
    scheme = Scheme("every", (INT4_FULL,), (SCHEMES["int8_channel"].levels[0],), "a test", True)
    code, zero = np.divmod(np.arange(256), 16)
    one = np.ones((256, 1), np.float32)
    codes = code.astype(np.uint8)[:, None]
    a = ScaledArray(scheme, codes, (one,), (zero - 8).astype(np.int32)[:, None], None, -1)
    integers = np.where(code > 7, code - 16, code) - (zero - 8)
    want = np.outer(integers, integers)
    np.testing.assert_array_equal(integer_sums(a, a).sums[..., 0], want)
    for text in ("int32", "exact", "aligned:8", "fused:8", "float32"):
        np.testing.assert_array_equal(matmul(a, a, text), want, text)


@pytest.mark.contract("T25")
def test_an_integer_layer():
    """Sums, then each requantisation of section 8: within one step of the real product."""
    rng = generator("layer")
    x = quantize(rng.uniform(-1, 3, (20, 256)).astype(np.float32), "int8_affine")
    w = quantize(rng.standard_normal((30, 256)).astype(np.float32), "int8_channel")
    real = x.dequantize().astype(np.float64) @ w.dequantize().astype(np.float64).T
    y = quantize(real.astype(np.float32), "int8_affine")
    assert y.zero_points is not None
    step, zero = float(y.scales[0].item()), int(y.zero_points.item())
    made = integer_sums(x, w)
    scale = (made.scales[..., 0].astype(np.float64) / step).astype(np.float32)
    want = y.codes.view(np.int8).astype(int)
    for rescale in (FloatRescale(scale), FixedRescale.of(scale)):
        got = requantize(made.sums[..., 0], rescale, "int8_full", zero_point=zero)
        assert np.abs(got - want).max() <= 1
        assert (got == want).mean() > 0.99


@pytest.mark.parametrize(
    ("a", "b", "regions"),
    [
        ("int8_channel", "int8_tensor", 1),
        ("int4_g32", "int8_channel", 8),
        ("int4_affine_g128", "int8_affine_channel", 2),
        ("int4_g32", "int4_affine_g128", 8),
        ("vsquant4_u4", "int8_channel", 1),
    ],
)
@pytest.mark.contract("T16", "T17")
def test_regions_and_their_scales(a, b, regions):
    rng = generator("regions", a, b)
    schemes = [shrunk(SCHEMES[name]) for name in (a, b)]
    left, right = (random_array(rng, scheme, 4, 16, "one") for scheme in schemes)
    got = integer_sums(left, right)
    assert got.sums.shape == got.scales.shape == got.overflowed.shape == (4, 4, regions)
    assert (got.sums.dtype, got.scales.dtype, got.lsb) == (np.int32, np.float32, 0)
    exact = np.zeros((4, 4))
    for i in range(regions):
        exact += got.scales[..., i].astype(np.float64) * got.sums[..., i]
    want = left.dequantize().astype(np.float64) @ right.dequantize().astype(np.float64).T
    np.testing.assert_allclose(exact, want, rtol=1e-5, atol=1e-5)
    c = random_c(rng, (4, 4), "one")
    np.testing.assert_array_equal(got.rescale(c), matmul(left, right, "int32", c))
    np.testing.assert_array_equal(got.rescale(c[0]), matmul(left, right, "int32", c[0]))


@pytest.mark.contract("T25")
def test_a_sum_beyond_24_bits_is_rounded_before_it_is_scaled():
    """2^24 + 1 becomes 2^24, as when a register is converted to float32, and then times 3."""
    a = full(SCHEMES["int8_tensor"], 127, 1041)
    b = full(SCHEMES["int8_tensor"], 127, 1041)
    codes = b.codes.copy()
    exact = 127 * 127 * 1040 + 127 * 72  # even
    codes[0, 0] = 72
    b = ScaledArray(b.scheme, codes, (np.full((1, 1), 3, np.float32),), None, None, -1)
    assert integer_sums(a, b).sums.item() == exact
    want = np.float32(np.float32(exact) * np.float32(3))
    assert matmul(a, b, "int32").item() == want
    assert oracle.matmul(a, b, "int32", np.zeros((1, 1))).view(np.float32).item() == want


@pytest.mark.contract("T21")
def test_wide_sums_are_exact_modulo_2_32():
    """Products beyond 53 bits run in 64-bit integers."""
    scheme = SCHEMES["vsquant8_u6"]
    rng = generator("wide")
    a, b = (random_array(rng, scheme, 3, 4096, "ends") for _ in range(2))
    got = integer_sums(a, b, overflow="wrap")
    factors = [
        x.scheme.elements[0].values[x.codes].astype(np.int64)
        * np.repeat(x.scales[1].astype(np.int64), 16, axis=1)
        for x in (a, b)
    ]
    exact = factors[0] @ factors[1].T
    np.testing.assert_array_equal(got.sums[..., 0], exact.astype(np.int32))
    np.testing.assert_array_equal(got.overflowed[..., 0], np.abs(exact) >= 2**31)
    assert got.overflowed.any()


@pytest.mark.contract("T18", "T19")
def test_nan_scales():
    x = np.ones((2, 32), np.float32)
    x[1, 3] = np.nan
    got = matmul(quantize(x, "int8_channel"), quantize(x[:1], "int8_channel"), "int32")
    assert got.view(np.uint32).tolist()[1] == [0x7FC00000]
    assert np.isfinite(got[0]).all()


NUMPY = Library(schemes, "ndarray", "ScaledArray", np.zeros, replace)


@pytest.mark.parametrize(("error", "message", "call"), refused_products(NUMPY))
@pytest.mark.contract("T23")
def test_refusals(error, message, call):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call(NUMPY.quantized("int8_channel"))


@pytest.mark.contract("T26", "I22", "I23")
def test_unit_of_fixed_point_elements():
    scheme = Scheme("sm", SCHEMES["msfp16"].elements, (Level(TENSOR, FLOAT32),), "a test")
    a = quantize(np.array([[1.5, -0.25]], np.float32), scheme)
    sums = integer_sums(a, a)
    assert sums.lsb == -12
    want = oracle.matmul(a, a, "int32", np.zeros((1, 1)))
    assert sums.rescale().view(np.uint32).tolist() == want.tolist()


@pytest.mark.contract("T21", "T23")
def test_sums_at_the_ends_of_int32():
    """2^31 - 1 and -2^31 fit; one more and one less overflow."""

    def codes(a, b):
        return (np.array(side).astype(np.int8).view(np.uint8)[None] for side in (a, b))

    ends = {
        2**31 - 1: ([-128] * 131071 + [127, 127], [-128] * 131071 + [127, 2]),
        2**31: ([-128] * 131072, [-128] * 131072),
        -(2**31): ([-128] * 132104 + [-128], [127] * 132104 + [8]),
        -(2**31) - 1: ([-128] * 132104 + [-128, -1], [127] * 132104 + [8, 1]),
    }
    for total, sides in ends.items():
        one = (np.ones((1, 1), np.float32),)
        a, b = (ScaledArray(FULL8, side, one) for side in codes(*sides))
        got = integer_sums(a, b, overflow="wrap")
        assert got.sums.item() == (total + 2**31) % 2**32 - 2**31
        assert got.overflowed.item() == (not -(2**31) <= total < 2**31)


def test_sums_of_64_bits_are_the_widest():
    a = np.full((1, 2), 2.0**31)
    assert exact_product(a, a - 1).tolist() == [[2**63 - 2**32]]
    with pytest.raises(ValueError, match=r"^sums of a and b must fit 64 bits, not 2 terms of "):
        exact_product(a, a)


@pytest.mark.contract("T26")
def test_int32_sums_where_one_side_has_powers_of_two(backend):
    rng = generator("one side of powers")
    a, b = (random_array(rng, shrunk(SCHEMES[n]), 4, 16, "one") for n in ("msfp16", "int8_channel"))
    c = np.zeros((4, 4), np.float32)
    backend.check_product(a, b, "int32", c)
    backend.check_product(b, a, "int32", c)


@pytest.mark.parametrize("text", ["aligned:2", "fused:3"])
@pytest.mark.contract("T6", "T12", "T13")
def test_integers_of_0_have_no_unit(text, backend):
    """q - z of 0 and -1 alone: steps of nothing but zeros leave a small c as it is."""
    scheme = shrunk(SCHEMES["int8_affine"])
    one, zero = np.ones((1, 1), np.float32), np.full((1, 1), 5, np.int32)
    a = ScaledArray(scheme, np.repeat(np.array([[5], [4]], np.uint8), 8, 1), (one,), zero)
    b = ScaledArray(scheme, np.repeat(np.array([[5, 4]], np.uint8), 4, 1), (one,), zero)
    c = np.array([[1.984375 * 2.0**-9], [1.984375]], np.float32)
    backend.check_product(a, b, text, c)
