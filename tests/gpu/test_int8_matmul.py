"""W8A8: exact INT32 sums and one rescaling, with the same bits from every executor."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from compare import generator
from devices import CUDA, bits, with_parts
from interpreter import DEVICE, for_kernels
from mxdot.gpu.schemes import ScaledTensor, int8_matmul, quantize
from mxdot.model import schemes as model
from mxdot.model.schemes import FLOAT16, FLOAT32, SCHEMES, Granularity, Level
from scheme_cases import random_array

EIGHT_BITS = ("int8_tensor", "int8_channel", "int8_affine", "int8_affine_channel", "uint8_affine")
PAIRS = list(itertools.product(EIGHT_BITS, repeat=2))
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Triton's interpreter does not round to bfloat16 to nearest even.
KERNEL_DTYPES = DTYPES if DEVICE == "cuda" else (torch.float32, torch.float16, torch.float16)
KINDS = ("one", "ends", "any", "nan")


def check(a, b, dtype, device, executor):
    want = torch.tensor(model.matmul(a, b, "int32")).to(dtype)
    pair = [ScaledTensor.from_model(x, device) for x in (a, b)]
    result = int8_matmul(*pair, out_dtype=dtype, executor=executor)
    assert (result.dtype, result.shape, result.device.type) == (dtype, want.shape, device)
    ours, theirs = (bits(x.cpu().float().numpy()) for x in (result, want))
    np.testing.assert_array_equal(ours, theirs, f"{a.scheme} x {b.scheme}")


def operands(names, kind, shape=(37, 48, 70)):
    rng = generator("int8", names, kind)
    m, k, n = shape
    return [
        random_array(rng, SCHEMES[name], rows, k, kind)
        for name, rows in zip(names, (m, n), strict=True)
    ]


@pytest.mark.parametrize("names", PAIRS, ids="x".join)
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_plain_pytorch(names, device):
    for kind, dtype in zip(KINDS, (*DTYPES, torch.float32), strict=True):
        a, b = operands(names, kind)
        check(a, b, dtype, device, "torch")


@pytest.mark.parametrize("names", PAIRS, ids="x".join)
@for_kernels[0]
@for_kernels[1]
def test_the_kernel(names):
    for kind, dtype in zip(KINDS, (*KERNEL_DTYPES, torch.float32), strict=True):
        a, b = operands(names, kind)
        check(a, b, dtype, DEVICE, "triton")


@pytest.mark.parametrize(
    "shape", [(1, 16, 1), (16, 32, 32), (17, 16, 33), (300, 272, 90), (3, 1040, 80)]
)
@for_kernels[0]
@for_kernels[1]
def test_edges_of_tiles(shape):
    a, b = operands(("int8_affine_channel", "int8_channel"), "one", shape)
    check(a, b, DTYPES[0], DEVICE, "triton")


@pytest.mark.cuda
def test_few_rows_by_many():
    a, b = operands(("int8_channel", "int8_channel"), "one", (5, 1040, 8200))
    check(a, b, DTYPES[0], DEVICE, "triton")


SEVERAL_ROWS = Level(Granularity(4, None), FLOAT32)


@pytest.mark.parametrize("executor", ["torch", "triton"])
@pytest.mark.parametrize("names", [("int8_channel", "uint8_affine"), ("int8_affine",) * 2])
@for_kernels[0]
@for_kernels[1]
def test_a_scale_for_several_rows(names, executor):
    rng = generator("int8 several rows", names)
    for kind in KINDS:
        a, b = (
            random_array(rng, replace(SCHEMES[name], levels=(SEVERAL_ROWS,)), rows, 48, kind)
            for name, rows in zip(names, (20, 36), strict=True)
        )
        check(a, b, torch.float32, DEVICE, executor)


@for_kernels[0]
@for_kernels[1]
def test_codes_that_begin_anywhere():
    """A view of a larger tensor, as files are read, has no address that descriptors take."""
    a, b = (
        ScaledTensor.from_model(x, DEVICE) for x in operands(("int8_channel", "int8_affine"), "any")
    )
    want = int8_matmul(a, b, out_dtype=torch.float32, executor="triton")
    views = []
    for x in (a, b):
        codes = x.codes.new_empty(x.codes.numel() + 3)[3:].view_as(x.codes).copy_(x.codes)
        assert codes.data_ptr() % 16 == 3
        views.append(with_parts(x, codes=codes))
    result = int8_matmul(*views, out_dtype=torch.float32, executor="triton")
    assert torch.equal(result.view(torch.int32), want.view(torch.int32))


@for_kernels[0]
@for_kernels[1]
def test_sums_at_the_ends_of_int32():
    """-128 x -128, all zero points at the other end: the longest row that is sure to fit."""
    k = 33_024
    x = np.zeros((2, k), np.float32)
    a = model.quantize(x, "int8_affine")
    ends = np.array([[0x80], [0x7F]], np.uint8).repeat(k, 1)
    a = replace(a, codes=ends, zero_points=np.full_like(a.zero_points, 127))
    check(a, a, torch.float32, DEVICE, "triton")
    assert model.integer_sums(a, a).sums.max() == 255**2 * k > 2**31 - 2**18


@for_kernels[0]
@for_kernels[1]
def test_a_scale_of_half_precision():
    half = replace(
        SCHEMES["int8_channel"],
        levels=(Level(SCHEMES["int8_channel"].levels[0].granularity, FLOAT16),),
    )
    rng = generator("int8 half")
    a, b = (random_array(rng, half, 20, 64, "any") for _ in "ab")
    check(a, b, torch.float32, DEVICE, "triton")


def test_no_rows_and_no_columns():
    some, none = (quantize(torch.ones(n, 16), "int8_channel") for n in (3, 1))
    none = with_parts(none, codes=none.codes[:0], scales_0=none.scales[0][:0])
    for executor in ("torch", None):
        assert int8_matmul(none, some, executor=executor).shape == (0, 3)
        assert int8_matmul(some, none, executor=executor).shape == (3, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("int4_channel", "elements of b must be 8-bit integers, not int4_symmetric of int4_cha"),
        ("mxint8", "elements of b must be 8-bit integers, not int8 of mxint8"),
        ("fp8_e4m3_row", "elements of b must be 8-bit integers, not e4m3 of fp8_e4m3_row"),
        ("vsquant8_u6", "levels of b must be one float scale for whole rows, not float32 per ch"),
    ],
)
def test_refusals(name, message):
    x = torch.ones(4, 32)
    with pytest.raises(ValueError, match=re.escape(message)):
        int8_matmul(quantize(x, "int8_channel"), quantize(x, name))


def test_what_can_overflow_is_refused():
    x = quantize(torch.ones(1, 33_026), "int8_affine")
    with pytest.raises(ValueError, match="must be at most 33025, not 33026: it could overflow"):
        int8_matmul(x, x)


def test_other_types_are_refused():
    x = quantize(torch.ones(2, 16), "int8_channel")
    with pytest.raises(TypeError, match="b must be a ScaledTensor, not Tensor"):
        int8_matmul(x, torch.ones(2, 16))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="out_dtype must be float32, float16, bfloat16 or float64"):
        int8_matmul(x, x, out_dtype=torch.int32)


@for_kernels[0]
@for_kernels[1]
def test_what_the_kernel_cannot_take():
    x = quantize(torch.ones(2, 24, device=DEVICE), "int8_channel")
    with pytest.raises(ValueError, match="triton cannot take this: K must be a multiple of 16, no"):
        int8_matmul(x, x, executor="triton")
    assert int8_matmul(x, x).shape == (2, 2)
