"""Every container of quantised tensors, by name."""

import pytest
import torch

from mxdot.gpu import quantize, regroup, schemes
from mxdot.gpu.tensors.packed import pack_codes

CONTAINERS = {
    "mx": lambda x: quantize(x, "e4m3"),
    "mx, e2m1": lambda x: quantize(x, "e2m1", block_size=16),
    "scaled": lambda x: schemes.quantize(x, "int4_g128"),
    "zero points": lambda x: schemes.quantize(x, "int8_affine"),
    "two levels": lambda x: schemes.quantize(x, "nvfp4"),
    "tiles": lambda x: schemes.quantize(x, "fp8_e4m3_128x128"),
    "code book": lambda x: schemes.quantize(x, "mixed4"),
    "mx, dense": lambda x: pack_codes(quantize(x, "e2m1")),
    "six bits, dense": lambda x: pack_codes(quantize(x, "e2m3", block_size=64)),
    "scaled, dense": lambda x: pack_codes(schemes.quantize(x, "int4_affine_g128")),
    "two levels, dense": lambda x: pack_codes(schemes.quantize(x, "nvfp4")),
    "packed": lambda x: schemes.pack_weights(schemes.quantize(x, "int4_g128")),
    "regrouped": lambda x: regroup(quantize(x, "e4m3")),
}


every_container = pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)


def contained(make, device="cpu"):
    torch.manual_seed(0)
    return make(torch.randn(256, 256, device=device))


def assert_same(got, want):
    assert type(got) is type(want)
    assert got.shape == want.shape
    assert got.facts() == want.facts()
    assert torch.equal(got.dequantize(), want.dequantize())


def emptied(x, done):
    """Zero every part of a container that another process shares; puts whether it is shared."""
    shared = x.is_shared()
    for part in x.named_parts().values():
        part.zero_()
    done.put(shared)
