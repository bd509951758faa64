"""Products of few rows with the codes of a weight: both executors, every layout that they take."""

import pytest
import torch

from compare import generator
from interpreter import DEVICE, for_kernels
from mxdot.gpu import quantize
from mxdot.gpu.ops.few_rows import few_rows_matmul, rows_matmul, takes_rows
from mxdot.gpu.schemes import quantize as by_scheme
from mxdot.gpu.tensors.packed import pack_codes

MX, SCHEMES = (
    ("e4m3", "e5m2", "e2m3", "e2m1", "int8"),
    (
        "nvfp4",
        "nvfp4_16x16",
        "fp8_e4m3_row",
        "fp8_e4m3_tensor",
        "fp8_e4m3_b32",
        "int8_channel",
        "int4_channel",
    ),
)
# Triton's interpreter does not round to bfloat16 to nearest even.
DTYPES = (torch.bfloat16, torch.float16) if DEVICE == "cuda" else (torch.float16,)


def matrix(rng, rows, columns):
    return torch.from_numpy(rng.standard_normal((rows, columns))).float().to(DEVICE)


def weights(rng, name, shape=(48, 96)):
    w = matrix(rng, *shape)
    made = quantize(w, name) if name in MX else by_scheme(w, name)
    return (made, pack_codes(made)) if name in ("e2m1", "nvfp4", "int4_channel") else (made,)


@pytest.mark.parametrize("name", [*MX, *SCHEMES])
@for_kernels[0]
@for_kernels[1]
def test_a_kernel_multiplies_values(name):
    rng = generator("few rows", name)
    whole = weights(rng, name)
    sliced = [w[:32, :64] for w in whole] if name in MX else []
    for w in (*whole, *sliced):
        for rows in (1, 3):
            for dtype in DTYPES:
                x = matrix(rng, rows, w.shape[1]).to(dtype)
                want = x.double() @ w.dequantize().double().t()
                for executor in ("triton", "torch"):
                    result = few_rows_matmul(x, w, executor=executor)
                    assert result.dtype == dtype
                    error = (result.double() - want).abs().max() / want.abs().max()
                    assert error < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", ["e2m1", "nvfp4", "e4m3"])
@for_kernels[0]
@for_kernels[1]
def test_x_from_any_place_of_memory(name):
    """4-bit codes multiply words of four columns, which begin at multiples of 8 bytes."""
    rng = generator("few rows, places", name)
    w = weights(rng, name)[-1]
    length = w.shape[1]
    whole = matrix(rng, 4, length).half().flatten()
    views = [whole[start : start + 3 * length].view(3, -1) for start in range(4)]
    views.append(matrix(rng, 1, length + 2).half()[:, :-2])  # one row, with a stride of its own
    for x in views:
        want = few_rows_matmul(torch.empty_like(x).copy_(x), w, executor="triton")
        assert torch.equal(few_rows_matmul(x, w, executor="triton"), want)


@for_kernels[0]
@for_kernels[1]
def test_x_of_other_types_is_left_to_pytorch():
    w = weights(generator("few rows, types"), "e2m1")[-1]
    x = torch.ones((2, w.shape[1]), device=DEVICE)
    assert few_rows_matmul(x, w).dtype == torch.float32
    with pytest.raises(ValueError, match="x must be bfloat16 or float16 on this device, not torch"):
        few_rows_matmul(x, w, executor="triton")


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["e4m3", "e2m1", "nvfp4", "fp8_e4m3_b128", "fp8_e4m3_row"])
@pytest.mark.parametrize("shape", [(70, 8320), (4096, 2048)])
def test_many_steps_and_tiles(name, shape):
    rng = generator("few rows, long", name, shape)
    w = weights(rng, name, shape)[-1]
    for rows in (1, 3, 16):
        for dtype in (torch.bfloat16, torch.float16):
            x = matrix(rng, rows, shape[1]).to(dtype)
            want = x.double() @ w.dequantize(dtype if rows > 1 else torch.float32).double().t()
            result = few_rows_matmul(x, w, executor="triton")
            error = (result.double() - want).abs().max() / want.abs().max()
            assert error < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("length", [128, 132, 136, 512])
@pytest.mark.parametrize("name", ["int4_channel", "int4_tensor"])
@for_kernels[0]
@for_kernels[1]
def test_columns_of_packed_codes_keep_their_places(name, length):
    """Powers of two in one column at a time, which only the right code multiplies."""
    packed = pack_codes(by_scheme(matrix(generator("places", name, length), 40, length), name))
    want = packed.dequantize().double()
    for rows in (3, 16):
        for first in (0, length // 2 - 1, length - rows):
            x = torch.eye(length, dtype=torch.float16, device=DEVICE)[first : first + rows]
            result = few_rows_matmul(x, packed, executor="triton").double()
            torch.testing.assert_close(result, want[:, first : first + rows].t(), rtol=1e-3, atol=0)


@pytest.mark.cuda
def test_fp8_rows_of_every_code_by_packed_codes():
    """Infinities and NaN among them: their results, and no others, are not finite."""
    w = pack_codes(quantize(torch.ones((48, 256), device="cuda"), "e2m1"))
    codes = torch.arange(256, device="cuda").to(torch.uint8)
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        x = torch.diag(codes).view(kind)
        for first in range(0, 256, 16):
            part = x[first : first + 16]
            scales = torch.ones(16, device="cuda")
            result = few_rows_matmul(part, w, scales, out_dtype=torch.float32, executor="triton")
            want = part.float() @ w.dequantize().t()
            torch.testing.assert_close(result, want, rtol=0, atol=0, equal_nan=True)


@for_kernels[0]
@for_kernels[1]
def test_fp8_rows_are_scaled_once():
    rng = generator("few rows of codes")
    w = weights(rng, "fp8_e4m3_row")[0]
    for name in ("fp8_e4m3_row", "fp8_e4m3_tensor"):
        for rows in (1, 3) if DEVICE == "cuda" else (1,):
            a = by_scheme(matrix(rng, rows, w.shape[1]), name)
            want = a.dequantize().double() @ w.dequantize().double().t()
            codes = a.codes.view(torch.float8_e4m3fn)
            for executor in ("triton", "torch"):
                result = few_rows_matmul(
                    codes, w, a.scales[0], out_dtype=torch.float32, executor=executor
                )
                torch.testing.assert_close(result.double(), want, rtol=1e-5, atol=1e-5)
            assert takes_rows(a, w) == (DEVICE == "cuda")
            if DEVICE == "cuda":
                torch.testing.assert_close(rows_matmul(a, w, torch.float32), result)


@for_kernels[0]
def test_refusals():
    rng = generator("few rows refused")
    w = matrix(rng, 32, 96)
    x = matrix(rng, 2, 96).half()
    for made, reason in (
        (by_scheme(w, "mixed8"), "elements must be of one format"),
        (by_scheme(w, "msfp12"), "elements must not be sign-magnitude"),
        (pack_codes(quantize(w, "e2m3")), "packed codes must have 4 bits, not 6"),
        (quantize(w, "e4m3", block_size=48), "groups must be a power of two"),
        (quantize(w, "e4m3", axis=0), "groups must run along K"),
    ):
        with pytest.raises(ValueError, match=f"^executor triton cannot take this: {reason}"):
            few_rows_matmul(x, made, executor="triton")
    with pytest.raises(ValueError, match="x must have 96 columns, as the weights, not 64"):
        few_rows_matmul(x[:, :64], quantize(w, "e4m3"))
    with pytest.raises(ValueError, match="scales must be 1 or 2, not 3"):
        few_rows_matmul(x, quantize(w, "e4m3"), torch.ones(3, device=DEVICE))
    with pytest.raises(ValueError, match="x must have at most 16 rows, not 17"):
        few_rows_matmul(matrix(rng, 17, 96).half(), quantize(w, "e4m3"), executor="triton")


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["e2m1", "nvfp4"])
def test_every_four_bit_code_is_its_value(name):
    """The conversion of four codes at a time, with a row of one for each column."""
    packed = weights(generator("few rows every code"), name, (256, 256))[-1]
    for rows in (1, 16):
        for first in range(0, 256, rows):
            x = torch.eye(256, dtype=torch.bfloat16, device="cuda")[first : first + rows]
            result = few_rows_matmul(x, packed, executor="triton")
            want = packed.dequantize(torch.bfloat16).t()[first : first + rows]
            torch.testing.assert_close(result, want, rtol=2**-7, atol=0)
