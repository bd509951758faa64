"""Calls of one kind share their preparation, and no call is mistaken for another kind."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from cases import random_cases
from compare import generator
from devices import assert_same_blocks, bits, on_devices, tensor
from gpu_products import check_cases
from interpreter import DEVICE, for_kernels
from mxdot import gpu, model
from mxdot.gpu.call_cache import MOST, Prepared, once
from mxdot.gpu.ops import dequantize_two, quantize_regrouped
from mxdot.gpu.ops import matmul as products
from mxdot.gpu.ops import quantize as quantization
from mxdot.gpu.ops.regroup import TAKEN

KERNELS = pytest.param("triton", marks=for_kernels)


def test_results_are_kept_by_argument_and_type():
    called = []

    @once
    def double(x):
        called.append(x)
        return [x, x]

    assert [double(1), double(1), double(True), double(1.0)] == [[1, 1]] * 4
    assert called == [1, True, 1.0]
    assert [type(x) for x in called] == [int, bool, float]
    for _ in range(2):
        assert double([2]) == [[2], [2]]  # not hashable: found anew
    assert called[3:] == [[2], [2]]


def test_a_refusal_is_given_each_time():
    x = torch.zeros(4, 32)
    rule: Any = ["floor"]
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^block_size must be from 1 to 65536, not 0$"):
            gpu.quantize(x, "e4m3", block_size=0)
        with pytest.raises(TypeError, match=r"^block_size must be an integer .*, not True$"):
            gpu.quantize(x, "e4m3", block_size=True)
        with pytest.raises(ValueError, match=r"^scale_rule must be one of .*, not \['floor'\]$"):
            gpu.quantize(x, "e4m3", scale_rule=rule)
        assert gpu.quantize(x, "e4m3", block_size=1).block_size == 1


def test_few_kinds_are_kept():
    prepared = Prepared()
    for key in range(3 * MOST):
        assert prepared(key, partial(partial, int, key))() == key
    assert len(prepared._kept) <= MOST


@pytest.mark.parametrize("executor", ["torch", KERNELS])
def test_quantise_calls_in_turn(executor):
    """Values, shapes, dtypes, strides, alignments and rules that follow each other."""
    rng = generator("small calls", executor)
    whole = rng.standard_normal((65, 128)).astype(np.float32)
    x = tensor(whole, DEVICE if executor == "triton" else "cpu")
    narrow = x.to(torch.bfloat16)
    for _ in range(2):
        for rows in (slice(0, 64), slice(1, 65), slice(0, 65), slice(0, 64, 2)):
            for rule in ("floor", "ceil"):
                result = gpu.quantize(x[rows], "e4m3", scale_rule=rule, executor=executor)
                assert_same_blocks(result, model.quantize(whole[rows], "e4m3", scale_rule=rule))
        result = gpu.quantize(x.flatten()[1:4097], "e4m3", executor=executor)  # 4 bytes off
        assert_same_blocks(result, model.quantize(whole.ravel()[1:4097], "e4m3"))
        result = gpu.quantize(narrow, "e5m2", executor=executor)
        assert_same_blocks(result, model.quantize(narrow.float().cpu().numpy(), "e5m2"))
        for axis in (0, 1):
            result = gpu.quantize(x[:64], "int8", axis=axis, executor=executor)
            assert_same_blocks(result, model.quantize(whole[:64], "int8", axis=axis))


@pytest.mark.parametrize("executor", ["torch", KERNELS])
@pytest.mark.slow_except(2)
def test_product_calls_in_turn(executor):
    rng = generator("small products", executor)
    device = DEVICE if executor == "triton" else "cpu"
    for accumulator in ("hopper", "exact", "fixed:48:-20", "hopper"):
        for pair in (("e4m3", "e4m3"), ("e2m1", "e4m3")):
            check_cases(random_cases(rng, pair, 24, 2, 32), accumulator, device, executor)


@for_kernels[0]
@for_kernels[1]
@pytest.mark.parametrize(
    "accumulator",
    [
        *("hopper", "aligned:13", "hopper-promoted", "float32"),
        *("cdna1-fp16", "cdna2-fp16", "cdna3-fp8"),
    ],
)
def test_tiles_of_large_products(accumulator, monkeypatch):
    """Large tiles, which small products do not use."""
    from mxdot.gpu.kernels import emulate

    monkeypatch.setattr(products, "PREPARED", Prepared())
    monkeypatch.setattr(emulate, "FEW_TILES", 0)
    rng = generator("large tiles", accumulator)
    for pair in (("e4m3", "e4m3"), ("e5m2", "e5m2")):
        check_cases(random_cases(rng, pair, 24, 2, 32), accumulator, DEVICE, "triton")


@pytest.mark.parametrize("executor", ["torch", KERNELS])
def test_values_of_two(executor):
    device = DEVICE if executor == "triton" else "cpu"
    rng = generator("two", executor)
    for (a, m), (b, n) in ((("e4m3", 5), ("e2m1", 70)), (("int8", 0), ("e5m2", 3))):
        sides = [
            gpu.quantize(tensor(rng.standard_normal((rows, 128)).astype(np.float32), device), fmt)
            for fmt, rows in ((a, m), (b, n))
        ]
        x, y = sides
        formats = x.format_name, 32, y.format_name, 32
        parts = x.codes, x.scales, y.codes, y.scales
        result = dequantize_two._dequantize_two(*parts, *formats, torch.bfloat16, executor)
        for values, side in zip(result, sides, strict=True):
            assert torch.equal(values, side.dequantize(torch.bfloat16))


@pytest.mark.parametrize("executor", ["torch", KERNELS])
@pytest.mark.parametrize("fmt", TAKEN)
@pytest.mark.parametrize("block_size", [1, 16, 32, 128])
def test_quantised_and_regrouped_at_once(fmt, block_size, executor):
    """The bits of one after the other, of groups of every kind, filled up in both directions."""
    device = DEVICE if executor == "triton" else "cpu"
    rng = generator("quantize regrouped", fmt, block_size)
    x = rng.standard_normal((19, 600)).astype(np.float32)
    x *= np.exp2(rng.integers(-30, 30, (19, 1))).astype(np.float32)
    x[:, ::64] *= np.exp2(rng.integers(-12, 12, x[:, ::64].shape)).astype(np.float32)
    x[3, 130], x[5, 7], x[7], x[9] = np.nan, np.inf, 0.0, -0.0
    for rule in ("floor", "ceil", "even"):
        for values in (tensor(x, device), tensor(x, device).to(torch.bfloat16)):
            codes, scales = quantize_regrouped._quantize_regrouped(
                values, fmt, block_size, rule, executor
            )
            rules = {"block_size": block_size, "scale_rule": rule}
            made = gpu.quantize(values, fmt, pad=True, executor="torch", **rules)
            want = gpu.regroup(made, executor="torch")
            np.testing.assert_array_equal(
                codes.cpu().numpy(), want.elements.view(torch.uint8).cpu().numpy()
            )
            np.testing.assert_array_equal(
                bits(scales.t().cpu().numpy()), bits(want.scales.cpu().numpy())
            )
            whole = quantize_regrouped.quantize_regrouped(values, fmt, block_size, rule)
            assert whole.shape == want.shape


def test_a_transpose_is_regrouped_one_after_the_other():
    x = torch.randn(128, 64, generator=torch.Generator().manual_seed(0))
    result = quantize_regrouped.quantize_regrouped(x.t(), "e4m3", 32, "ceil")
    want = gpu.regroup(gpu.quantize(x.t(), "e4m3", scale_rule="ceil"))
    assert torch.equal(result.elements.view(torch.uint8), want.elements.view(torch.uint8))
    assert torch.equal(result.scales, want.scales)


@on_devices
def test_no_tensor_of_a_first_call_is_kept(device):
    import gc
    import weakref

    x = torch.randn(48, 160, device=device)
    a = gpu.quantize(x, "e4m3")
    y = gpu.matmul(a, a, "hopper")
    z = gpu.mx_matmul(a, a)
    r = quantize_regrouped.quantize_regrouped(x, "e4m3", 32, "floor")
    alive = [weakref.ref(part) for part in (x, a.codes, a.scales, y, z, r.elements)]
    del x, a, y, z, r
    gc.collect()
    assert [ref() for ref in alive] == [None] * len(alive)
    assert quantization.PREPARED._kept


@pytest.mark.cuda
def test_cuda_graphs_take_small_calls():
    """Replayed on other values, with the bits of an ordinary call."""
    rng = torch.Generator("cuda").manual_seed(1)
    x = torch.randn(64, 1024, device="cuda", generator=rng).to(torch.bfloat16)
    w = gpu.quantize(torch.randn(256, 1024, device="cuda", generator=rng), "e4m3")

    def work():
        a = gpu.quantize(x, "e4m3")
        return a.codes, a.scales, gpu.mx_matmul(a, w), gpu.matmul(a, w, "hopper")

    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = work()
    for _ in range(2):
        x.copy_(torch.randn(64, 1024, device="cuda", generator=rng))
        graph.replay()
        for result, want in zip(captured, work(), strict=True):
            assert torch.equal(result, want)
