"""Products with packed 4-bit weights: packing loses nothing, exact sums come out exact."""

import re

import numpy as np
import pytest
import torch

from compare import generator
from devices import CUDA, with_parts
from interpreter import DEVICE, for_kernels
from mxdot.gpu.schemes import (
    PackedWeights,
    ScaledTensor,
    pack_weights,
    quantize,
    weight_only_matmul,
)
from mxdot.model.schemes import FLOAT32, INT4_FULL, SCHEMES, Level, Scheme, block, tile
from scheme_cases import random_array

WIDE = Scheme("int4_g256", (INT4_FULL,), (Level(block(256), FLOAT32),), "this test")
TILES = Scheme("int4_2x128", (INT4_FULL,), (Level(tile(2, 128), FLOAT32),), "this test")
PACKED = [*(SCHEMES[f"int4_{kind}"] for kind in ("g64", "g128", "channel", "tensor")), WIDE, TILES]
# Triton's interpreter does not round to bfloat16 to nearest even.
KERNEL_DTYPES = (torch.bfloat16, torch.float16) if DEVICE == "cuda" else (torch.float16,)


@pytest.mark.parametrize("scheme", PACKED, ids=str)
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_packing_loses_nothing(scheme, device):
    rng = generator("pack", scheme)
    for rows in (2, 126, 128, 258) if scheme is TILES else (1, 127, 128, 257):
        for kind in ("one", "any", "nan"):
            b = ScaledTensor.from_model(random_array(rng, scheme, rows, 768, kind), device)
            packed = pack_weights(b)
            assert packed.shape == (rows, 768)
            assert packed.words.numel() == -(-rows // 128) * 128 * 768 // 8
            assert packed.to(device).device.type == device
            for dtype in (torch.float32, torch.bfloat16, torch.float16):
                torch.testing.assert_close(
                    packed.dequantize(dtype), b.dequantize(dtype), rtol=0, atol=0, equal_nan=True
                )


def exact_case(rng, scheme, m, n, k, dtype):
    """Small integers under powers of two: float32 holds every partial sum."""
    b = ScaledTensor.from_model(random_array(rng, scheme, n, k, "one"))
    (scales,) = b.scales
    powers = torch.from_numpy(np.exp2(rng.integers(-4, 4, scales.shape))).to(scales.dtype)
    b = with_parts(b, scales_0=powers)
    x = torch.from_numpy(rng.integers(-8, 8, (m, k), endpoint=True)).to(dtype)
    return x, b, (x.double() @ b.dequantize().double().t()).to(torch.float32).to(dtype)


def check_exact(rng, scheme, shape, dtype, executor, device):
    m, n, k = shape
    x, b, want = exact_case(rng, scheme, m, n, k, dtype)
    result = weight_only_matmul(x.to(device), pack_weights(b.to(device)), executor=executor)
    assert (result.dtype, result.device.type) == (dtype, device)
    np.testing.assert_array_equal(result.cpu().float(), want.float(), f"{scheme}, {shape}, {dtype}")


@pytest.mark.parametrize("scheme", PACKED, ids=str)
@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.contract("T29")
def test_plain_pytorch_sums_exactly(scheme, device):
    rng = generator("weight only", scheme)
    for dtype in (torch.bfloat16, torch.float16):
        check_exact(rng, scheme, (70, 130, 512), dtype, "torch", device)


@pytest.mark.parametrize("rows", [1, 16, 17, 33, 64])
@pytest.mark.parametrize("scheme", PACKED, ids=str)
@for_kernels[0]
@for_kernels[1]
def test_the_kernel_sums_exactly(scheme, rows):
    rng = generator("weight only kernel", scheme, rows)
    for dtype in KERNEL_DTYPES:
        for n, k in ((2 if scheme is TILES else 1, 256), (300, 512)):
            check_exact(rng, scheme, (rows, n, k), dtype, "triton", DEVICE)


@pytest.mark.parametrize("size", [64, 128])
@for_kernels[0]
@for_kernels[1]
def test_rows_of_one_group(size):
    rng = generator("weight only one group", size)
    for m, n in ((1, 1), (16, 300), (40, 128)):
        check_exact(rng, SCHEMES[f"int4_g{size}"], (m, n, size), KERNEL_DTYPES[0], "triton", DEVICE)


@pytest.mark.cuda
def test_the_kernel_shares_tiles_among_all_programs():
    """More tiles than programs and fewer, with runs that end inside and between tiles."""
    rng = generator("weight only large")
    for n, k in ((128, 65_536), (40_000, 1024), (8192, 8192), (1000, 3072)):
        check_exact(rng, SCHEMES["int4_g128"], (16, n, k), torch.bfloat16, "triton", "cuda")


def check_ones(n):
    """64 rows by a weight (n, 64) of ones, made in packed form: sums of the rows of x."""
    tiles = -(-n // 128)
    words = torch.full((tiles * 128 * 64 // 8,), -0x66666667, dtype=torch.int32, device=DEVICE)
    scales = torch.ones(tiles, 1, 128, dtype=torch.float16, device=DEVICE)
    weights = PackedWeights(words, scales, torch.Size((n, 64)), 64)
    x = torch.arange(64, device=DEVICE)[:, None].expand(64, 64).to(torch.float16)
    result = weight_only_matmul(x, weights, executor="triton")
    assert all(bool((row == 64 * i).all()) for i, row in enumerate(result))


@for_kernels[0]
@for_kernels[1]
def test_a_weight_of_ones():
    check_ones(300)


@pytest.mark.cuda
def test_the_kernel_writes_results_beyond_2_31():
    check_ones(35_000_000)


@for_kernels[0]
@for_kernels[1]
def test_any_values_stay_near():
    rng = generator("weight only any")
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((300, 512), (9, 512)))
    b = quantize(torch.from_numpy(w), "int4_g128").to(DEVICE)
    x = torch.from_numpy(x).to(DEVICE, torch.float16)
    want = x.double() @ b.dequantize().double().t()
    result = weight_only_matmul(x, pack_weights(b), executor="triton").double()
    assert float((result - want).norm() / want.norm()) < 2**-11
    # Each within half a unit of the last place, and what float32 sums of 512 terms lose.
    spread = x.double().abs() @ b.dequantize().double().abs().t()
    assert bool(((result - want).abs() <= want.abs() * 2**-11 + spread * 2**-16 + 2**-25).all())


@for_kernels[0]
@for_kernels[1]
@pytest.mark.parametrize("executor", ["torch", "triton"])
def test_a_nan_scale_reaches_its_own_results_only(executor):
    b = quantize(torch.ones(130, 256), "int4_g128").to(DEVICE)
    b.scales[0][129, 1] = torch.nan
    x = torch.ones(3, 256, dtype=torch.float16, device=DEVICE)
    result = weight_only_matmul(x, pack_weights(b), executor=executor).isnan()
    assert bool(result[:, 129].all())
    assert not bool(result[:, :129].any())


def test_leading_axes_and_nothing_at_all():
    packed = pack_weights(quantize(torch.randn(10, 64), "int4_g64"))
    x = torch.randn(2, 3, 64, dtype=torch.bfloat16)
    result = weight_only_matmul(x, packed)
    assert torch.equal(result.flatten(0, 1), weight_only_matmul(x.flatten(0, 1), packed))
    assert weight_only_matmul(x[0, 0], packed).shape == (10,)
    assert weight_only_matmul(x[:0], packed).shape == (0, 3, 10)


@for_kernels[0]
@for_kernels[1]
@for_kernels[0]
@for_kernels[1]
@pytest.mark.parametrize("name", ["int4_g64", "int4_g128", "int4_channel"])
def test_values_by_a_kernel(name):
    """For products of more rows: bits of plain PyTorch, tiles that are not full included."""
    rng = generator("weight values", name)
    for shape in ((130, 256), (1, 64 if name == "int4_g64" else 128)):
        w = torch.from_numpy(rng.standard_normal(shape)).float().to(DEVICE)
        b = quantize(w, name)
        packed = pack_weights(b)
        for dtype in (torch.float32, torch.float16):
            values = packed.dequantize(dtype, executor="triton")
            assert torch.equal(values, packed.dequantize(dtype, executor="torch"))
            assert torch.equal(values, b.dequantize(dtype))
    with pytest.raises(ValueError, match="dtype must be float32, float16 or bfloat16, not float64"):
        packed.dequantize(torch.float64, executor="triton")


def test_more_rows_are_not_the_kernels():
    packed = pack_weights(quantize(torch.randn(10, 64, device=DEVICE), "int4_g64"))
    x = torch.randn(65, 64, dtype=torch.float16, device=DEVICE)
    with pytest.raises(ValueError, match="triton cannot take this: x must have at most 64 rows, n"):
        weight_only_matmul(x, packed, executor="triton")
    assert torch.equal(
        weight_only_matmul(x, packed), weight_only_matmul(x, packed, executor="torch")
    )


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("int4_g32", "elements of b that share a scale must be a multiple of 64, not 32"),
        ("int8_channel", "4-bit two's complement without zero points, not int8_symmetric of int8"),
        ("int4_affine_g128", "not int4_full and a zero point of int4_affine_g128"),
        ("mxfp4", "4-bit two's complement without zero points, not e2m1 of mxfp4"),
        ("vsquant4_u4", "levels of b must be one of float32, float16 or bfloat16 scales, not floa"),
    ],
)
def test_weights_that_cannot_be_packed(scheme, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pack_weights(quantize(torch.ones(4, 128), scheme))


@pytest.mark.parametrize("code", [0x08, 0x10, 0xFF])
def test_codes_outside_the_elements_range_are_not_packed(code):
    b = quantize(torch.ones(4, 128), "int4_g128")
    b.codes[3, 77] = code
    message = f"^codes of int4_g128 must .* numbers of int4_symmetric, not be {code:#04x}$"
    with pytest.raises(ValueError, match=message):
        pack_weights(b)


def test_other_refusals():
    b = quantize(torch.ones(4, 128), "int4_g128")
    packed = pack_weights(b)
    x = torch.ones(2, 128, dtype=torch.bfloat16)
    for wrong, message in (
        (lambda: pack_weights(x), "b must be a ScaledTensor, not Tensor"),
        (lambda: weight_only_matmul(x.float(), packed), "bfloat16 or float16, not float32"),
        (lambda: weight_only_matmul(b, packed), "bfloat16 or float16, not ScaledTensor"),
        (
            lambda: weight_only_matmul(x, b),  # pyright: ignore[reportArgumentType]
            "weights must be PackedWeights, not ScaledTensor",
        ),
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            wrong()
    with pytest.raises(ValueError, match=re.escape("(..., K) and (N, K), not (2, 64) and (4, 12")):
        weight_only_matmul(x[:, :64], packed)
    columns = quantize(torch.ones(128, 4), "int4_g128", axis=0)
    with pytest.raises(ValueError, match=re.escape("and axis 1, not shape (128, 4) and axis 0")):
        pack_weights(columns)
    assert isinstance(packed, PackedWeights)
