"""Stages are consistent with each other and with the result."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from cases import random_cases
from compare import generator
from mxdot.model import PRESETS, MXArray, accumulator, dot, matmul
from mxdot.model.products import NO_EXPONENT
from rational import dot as oracle
from rational.formats import Status, pow2, round_float32

SHARED = ["product", "product_exponent", "unit_exponent", "scale"]
NAMES = {
    "exact": [*SHARED, "integer_sum", "block_result", "accumulator"],
    "aligned": [
        *SHARED,
        "largest_exponent",
        "aligned",
        "integer_sum",
        "block_result",
        "accumulator",
    ],
    "fused": [*SHARED, "largest_exponent", "aligned", "aligned_c", "integer_sum", "accumulator"],
    "fixed": [*SHARED, "integer_sum", "addend", "accumulator"],
    "float32": [*SHARED, *(f"tree{i}" for i in range(1, 6)), "block_result", "accumulator"],
    "int32": [*SHARED, "integer_sum", "block_result", "accumulator"],
}
NAMES |= dict.fromkeys(PRESETS, NAMES["fused"])
NAMES["hopper-promoted"] = NAMES["hopper-mx"] = [*NAMES["fused"][:-1], "partial", "accumulator"]
LSB = -32  # below every product of E5M2


def finite_trace(text, fmt="e5m2", n=300, blocks=2, k=32):
    cases = random_cases(
        generator("trace", text),
        (fmt, fmt),
        n,
        blocks,
        k,
        operands=["finite", "wide", "tiny", "cancelling", "sparse"],
        scales=["unit", "moderate"],
        running=["zero", "normal", "cancel"],
    )
    return cases, dot(cases.a, cases.b, text, cases.c, trace=True)


def each(function, array) -> NDArray[np.object_]:
    return np.array(np.frompyfunc(function, 1, 1)(array), np.object_)


def fractions(array):
    """Float or integer elements as Fractions, any shape."""
    return each(Fraction, np.asarray(array).astype(float if array.dtype != object else object))


def power(exponents):
    return each(lambda e: pow2(int(e)), exponents)


def rounded(exact, rounding, fraction_bits=23):
    def one(x):
        return round_float32(x, rounding, Status(), fraction_bits)

    return each(one, exact)


def truncated(exact):
    return each(lambda x: Fraction(int(x)), exact)


def before(cases, stage):
    """The running value that each step starts from: c, then the stage of the step before."""
    return np.concatenate([fractions(cases.c)[:, None], fractions(stage)[:, :-1]], axis=1)


@pytest.mark.parametrize("text", NAMES)
def test_names_shapes_and_terms(text):
    full = {"aligned": "aligned:13", "fused": "fused:25", "fixed": "fixed:48:-20"}.get(text, text)
    fmt = "int8" if text == "int32" else "e5m2"
    cases, trace = finite_trace(full, fmt)
    stages = trace.stages
    assert sorted(stages) == sorted(NAMES[text])
    steps = 64 // getattr(accumulator(str(full)), "terms", 32)
    terms = 64 // steps
    for name, stage in stages.items():
        per_term = name in ("product", "product_exponent", "unit_exponent", "aligned")
        shape = (300, steps, terms) if per_term else (300, steps)
        if name.startswith("tree"):
            shape = (300, steps, terms >> int(name[4:]))
        assert stage.shape == shape, name

    a, b = cases.a.format.values[cases.a.codes], cases.b.format.values[cases.b.codes]
    products = fractions(a * b).reshape(300, steps, terms)
    assert (fractions(stages["product"]) * power(stages["product_exponent"]) == products).all()
    unit = stages["product_exponent"] + 2 * cases.a.format.mantissa_bits
    unit = np.where(stages["product"] == 0, NO_EXPONENT, unit)
    np.testing.assert_array_equal(stages["unit_exponent"], unit)
    scale = cases.a.scales.astype(int) + cases.b.scales - 254
    np.testing.assert_array_equal(stages["scale"], np.repeat(scale, steps // 2, axis=1))
    if not isinstance(stages["accumulator"][0, -1], int):
        np.testing.assert_array_equal(stages["accumulator"][:, -1], trace.result)


@pytest.mark.parametrize("text", ["exact", "int32"])
def test_exact(text):
    cases, trace = finite_trace(text, "int8" if text == "int32" else "e5m2")
    stages = trace.stages
    products = fractions(stages["product"]) * power(stages["product_exponent"])
    lsb = -12 if text == "int32" else LSB
    assert (fractions(stages["integer_sum"]) * pow2(lsb) == products.sum(axis=-1)).all()
    # Rounded to odd at 53 bits, should the sum be wider.
    results = fractions(stages["block_result"])
    exact = np.abs(results - products.sum(axis=-1)) <= np.abs(results) * pow2(-52)
    assert exact.all()
    total = before(cases, stages["accumulator"]) + power(stages["scale"]) * products.sum(axis=-1)
    assert (fractions(stages["accumulator"]) == rounded(total, "nearest_even")).all()


@pytest.mark.parametrize("f", [4, 13, 25])
def test_aligned(f):
    cases, trace = finite_trace(f"aligned:{f}")
    stages = trace.stages
    largest = stages["unit_exponent"].max(axis=-1)
    nonzero = largest != NO_EXPONENT
    np.testing.assert_array_equal(stages["largest_exponent"][nonzero], largest[nonzero])
    products = fractions(stages["product"]) * power(stages["product_exponent"])
    grid = power(stages["largest_exponent"] - f)
    terms = fractions(stages["aligned"])
    assert (terms == truncated(products / grid[..., None])).all()
    assert (fractions(stages["integer_sum"]) == terms.sum(axis=-1)).all()
    results = fractions(stages["block_result"])
    assert (results == rounded(fractions(stages["integer_sum"]) * grid, "toward_zero")).all()
    total = before(cases, stages["accumulator"]) + power(stages["scale"]) * results
    assert (fractions(stages["accumulator"]) == rounded(total, "nearest_even")).all()
    lost = (terms * grid[..., None] != products).any(axis=(-1, -2))
    assert (trace.flags.inexact | ~lost).all()


@pytest.mark.parametrize(
    "text", ["fused:4", "fused:25", "hopper", "hopper-fp16", "ada", "blackwell", "hopper-promoted"]
)
@pytest.mark.contract("A4")
def test_fused(text):
    blocks = 5 if text == "hopper-promoted" else 2
    cases, trace = finite_trace(text, blocks=blocks)
    stages = trace.stages
    rule = accumulator(text)
    f, result_bits = rule.fraction_bits, getattr(rule, "result_bits", 23)  # type: ignore[attr-defined]
    running = stages.get("partial", stages["accumulator"])
    c = before(cases, running)
    if text == "hopper-promoted":
        c[:, 0] = c[:, 4] = Fraction(0)  # after 128 elements
    exponent = np.frexp(c.astype(float))[1] - 1
    units = stages["unit_exponent"].max(axis=-1) + stages["scale"]
    exponent = np.where(c == 0, units, np.maximum(exponent, -126))
    takes_part = (c != 0) | (units > NO_EXPONENT // 2)
    largest = np.maximum(exponent, units)
    np.testing.assert_array_equal(stages["largest_exponent"][takes_part], largest[takes_part])
    grid = power(stages["largest_exponent"] - f)
    products = fractions(stages["product"]) * power(stages["product_exponent"])
    terms = truncated(products * power(stages["scale"])[..., None] / grid[..., None])
    assert (fractions(stages["aligned"]) == terms).all()
    assert (fractions(stages["aligned_c"]) == truncated(c / grid)).all()
    total = terms.sum(axis=-1) + truncated(c / grid)
    assert (fractions(stages["integer_sum"]) == total).all()
    assert (fractions(running) == rounded(total * grid, "toward_zero", result_bits)).all()
    if text == "hopper-promoted":
        partial = fractions(running)
        first = rounded(fractions(cases.c) + partial[:, 3], "nearest_even")
        for j in range(3):
            np.testing.assert_array_equal(stages["accumulator"][:, j], cases.c)
        assert (fractions(stages["accumulator"][:, 3]) == first).all()
        last = rounded(first + partial[:, 4], "nearest_even")
        assert (fractions(stages["accumulator"][:, 4]) == last).all()


@pytest.mark.parametrize("text", ["fixed:48:-20", "fixed:80:-40", "fixed:16:-6:wrap"])
def test_fixed(text):
    cases, trace = finite_trace(text)
    stages = trace.stages
    _, width, lsb, *_ = text.split(":")
    register = oracle.FixedRegister(int(width), int(lsb), text.endswith("wrap"))
    unit = pow2(int(lsb))
    products = fractions(stages["product"]) * power(stages["product_exponent"])
    sums = products.sum(axis=-1)
    assert (fractions(stages["integer_sum"]) * pow2(LSB) == sums).all()
    for i in range(len(cases)):
        status = Status()
        held = register.load(Fraction(float(cases.c[i])), status)
        for j in range(2):
            added = int(sums[i, j] * pow2(int(stages["scale"][i, j])) / unit)
            assert stages["addend"][i, j] == added
            held = register.hold(held + added, status)
            assert stages["accumulator"][i, j] == held
        result = round_float32(held * unit, "nearest_even", status)
        assert Fraction(float(trace.result[i])) == result
        assert trace.flags.saturated[i] == status.saturated


def test_float32():
    cases, trace = finite_trace("float32")
    stages = trace.stages
    total = before(cases, stages["accumulator"])
    total += power(stages["scale"]) * fractions(stages["block_result"])
    assert (fractions(stages["accumulator"]) == rounded(total, "nearest_even")).all()
    tree = (stages["product"] * np.ldexp(1.0, stages["product_exponent"])).astype(np.float32)
    for level in range(1, 6):
        tree = tree[..., 0::2] + tree[..., 1::2]
        np.testing.assert_array_equal(stages[f"tree{level}"], tree)
    np.testing.assert_array_equal(stages["block_result"], tree[..., 0])


def test_special_terms_are_zero_in_the_stages():
    cases = random_cases(generator("special stages"), ("e5m2", "e5m2"), 200, 1, 8)
    finite = np.isfinite(cases.a.format.values[cases.a.codes])
    finite &= np.isfinite(cases.b.format.values[cases.b.codes])
    for text in ("exact", "aligned:13", "hopper", "fixed:48:-20", "float32"):
        stages = dot(cases.a, cases.b, text, cases.c, trace=True).stages
        assert (stages["product"][:, 0][~finite] == 0).all()
        assert (stages["unit_exponent"][:, 0][~finite] == NO_EXPONENT).all()
        if "aligned" in stages:
            assert (stages["aligned"][:, 0][~finite] == 0).all()


def test_stages_on_request():
    cases = random_cases(generator("request"), ("e4m3", "e4m3"), 3, 1, 8)
    assert dot(cases.a, cases.b, "exact", trace=True, stages=False).stages == {}
    assert dot(cases.a, cases.b, "exact", trace=True).stages
    assert matmul(cases.a, cases.b, "exact", trace=True).stages
    plain = dot(cases.a, cases.b, "exact", cases.c)
    traced = dot(cases.a, cases.b, "exact", cases.c, trace=True).result
    np.testing.assert_array_equal(plain.view(np.uint32), traced.view(np.uint32))


@pytest.mark.parametrize("text", ["exact", "fixed:48:-20"])
def test_micro_exponents_lower_the_last_digit_by_two(text):
    """(1 x 1 + 2 x 2) x 2^-1, in units of 2^-20."""
    a = MXArray(np.array([[0x38, 0x40]], np.uint8), np.array([[127]], np.uint8), "e4m3", 2)
    micro = np.array([[1]]), np.array([[0]])
    stages = dot(a, a, text, micro=micro, trace=True).stages
    np.testing.assert_array_equal(stages["integer_sum"], [[5 << 19]])
