"""Arrays of ml_dtypes: codes where codes are taken, values where values are."""

import ml_dtypes
import numpy as np
import pytest

from mxdot.model import (
    E8M0,
    FORMATS,
    DotConfig,
    MXArray,
    dot,
    matmul,
    pack,
    quantize,
    schemes,
    unscaled,
)
from mxdot.model.formats import code_format

NARROW = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def every_code(name):
    """(codes of a format, the same as an array of its type), whole blocks of 32."""
    codes = np.resize(np.arange(2 ** FORMATS[name].bits, dtype=np.uint8), 256)
    return codes, codes.view(NARROW[name])


@pytest.mark.parametrize("name", NARROW)
def test_the_bytes_of_a_type_are_the_codes_of_its_format(name):
    codes, array = every_code(name)
    fmt = FORMATS[name]
    assert code_format(array) is fmt
    np.testing.assert_array_equal(fmt.decode(array), array.astype(np.float32))
    np.testing.assert_array_equal(fmt.check(array), codes)
    np.testing.assert_array_equal(pack(array, name), pack(codes, name))
    scales = np.full(8, 127, np.uint8)
    held = MXArray(array, scales.view(ml_dtypes.float8_e8m0fnu), name)
    np.testing.assert_array_equal(held.codes, codes)
    np.testing.assert_array_equal(held.scales, scales)


def test_only_these_formats_have_a_type():
    assert {name for name, fmt in FORMATS.items() if fmt.narrow is not None} == set(NARROW)
    assert code_format(np.zeros(4, np.float16)) is None
    assert code_format([1.0]) is None


def test_codes_of_another_type_are_refused():
    _, array = every_code("e5m2")
    with pytest.raises(TypeError, match="codes must have dtype uint8, not float8_e5m2"):
        MXArray(array, np.full(8, 127, np.uint8), "e4m3")


def test_scales_of_a_scheme():
    scheme = schemes.scheme("mxfp8_e4m3")
    codes, array = every_code("e4m3")
    scales = np.full(8, 130, np.uint8)
    codes[codes % 128 == 127] = 0
    held = schemes.ScaledArray(
        scheme, codes.view(array.dtype), (scales.view(ml_dtypes.float8_e8m0fnu),)
    )
    np.testing.assert_array_equal(held.codes, codes)
    np.testing.assert_array_equal(held.scales[0], scales)


@pytest.mark.parametrize("rule", ["hopper", "exact", "aligned:8"])
def test_products_take_codes_under_scales_of_one(rule):
    x, y = np.random.default_rng(1).standard_normal((2, 4, 64)).astype(NARROW["e4m3"])
    a, b = (unscaled(v.astype(np.float32), "e4m3") for v in (x, y))
    np.testing.assert_array_equal(matmul(x, y, rule), matmul(a, b, rule))
    np.testing.assert_array_equal(matmul(x, b, rule), matmul(a, b, rule))
    np.testing.assert_array_equal(dot(x, y, rule), dot(a, b, rule))
    unit = DotConfig("e4m3", 8, rule)
    narrow = unscaled(x.astype(np.float32), "e4m3", block_size=8)
    np.testing.assert_array_equal(unit.dot(x, x).result, unit.dot(narrow, narrow).result)


def test_a_scale_of_one_in_e4m3():
    x = np.ones((2, 64), NARROW["e2m1"])
    assert dot(x, x, "blackwell-mxf4nvf4", scale_format="e4m3").tolist() == [64, 64]
    unit = DotConfig("e2m1", 64, "blackwell-mxf4nvf4", scales="e4m3", scale_block=16)
    assert unit.dot(x, x).result.tolist() == [64, 64]


@pytest.mark.parametrize("name", NARROW)
def test_values_are_quantised_exactly(name):
    _, array = every_code(name)
    finite = np.where(np.isfinite(array.astype(np.float32)), array, array.dtype.type(0))
    for function in (quantize, unscaled):
        held = function(finite, "tf32")
        np.testing.assert_array_equal(held.dequantize(), finite.astype(np.float32))


def test_scales_are_no_values():
    with pytest.raises(TypeError, match="x must be float32, float16, bfloat16 or float64, not"):
        quantize(np.ones(32, ml_dtypes.float8_e8m0fnu), "e4m3")
    assert E8M0.decode(np.ones(2, ml_dtypes.float8_e8m0fnu)).tolist() == [1, 1]
