"""The values of fake quantisation are those of the model, bit for bit, eager and compiled."""

import numpy as np
import pytest
import torch

from compare import generator
from devices import bits, on_devices, tensor
from mxdot import model
from mxdot.gpu.ops.regroup import regroup
from mxdot.model import MX_FORMATS
from mxdot.nn.quantizers import MXQuantizer, fake_quantize
from quantize_cases import ROUNDINGS, RULES, edge_amax, random_blocks, with_nonfinite

every_format = pytest.mark.parametrize("fmt", MX_FORMATS)
every_rule = pytest.mark.parametrize("rule", RULES)


def check(x, device, fmt, function=fake_quantize, words=None, rounding="nearest_even", **options):
    want = model.quantize(x, fmt, rng=words, rounding=rounding, pad=True, **options).dequantize()
    if words is not None:
        words = torch.tensor(words.astype(np.int64), device=device)
    result = function(tensor(x, device), fmt, words=words, rounding=rounding, **options)
    assert result.dtype == torch.float32
    np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(want))


@on_devices
@pytest.mark.parametrize("rounding", ROUNDINGS)
@every_rule
@every_format
def test_random_blocks(fmt, rule, rounding, device):
    rng = generator("fake", fmt, rule, rounding)
    for k, n in ((1, 300), (16, 100), (32, 60)):
        blocks = with_nonfinite(rng, random_blocks(rng, n, k))
        words = rng.integers(0, 2**32, blocks.shape, dtype=np.uint32)
        check(blocks, device, fmt, words=words, rounding=rounding, block_size=k, scale_rule=rule)


@on_devices
@every_rule
@every_format
def test_boundaries_of_amax(fmt, rule, device):
    amax = edge_amax(fmt)
    rng = generator("fake amax", fmt, rule)
    with np.errstate(under="ignore"):
        others = (amax[:, None] * rng.uniform(-1, 1, (len(amax), 3))).astype(np.float32)
    blocks = np.concatenate([others, amax[:, None]], axis=1)
    check(blocks, device, fmt, block_size=4, scale_rule=rule)


@on_devices
@every_format
def test_padding_and_leading_axes(fmt, device):
    rng = generator("fake padding", fmt)
    for shape in ((40,), (3, 33), (2, 3, 31), (0, 40), (4, 0)):
        check(rng.standard_normal(shape, dtype=np.float32), device, fmt)


@on_devices
@pytest.mark.parametrize("rounding", [r for r in ROUNDINGS if r != "stochastic"])
@every_rule
def test_a_quantizer_gives_the_values_of_its_codes(rule, rounding, device):
    """Matrices without gaps and transposes, of whole blocks or not."""
    rng = generator("values of codes", rule, rounding)
    quantizer = MXQuantizer("e4m3", 32, rule, rounding)
    x = tensor(with_nonfinite(rng, random_blocks(rng, 60, 96)), device)
    for each in (x, x[:, :96:2].contiguous(), x[:32].T, x[:30].T, x.half()):
        codes = quantizer.codes(each)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            result, want = quantizer.values(each, False, None, dtype), codes.dequantize(dtype)
            torch.testing.assert_close(result, want, rtol=0, atol=0, equal_nan=True)
        blocks = quantizer.regrouped(each).dequantize()
        want = regroup(codes).dequantize()
        torch.testing.assert_close(blocks, want, rtol=0, atol=0, equal_nan=True)


def test_transposed_views():
    rng = generator("fake transposed")
    x = rng.standard_normal((64, 96), dtype=np.float32)
    result = fake_quantize(torch.tensor(x).T, "e4m3")
    want = model.quantize(x, "e4m3", axis=0).dequantize()
    np.testing.assert_array_equal(bits(result.numpy()), bits(want.T))


@pytest.mark.parametrize("rule", RULES)
def test_every_format_compiles_to_its_own_graph(rule):
    """One function compiled for all formats: none may be taken for another."""
    torch.compiler.reset()
    compiled = torch.compile(fake_quantize, fullgraph=True, backend="aot_eager")
    rng = generator("fake compiled", rule)
    for fmt in MX_FORMATS:
        check(random_blocks(rng, 50, 32), "cpu", fmt, compiled, scale_rule=rule)


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # PyTorch's own
@pytest.mark.slow
def test_compiled_code_gives_the_same_bits():
    """With the default compiler, which generates code of its own."""
    torch.compiler.reset()
    compiled = torch.compile(fake_quantize, fullgraph=True)
    rng = generator("fake inductor")
    check(with_nonfinite(rng, random_blocks(rng, 64, 32)), "cpu", "e4m3", compiled)
