"""Schemes on values whose codes and scales can be told by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mxdot.model import element_format
from mxdot.model.schemes import (
    CHANNEL,
    FLOAT32,
    INT4_FULL,
    SCHEMES,
    TENSOR,
    Level,
    Scheme,
    block,
    quantize,
    tile,
)


@pytest.mark.contract("S4", "S5", "S6", "S7")
def test_int8_per_channel_by_hand():
    w = np.array([[0.50, -1.00, 0.25, -0.75], [2.0, -4.0, 1.0, -3.0]], np.float32)
    q = quantize(w, "int8_channel")
    assert q.codes.view(np.int8).tolist() == [[64, -127, 32, -95]] * 2
    np.testing.assert_array_equal(q.scales[0], np.array([[1], [4]], np.float32) / np.float32(127))
    np.testing.assert_allclose(q.dequantize()[0], [0.504, -1.0, 0.252, -0.748], atol=5e-4)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
def test_a_block_of_fp8_reconstructs_within_half_an_ulp(fmt):
    x = np.array([0.50, -1.20, 0.10, 0.00, 2.00, -0.30, 0.70, -0.80], np.float32)
    f = element_format(fmt)
    scheme = Scheme("block8", (f,), (Level(block(8), FLOAT32),), "the issue")
    q = quantize(x, scheme)
    scale = Fraction(float(q.scales[0][0]))
    assert np.float32(scale) == np.float32(2) / np.float32(f.largest_finite)
    for value, code in zip(x.tolist(), q.codes, strict=True):
        element = abs(Fraction(f.values[code].item()))
        unit = Fraction(f.smallest)
        while unit * 2 ** (f.mantissa_bits + 1) <= element:
            unit *= 2
        # The scale's own rounding may take the largest over the end of the range.
        slack = scale * Fraction(f.largest_finite) / 2**23
        assert abs(abs(Fraction(value)) - element * scale) <= unit * scale / 2 + slack


def test_int4_groups_by_hand():
    x = np.array([7, -3.5, 0.5, 1.5, 14, 14, -14, 1], np.float32)
    (level,) = SCHEMES["int4_g32"].levels
    scheme = replace(SCHEMES["int4_g32"], levels=(replace(level, granularity=block(4)),))
    q = quantize(x, scheme)
    assert (q.scales[0].tolist(), q.scales[0].dtype) == ([1, 2], np.float16)
    assert q.codes.tolist() == [7, 16 - 4, 0, 2, 7, 7, 16 - 7, 0]


def test_two_levels_of_float32_scales_by_hand():
    """The tensor's scale is divided out before a channel's scale is chosen."""
    levels = Level(TENSOR, FLOAT32), Level(CHANNEL, FLOAT32)
    x = np.array([[6, -3, 1.5, 0.5], [96, 24, -8, 16]], np.float32)
    q = quantize(x, Scheme("two", (element_format("e2m1"),), levels, "by hand"))
    outer, inner = q.scales
    assert (outer * inner).ravel().tolist() == [1, 16]
    np.testing.assert_array_equal(q.dequantize(), x)


@pytest.mark.contract("S4", "S5", "S6", "S7")
def test_a_full_integer_reaches_its_lowest_value():
    scheme = Scheme("full", (INT4_FULL,), (Level(TENSOR, FLOAT32),), "by hand", True)
    assert quantize(np.array([-8, 7], np.float32), scheme).codes.tolist() == [8, 7]


@pytest.mark.contract("S4", "S5", "S6", "S7", "S18")
def test_affine_by_hand():
    q = quantize(np.array([-1, 0, 254, 3.5], np.float32), "uint8_affine")
    assert (q.scales[0].tolist(), np.asarray(q.zero_points).tolist()) == ([1], [1])
    assert q.codes.tolist() == [0, 1, 255, 5]
    assert q.dequantize().tolist() == [-1, 0, 254, 4]
    positive = quantize(np.array([100, 255], np.float32), "int8_affine")  # 0 stays representable
    assert (positive.scales[0].tolist(), np.asarray(positive.zero_points).tolist()) == ([1], [-128])


@pytest.mark.contract("S15", "S16")
def test_microexponents_by_hand():
    """Shared exponent 0; the second pair is shifted by one place, the third by no more."""
    x = np.array([1.5, 0.25, 0.75, 0.5, 0.25, 0.125] + [0] * 10, np.float32)
    q = quantize(x, "mx4")  # mantissas of 2 bits: multiples of 1/2
    assert q.scales[0].tolist() == [127]
    assert q.scales[1].tolist() == [0, 1, 1, 1, 1, 1, 1, 1]
    assert q.codes.tolist()[:6] == [3, 0, 3, 2, 1, 0]
    assert q.dequantize().tolist()[:6] == [1.5, 0, 0.75, 0.5, 0.25, 0]


@pytest.mark.contract("S15")
def test_two_levels_by_hand():
    x = np.zeros(32, np.float32)
    x[0], x[16], x[17] = 105, 14, 6
    q = quantize(x, "vsquant4_u4")  # 105 = 7 x 15 x 1
    assert q.scales[0].tolist() == [1]
    assert q.scales[1].tolist() == [15, 2]
    assert q.codes.tolist()[16:18] == [7, 3]
    n = quantize(x * np.float32(25.6), "nvfp4")  # 105 x 25.6 = 6 x 448
    assert n.scales[0].tolist() == [1]
    assert element_format("e4m3").decode(n.scales[1]).tolist() == [448, 60]  # 59.7 rounded
    assert n.dequantize()[0] == 2688


@pytest.mark.contract("S22", "S23")
def test_a_code_book_takes_the_better_format():
    peaked = np.where(np.arange(32) == 5, 4.0, 0.5)  # E2M1 holds both values under 2^0
    even = np.arange(32) % 8  # INT4 holds all of them
    q = quantize(np.stack([peaked, even, even * 0]).astype(np.float32), "mixed4")
    assert np.asarray(q.selectors).tolist() == [[0], [1], [0]]  # the first of equals
    np.testing.assert_array_equal(q.dequantize(), np.stack([peaked, even, even * 0]))
    assert q.codes[0].tolist() == [6 if i == 5 else 1 for i in range(32)]
    assert q.codes[1].tolist() == even.tolist()


@pytest.mark.contract("S26", "S27", "S28")
def test_poison():
    x = np.ones((2, 32), np.float32)
    x[0, 20] = np.inf
    q = quantize(x, "nvfp4")
    assert q.scales[1].tolist() == [[0x7E, 0x7F], [0x7E, 0x7E]]
    assert np.isnan(q.dequantize()[0]).tolist() == [False] * 16 + [True] * 16
    v = quantize(x, "vsquant8_u6")
    assert np.isnan(v.scales[0]).tolist() == [[True], [False]]
    assert (v.codes[0] == 0).all()
    assert np.isnan(quantize(x, "int8_tensor").dequantize()).all()
    z = quantize(x, "int8_affine_channel")
    assert (z.codes[0].view(np.int8) == np.asarray(z.zero_points)[0]).all()


@pytest.mark.contract("S1", "S2")
def test_axes_and_tiles():
    x = np.arange(1, 481, dtype=np.float32).reshape(2, 5, 8, 6)
    scheme = Scheme("tiles", (INT4_FULL,), (Level(tile(2, 4), FLOAT32),), "by hand")
    q = quantize(x, scheme, axis=2)  # rows along the last axis
    assert (q.codes.shape, q.scales[0].shape) == ((2, 5, 8, 6), (2, 5, 2, 3))
    amax = x.reshape(2, 5, 2, 4, 3, 2).max(axis=(3, 5))
    np.testing.assert_array_equal(q.scales[0], amax / np.float32(7))
    by_last = quantize(np.ascontiguousarray(np.moveaxis(x, 2, 3)), scheme)
    np.testing.assert_array_equal(np.moveaxis(q.dequantize(), 2, 3), by_last.dequantize())
    whole = replace(scheme, levels=(Level(TENSOR, FLOAT32),))
    assert quantize(x, whole).scales[0].shape == (1, 1, 1, 1)
    assert quantize(x[0, 0, 0], whole).scales[0].shape == (1,)


def test_input_dtypes():
    x = np.linspace(-3, 3, 32)
    want = quantize(x.astype(np.float16), "mx9").codes
    np.testing.assert_array_equal(
        quantize(x.astype(np.float16).astype(np.float64), "mx9").codes, want
    )
