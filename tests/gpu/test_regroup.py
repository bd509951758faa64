"""Regrouping to FP8: one scale to 128 elements, each element rounded once, by both executors."""

import re

import ml_dtypes
import numpy as np
import pytest
import torch

from compare import generator
from devices import CUDA, bits
from interpreter import DEVICE, for_kernels
from mxdot.gpu import MXTensor, Regrouped, regroup
from mxdot.gpu.ops.regroup import GROUP, TAKEN
from mxdot.model import MX_FORMATS

BLOCK_SIZES = (1, 2, 16, 32, 64, 128, 256, 384)


def operand(rng, fmt, rows, length, block_size, low=0, high=255) -> MXTensor:
    """Random codes under scales from `low` to `high`, NaN scales included at 255."""
    codes = rng.integers(0, 2 ** MX_FORMATS[fmt].bits, (rows, length), dtype=np.uint8)
    scales = rng.integers(low, high, (rows, length // block_size), dtype=np.uint8, endpoint=True)
    return MXTensor(torch.from_numpy(codes), torch.from_numpy(scales), fmt, block_size)


def expected(x: MXTensor):
    """Elements as ml_dtypes rounds them from float64, and scale codes, of the filled-up rows."""
    fmt = MX_FORMATS[x.format.name]
    per_element = x.scales.numpy().repeat(x.block_size, axis=1).astype(int)
    rows, length = x.shape
    groups = -(-length // GROUP)
    scales = np.zeros((rows, groups * GROUP), int)
    scales[:, :length] = per_element
    scales = scales.reshape(rows, groups, GROUP)
    values = np.zeros((rows, groups * GROUP))
    values[:, :length] = fmt.values[x.codes.numpy()]
    top = scales.max(axis=2)
    scaled = np.ldexp(values.reshape(scales.shape), scales - top[..., None])
    return scaled.reshape(rows, -1).astype(ml_dtypes.float8_e4m3fn), top


def check(x: MXTensor, result: Regrouped) -> None:
    elements, top = expected(x)
    rows, length = elements.shape
    assert result.elements.shape == (rows + -rows % 16, length)
    assert result.scales.t().is_contiguous()
    assert result.shape == x.shape
    ours = result.elements.cpu().float().numpy()
    np.testing.assert_array_equal(bits(ours[:rows]), bits(elements.astype(np.float32)))
    assert not ours[rows:].any()
    want = np.where(top == 255, np.nan, np.ldexp(1.0, top - 127)).astype(np.float32)
    np.testing.assert_array_equal(result.scales.cpu().numpy()[:rows], want)


@pytest.mark.parametrize("fmt", TAKEN)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_each_element_is_rounded_once(fmt, block_size, device):
    rng = generator("regroup", fmt, block_size)
    for low, high in ((0, 255), (120, 134), (0, 12), (240, 254), (127, 127)):
        length = max(block_size, 160 // block_size * block_size)
        x = operand(rng, fmt, 19, length, block_size, low, high)
        check(x, regroup(x.to(device), executor="torch"))


@pytest.mark.parametrize("fmt", TAKEN)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@for_kernels[0]
@for_kernels[1]
def test_kernels_round_alike(fmt, block_size):
    rng = generator("regroup kernel", fmt, block_size)
    for low, high in ((0, 255), (120, 134)):
        length = max(block_size, 672 // block_size * block_size)
        x = operand(rng, fmt, 19, length, block_size, low, high)
        check(x, regroup(x.to(DEVICE), executor="triton"))


def test_every_code_under_every_shift():
    """A block of every code, beside one whose scale is 0 to 40 binades larger."""
    codes = torch.arange(256, dtype=torch.uint8).reshape(1, 4, 64)
    codes = torch.nn.functional.pad(codes, (0, 64)).reshape(1, -1).expand(41, -1)
    scales = torch.full((41, 8), 100, dtype=torch.uint8)
    scales[:, 1::2] += torch.arange(41, dtype=torch.uint8)[:, None]
    check(x := MXTensor(codes.contiguous(), scales, "e4m3", 64), regroup(x))


def test_one_scale_changes_no_value():
    rng = generator("one scale")
    for fmt in TAKEN:
        x = operand(rng, fmt, 16, 256, 32, 127, 127)
        np.testing.assert_array_equal(
            bits(regroup(x).dequantize().numpy()), bits(x.dequantize().numpy())
        )


def test_error_of_a_value_is_bounded_as_documented():
    rng = generator("bound")
    x = operand(rng, "e4m3", 64, 256, 32, 110, 140)
    codes = torch.where(x.codes & 127 == 127, 0, x.codes).to(torch.uint8)  # no NaN
    x = MXTensor(codes, x.scales, "e4m3")
    result = regroup(x)
    error = (result.dequantize() - x.dequantize()).abs()
    scale = result.scales.repeat_interleave(GROUP, dim=1)[:, :256]
    assert 0 < (error / scale).max() <= 2**-10


@pytest.mark.parametrize("shape", [(0, 128), (4, 0)])
def test_empty(shape):
    rows, length = shape
    x = MXTensor(
        torch.zeros(shape, dtype=torch.uint8),
        torch.zeros((rows, length // 32), dtype=torch.uint8),
        "e4m3",
    )
    assert regroup(x).dequantize().shape == shape


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(4, 32), TypeError, "x must be an MXTensor, not Tensor"),
        (
            MXTensor(torch.zeros(1, 4, 32).byte(), torch.zeros(1, 4, 1).byte(), "e4m3"),
            ValueError,
            "x must have shape (R, K) and axis 1, not shape (1, 4, 32) and axis -1",
        ),
        (
            MXTensor(torch.zeros(32, 4).byte(), torch.zeros(1, 4).byte(), "e4m3", axis=0),
            ValueError,
            "x must have shape (R, K) and axis 1, not shape (32, 4) and axis 0",
        ),
        (
            MXTensor(torch.zeros(4, 32).byte(), torch.zeros(4, 1).byte(), "int8"),
            ValueError,
            f"format of x must be one of {', '.join(TAKEN)}, not int8",
        ),
        (
            MXTensor(torch.zeros(4, 96).byte(), torch.zeros(4, 2).byte(), "e4m3", 48),
            ValueError,
            "block_size of x must divide 128 or be a multiple of it, not 48",
        ),
    ],
)
def test_refusals(x, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        regroup(x)
