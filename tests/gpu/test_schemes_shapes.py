"""Schemes on tensors of any axes, dtypes, strides and lengths have the model's bits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from compare import generator
from devices import bits, on_devices, tensor
from mxdot.gpu import chunks
from mxdot.gpu.schemes import ScaledTensor, quantize
from mxdot.model import schemes as model
from mxdot.model.quantize import quantize as mx_quantize
from mxdot.model.schemes import (
    BFLOAT16,
    FLOAT32,
    INT4_FULL,
    SCHEMES,
    TENSOR,
    Level,
    Scheme,
    block,
    tile,
)
from scheme_cases import assert_same, shrunk
from scheme_checks import check


@on_devices
def test_axes_and_tiles(device):
    x = generator("gpu tiles").standard_normal((2, 5, 8, 6)).astype(np.float32)
    tiles = Scheme("tiles", (INT4_FULL,), (Level(tile(2, 4), FLOAT32),), "a test", True)
    check(x, tiles, device, axis=2)
    check(x.swapaxes(2, 3), tiles, device)
    whole = replace(tiles, levels=(Level(TENSOR, FLOAT32),))
    pairs = replace(SCHEMES["nvfp4"], levels=(Level(TENSOR, FLOAT32), Level(block(1), BFLOAT16)))
    for scheme in (whole, pairs, SCHEMES["int8_channel"]):
        for axis in range(-4, 4):
            check(x, scheme, device, axis=axis)
        check(x[0, 0, 0], scheme, device)
    limits = model.calibrate([x], tiles, axis=2)
    check(x, tiles, device, axis=2, limits=limits)


@on_devices
def test_dtypes_and_strides(device):
    x = generator("gpu dtypes").standard_normal((32, 64)).astype(np.float16)
    for name in ("mx9", "nvfp4", "int8_affine", "mixed8"):
        want = model.quantize(x, name)
        on_device = tensor(x, device)
        for dtype in (torch.float16, torch.float32, torch.float64):
            assert_same(quantize(on_device.to(dtype), name).to_model(), want)
        turned = quantize(on_device.T, name)
        assert_same(turned.to_model(), model.quantize(x.T, name))
        rounded = on_device.to(torch.bfloat16)
        want = model.quantize(rounded.to(torch.float32).cpu().numpy(), name)
        assert_same(quantize(rounded, name).to_model(), want)


@on_devices
@pytest.mark.parametrize("name", SCHEMES)
def test_more_than_one_chunk(name, device, monkeypatch):
    monkeypatch.setitem(chunks.CHUNK, device, 100)
    x = generator("gpu chunks", name).standard_normal((24, 32)).astype(np.float32)
    check(x, shrunk(SCHEMES[name]), device)
    check(x.T, shrunk(SCHEMES[name]), device, axis=0)


@on_devices
def test_values_of_narrower_dtypes(device):
    x = generator("gpu narrow").standard_normal((16, 128)).astype(np.float32)
    want = model.quantize(x, "int4_g128").dequantize()
    result = quantize(tensor(x, device), "int4_g128")
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        assert torch.equal(result.dequantize(dtype).cpu(), torch.tensor(want).to(dtype))


@pytest.mark.cuda
def test_to_the_gpu_and_back():
    x = generator("gpu moved").standard_normal((16, 32)).astype(np.float32)
    for name in ("int8_affine", "mixed4", "nvfp4"):
        want = model.quantize(x, name)
        moved = quantize(torch.tensor(x), name).to("cuda")
        assert moved.device.type == "cuda"
        assert_same(moved.to("cpu").to_model(), want)


def test_a_gradient_stops_here():
    x = torch.ones(32, requires_grad=True)
    assert not quantize(x, "nvfp4").dequantize().requires_grad


def test_an_mx_array_of_the_model():
    x = generator("mx array").standard_normal((4, 64)).astype(np.float32)
    array = mx_quantize(np.ldexp(x, np.arange(4)[:, None]), "e4m3")
    result = ScaledTensor.from_model(array).dequantize().numpy()
    np.testing.assert_array_equal(bits(result), bits(array.dequantize().astype(np.float32)))
