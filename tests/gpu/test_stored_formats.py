"""Files keep all that a format is."""

import torch

from mxdot import gpu
from mxdot.gpu import MXTensor, schemes
from small_tensors import CODES, SCALES, X
from stored_formats import E3M3, own_scheme


def test_own_formats_have_their_values(tmp_path):
    tensors = {
        "mx": MXTensor(CODES + 3, SCALES + 127, E3M3),
        "own": schemes.quantize(X * torch.linspace(-4, 4, 64), own_scheme()),
    }
    gpu.save(tmp_path / "x", tensors)
    loaded = gpu.load(tmp_path / "x")
    for name, x in tensors.items():
        assert torch.equal(loaded[name].dequantize(), x.dequantize())
    assert loaded["mx"].format == E3M3
    assert loaded["own"].scheme == tensors["own"].scheme
