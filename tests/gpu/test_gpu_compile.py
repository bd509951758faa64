"""torch.compile takes quantisation and its inverse whole, and changes no bit."""

import numpy as np
import pytest
import torch

from compare import generator
from devices import assert_same_blocks, bits, on_devices, tensor
from mxdot import gpu, model
from test_quantize import random_blocks, with_nonfinite

CASES = [
    ("e4m3", "ceil", "nearest_even", "element"),
    ("e2m1", "even", "stochastic", "poison"),
    ("int8", "floor", "toward_zero", "poison"),
    ("e5m2", "floor", "nearest_even", "element"),
]


@on_devices
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize(("fmt", "rule", "rounding", "policy"), CASES)
def test_the_compiler_changes_no_bit(fmt, rule, rounding, policy, device):
    rng = generator("gpu compile", fmt)
    x = with_nonfinite(rng, random_blocks(rng, 64, 128))
    words = rng.integers(0, 2**32, x.shape, dtype=np.uint32)
    options = {"scale_rule": rule, "rounding": rounding, "nonfinite": policy}

    @torch.compile(fullgraph=True)
    def compiled(x, words):
        blocks = gpu.quantize(x, fmt, rng=words, **options)
        return blocks, blocks.dequantize()

    got, values = compiled(tensor(x, device), tensor(words, device))
    want = model.quantize(x, fmt, rng=words, **options)
    assert_same_blocks(got, want)
    np.testing.assert_array_equal(bits(values.cpu().numpy()), bits(want.dequantize()))
