"""Products of every scheme on tensors have the bits of the model's, on every device."""

from itertools import product

import numpy as np
import pytest
import torch

from compare import generator
from devices import on_devices, tensor
from mxdot.gpu import chunks, schemes
from mxdot.gpu.schemes import ScaledTensor, integer_sums, matmul, quantize
from mxdot.model import FORMATS
from mxdot.model import schemes as model
from mxdot.model.schemes import FLOAT32, INT8_FULL, TENSOR, Level, ScaledArray, Scheme, block
from mxdot.model.schemes.table import mx
from scheme_cases import RULES, assert_same, random_array, random_c
from scheme_checks import TorchBackend


@on_devices
@pytest.mark.parametrize("fmt", ["e5m2fnuz", "fp16", "bf16", "tf32"])
def test_elements_of_other_units(fmt, device):
    """Scales are one per block, or one float per tensor."""
    rng = generator("gpu products of elements", fmt)
    by_block = mx(FORMATS[fmt], 4, "ceil")
    whole = Scheme(fmt, (FORMATS[fmt],), (Level(TENSOR, FLOAT32),), "a test")
    for scheme, text in product((by_block, whole), RULES):
        a, b = (random_array(rng, scheme, 5, 16, kind) for kind in ("one", "nan"))
        TorchBackend(device).check_product(a, b, text, random_c(rng, (5, 5), "one"))
    x = rng.standard_normal((4, 32)).astype(np.float32)
    result = quantize(tensor(x, device), by_block)
    assert_same(result.to_model(), model.quantize(x, by_block))


@on_devices
@pytest.mark.parametrize("text", ["exact", "aligned:13", "fused:25", "int32", "hopper-promoted"])
@pytest.mark.parametrize("names", [("int8_channel", "int4_g128"), ("nvfp4", "nvfp4")], ids="x".join)
def test_what_quantisation_makes(names, text, device, monkeypatch):
    """Real lengths, several tiles of the result, several regions."""
    if text == "int32" and "nvfp4" in names:
        text = "fused:13"
    monkeypatch.setitem(chunks.CHUNK, device, 2000)
    rng = generator("gpu quantised", names, text)
    x, w = (rng.standard_normal((n, 512)).astype(np.float32) for n in (20, 30))
    a, b = model.quantize(x, names[0]), model.quantize(w, names[1])
    TorchBackend(device).check_product(a, b, text, np.zeros((20, 30), np.float32))
    results = matmul(
        quantize(tensor(x, device), names[0]), quantize(tensor(w, device), names[1]), text
    )
    np.testing.assert_array_equal(results.cpu().numpy(), model.matmul(a, b, text))


@on_devices
def test_an_exact_weight_only_product_rounds_once(device):
    """Terms from 2^-296 to 2^254: the largest cancel, and the least decides a tie."""
    scheme = Scheme("one", (INT8_FULL,), (Level(block(1), FLOAT32),), "a test")
    codes = np.ones((1, 5), np.uint8)
    for least, want in ((2.0**-148, 1 + 2.0**-23), (-(2.0**-148), 1.0)):
        scales = np.array([[2.0**127, 2.0**127, 1, 2.0**-24, 2.0**-148]], np.float32)
        x = np.array([[2.0**127, -(2.0**127), 1, 1, least]], np.float32)
        b = ScaledArray(scheme, codes, (scales,), None, None, -1)
        TorchBackend(device).check_product(x, b, "exact", np.zeros((1, 1), np.float32))
        assert matmul(tensor(x, device), ScaledTensor.from_model(b, device), "exact").item() == want


def test_a_compiled_function_calls_them_as_they_are():
    def layer(x, w):
        a, b = quantize(2 * x, "nvfp4"), quantize(w, "vsquant4_u4")
        sums = integer_sums(b, b).rescale()
        return matmul(a, b, "aligned:13") + 1, a.dequantize() - 1, 2 * sums

    rng = generator("gpu compiled")
    x, w = (tensor(rng.standard_normal((4, 64)).astype(np.float32), "cpu") for _ in range(2))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for result, want in zip(compiled(x, w), layer(x, w), strict=True):
        assert torch.equal(result, want)


def test_every_name_is_public():
    assert all(hasattr(schemes, name) for name in schemes.__all__)
