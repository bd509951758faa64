"""Users' formats, schemes, rules and accumulators: PyTorch has the model's bits, Triton refuses
tables by name."""

import re
from typing import Any

import numpy as np
import pytest
import torch

import own_formats
from devices import on_devices
from mxdot import gpu, model
from mxdot.gpu import schemes
from mxdot.model import TableFormat, p3109, register_accumulator
from mxdot.model import schemes as model_schemes
from own_formats import SCHEME_MAKERS, Doubled
from registries import registries as registries

TABLES = (own_formats.nf4(), own_formats.hifloat8(), p3109(8, 3, signed=False))
RULES = ("exact", "aligned:6", "hopper", "float32", "fixed:64:-30", "rvbna:4")


def numbers(seed, shape=(8, 256)):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))
    return x.clip(-99, 99).astype(np.float32)


def same(tensor, array):
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)


@on_devices
@pytest.mark.parametrize("fmt", TABLES, ids=str)
@pytest.mark.filterwarnings("ignore::mxdot.model.OperandsWarning")
@pytest.mark.contract("F13", "F14")
def test_elements_by_their_values(fmt, device):
    x, rng = numbers(1), np.random.default_rng(2)
    x[0, 3], x[1, 40], x[2, 7] = np.inf, np.nan, -0.0
    words = rng.integers(0, 2**32, x.shape, dtype=np.uint32)
    y = torch.tensor(x, device=device)
    for rounding in ("nearest_even", "toward_zero", "stochastic"):
        for policy in ("poison", "element"):
            options: dict[str, Any] = {"rounding": rounding, "nonfinite": policy}
            want = model.quantize(x, fmt, rng=words, **options)
            random = torch.tensor(words, device=device)
            got = gpu.quantize(y, fmt, rng=random, executor="torch", **options)
            same(got.codes, want.codes)
            same(got.scales, want.scales)
            same(got.dequantize(), want.dequantize())
    for rule in RULES:
        same(gpu.matmul(got, got, rule), model.matmul(want, want, rule))


@on_devices
@pytest.mark.parametrize("make", SCHEME_MAKERS, ids=lambda make: make.__name__)
@pytest.mark.contract("S17", "S45", "S47", "T3", "T4")
def test_schemes_of_users(make, device, tmp_path):
    scheme = model_schemes.register_scheme(make())
    x = numbers(3)
    x[1, 3] = np.nan
    want = model_schemes.quantize(x, scheme)
    got = schemes.quantize(torch.tensor(x, device=device), scheme.name)
    same(got.codes, want.codes)
    for ours, theirs in zip(got.scales, want.level_scales, strict=True):
        same(ours, theirs)
    same(got.dequantize(), want.dequantize())
    for rule in ("exact", "aligned:6", "float32"):
        same(schemes.matmul(got, got, rule), model_schemes.matmul(want, want, rule))
    gpu.save(tmp_path / "x", {"x": got})
    again = gpu.load(tmp_path / "x")["x"]
    assert again.scheme == scheme
    same(again.dequantize(), want.dequantize())


@on_devices
def test_a_group_without_a_nan_scale_has_nan_elements(device):
    scheme = own_formats.without_nan()
    x = torch.tensor([[np.inf] + [1.0] * 31], device=device)
    assert schemes.quantize(x, scheme).dequantize().isnan().all()
    with pytest.raises(ValueError, match=r"executor triton cannot take this: (scales must|Triton)"):
        schemes.quantize(x, scheme, executor="triton")


@on_devices
def test_tensors_of_tables_in_files(device, tmp_path):
    fmt = TableFormat("own", (0.0, -0.0, 0.7109375, np.nan, 1, 2, 3, np.inf), "away", 1)
    x = gpu.quantize(torch.ones((1, 32), device=device), fmt)
    gpu.save(tmp_path / "x", {"x": x})
    again = gpu.load(tmp_path / "x")["x"]
    assert again.format == fmt
    same(again.codes, x.codes.cpu().numpy())


@on_devices
def test_kernels_refuse_tables(device):
    fmt = own_formats.nf4()
    x = torch.ones((32, 64), device=device)
    made, scaled = gpu.quantize(x, fmt), schemes.quantize(x, own_formats.nf4_scheme())
    reason = "elements must be floats or integers, not the table of values of nf4"
    for run in (
        lambda: gpu.quantize(x, fmt, executor="triton"),
        lambda: made.dequantize(executor="triton"),
        lambda: gpu.matmul(made, made, "exact", executor="triton"),
        lambda: schemes.quantize(x, own_formats.nf4_scheme(), executor="triton"),
        lambda: scaled.dequantize(executor="triton"),
    ):
        message = f"^executor triton cannot take this: ({re.escape(reason)}|Triton )"
        with pytest.raises(ValueError, match=message):
            run()
    reason = "scale_rule must be one of floor, ceil, even, twice, not even1"
    with pytest.raises(ValueError, match=f"^executor triton cannot take this: ({reason}|Triton )"):
        gpu.quantize(x, "e4m3", scale_rule="even1", executor="triton")


@on_devices
def test_an_accumulator_without_a_rule_here_is_refused(device):
    register_accumulator(Doubled)
    x = gpu.quantize(torch.ones((2, 32), device=device), "e4m3")
    with pytest.raises(ValueError, match=r"doubled:6 must have its class Doubled in RULES of"):
        gpu.matmul(x, x, "doubled:6", executor="torch")
