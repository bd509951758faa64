"""Products of every scheme equal exact rational arithmetic; MX rows give what `matmul` gives."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from compare import generator
from mxdot.model import FORMATS, PRESETS, MXArray
from mxdot.model import matmul as matmul_mx
from mxdot.model import quantize as quantize_mx
from mxdot.model.formats import FLOAT16, FLOAT32
from mxdot.model.schemes import (
    E4M3,
    SCHEMES,
    TENSOR,
    Level,
    ScaledArray,
    Scheme,
    block,
    matmul,
    quantize,
)
from mxdot.model.steps.operands import OperandSteps
from scheme_cases import MX, RULES, random_array, random_c


@pytest.mark.parametrize("name", MX)
@pytest.mark.contract("T1")
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
@pytest.mark.contract("T3", "T5", "T6")
def test_every_pair_of_microexponent_elements(text, backend):
    """Both shifts and both signs of every code of MX4: sums of two products, cut short."""
    array = every_element(SCHEMES["mx4"])
    backend.check_product(array, array, text, np.zeros((16, 16), np.float32))


@pytest.mark.parametrize("text", ["exact", "aligned:2", "fused:3", "fixed:24:-12", "blackwell"])
@pytest.mark.contract("T4", "T13")
def test_every_scale_of_nvfp4(text, backend):
    """Every E4M3 scale (subnormal ones and NaN too, no zero), over one product of two terms."""
    rng = generator("nvfp4 scales")
    stored = np.arange(1, 128, dtype=np.uint8)[:, None]
    scheme = replace(SCHEMES["nvfp4"], levels=(SCHEMES["nvfp4"].levels[0], Level(block(4), E4M3)))
    codes = rng.integers(0, 16, (127, 4)).astype(np.uint8)
    one = np.ones((1, 1), np.float32)
    a = ScaledArray(scheme, codes, (one, stored), None, None, -1)
    rows = [0, 3, 6, 7, 8, 60, 125, 126]
    b = ScaledArray(scheme, codes[rows], (one, stored[rows]), None, None, -1)
    backend.check_product(a, b, text, np.zeros((127, 8), np.float32))


def test_products_of_no_columns_are_c():
    a = MXArray(np.zeros((2, 0), np.uint8), np.zeros((2, 0), np.uint8), "int8")
    c = np.array([[1.5], [-0.25]], np.float32)
    for text in [*(rule for rule in RULES if rule not in PRESETS), "int32"]:
        for lanes in (None, 1, 32):
            result = matmul(a, a, text, c, lanes=lanes)
            np.testing.assert_array_equal(result, np.repeat(c, 2, 1), text)


@pytest.mark.parametrize("lanes", [0, 65537])
def test_lanes_outside_their_range(lanes):
    a = quantize(np.ones((2, 32), np.float32), "mxfp8_e4m3")
    with pytest.raises(ValueError, match=f"^lanes must be from 1 to 65536, not {lanes}$"):
        matmul(a, a, "exact", lanes=lanes)


def test_steps_of_one_element(backend):
    rng = generator("steps of one element")
    a, b = (random_array(rng, SCHEMES["mxfp8_e4m3"], 4, 32, "any") for _ in range(2))
    backend.check_product(a, b, "fused:5", np.zeros((4, 4), np.float32), lanes=1)


def ties_and_one(rng, factor, count):
    """Multiples of `factor` that lie one above a tie of float32 at an even significand."""
    tie, ulp = 2**32 + 1, 2**33
    least = -tie * pow(ulp, -1, factor) % factor
    quotients = least + factor * rng.integers(2**23 // factor + 1, 2**24 // factor - 1, 8 * count)
    return [int(q) * ulp + tie for q in quotients if q % 2 == 0][:count]


def powers(total, most):
    """Exponents of powers of two, at most `most`, that sum to `total`."""
    while total:
        exponent = min(total.bit_length() - 1, most)
        yield exponent
        total -= 2**exponent


@pytest.mark.contract("T4", "A2")
def test_one_unit_beside_a_tie_under_wide_scales(backend):
    """Sums of 57 bits under FP16 scales of all significand bits: float64 would lose the unit."""
    scheme = replace(
        SCHEMES["fp8_e4m3_tensor"], levels=(Level(TENSOR, FLOAT32), Level(block(32), FLOAT16))
    )
    significands = 1025, 2047
    totals = ties_and_one(generator("ties of schemes"), 1025 * 2047, 16)
    elements = np.zeros((2, len(totals), 32))
    for row, total in enumerate(totals):
        for place, exponent in enumerate(powers(total // (1025 * 2047), 34)):
            elements[:, row, place] = 2.0 ** (exponent // 2 - 9), 2.0 ** (-(-exponent // 2) - 9)
    a, b = (
        ScaledArray(
            scheme,
            side.astype(ml_dtypes.float8_e4m3fn).view(np.uint8),
            (np.ones((1, 1), np.float32), np.full((len(totals), 1), significand, np.float16)),
        )
        for side, significand in zip(elements, significands, strict=True)
    )
    backend.check_product(a, b, "exact", np.zeros((len(totals),) * 2, np.float32))


@pytest.mark.contract("T4")
def test_a_sum_of_54_bits_under_wide_scales():
    """In a fixed register, from which the next block takes all but the least digit."""
    wide = (Level(TENSOR, FLOAT32), Level(block(32), FLOAT16))
    sides = []
    for name, sign in (("e4m3", -1), ("e3m2", 1)):
        fmt = FORMATS[name]
        values = np.full((1, 2, 32), fmt.extremes[1], np.float32)
        values[0, 1] *= sign
        values[0, :, -1] = 2.0**fmt.lsb, 0
        scheme = Scheme(f"wide-{name}", (fmt,), wide, "a test")
        scales = np.ones((1, 1), np.float32), np.full((1, 2), 2047, np.float16)
        sides.append(ScaledArray(scheme, fmt.encode(values).reshape(1, 64), scales))
    a, b = sides
    got = matmul(a, b, "fixed:100:-40", lanes=32)
    assert got == np.float32(2.0 ** (-9 - 4) * 2047**2)


@pytest.mark.contract("T15")
def test_most_significand_bits_of_scales():
    """33 are refused: 22 of one operand's blocks and 11 of the other's."""

    def side(*formats):
        levels = [Level(block(32 >> i), fmt) for i, fmt in enumerate(formats)]
        scheme = Scheme("wide", (FORMATS["e2m1"],), (Level(TENSOR, FLOAT32), *levels), "a test")
        return random_array(generator("significand bits"), scheme, 2, 32, "any")

    matmul(side(FLOAT32), side(E4M3, E4M3), "exact")
    with pytest.raises(ValueError, match="at most 32 significand bits together, not 33"):
        matmul(side(FLOAT16, FLOAT16), side(FLOAT16), "exact")


@pytest.mark.contract("T3", "T4")
def test_outermost_powers_of_one_bit_are_scales(backend):
    """Outermost scales end blocks; inner ones shift elements."""
    level = Level(block(4), SCHEMES["mx4"].levels[1].format, "floor")
    scheme = Scheme("one-bit", (FORMATS["e2m1"],), (level,), "a test")
    rng = generator("one-bit scales")
    a, b = (random_array(rng, scheme, 6, 32, "any") for _ in range(2))
    for text in ("aligned:2", "fused:3", "float32"):
        backend.check_product(a, b, text, np.zeros((6, 6), np.float32))


# Weight-only ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [32, 64])
@pytest.mark.contract("T30")
def test_small_weight_only_products_as_on_an_h200(k):
    """1.5 x 2^-76 by 2^-76: 16 of them are 3 x 2^-149, beside which the rest is lost."""
    x = np.full((1, k), 1.5 * 2.0**-76, ml_dtypes.bfloat16)
    weights = quantize(np.full((1, k), 2.0**-76, np.float32), "mxfp8_e4m3")
    assert matmul(x, weights, "hopper-fp16").view(np.uint32).tolist() == [[3]]


@pytest.mark.contract("T29")
def test_exact_weight_only_keeps_what_cancels():
    """Far apart terms that cancel but for the least, which two float64 would not hold."""
    x = np.array([[2.0**127, 2.0**60, 2.0**-120, -(2.0**127)] + [0] * 28], np.float32)
    w = np.array([[1, 1, 1, 1] + [0] * 28], np.float32)
    coded = quantize(w, "mxint8")
    assert matmul(x, coded, "exact", np.float32(-(2.0**60))) == np.float32(2.0**-120)
    assert matmul(x, coded, "exact")[0, 0] == np.float32(2.0**60)


@pytest.mark.parametrize("text", ["exact", "fused:13"])
@pytest.mark.contract("A13", "A14")
def test_a_product_beyond_float32_is_no_infinity(text):
    """2^200 beside an infinity of the other sign gives that infinity; with -2^200 it cancels."""
    coded = quantize(np.array([[2.0**100, 2.0**100] + [0] * 30], np.float32), "mxint8")
    x = np.zeros((3, 32), np.float32)
    x[:, 0] = 2.0**100
    x[:, 1] = [0, -(2.0**100), -np.inf]
    assert matmul(x, coded, text)[:, 0].tolist() == [np.inf, 0, -np.inf]


def test_a_row_that_is_longer_than_a_part_of_the_work():
    weights = quantize(np.ones((1, 70016), np.float32), "mxfp8_e4m3")
    assert matmul(np.ones((1, 70016), np.float32), weights, "exact").tolist() == [[70016]]


def test_elements_of_a_scheme_are_flushed():
    """2^-9 is subnormal in E4M3; one scale of 1 for the tensor."""
    x, y = (
        quantize(np.array([row], np.float32), "fp8_e4m3_tensor")
        for row in ([2.0**-9, 448, 0, 0], [448, 0, 0, 0])
    )
    assert matmul(x, y, "exact") == 448 * 2.0**-9
    assert matmul(x, y, "cdna2-bf16") == 0


@pytest.mark.parametrize("name", ["mxfp8_e5m2", "nvfp4", "mx9", "vsquant8_u6"])
def test_terms_fit_their_bounds(name, monkeypatch):
    steps, walk = [], OperandSteps.walk

    def walked(self, record):
        for step in walk(self, record):
            steps.append(step)
            yield step

    monkeypatch.setattr(OperandSteps, "walk", walked)
    rng = generator("bounds", name)
    a, b = (random_array(rng, SCHEMES[name], 20, 128, "any") for _ in range(2))
    x = rng.standard_normal((20, 128)).astype(np.float32)
    x[::3, 5] = np.inf
    for left in (a, x):
        matmul(left, b, "fused:13")
    assert any(step.special.any() for step in steps)
    for step in steps:
        largest = np.abs(step.terms).max(axis=-1)
        assert (largest <= np.ldexp(1.0, step.largest_unit + step.term_bits)).all()
        assert (largest <= 2.0 ** (step.bits + step.lsb)).all()
        assert (step.products[~np.isfinite(step._products)] == 0).all()


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.contract("T27")
def test_weight_only_products_of_any_byte_order(dtype):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 5, 128)).astype(np.float32)
    weight = quantize(b, "nvfp4")
    a = a.astype(dtype)
    want = matmul(a, weight, "fused:13")
    np.testing.assert_array_equal(matmul(a.astype(f">{dtype}"), weight, "fused:13"), want)
