"""In the interpreter, tests refuse launches that a GPU refuses."""

from typing import Any

import pytest

pytest.importorskip("triton")

import torch
import triton
import triton.language as tl

from interpreter import DEVICE, for_kernels

pytestmark = [
    *for_kernels,
    pytest.mark.skipif(DEVICE == "cuda", reason="a GPU's driver refuses them"),
]


@triton.jit
def count_programs(total):
    tl.atomic_add(total, 1)


def launched(grid, **options):
    kernel: Any = count_programs
    total = torch.zeros(1, dtype=torch.int32)
    kernel[grid](total, **options)
    return total.item()


def test_legal_launches_run():
    assert launched((2, 3, 4), num_warps=8, num_stages=3) == 24


@pytest.mark.parametrize("warps", [0, 3, 5, 7, 64])
def test_warps_are_a_power_of_two(warps):
    with pytest.raises(AssertionError, match=f"num_warps of .*: {warps}"):
        launched((1,), num_warps=warps)


def test_there_is_a_stage():
    with pytest.raises(AssertionError, match="num_stages"):
        launched((1,), num_stages=0)


@pytest.mark.parametrize("grid", [(2**31,), (1, 2**16), (1, 1, 2**16)])
def test_grids_are_within_cuda_s_limits(grid):
    with pytest.raises(AssertionError, match="grid"):
        launched(grid)
