"""Schemes on tensors against the model: every code, scale and value."""

import numpy as np
import torch

from devices import bits, tensor
from mxdot.gpu.schemes import ScaledTensor, matmul, quantize
from mxdot.model import schemes as model
from scheme_cases import OPTIONAL, assert_same, shrunk


class TorchBackend:
    """PyTorch on one device, for the tests of scheme_suite."""

    rows = 64
    weight_only_shape = (5, 6, 32)
    every_text = True

    def __init__(self, device):
        self.device = device

    def sizes(self, scheme):
        """The schemes to quantise by and the shape of their matrices."""
        return [(shrunk(scheme), (8, 16)), (scheme, (128, 256))]

    def quantize(self, x, scheme, **options):
        return quantize(tensor(x, self.device), scheme, **options)

    def check(self, matrix, scheme, words=None, **options):
        check(matrix, scheme, self.device, words, **options)

    def check_product(self, a, b, text, c, lanes=128):
        """A product of two ScaledArrays, or of floats and a ScaledArray."""
        want = model.matmul(a, b, text, c, lanes=lanes)
        got = matmul(self.moved(a), self.moved(b), text, tensor(c, self.device), lanes=lanes)
        assert (got.dtype, got.device.type) == (torch.float32, self.device)
        left = a.dtype if isinstance(a, np.ndarray) else a.scheme
        np.testing.assert_array_equal(
            got.cpu().numpy().view(np.uint32), want.view(np.uint32), f"{left} x {b.scheme}, {text}"
        )

    def product(self, a, b, text, lanes):
        return matmul(self.moved(a), self.moved(b), text, lanes=lanes)

    def moved(self, x):
        if isinstance(x, np.ndarray):
            return tensor(x, self.device)
        return ScaledTensor.from_model(x, self.device)


def check(x, scheme, device, words=None, **options):
    """An array quantised on `device` gives the model's array, and the model's values."""
    want = model.quantize(x, scheme, rng=words, **options)
    random = None if words is None else tensor(words, device)
    got = quantize(tensor(x, device), scheme, rng=random, **options)
    parts = [got.codes, *got.scales, *(getattr(got, p) for p in OPTIONAL)]
    assert all(p.device.type == device and p.is_contiguous() for p in parts if p is not None)
    assert_same(got.to_model(), want)
    check_values(got, want)


def check_values(got, want):
    np.testing.assert_array_equal(bits(got.dequantize().cpu().numpy()), bits(want.dequantize()))
