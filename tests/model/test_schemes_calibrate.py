"""Limits and the calibrators that choose them, against brute force and published optima."""

import copy
import math
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from compare import generator
from mxdot.model.schemes import (
    CHANNEL,
    FLOAT32,
    INT4_SYMMETRIC,
    SCHEMES,
    Level,
    Limits,
    Scheme,
    calibrate,
    quantize,
)
from rational import schemes as oracle
from scheme_cases import shrunk
from scheme_oracle import values_of

INT4 = Scheme("int4_channel", (INT4_SYMMETRIC,), (Level(CHANNEL, FLOAT32),), "a test")
OUTERMOST = (
    "int8_tensor",
    "int8_affine_channel",
    "int4_g32",
    "nvfp4",
    "vsquant4_u4",
    "mx9",
    "mixed8",
)


@pytest.mark.parametrize("name", OUTERMOST)
@pytest.mark.contract("S30")
def test_given_limits(name):
    """Half of the extremes: much saturates. The oracle is given the same."""
    scheme = shrunk(SCHEMES[name])
    x = generator("limits", name).standard_normal((4, 16)).astype(np.float32)
    limits = calibrate([x], scheme)
    half = Limits(limits.low / 2, limits.high / 2)
    got = quantize(x, scheme, limits=half)
    pairs = [
        list(zip(low, high, strict=True))
        for low, high in zip(half.low.tolist(), half.high.tolist(), strict=True)
    ]
    want = oracle.quantize(x.tolist(), scheme, pairs)
    assert got.codes.tolist() == want.codes
    for level, stored, scales in zip(scheme.levels, got.scales, want.scales, strict=True):
        assert values_of(level, stored) == scales
    assert got.codes.tolist() != quantize(x, scheme).codes.tolist()


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.contract("S32", "S35")
def test_static_amax_is_dynamic_on_its_own_batch(name):
    x = generator("static", name).standard_normal((128, 128)).astype(np.float32)
    static, dynamic = quantize(x, name, limits=calibrate([x], name)), quantize(x, name)
    np.testing.assert_array_equal(static.codes, dynamic.codes)
    for mine, its in zip(static.scales, dynamic.scales, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_groups_along_any_axis():
    x = generator("axis").standard_normal((8, 3, 16)).astype(np.float32)
    scheme = shrunk(SCHEMES["fp8_e4m3_128x128"])
    limits = calibrate([x, 2 * x], scheme, axis=0)  # tiles of 8 columns and 8 rows
    blocks = x.reshape(8, 3, 2, 8)
    np.testing.assert_array_equal(limits.high, 2 * blocks.max(axis=(0, 3))[None])
    np.testing.assert_array_equal(limits.low, 2 * blocks.min(axis=(0, 3))[None])
    assert quantize(x, scheme, axis=0, limits=limits).scales[0].shape == (1, 3, 2)


@pytest.mark.contract("S34", "S36")
def test_percentile_by_counting():
    rng = generator("percentile")
    x = rng.standard_normal((3, 40)).astype(np.float32)
    for percent in (1, 50, 97.5, 99, 100):
        limits = calibrate([x[:, :15], x[:, 15:]], INT4, f"percentile:{percent}")
        for row, low, high in zip(x, limits.low[:, 0], limits.high[:, 0], strict=True):
            magnitudes = np.abs(row)
            enough = [t for t in magnitudes if (magnitudes <= t).mean() >= percent / 100]
            assert (low, high) == (max(row.min(), -min(enough)), min(row.max(), min(enough)))


@pytest.mark.contract("S37")
def test_average_by_hand():
    batches = [np.array([[-1.0, 1.0]]), np.array([[-3.0, 2.0]]), np.array([[0.5, 1.0]])]
    limits = calibrate(batches, "int8_channel", "average")
    assert limits.high[0, 0] == np.float32(1.01 + 0.01 * (1 - 1.01))
    assert limits.low[0, 0] == np.float32(-1.02 + 0.01 * 1.02)


@pytest.mark.contract("S38")
def test_mse_by_trying_all():
    x = generator("mse").standard_normal((2, 24)).astype(np.float32) ** 3
    limits = calibrate([x[:, :8], x[:, 8:]], INT4, "mse")
    for row, low, high in zip(x, limits.low[:, 0], limits.high[:, 0], strict=True):
        errors = {}
        for i in range(100, 0, -1):
            pair = [float(np.float32(float(f(row)) * (i / 100))) for f in (np.min, np.max)]
            coded = oracle.quantize([row.tolist()], INT4, [[pair]])
            errors[tuple(pair)] = float(
                sum(
                    (Fraction(a) - b) ** 2
                    for a, b in zip(row.tolist(), coded.values[0], strict=True)
                )
            )
        assert errors[low, high] <= min(errors.values()) * (1 + 1e-6)  # float32 values there


def test_mse_gives_up_an_outlier():
    x = np.array([[*np.tile(np.arange(-6, 7), 8), 8]], np.float32)
    limits = calibrate([x], INT4, "mse")  # 7 makes every step 1, and 8 costs 1 alone
    assert (limits.low[0, 0], limits.high[0, 0]) == (np.float32(-6 * 0.88), np.float32(8 * 0.88))
    assert ((quantize(x, INT4, limits=limits).dequantize() - x) ** 2).sum() < 2


@pytest.mark.parametrize(("draw", "optimum"), [("normal", 2.55), ("laplace", 5.03)])
@pytest.mark.contract("S40")
def test_octav_finds_the_published_optimum_of_4_bits(draw, optimum):
    """Banner et al., arXiv:1810.05723: in units of the standard deviation and of Laplace's b."""
    x = getattr(generator("octav", draw), draw)(size=(1, 400_000)).astype(np.float32)
    limits = calibrate([x], INT4, "octav")
    assert limits.high[0, 0] == pytest.approx(optimum, rel=0.03)
    magnitudes, t = np.abs(x.astype(np.float64)), float(limits.high[0, 0])

    def expected_error(t):
        beyond = magnitudes > t
        return (4.0**-4 / 3 * t**2 * ~beyond + (magnitudes - t) ** 2 * beyond).mean()

    assert expected_error(t) <= min(expected_error(t * f) for f in (0.98, 0.99, 1.01, 1.02))


@pytest.mark.contract("S40")
def test_octav_of_equal_values_and_of_zeros():
    assert calibrate([np.full((1, 8), 3.0)], INT4, "octav").high.tolist() == [[3]]
    assert calibrate([np.zeros((1, 8))], INT4, "octav").high.tolist() == [[0]]


def divergence(counts, n, levels):
    """The definition, over the bins in use alone."""
    kept = {i: c for i, c in counts.items() if i < n}
    reference = Counter(kept)
    reference[n - 1] += sum(c for i, c in counts.items() if i >= n)
    cells = {}
    for i, c in kept.items():
        cells.setdefault(i * levels // n, []).append(c)
    coarse = {i: sum(own := cells[i * levels // n]) / len(own) for i in kept}
    total, mass = sum(reference.values()), sum(coarse.values())
    result = 0.0
    for i, c in reference.items():
        if c:
            if i not in coarse:
                return math.inf
            result += c / total * math.log(c / total / (coarse[i] / mass))
    return result


@pytest.mark.contract("S34", "S39")
def test_kl_by_definition():
    rng = generator("kl")
    x = np.concatenate([rng.standard_normal(600), [9.0, -11.0]]).astype(np.float32)[None]
    limits = calibrate([x], INT4, "kl")
    largest = float(np.abs(x).max())
    bins = np.minimum(np.abs(x[0].astype(np.float64)) / largest * 2048, 2047).astype(int)
    counts = Counter(bins.tolist())
    all_of_them = {n: divergence(counts, n, 8) for n in range(2048, 7, -1)}
    chosen = round(limits.low[0, 0] / -largest * 2048)
    assert all_of_them[chosen] <= min(all_of_them.values()) * (1 + 1e-9)
    assert chosen < 1500  # the outliers do not count
    assert calibrate([np.zeros((1, 8))], INT4, "kl").low.tolist() == [[0]]


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "method", "scheme"),
    [
        ("method must be one of amax, percentile, average, mse, kl, octav, not 'max'", "max", INT4),
        ("method must be one of amax, percentile, average, mse, kl, octav, not None", None, INT4),
        ("method mse must have no parameter, not '3'", "mse:3", INT4),
        ("P of method percentile:P must be above 0, up to 100, not '0'", "percentile:0", INT4),
        ("P of method percentile:P must be above 0, up to 100, not '101'", "percentile:101", INT4),
        ("P of method percentile:P must be above 0, up to 100, not ''", "percentile", INT4),
        ("method kl must be used with integer elements, not e2m1", "kl", "mxfp4"),
        (
            "method octav must be used with integer elements, not e2m1, int4_symmetric",
            "octav",
            "mixed4",
        ),
    ],
)
def test_methods(message, method, scheme):
    with pytest.raises(ValueError, match=f"^{message}$"):
        calibrate([np.ones((1, 32))], scheme, method)


@pytest.mark.parametrize(
    ("message", "batches"),
    [
        ("batches must hold at least one array, not none", []),
        ("batches must be finite, not batch 1", [np.ones((1, 4)), np.full((1, 4), np.inf)]),
        (
            r"batches must have outermost scales of one shape, not \(1, 1\) and \(2, 1\)",
            [np.ones((1, 4)), np.ones((2, 4))],
        ),
    ],
)
@pytest.mark.contract("S32")
def test_batches(message, batches):
    with pytest.raises(ValueError, match=f"^{message}$"):
        calibrate(batches, INT4)


def test_copies_of_limits_are_read_only_too():
    limits = Limits([-1.0], [2.0])
    for made in (limits, copy.deepcopy(limits), pickle.loads(pickle.dumps(limits))):
        assert (made.low.tolist(), made.high.tolist()) == ([-1.0], [2.0])
        assert not made.low.flags.writeable
        assert not made.high.flags.writeable


@pytest.mark.contract("S30")
def test_limits():
    x = np.ones((2, 4), np.float32)
    for low, high, message in (
        ([1.0], [2.0], "low must be finite and at most 0, not 1.0"),
        ([-1.0], [np.inf], "high must be finite and at least 0, not inf"),
        ([-1.0], [np.nan], "high must be finite and at least 0, not nan"),
        ([-1.0], [1.0, 2.0], r"low and high must have equal shapes, not \(1,\) and \(2,\)"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            Limits(low, high)
    with pytest.raises(ValueError, match=r"^limits must have shape \(2, 1\), not \(1,\)$"):
        quantize(x, INT4, limits=Limits([-1.0], [1.0]))
    with pytest.raises(TypeError, match=r"^limits must be Limits or None, not float$"):
        quantize(x, INT4, limits=1.0)  # type: ignore[arg-type]
