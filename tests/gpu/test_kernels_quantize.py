"""The Triton kernels of quantisation equal the model in every bit."""

import re
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from compare import generator
from devices import BYTES, assert_same_blocks, tensor
from interpreter import DEVICE, for_kernels
from mxdot import gpu, model
from mxdot.gpu import executors
from mxdot.gpu.ops.quantized_values import _quantized_values
from mxdot.gpu.tensors.mx import MXTensor
from mxdot.gpu.tensors.unpack import Unpacking
from mxdot.model import FORMATS
from mxdot.model.formats import ROUNDINGS
from mxdot.model.quantize import NONFINITE, SCALE_RULES

pytestmark = for_kernels
RULES = [(s, r, n) for s in SCALE_RULES for r in ROUNDINGS for n in NONFINITE]


def values(rng, shape=(64, 96)):
    """Blocks of every kind: normal, wide, at ties, zero, special, subnormal, random bits."""
    x = rng.standard_normal(shape).astype(np.float32)
    x *= np.exp2(rng.integers(-12, 6, shape)).astype(np.float32)
    blocks = x.reshape(-1, 32)
    blocks[::5] *= np.exp2(rng.integers(-120, 110, (len(blocks[::5]), 1))).astype(np.float32)
    blocks[1::7] = np.round(blocks[1::7] * 8) / 8
    blocks[2], blocks[9] = 0.0, -0.0
    blocks[3, 4], blocks[4, 2], blocks[5, 3] = np.nan, np.inf, -np.inf
    blocks[10] = rng.integers(0, 2**32, 32, dtype=np.uint32).view(np.float32)
    blocks[11] = rng.integers(0, 2**23, 32, dtype=np.uint32).view(np.float32)
    # just below the smallest normal, where rounding amax to its significand carries
    blocks[12] = (2**23 - rng.integers(1, 2**18, 32, dtype=np.uint32)).view(np.float32)
    return x


def random_words(rng, shape):
    words = rng.integers(0, 2**32, shape, dtype=np.uint32)
    words[0], words[1] = 0, 2**32 - 1
    return words


@pytest.mark.parametrize("fmt", BYTES)
@pytest.mark.parametrize("scale_rule", SCALE_RULES)
def test_values_without_codes(fmt, scale_rule):
    x = tensor(values(generator("values", fmt, scale_rule), (50, 96)), DEVICE)
    for dtype in (torch.float32, torch.float16):
        made = gpu.quantize(x, fmt, scale_rule=scale_rule, executor="torch")
        want = made.dequantize(dtype, executor="torch")
        for executor in ("triton", "torch"):
            result = _quantized_values(x, fmt, 32, scale_rule, dtype, executor)
            assert result.dtype == dtype
            torch.testing.assert_close(result, want, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(torch.signbit(result[want == 0]), torch.signbit(want[want == 0]))


@pytest.mark.parametrize("fmt", BYTES)
@pytest.mark.parametrize(("scale_rule", "rounding", "nonfinite"), RULES)
def test_every_rule_along_each_axis(fmt, scale_rule, rounding, nonfinite):
    rng = generator("kernels", fmt, scale_rule, rounding, nonfinite)
    x = values(rng)
    words = random_words(rng, x.shape) if rounding == "stochastic" else None
    rules = {"scale_rule": scale_rule, "rounding": rounding, "nonfinite": nonfinite}
    moved = None if words is None else tensor(words, DEVICE)
    for axis in (0, 1):
        want = model.quantize(x, fmt, axis=axis, rng=words, **rules)
        result = gpu.quantize(
            tensor(x, DEVICE), fmt, axis=axis, rng=moved, executor="triton", **rules
        )
        assert_same_blocks(result, want)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
@pytest.mark.parametrize("block_size", [1, 2, 16, 32, 64, 128])
def test_dtypes_block_sizes_and_axes(dtype, block_size):
    rng = generator("kernels", str(dtype), block_size)
    x = rng.standard_normal((128, 3, 256)).astype(dtype)
    for axis in (0, 2):
        want = model.quantize(x, "e4m3", axis=axis, block_size=block_size)
        result = gpu.quantize(
            tensor(x, DEVICE), "e4m3", axis=axis, block_size=block_size, executor="triton"
        )
        assert_same_blocks(result, want)


@pytest.mark.parametrize("fmt", ["e4m3", "e2m1", "int8"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a_transpose_is_quantised_where_it_lies(fmt, rounding):
    rng = generator("transpose", fmt, rounding)
    x = values(rng)
    words = random_words(rng, (96, 64)) if rounding == "stochastic" else None
    moved = None if words is None else tensor(words, DEVICE)
    want = model.quantize(np.ascontiguousarray(x.T), fmt, rounding=rounding, rng=words)
    turned = tensor(x, DEVICE).t()
    result = gpu.quantize(turned, fmt, rounding=rounding, rng=moved, executor="triton")
    assert_same_blocks(result, want)
    assert all(part.is_contiguous() for part in (result.codes, result.scales))


@pytest.mark.parametrize("fmt", BYTES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_rows_and_columns_in_one_pass(fmt, transposed, packed):
    from mxdot.gpu.kernels.encode import Rules
    from mxdot.gpu.kernels.quantize_columns import quantize_both

    rng = generator("both", fmt, transposed, packed)
    x = values(rng)
    row_words, column_words = (random_words(rng, x.shape) for _ in range(2))
    for rounding in ("nearest_even", "stochastic"):
        rows = model.quantize(x, fmt, axis=1, rounding=rounding, rng=row_words)
        columns = model.quantize(x, fmt, axis=0, rounding=rounding, rng=column_words)
        want = [rows.codes, rows.scales, columns.codes, columns.scales]
        if transposed:
            want[2:] = [part.T for part in want[2:]]
        if packed:
            want[::2] = [model.pack(codes, fmt) for codes in want[::2]]
        words = (
            tensor(w, DEVICE) if rounding == "stochastic" else None
            for w in (row_words, column_words)
        )
        rules = Rules(FORMATS[fmt], rounding=rounding)
        result = quantize_both(
            tensor(x, DEVICE), rules, *words, packed=packed, transposed=transposed
        )
        for part, expected in zip(result, want, strict=True):
            np.testing.assert_array_equal(part.cpu().numpy(), expected.reshape(-1))


@pytest.mark.parametrize("executor", ["triton", "torch"])
@pytest.mark.parametrize("transposed", [False, True])
def test_both_are_what_each_alone_is(executor, transposed):
    rng = generator("quantize_both", executor)
    x = values(rng, (96, 64))
    words = tuple(tensor(random_words(rng, x.shape), DEVICE) for _ in range(2))
    given: dict[str, Any] = {"scale_rule": "ceil", "rounding": "stochastic"}
    rows, columns = gpu.quantize_both(
        tensor(x, DEVICE), "e4m3", rng=words, transposed=transposed, executor=executor, **given
    )
    want = [
        model.quantize(x, "e4m3", axis=axis, rng=part.cpu().numpy(), **given)
        for axis, part in zip((1, 0), words, strict=True)
    ]
    if transposed:
        want[1] = model.MXArray(want[1].codes.T, want[1].scales.T, "e4m3", axis=1)
    assert_same_blocks(rows, want[0])
    assert_same_blocks(columns, want[1])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((32,), "x must have shape (M, K), not (32,)"),
        ((48, 64), "axis 0 must be a multiple of block_size 32 long, not 48"),
        ((64, 48), "axis 1 must be a multiple of block_size 32 long, not 48"),
    ],
)
def test_shapes_that_both_refuses(shape, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        gpu.quantize_both(torch.ones(shape), "e4m3")


def packed_rows(x, fmt, **rules):
    """Codes (the shape of a tensor) and scales, flat, made dense and taken apart again."""
    from mxdot.gpu.kernels.encode import Rules
    from mxdot.gpu.kernels.quantize import quantize_rows

    codes, scales = quantize_rows(x, Rules(FORMATS[fmt], **rules), packed=True)
    return gpu.unpack(codes, fmt).view(x.shape), scales


@pytest.mark.parametrize("fmt", ["e2m1", "e3m2"])
def test_packed_rows_unpack_to_the_codes(fmt):
    x = values(generator("packed", fmt))
    want = model.quantize(x, fmt)
    codes, scales = packed_rows(tensor(x, DEVICE), fmt)
    result = MXTensor(codes, scales.view(want.scales.shape), fmt)
    assert_same_blocks(result, want)


@pytest.mark.parametrize("block_size", [8, 32, 256])
@pytest.mark.parametrize("scale_rule", SCALE_RULES)
def test_packed_rows_of_bfloat16(scale_rule, block_size):
    """Every value, and every exponent of the largest of a block beside what it leaves codes."""
    rng = generator("packed bfloat16", scale_rule, block_size)
    every = np.arange(2**16, dtype=np.uint16)
    near = np.arange(255).repeat(8 * block_size) - rng.integers(0, 7, 255 * 8 * block_size)
    near = np.maximum(near, 0) << 7 | rng.integers(0, 2**7, near.size)
    near |= rng.integers(0, 2, near.size) << 15
    x = np.concatenate([every, rng.permutation(every), near.astype(np.uint16)])
    x = x.view(ml_dtypes.bfloat16)
    options = {"block_size": block_size, "scale_rule": scale_rule}
    check_packed_e2m1(x, 0, **options)
    check_packed_e2m1(x, 2, **options)  # an address of whole words


def test_packed_rows_of_an_odd_address():
    check_packed_e2m1(values(generator("odd address")).astype(ml_dtypes.bfloat16).reshape(-1), 1)


def check_packed_e2m1(x, start, block_size=32, **rules):
    """Whole blocks of a flat bfloat16 `x` from an element on."""
    if DEVICE == "cpu":  # Triton's interpreter reads subnormal bfloat16 values as others
        x = np.where(np.abs(x.astype(np.float32)) < 2.0**-126, x.dtype.type(0), x)
    part = slice(start, start + (x.size - start) // block_size * block_size)
    want = model.quantize(x[part], "e2m1", block_size=block_size, **rules)
    codes, scales = packed_rows(tensor(x, DEVICE)[part], "e2m1", block_size=block_size, **rules)
    np.testing.assert_array_equal(codes.cpu(), want.codes)
    np.testing.assert_array_equal(scales.cpu(), want.scales)


def test_a_block_size_that_is_no_power_of_two_is_left_to_pytorch():
    x = torch.ones(2, 48)
    with pytest.raises(ValueError, match=r"block_size must be a power of two up to 256, not 48$"):
        gpu.quantize(x, "e4m3", block_size=48, executor="triton")
    assert gpu.quantize(x, "e4m3", block_size=48).scales.shape == (2, 1)


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "tf32"])
def test_longer_codes_are_left_to_pytorch(fmt):
    refused = r"codes must have at most 8 bits, not (16|19)$"
    x = torch.ones(32, 32)
    for quantize in (gpu.quantize, gpu.quantize_both):
        with pytest.raises(ValueError, match=refused):
            quantize(x, fmt, executor="triton")
    with pytest.raises(ValueError, match=refused):
        gpu.quantize(x, fmt).dequantize(executor="triton")


@pytest.mark.parametrize("fmt", BYTES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("block_size", [1, 32, 256])
def test_dequantisation(fmt, dtype, block_size):
    """Every code under every scale, in executor ``torch``, which equals the model."""
    codes = torch.arange(2 ** FORMATS[fmt].bits, dtype=torch.uint8)
    codes = codes.repeat(max(1, block_size // len(codes))).expand(256, -1).contiguous()
    scales = torch.arange(256, dtype=torch.uint8)[:, None].expand(-1, codes.shape[1] // block_size)
    x = MXTensor(codes, scales, fmt, block_size).to(DEVICE)
    result, want = (x.dequantize(dtype, executor=name) for name in ("triton", "torch"))
    same = (result == want) | (result.isnan() & want.isnan())
    assert same.all()
    if DEVICE == "cpu":  # a GPU has one NaN as the result of a product
        assert torch.equal(result.signbit(), want.signbit())
    assert torch.equal(result.signbit() & ~result.isnan(), want.signbit() & ~want.isnan())


@pytest.mark.cuda  # the interpreter truncates bfloat16 values below the normal range
@pytest.mark.parametrize("fmt", BYTES)
def test_dequantisation_to_bfloat16(fmt):
    codes = torch.arange(2 ** FORMATS[fmt].bits, dtype=torch.uint8).expand(256, -1).contiguous()
    codes = codes.repeat(1, max(1, 32 // codes.shape[1]))
    scales = torch.arange(256, dtype=torch.uint8)[:, None].expand(-1, codes.shape[1] // 32)
    x = MXTensor(codes, scales, fmt).to("cuda")
    result, want = (x.dequantize(torch.bfloat16, executor=name) for name in ("triton", "torch"))
    assert torch.equal(result.nan_to_num(7), want.nan_to_num(7))
    assert torch.equal(result.isnan(), want.isnan())


def test_prepared_work_keeps_no_tensor():
    x = torch.ones((4, 96), device=DEVICE)
    for executor in ("triton", "torch"):
        own = x.clone()
        seen = weakref.ref(own)
        _quantized_values(own, "e4m3", 32, "floor", torch.float16, executor)
        del own
        assert seen() is None


@pytest.mark.parametrize("shape", [(1, 2), (3, 10), (5, 4096), (9, 6000)])
def test_unpacked_codes(shape):
    rows, length = shape
    rng = generator("unpack", shape)
    packed = tensor(rng.integers(0, 256, (rows, length // 2), dtype=np.uint8), DEVICE)
    request = Unpacking(packed, 4, length)
    want = executors.run(executors.UNPACK, "torch", request)
    assert torch.equal(executors.run(executors.UNPACK, "triton", request), want)


def test_what_the_kernel_does_not_unpack():
    packed = torch.zeros((2, 3), dtype=torch.uint8, device=DEVICE)
    for bits, length, why in ((6, 4, "4 bits, not 6"), (4, 5, "3 bytes of 6 codes, not of 5")):
        with pytest.raises(ValueError, match=why):
            executors.run(executors.UNPACK, "triton", Unpacking(packed, bits, length))
