"""MXArray: axes, padding, input dtypes, dequantisation, and what is refused."""

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxdot.model import FORMATS, MXArray, quantize, unscaled
from rational import formats as rational_formats


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Axes and padding -------------------------------------------------------------------------------


def test_floats_without_scales_are_not_padded_unless_asked():
    with pytest.raises(ValueError, match=r"^axis -1 must be a multiple of block_size 32 long"):
        unscaled(normal(1, 33), "bf16")
    assert unscaled(normal(1, 33), "bf16", pad=True).padding == 31


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axis(axis):
    x = normal(8, 12, 16)
    got = quantize(x, "e4m3", block_size=4, axis=axis)
    last = quantize(np.moveaxis(x, axis, -1), "e4m3", block_size=4)
    assert (got.shape, got.axis) == (x.shape, axis)
    np.testing.assert_array_equal(got.codes, np.moveaxis(last.codes, -1, axis))
    np.testing.assert_array_equal(got.scales, np.moveaxis(last.scales, -1, axis))
    np.testing.assert_array_equal(got.dequantize(), np.moveaxis(last.dequantize(), -1, axis))
    codes, scales = got.blocks_last()
    np.testing.assert_array_equal(codes.reshape(last.codes.shape), last.codes)
    np.testing.assert_array_equal(scales, last.scales)


@pytest.mark.contract("Q8")
def test_stochastic_words_follow_the_axis():
    x = normal(8, 6)
    words = np.random.default_rng(2).integers(0, 2**32, x.shape, dtype=np.uint32)
    got = quantize(x, "e4m3", block_size=4, axis=0, rounding="stochastic", rng=words)
    want = quantize(x.T, "e4m3", block_size=4, rounding="stochastic", rng=words.T)
    np.testing.assert_array_equal(got.codes, want.codes.T)


@pytest.mark.parametrize(("length", "padding"), [(0, 0), (1, 31), (31, 1), (32, 0), (33, 31)])
def test_pad(length, padding):
    x = normal(3, length)
    got = quantize(x, "e4m3", pad=True)
    assert got.padding == padding
    assert got.shape == (3, length + padding)
    zeros = np.zeros((3, padding), np.float32)
    want = quantize(np.concatenate([x, zeros], axis=1), "e4m3")
    assert want.padding == 0
    np.testing.assert_array_equal(got.codes, want.codes)
    np.testing.assert_array_equal(got.scales, want.scales)


def test_empty():
    got = quantize(np.zeros((0, 64), np.float32), "e2m1")
    assert (got.codes.shape, got.scales.shape, got.dequantize().shape) == ((0, 64), (0, 2), (0, 64))


# Input dtypes -----------------------------------------------------------------------------------


@pytest.mark.contract("Q1")
def test_dtypes():
    wide = normal(4, 32)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = wide.astype(dtype)
        got, want = quantize(x, "e4m3"), quantize(x.astype(np.float32), "e4m3")
        np.testing.assert_array_equal(got.codes, want.codes)
        np.testing.assert_array_equal(got.scales, want.scales)
    got = quantize(wide.astype(np.float64), "e4m3")
    np.testing.assert_array_equal(got.codes, quantize(wide, "e4m3").codes)
    got = quantize([[1.0, np.nan, np.inf, -0.0]], "e5m2", block_size=4, nonfinite="element")
    np.testing.assert_array_equal(
        got.dequantize(), np.array([[1.0, np.nan, np.inf, -0.0]], np.float32)
    )


def test_dtypes_refused():
    for x, got in [([1, 2], "int64"), (np.zeros(2, np.complex64), "complex64"), (["a"], "<U1")]:
        match = rf"^x must be float32, float16, bfloat16 or float64, not {got}$"
        with pytest.raises(TypeError, match=match):
            quantize(x, "e4m3", block_size=1)
    for order in "<>":
        with pytest.raises(
            ValueError, match=r"^x of dtype float64 must hold float32 values, not 0\.1: astype"
        ):
            quantize(np.array([1, 0.1, 0.2, 0.3], f"{order}f8"), "e4m3", block_size=4)  # the first
    with pytest.raises(
        ValueError, match=r"^x of dtype float64 must hold float32 values, not 1e\+300: astype"
    ):
        quantize([1e300], "e4m3", block_size=1)
    with pytest.raises(
        ValueError, match=r"^x of dtype float64 must hold float32 values, not 1e-50: astype"
    ):
        quantize([1e-50], "e4m3", block_size=1)


def test_an_error_of_an_array_is_its_own():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("on another device")

    with pytest.raises(TypeError, match=r"^on another device$"):
        quantize(Broken(), "e4m3")  # type: ignore[arg-type]


# Dequantisation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, fmt in FORMATS.items() if fmt.bits <= 8])
@pytest.mark.contract("Q11")
def test_dequantize_is_exact(name):
    """Every code under scales of every kind, against the oracle; 2^128 and above is infinite."""
    codes = np.arange(2 ** FORMATS[name].bits, dtype=np.uint8)
    for scale in (0, 1, 100, 126, 127, 128, 200, 253, 254):
        x = MXArray(codes, np.full(len(codes), scale, np.uint8), name, block_size=1)
        for code, got in zip(codes.tolist(), x.dequantize(), strict=True):
            element = rational_formats.decode(name, code)
            if len(element) == 3:
                want = rational_formats.value(name, code) * rational_formats.pow2(scale - 127)
                if abs(want) < 2**128:
                    assert Fraction(float(got)) == want
                else:
                    assert got == (np.inf if want > 0 else -np.inf)
                assert np.signbit(got) == (element[0] if not name.startswith("int") else want < 0)
            elif element[0] == "inf":
                assert got == (-np.inf if element[1] else np.inf)
            else:
                assert np.isnan(got)


@pytest.mark.parametrize("name", ["fp16", "bf16", "tf32"])
@pytest.mark.contract("Q11")
def test_dequantize_of_sixteen_bits_rounds_once(name):
    fmt, rng = FORMATS[name], np.random.default_rng(3)
    codes = np.flatnonzero(np.isfinite(fmt.values)).astype(fmt.dtype)
    codes = np.concatenate([rng.choice(codes, 500), np.arange(50, dtype=fmt.dtype)])
    for scale in (0, 1, 100, 127, 200, 254):
        x = MXArray(codes, np.full(len(codes), scale, np.uint8), name, block_size=1)
        for code, got in zip(codes.tolist(), x.dequantize(), strict=True):
            value = rational_formats.value(name, code) * rational_formats.pow2(scale - 127)
            status = rational_formats.Status()
            want = rational_formats.round_float32(value, "nearest_even", status)
            assert int(got.view(np.uint32)) & 0x7FFFFFFF == (
                rational_formats.encode_float32(want, 0) & 0x7FFFFFFF
            )
            assert np.signbit(got) == np.signbit(fmt.values[code])


@pytest.mark.contract("Q11")
def test_dequantize_nan_scale():
    x = MXArray(np.zeros(64, np.uint8), np.array([0xFF, 127], np.uint8), "e4m3")
    assert np.isnan(x.dequantize()[:32]).all()
    assert (x.dequantize()[32:] == 0).all()


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "twice"])
@pytest.mark.parametrize("name", FORMATS)
def test_quantisation_error(name, rule):
    """Values that do not saturate lie within half a step of the element format."""
    x = normal(64, 32, seed=3)
    got = quantize(x, name, scale_rule=rule)
    scale = np.repeat(np.ldexp(1.0, got.scales.astype(int) - 127), 32, axis=-1)
    largest = FORMATS[name].largest_finite * scale
    binade = np.maximum(np.abs(x), 2.0 ** FORMATS[name].emin * scale)
    half_step = binade * 2.0 ** -(FORMATS[name].mantissa_bits + 1)
    inside = np.abs(x) <= largest
    assert inside.all() or rule not in ("ceil", "twice")
    assert (np.abs(got.dequantize() - x) <= half_step)[inside].all()
    np.testing.assert_array_equal(np.abs(got.dequantize()[~inside]), largest[~inside])


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.contract("Q1", "Q12")
def test_lengths_refused():
    with pytest.raises(
        ValueError,
        match=r"^axis -1 must be a multiple of block_size 32 long, not 40 "
        r"\(pad=True of quantize pads with zeros\)$",
    ):
        quantize(normal(2, 40), "e4m3")


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "scale_rule must be one of floor, ceil, even, twice, even1, not 'round'",
         {"scale_rule": "round"}),
        (ValueError, "rounding must be one of nearest_even, toward_zero, stochastic, not None",
         {"rounding": None}),
        (ValueError, "nonfinite must be one of poison, element, not ['poison']",
         {"nonfinite": ["poison"]}),
        (ValueError, "block_size must be from 1 to 65536, not 0", {"block_size": 0}),
        (TypeError, "block_size must be an integer from 1 to 65536, not 32.0",
         {"block_size": 32.0}),
        (TypeError, "block_size must be an integer from 1 to 65536, not True",
         {"block_size": True}),
        (ValueError, "axis must be from -2 to 1, not 2", {"axis": 2}),
        (TypeError, "axis must be an integer from -2 to 1, not None", {"axis": None}),
        (ValueError, ("rng must be a numpy Generator or uint32 words of shape (2, 32) "
         "for stochastic rounding, not None"), {"rounding": "stochastic"}),
        (ValueError, ("rng must be a numpy Generator or uint32 words of shape (2, 32) "
         "for stochastic rounding, not uint32 (32,)"),
         {"rounding": "stochastic", "rng": np.zeros(32, np.uint32)}),
        (ValueError, ("fmt must be one of e4m3, e5m2, e3m2, e2m3, e2m1, int8, int4, e4m3fnuz, "
         "e5m2fnuz, fp16, bf16, tf32, int5, int3, not 'fp8'"),
         {"fmt": "fp8"}),
    ],
)  # fmt: skip
def test_arguments_refused(error, message, arguments):
    arguments = {"fmt": "e4m3"} | arguments
    with pytest.raises(error) as refusal:
        quantize(normal(2, 32), **arguments)
    assert str(refusal.value) == message


def test_scalar_refused():
    with pytest.raises(
        ValueError, match=r"^an array in blocks must have at least one axis, not shape \(\)$"
    ):
        quantize(np.float32(1), "e4m3")


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (TypeError, "codes must have dtype uint8, not int64", {"codes": np.zeros((2, 32), int)}),
        (TypeError, "scales must have dtype uint8, not int8",
         {"scales": np.zeros((2, 1), np.int8)}),
        (ValueError, "scales must have shape (2, 1), not (2,)", {"scales": np.zeros(2, np.uint8)}),
        (ValueError, "codes of format e2m1 must be from 0 to 15, not 200",
         {"codes": np.full((2, 32), 200, np.uint8), "format": "e2m1"}),
        (ValueError, "axis must be from -2 to 1, not -3", {"axis": -3}),
        (ValueError, ("axis -1 must be a multiple of block_size 24 long, not 32 "
         "(pad=True of quantize pads with zeros)"), {"block_size": 24}),
        (ValueError, "padding must be from 0 to 31, not 32", {"padding": 32}),
        (TypeError, "format must be an ElementFormat or its name, not None", {"format": None}),
    ],
)  # fmt: skip
@pytest.mark.contract("F2")
def test_raw_codes_refused(error, message, arguments):
    legal = {
        "codes": np.zeros((2, 32), np.uint8),
        "scales": np.zeros((2, 1), np.uint8),
        "format": "e4m3",
    }
    assert MXArray(**legal).shape == (2, 32)  # type: ignore[arg-type]
    with pytest.raises(error) as refusal:
        MXArray(**(legal | arguments))  # type: ignore[arg-type]
    assert str(refusal.value) == message


def test_codes_and_scales_are_read_only_copies():
    codes, scales = np.zeros(32, np.uint8), np.full(1, 127, np.uint8)
    array = MXArray(codes, scales, "e2m1")
    codes[:] = 200
    assert array.codes.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        array.codes[0] = 1


def test_masked_arrays_and_other_flags_are_refused():
    with pytest.raises(TypeError, match="x must be an array without a mask, not MaskedArray"):
        quantize(np.ma.zeros(32, np.float32), "e4m3")
    with pytest.raises(TypeError, match="pad must be True or False, not 'no'"):
        quantize(np.zeros(32, np.float32), "e4m3", pad="no")  # type: ignore[arg-type]


def test_byte_order_and_integer_types_do_not_matter():
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    want = quantize(x, "e4m3").codes
    size: Any = np.int64(32)
    axis: Any = np.int8(0)
    got = quantize(x.astype(">f4"), " E4M3 ", block_size=size, axis=axis)
    np.testing.assert_array_equal(got.codes, want)


def test_signalling_nan():
    x = np.zeros(32, np.float32)
    x.view(np.uint32)[3] = 0x7F800001
    assert quantize(x, "e4m3", nonfinite="element").codes[3] == 0x7F
    assert quantize(x, "e4m3").scales[0] == 0xFF


def test_parts_are_replaced():
    array = MXArray(np.array([[0x38, 0x40]], np.uint8), np.array([[127]], np.uint8), "e4m3", 2)
    twice = replace(array, scales=np.array([[128]], np.uint8))
    np.testing.assert_array_equal(twice.dequantize(), [[2, 4]])
    np.testing.assert_array_equal(array.dequantize(), [[1, 2]])


def test_text_of_an_array():
    array = MXArray(np.array([[0x38, 0x40]], np.uint8), np.array([[127]], np.uint8), "e4m3", 2)
    names = {*re.findall(r"(\w+)=", repr(array))}
    assert names >= {"codes", "scales", "axis", "format", "block_size", "padding"}
    assert not names & {"scheme", "zero_points", "selectors"}
