"""Values of packed codes by the Triton kernel are those of the unpacked container."""

import pytest
import torch

from interpreter import DEVICE, for_kernels
from mxdot.gpu import quantize, schemes
from mxdot.gpu.tensors.packed import pack_codes

pytestmark = for_kernels
MADE = {
    "mx": lambda x: quantize(x, "e2m1"),
    "mx, blocks of 8": lambda x: quantize(x, "e2m1", block_size=8),
    "two levels": lambda x: schemes.quantize(x, "nvfp4"),
    "two levels, tiles": lambda x: schemes.quantize(x, "nvfp4_16x16"),
    "rows": lambda x: schemes.quantize(x, "int4_channel"),
}
# The interpreter cuts bfloat16 off.
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])]


def matrix(rows, columns):
    """Rows of many sizes, the least among subnormals, with a NaN and an infinity."""
    torch.manual_seed(0)
    x = torch.randn(rows, columns) * torch.logspace(-38, 30, rows)[:, None]
    x[1, 5], x[2, 7] = float("nan"), float("inf")
    return x.to(DEVICE)


def bits(x):
    """Bit patterns, every NaN as one."""
    words = x.view(torch.int32 if x.dtype == torch.float32 else torch.int16)
    return torch.where(x.isnan(), -1, words)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.parametrize("shape", [(16, 64), (32, 4096), (16, 6144)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(make, shape, dtype):
    codes = pack_codes(make(matrix(*shape)))
    want = codes.unpack().dequantize(dtype, executor="torch")
    values = codes.dequantize(dtype, executor="triton")
    assert values.dtype == dtype
    assert torch.equal(bits(values), bits(want))


@pytest.mark.parametrize(
    ("codes", "dtype", "reason"),
    [
        (lambda x: quantize(x, "e2m3"), torch.float32, "packed codes must have 4 bits, not 6"),
        (lambda x: quantize(x, "e2m1", axis=0), torch.float32, "quantised along their rows"),
        (lambda x: quantize(x, "e2m1", block_size=1), torch.float32, "an even number of codes"),
        (lambda x: quantize(x, "e2m1"), torch.float64, "not float64"),
        (lambda x: schemes.quantize(x, "nvfp4"), torch.float64, "not float64"),
        (lambda x: schemes.quantize(x, "int4_g32"), torch.float32, "one level, float32"),
        (lambda x: schemes.quantize(x, "int4_affine_g128"), torch.float32, "without zero points"),
    ],
)
def test_other_codes_are_left_to_pytorch(codes, dtype, reason):
    made = codes(torch.randn(32, 128, device=DEVICE))
    packed = pack_codes(made)
    with pytest.raises(ValueError, match=reason):
        packed.dequantize(dtype, executor="triton")
    assert torch.equal(packed.dequantize(dtype), made.dequantize(dtype, executor="torch"))
