"""Fast products: within the bounds of what is documented, on every device that has the method."""

import itertools
import re

import numpy as np
import pytest
import torch

from compare import generator
from devices import on_devices
from mxdot import gpu
from mxdot.gpu import MXTensor, mx_matmul, quantize, regroup
from mxdot.gpu.ops.regroup import TAKEN
from mxdot.model import MX_FORMATS

PAIRS = list(itertools.product(MX_FORMATS, repeat=2))
HALF_ULP = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
NEEDS_HOPPER = "method float8 needs a GPU of compute capability 9.0 (Hopper), not "


def operand(rng, fmt, rows, length, block_size=32, device="cpu") -> MXTensor:
    x = rng.standard_normal((rows, length)) * np.exp2(rng.integers(-3, 4, (rows, 1)))
    return quantize(torch.from_numpy(x.astype(np.float32)).to(device), fmt, block_size=block_size)


def check(result, x, y, out_dtype, sum_error):
    """x y^T of float64 values, but for one rounding and `sum_error` of the sum of magnitudes."""
    want, magnitude = x @ y.T, abs(x) @ abs(y).T
    error = abs(result.double().cpu().numpy() - want)
    bound = abs(want) * HALF_ULP[out_dtype] + magnitude * sum_error * (1 + HALF_ULP[out_dtype])
    assert result.dtype == out_dtype
    assert result.is_contiguous()
    assert (error <= bound).all()
    assert np.linalg.norm(error) < np.linalg.norm(want) * 2.0**-8  # a lost product costs more


@on_devices
@pytest.mark.parametrize("formats", PAIRS)
def test_bfloat16(formats, device):
    rng = generator("bfloat16", *formats)
    a, b = operand(rng, formats[0], 5, 320, device=device), operand(rng, formats[1], 3, 320, 64)
    x, y = (t.dequantize().double().cpu().numpy() for t in (a, b))
    for out_dtype in HALF_ULP:
        result = mx_matmul(a, b.to(device), out_dtype=out_dtype)
        check(result, x, y, out_dtype, 320 * 2.0**-24)


@pytest.mark.cuda
@pytest.mark.parametrize("formats", list(itertools.product(TAKEN, repeat=2)))
@pytest.mark.parametrize("rows", [1, 7, 16, 150])
def test_float8(formats, rows):
    rng = generator("float8", *formats, rows)
    a = operand(rng, formats[0], rows, 480, device="cuda")
    b = regroup(operand(rng, formats[1], 130, 480, device="cuda"))
    x, y = regroup(a).dequantize().double().cpu().numpy(), b.dequantize().double().cpu().numpy()
    for out_dtype in HALF_ULP:
        # A product loses less than 2^-13 of the largest of its step, in which there are 33 terms.
        check(mx_matmul(a, b, out_dtype=out_dtype), x, y, out_dtype, 33 * 2.0**-13)
        check(mx_matmul(regroup(a), b, out_dtype=out_dtype), x, y, out_dtype, 33 * 2.0**-13)


@pytest.mark.cuda
def test_float8_is_hopper_promoted_where_scales_are_one():
    rng = generator("float8 silicon")
    codes = rng.integers(0, 127, (2, 256, 1024), dtype=np.uint8)
    codes |= rng.integers(0, 2, codes.shape, dtype=np.uint8) << 7
    a, b = (
        MXTensor(torch.from_numpy(x), torch.full((256, 32), 127, dtype=torch.uint8), "e4m3").to(
            "cuda"
        )
        for x in codes
    )
    result = mx_matmul(a, b, out_dtype=torch.float32, method="float8")
    assert torch.equal(result, gpu.matmul(a, b, "hopper-promoted"))


@on_devices
@pytest.mark.parametrize("shape", [(0, 3, 64), (3, 0, 64), (3, 4, 0)])
def test_empty(shape, device):
    m, n, k = shape
    a, b = (
        MXTensor(torch.zeros(r, k).byte(), torch.zeros(r, k // 32).byte(), "e4m3").to(device)
        for r in (m, n)
    )
    assert torch.equal(mx_matmul(a, b), torch.zeros(m, n, device=device, dtype=torch.bfloat16))


METHODS = ["bfloat16", pytest.param("float8", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("method", METHODS)
def test_poison_reaches_the_result(method):
    x = torch.ones(2, 64)
    x[1, 3] = torch.inf
    device = "cuda" if method == "float8" else "cpu"
    a, b = (quantize(t.to(device), "e4m3") for t in (x, torch.ones(3, 64)))
    y = mx_matmul(a, b, method=method)
    assert y[0].isfinite().all()
    assert y[1].isnan().all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_it_compiles_whole():
    def work(x, y):
        a, b = quantize(x, "e4m3"), quantize(y, "e2m1", scale_rule="ceil")
        return mx_matmul(a, b), regroup(b).scales

    x, y = torch.randn(8, 64), torch.randn(4, 64)
    for result, want in zip(torch.compile(work, fullgraph=True)(x, y), work(x, y), strict=True):
        torch.testing.assert_close(result, want)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_autocast_changes_nothing(method, autocast):
    device = "cuda" if method == "float8" else "cpu"
    a = operand(generator("autocast", method), "e4m3", 4, 128, device=device)
    for out_dtype in HALF_ULP:
        want = mx_matmul(a, a, out_dtype=out_dtype, method=method)
        with torch.autocast(device, autocast):
            result = mx_matmul(a, a, out_dtype=out_dtype, method=method)
        assert result.dtype == out_dtype
        assert torch.equal(result, want)


A = quantize(torch.ones(4, 64), "e4m3")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"a": torch.ones(4, 64)}, TypeError, "a must be an MXTensor or a Regrouped, not Tensor"),
        (
            {"b": quantize(torch.ones(4, 32), "e4m3")},
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (4, 64) and (4, 32)",
        ),
        (
            {"b": quantize(torch.ones(32, 64), "e4m3", axis=0)},
            ValueError,
            "axis of b must be the last axis, not 0",
        ),
        ({"b": A.to("meta")}, ValueError, "a and b must be on one device, not cpu and meta"),
        (
            {"out_dtype": torch.float16},
            ValueError,
            "out_dtype must be bfloat16 or float32, not float16",
        ),
        (
            {"out_dtype": "float32"},
            ValueError,
            "out_dtype must be bfloat16 or float32, not 'float32'",
        ),
        (
            {"method": "float4"},
            ValueError,
            "method must be one of bfloat16, float8, block_scaled, not 'float4'",
        ),
        ({"method": "float8"}, ValueError, NEEDS_HOPPER + "cpu"),
        ({"b": regroup(A)}, ValueError, NEEDS_HOPPER + "cpu"),
        (
            {"b": regroup(A), "method": "bfloat16"},
            TypeError,
            "b must be an MXTensor with method bfloat16, not a Regrouped",
        ),
    ],
)
def test_refusals(changed, error, message):
    arguments = {"a": A, "b": A} | changed
    a, b = arguments.pop("a"), arguments.pop("b")
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        mx_matmul(a, b, **arguments)
