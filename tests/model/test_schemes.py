"""Every scheme of the table equals exact rational arithmetic; MX rows equal `quantize`."""

from dataclasses import replace
from fractions import Fraction

import gfloat
import numpy as np
import pytest
from gfloat.formats import format_info_ocp_e2m1, format_info_ocp_e4m3, format_info_ocp_e5m2

from compare import generator
from mxdot.model import quantize as quantize_mx
from mxdot.model.rounding import quotient
from mxdot.model.schemes import E8M0, SCHEMES, Level, block, quantize
from quantize_cases import random_blocks, with_nonfinite
from scheme_cases import MX, shrunk


def test_words_follow_their_elements():
    """A word for each element of x, along any axis; a Generator draws them in the same order."""
    x = generator("words").standard_normal((8, 4, 16)).astype(np.float32)
    draw = {"rounding": "stochastic", "axis": 0}
    words = np.random.default_rng(3).integers(0, 2**32, x.shape, dtype=np.uint32)
    for name in ("mxfp4", "int8_channel"):
        scheme = shrunk(SCHEMES[name])
        got = quantize(x, scheme, rng=words, **draw).codes
        drawn = quantize(x, scheme, rng=np.random.default_rng(3), **draw).codes
        np.testing.assert_array_equal(drawn, got)
        turned = np.ascontiguousarray(np.moveaxis(words, 0, -1))
        moved = quantize(np.moveaxis(x, 0, -1), scheme, rng=turned, rounding="stochastic").codes
        np.testing.assert_array_equal(np.moveaxis(moved, -1, 0), got)


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "twice"])
@pytest.mark.parametrize("name", MX)
@pytest.mark.contract("S1")
def test_mx_rows_are_the_same_as_before(name, rule):
    rng = generator("mx rows", name, rule)
    scheme = replace(SCHEMES[name], levels=(Level(block(32), E8M0, rule),))
    x = with_nonfinite(rng, random_blocks(rng, 200, 96)).reshape(10, 20, 96)
    for axis, values in ((-1, x), (1, np.ascontiguousarray(np.moveaxis(x, 2, 1)))):
        got = quantize(values, scheme, axis=axis)
        want = quantize_mx(values, MX[name], axis=axis, scale_rule=rule)
        np.testing.assert_array_equal(got.codes, want.codes)
        np.testing.assert_array_equal(got.scales[0], want.scales)
        np.testing.assert_array_equal(got.dequantize(), want.dequantize())


@pytest.mark.parametrize(
    ("name", "info"),
    [
        ("fp8_e4m3_row", format_info_ocp_e4m3),
        ("fp8_e5m2_b16", format_info_ocp_e5m2),
        ("nvfp4", format_info_ocp_e2m1),
    ],
)
def test_elements_agree_with_gfloat(name, info):
    """gfloat rounds x / s to the element format, and reads E4M3 scales."""
    x = generator("gfloat", name).standard_normal((8, 64)).astype(np.float32)
    got = quantize(x, name)
    scales = [s.astype(np.float64) for s in got.scales]
    if name == "nvfp4":
        scales[1] = gfloat.decode_ndarray(format_info_ocp_e4m3, got.scales[1].astype(int))
    factor = np.ones((1, 1))
    for s in scales:
        factor = factor * np.repeat(s, x.shape[1] // s.shape[1], axis=1)
    want = gfloat.round_ndarray(info, x / factor, gfloat.RoundMode.TiesToEven, sat=True)
    np.testing.assert_array_equal(gfloat.decode_ndarray(info, got.codes.astype(int)), want)


@pytest.mark.contract("S13")
def test_quotients_are_rounded_to_odd():
    """Against exact fractions, among them exact quotients and ones next to a short number."""
    rng = generator("quotient")
    b = rng.integers(2**27, 2**28, 3000).astype(np.float64)
    near = b * rng.integers(2**24, 2**25, 3000) + rng.integers(-1, 2, 3000).astype(np.float64)
    short = rng.integers(-(2**24), 2**24, 3000).astype(np.float64)
    a = np.concatenate([near, short])
    b = np.tile(b, 2) * np.ldexp(1.0, rng.integers(-150, 100, 6000))
    for numerator, denominator, got in zip(a, b, quotient(a, b), strict=True):
        exact = Fraction(numerator) / Fraction(denominator)
        if Fraction(got) != exact:
            towards = -np.inf if Fraction(got) > exact else np.inf
            other = Fraction(np.nextafter(got, towards))
            assert min(Fraction(got), other) < exact < max(Fraction(got), other)
            assert np.float64(got).view(np.int64) & 1
