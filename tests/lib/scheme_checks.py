"""Scaled tensors beside the model's arrays: every code, scale and value."""

import numpy as np

from devices import bits, tensor
from mxdot.gpu.schemes import quantize
from mxdot.model import schemes as model

OPTIONAL = ("zero_points", "selectors")


def assert_same(got, want):
    """Every part of two arrays of the model is equal in dtype, shape and bits."""
    assert (got.scheme, got.axis) == (want.scheme, want.axis)
    parts = [("codes", got.codes, want.codes)]
    parts += [(f"scales[{i}]", got.scales[i], part) for i, part in enumerate(want.scales)]
    parts += [(part, getattr(got, part), getattr(want, part)) for part in OPTIONAL]
    for name, mine, its in parts:
        if its is None:
            assert mine is None, name
            continue
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape), name
        unsigned = np.dtype(f"u{its.dtype.itemsize}")
        np.testing.assert_array_equal(mine.view(unsigned), its.view(unsigned), name)
    assert len(got.scales) == len(want.scales)


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
