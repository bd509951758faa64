"""Products of every scheme equal exact rational arithmetic; MX rows give what `matmul` gives."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import FULL, generator, repeat_command
from mxdot.model import MXArray
from mxdot.model import matmul as matmul_mx
from mxdot.model import quantize as quantize_mx
from mxdot.model.schemes import (
    E4M3,
    FLOAT16,
    FLOAT32,
    INT8_FULL,
    SCHEMES,
    TENSOR,
    IntegerFormat,
    Level,
    ScaledArray,
    Scheme,
    UnsignedFormat,
    block,
    matmul,
    quantize,
)
from rational import schemes as oracle
from scheme_cases import MX, PAIRS, RULES, random_array, random_c, shrunk, size


def check(a, b, text, c, lanes=128):
    got = matmul(a, b, text, c, lanes=lanes).view(np.uint32)
    want = oracle.matmul(a, b, text, c, lanes)
    context = f"{a.scheme} x {b.scheme}, {text}, lanes {lanes}, repeat {repeat_command()}"
    np.testing.assert_array_equal(got, want, context)


EVERY = [*((name, name) for name in SCHEMES), *PAIRS]


@pytest.mark.parametrize("names", EVERY, ids="x".join)
def test_every_scheme_and_accumulator(names):
    """Every other accumulator for a scheme, the others for the next; with FULL=1 all for each."""
    rng, number = generator("products", names), EVERY.index(names)
    schemes = [shrunk(SCHEMES[name]) for name in names]
    rows, columns = size(*schemes)
    integer = all(isinstance(e, IntegerFormat) or e.is_integer for s in schemes for e in s.elements)
    texts = [*RULES, "fused:25"]
    for i, text in enumerate(texts if FULL else texts[number % 2 :: 2]):
        kind = ["one", "ends", "any", "nan"][(i + number // 2) % 4]
        a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in schemes)
        check(a, b, text, random_c(rng, (rows, rows), kind), int(rng.choice([4, 6, 128])))
    for kind in ("one", "ends", "any", "nan") if integer else ():
        a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in schemes)
        check(a, b, "int32", random_c(rng, (rows, rows), kind))


@pytest.mark.parametrize("name", MX)
def test_mx_is_the_same_as_before(name):
    rng = generator("mx products", name)
    rows = (random_array(rng, SCHEMES[name], 40, 128, "any") for _ in range(2))
    a, b = rows
    c = random_c(rng, (40, 40), "any")
    for text in [*RULES, *(["int32"] if name == "mxint8" else [])]:
        got = matmul(a, b, text, c).view(np.uint32)
        left, right = (MXArray(x.codes, x.scales[0], MX[name]) for x in (a, b))
        np.testing.assert_array_equal(got, matmul_mx(left, right, text, c).view(np.uint32), text)
    x = rng.standard_normal((2, 5, 64)).astype(np.float32)
    got = matmul(quantize(x[0], name), quantize(x[1], name), "exact")
    want = matmul_mx(quantize_mx(x[0], MX[name]), quantize_mx(x[1], MX[name]), "exact")
    np.testing.assert_array_equal(got, want)


def test_one_function_for_mx_and_schemes():
    """Blocks of both are taken whole, or cut as those of schemes; any two kinds multiply."""
    assert matmul is matmul_mx
    rng = generator("one function")
    x, y = rng.standard_normal((2, 20, 256)).astype(np.float32)
    a, b = quantize_mx(x, "e4m3", block_size=256), quantize_mx(y, "e5m2", block_size=256)
    left, right = (ScaledArray(q.scheme, q.codes, (q.scales,)) for q in (a, b))
    for text in ("aligned:3", "fused:5"):
        cut = matmul(left, right, text)
        assert (cut != matmul(a, b, text)).any()
        np.testing.assert_array_equal(matmul(a, b, text, lanes=128), cut)
        np.testing.assert_array_equal(matmul(left, right, text, lanes=256), matmul(a, b, text))
        np.testing.assert_array_equal(matmul(a, right, text), cut)
        np.testing.assert_array_equal(matmul(a, b, text, trace=True).result, matmul(a, b, text))
    np.testing.assert_array_equal(matmul(x, b, "exact"), matmul(x, right, "exact"))
    refused = "^trace must be False but for two MXArrays whose lanes are None$"
    for pair in ((a, right), (left, right), (x, b)):
        with pytest.raises(ValueError, match=refused):
            matmul(*pair, "exact", trace=True)  # type: ignore[arg-type]


def every_element(scheme):
    """One row for each element of a pair of micro-exponent codes: (code, shift), then a zero."""
    codes = 2 ** scheme.elements[0].bits
    every = np.arange(2 * codes)
    array = np.zeros((2 * codes, 16), np.uint8)
    array[:, 0], array[:, 2] = every % codes, every[::-1] % codes
    shifts = np.zeros((2 * codes, 8), np.uint8)
    shifts[:, 0], shifts[:, 1] = every // codes, every[::-1] // codes
    scales = np.full((2 * codes, 1), 127, np.uint8)
    return ScaledArray(scheme, array, (scales, shifts), None, None, -1)


@pytest.mark.parametrize("text", ["exact", "aligned:1", "aligned:3", "fused:2", "float32"])
def test_every_pair_of_microexponent_elements(text):
    """Both shifts and both signs of every code of MX4: sums of two products, cut short."""
    array = every_element(SCHEMES["mx4"])
    check(array, array, text, np.zeros((16, 16), np.float32))


@pytest.mark.parametrize("text", ["exact", "aligned:2", "fused:3", "fixed:24:-12", "blackwell"])
def test_every_scale_of_nvfp4(text):
    """Every E4M3 scale (subnormal ones and NaN too, no zero), over one product of two terms."""
    rng = generator("nvfp4 scales")
    stored = np.arange(1, 128, dtype=np.uint8)[:, None]
    scheme = replace(SCHEMES["nvfp4"], levels=(SCHEMES["nvfp4"].levels[0], Level(block(4), E4M3)))
    codes = rng.integers(0, 16, (127, 4)).astype(np.uint8)
    one = np.ones((1, 1), np.float32)
    a = ScaledArray(scheme, codes, (one, stored), None, None, -1)
    some = [0, 3, 6, 7, 8, 60, 125, 126]
    b = ScaledArray(scheme, codes[some], (one, stored[some]), None, None, -1)
    check(a, b, text, np.zeros((127, 8), np.float32))


def test_three_levels_and_wide_scales():
    """Two inner levels, and significands of blocks that need the exact product of two float64."""
    rng = generator("levels")
    outer = Level(TENSOR, SCHEMES["nvfp4"].levels[0].format)
    schemes = (
        Scheme(
            "three",
            SCHEMES["nvfp4"].elements,
            (outer, Level(block(8), E4M3), Level(block(4), UnsignedFormat(2))),
            "a test",
        ),
        Scheme("wide", (INT8_FULL,), (outer, Level(block(8), UnsignedFormat(15))), "a test"),
        Scheme("half", (INT8_FULL,), (outer, Level(block(4), FLOAT16)), "a test"),
        Scheme(
            "e8m0 twice",
            (INT8_FULL,),
            (
                Level(block(8), SCHEMES["mxfp4"].levels[0].format, "floor"),
                replace(SCHEMES["mxfp4"].levels[0], granularity=block(4)),
            ),
            "a test",
        ),
    )
    for left in schemes:
        for right in schemes:
            for text in ("exact", "aligned:13", "fused:25", "float32", "fixed:60:-30"):
                a, b = (random_array(rng, s, 3, 16, "one") for s in (left, right))
                check(a, b, text, random_c(rng, (3, 3), "one"))


@pytest.mark.parametrize("text", ["exact", "float32", "aligned:40", "fixed:64:0"])
def test_a_block_and_its_scale_may_need_more_than_53_bits(text):
    """(2^23 + 1)(2^15 + 1)^2 is odd and has 54 bits; the block before takes the leading ones."""
    levels = (Level(TENSOR, FLOAT32), Level(block(1024), UnsignedFormat(16)))
    scheme = Scheme("wide", (INT8_FULL,), levels, "a test")
    a, b = np.zeros((2, 1, 2048), np.int8)
    a[0, :518] = [-128] * 516 + [-127, -1]  # -(2^23 + 2^9 + 1), times 2^30
    b[0, :518] = [127] * 516 + [8, 9]
    a[0, 1024:1536] = b[0, 1024:1536] = -128
    a[0, 1536] = b[0, 1536] = 1
    scales = np.array([[2**15, 2**15 + 1]], np.uint16)
    one = np.ones((1, 1), np.float32)
    x, y = (ScaledArray(scheme, v.view(np.uint8), (one, scales), None, None, -1) for v in (a, b))
    assert matmul(x, y, text, lanes=1024).item() == 2**23 + 2**16 + 1


@settings(max_examples=40)
@given(
    names=st.tuples(*[st.sampled_from(sorted(SCHEMES))] * 2),
    text=st.sampled_from(RULES),
    kind=st.sampled_from(["one", "ends", "any", "nan"]),
    number=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 40),
)
def test_any_pair_of_schemes(names, text, kind, number, lanes):
    rng = np.random.default_rng(number)
    schemes = [shrunk(SCHEMES[name]) for name in names]
    rows, columns = size(*schemes)
    a, b = (random_array(rng, scheme, rows, columns, kind) for scheme in schemes)
    check(a, b, text, random_c(rng, (rows, rows), kind), lanes)


# Weight-only ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["int4_g32", "int4_affine_g128", "int8_channel", "nvfp4", "mx9"])
def test_weight_only(name, dtype):
    rng = generator("weight-only", name, np.dtype(dtype).name)
    scheme = shrunk(SCHEMES[name])
    for kind in ("one", "any", "ends", "nan"):
        low, high = (-140, 127) if kind == "ends" and dtype != np.float16 else (-24, 12)
        x = rng.standard_normal((4, 16)) * 2.0 ** rng.integers(low, high, (4, 16))
        x[0, :3] = [0, -0.0, 2.0**-24]
        x[1, 8:] = -x[1, :8]
        if kind == "nan":
            x[2, rng.integers(0, 16)] = np.inf
        with np.errstate(over="ignore"):
            x = x.astype(dtype)
        weights = random_array(rng, scheme, 4, 16, kind)
        with np.errstate(over="ignore"):
            rounded = weights.dequantize().astype(dtype)
        c = random_c(rng, (4, 4), kind)
        for text in ("exact", "fused:13", "fused:40", "hopper-fp16", "hopper-promoted"):
            got = matmul(x, weights, text, c, lanes=12).view(np.uint32)
            want = oracle.weight_only(x, rounded, text, c, 12)
            np.testing.assert_array_equal(got, want, f"{name}, {text}, {kind}; {repeat_command()}")


@pytest.mark.parametrize("k", [32, 64])
def test_small_weight_only_products_as_on_an_h200(k):
    """1.5 x 2^-76 by 2^-76: 16 of them are 3 x 2^-149, beside which the rest is lost."""
    x = np.full((1, k), 1.5 * 2.0**-76, ml_dtypes.bfloat16)
    weights = quantize(np.full((1, k), 2.0**-76, np.float32), "mxfp8_e4m3")
    assert matmul(x, weights, "hopper-fp16").view(np.uint32).tolist() == [[3]]


def test_exact_weight_only_keeps_what_cancels():
    """Far apart terms that cancel but for the least, which two float64 would not hold."""
    x = np.array([[2.0**127, 2.0**60, 2.0**-120, -(2.0**127)] + [0] * 28], np.float32)
    w = np.array([[1, 1, 1, 1] + [0] * 28], np.float32)
    coded = quantize(w, "mxint8")
    assert matmul(x, coded, "exact", np.float32(-(2.0**60))) == np.float32(2.0**-120)
    assert matmul(x, coded, "exact")[0, 0] == np.float32(2.0**60)


@pytest.mark.parametrize("text", ["exact", "fused:13"])
def test_a_product_beyond_float32_is_no_infinity(text):
    """2^200 beside an infinity of the other sign gives that infinity; with -2^200 it cancels."""
    coded = quantize(np.array([[2.0**100, 2.0**100] + [0] * 30], np.float32), "mxint8")
    x = np.zeros((3, 32), np.float32)
    x[:, 0] = 2.0**100
    x[:, 1] = [0, -(2.0**100), -np.inf]
    assert matmul(x, coded, text)[:, 0].tolist() == [np.inf, 0, -np.inf]
