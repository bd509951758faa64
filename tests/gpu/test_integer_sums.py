"""INT32 sums of schemes on tensors, their scales and overflows, are the model's."""

from dataclasses import replace

import numpy as np
import pytest

from compare import generator
from devices import on_devices, tensor
from mxdot.gpu.schemes import ScaledTensor, integer_sums
from mxdot.model import schemes as model
from mxdot.model.schemes import (
    FLOAT16,
    INT8_FULL,
    SCHEMES,
    TENSOR,
    Level,
    ScaledArray,
    Scheme,
    UnsignedFormat,
    block,
)
from scheme_cases import random_array, random_c, shrunk


def assert_same_sums(a, b, device, **options):
    want = model.integer_sums(a, b, **options)
    result = integer_sums(*(ScaledTensor.from_model(x, device) for x in (a, b)), **options)
    assert result.lsb == want.lsb
    for name in ("sums", "scales", "overflowed"):
        mine, its = getattr(result, name).cpu().numpy(), getattr(want, name)
        assert mine.dtype == its.dtype
        np.testing.assert_array_equal(mine, its, name)
    rescaled = result.rescale().cpu().numpy()
    np.testing.assert_array_equal(rescaled, want.rescale())
    c = random_c(generator("c of a row"), want.sums.shape[1:2], "one")
    rescaled = result.rescale(tensor(c, device)).cpu().numpy()
    np.testing.assert_array_equal(rescaled, want.rescale(c))
    return want


@on_devices
@pytest.mark.parametrize(
    "names",
    [
        ("int8_channel", "int8_tensor"),
        ("int8_affine", "uint8_affine"),
        ("int4_g32", "int8_channel"),
        ("int4_affine_g128", "int8_affine_channel"),
        ("vsquant4_u4", "int8_channel"),
        ("vsquant8_u6", "vsquant8_u6"),
    ],
    ids="x".join,
)
def test_integer_sums(names, device):
    rng = generator("gpu integer sums", names)
    for kind in ("one", "ends", "nan"):
        a, b = (random_array(rng, shrunk(SCHEMES[name]), 4, 32, kind) for name in names)
        assert_same_sums(a, b, device)
        a, b = (random_array(rng, SCHEMES[name], 4, 4096, kind) for name in names)
        assert_same_sums(a, b, device, overflow="wrap")


@on_devices
def test_sums_that_leave_int32(device):
    """Modulo 2^32 and flagged: at the last length that fits, and one term further."""
    rng = generator("gpu overflow")
    for length, overflows in ((33025, False), (33026, True)):
        codes = np.full((1, length), 0x7F, np.uint8)
        zero = np.full((1, 1), -128, np.int32)
        one = np.ones((1, 1), np.float32)
        x = ScaledArray(SCHEMES["int8_affine"], codes, (one,), zero, None, -1)
        assert assert_same_sums(x, x, device, overflow="wrap").overflowed.item() == overflows
    a, b = (random_array(rng, SCHEMES["vsquant8_u6"], 3, 4096, "ends") for _ in range(2))
    assert assert_same_sums(a, b, device, overflow="wrap").overflowed.any()


def wide_factors(largest):
    """Two arrays whose innermost scales, of 16 bits under others of 16, reach `largest`."""
    rng = generator("gpu wide factors", largest)
    inner = (Level(block(8), UnsignedFormat(16)), Level(block(4), UnsignedFormat(16)))
    scheme = Scheme("u16", (INT8_FULL,), (Level(TENSOR, FLOAT16), *inner), "a test")
    pair = []
    for most in largest:
        x = random_array(rng, scheme, 3, 40, "one")
        scales = (*x.scales[:2], np.minimum(x.scales[2], np.uint16(most)))
        pair.append(replace(x, scales=scales))
    return pair


@on_devices
@pytest.mark.parametrize("largest", [(16, 16), (512, 1), (1, 512)])
def test_products_of_factors_beyond_float64(largest, device):
    """Terms of up to 57 bits, the larger factor on either side."""
    left, right = wide_factors(largest)
    assert_same_sums(left, right, device, overflow="wrap")


def test_sums_beyond_64_bits_are_refused():
    pair = [ScaledTensor.from_model(x) for x in wide_factors((2**16 - 1, 2**16 - 1))]
    with pytest.raises(ValueError, match=r"^sums of a and b must fit 64 bits, not 40 terms of \["):
        integer_sums(*pair, overflow="wrap")
