"""Devices on which GPU tests run, and equality in every bit."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mxdot.gpu import MXTensor
from mxdot.model import FORMATS, MXArray

CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
on_devices = pytest.mark.parametrize("device", ["cpu", CUDA])


BYTES = [name for name, fmt in FORMATS.items() if fmt.bits <= 8]
"""The formats of which a test may take every code beside everything else."""


def bits(x: NDArray) -> NDArray:
    """The bit patterns of an array of floats, every NaN as one."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.where(np.isnan(x), np.array(np.nan, x.dtype).view(unsigned), x.view(unsigned))


def assert_same_blocks(got: MXTensor, want: MXArray) -> None:
    """Codes, scales and every other field are equal."""
    assert str(got.codes.dtype) == f"torch.{want.codes.dtype}"
    np.testing.assert_array_equal(got.codes.cpu().numpy(), want.codes)
    np.testing.assert_array_equal(got.scales.cpu().numpy(), want.scales)
    assert got.format == want.format
    facts = (got.block_size, got.axis, got.padding)
    assert facts == (want.block_size, want.axis, want.padding)


def tensor(x: NDArray, device: str) -> torch.Tensor:
    """A copy of an array that may be read-only, or bfloat16, which PyTorch does not take."""
    if x.dtype.name == "bfloat16":
        return tensor(x.view(np.int16), device).view(torch.bfloat16)
    return torch.tensor(x, device=device)


def with_parts(x, **parts):
    """A container with some parts replaced, by the names of its attributes."""
    return x.made_of({**x.named_parts(), **parts}, x.facts(), x.shape)
