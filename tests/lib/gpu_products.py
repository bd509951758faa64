"""Products of MXTensors against the model."""

import numpy as np
import pytest
import torch

from cases import Cases
from compare import describe, repeat_command
from devices import bits, tensor
from mxdot import gpu, model
from mxdot.gpu import MXTensor

PAIRS = [
    *(("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e5m2", "e4m3"), ("e2m1", "e2m1")),
    *(("e3m2", "e2m3"), ("int8", "e5m2"), ("int8", "int8")),
]


def takes(accumulator, fmt_a, fmt_b):
    return accumulator != "int32" or (fmt_a, fmt_b) == ("int8", "int8")


def check(a, b, accumulator, c=None, device="cpu", executor=None):
    """The bits of a product of two MXArrays on `device`, and the model's, NaNs made one."""
    want = bits(model.matmul(a, b, accumulator, c)).view(np.uint32)
    start = None if c is None else tensor(c, device)
    moved_a, moved_b = (MXTensor.from_model(x, device) for x in (a, b))
    got = gpu.matmul(moved_a, moved_b, accumulator, start, executor=executor)
    assert (got.dtype, got.device.type, got.is_contiguous()) == (torch.float32, device, True)
    if device == "cuda":  # what was chosen may be a kernel: the rules are there too
        rules = gpu.matmul(moved_a, moved_b, accumulator, start, executor="torch")
        assert torch.equal(rules.view(torch.int32), got.view(torch.int32))
    got = got.cpu().numpy()
    nan = model.accumulator(accumulator).nan_bits
    assert (got.view(np.uint32)[np.isnan(got)] == nan).all()
    return bits(got).view(np.uint32), want


def check_cases(cases, accumulator, device="cpu", executor=None):
    """Every row of a against every row of b, each row of a with its c."""
    got, want = check(cases.a, cases.b, accumulator, cases.c[:, None], device, executor)
    wrong = np.argwhere(got != want)
    if wrong.size:
        i, j = wrong[0]
        a, b = cases[i : i + 1], cases[j : j + 1]
        pytest.fail(
            f"{len(wrong)} of {got.size} dot products differ; the first, row {i} and row {j}:\n"
            f"{describe(Cases(a.a, b.b, a.c), accumulator)}\n"
            f"got         {got[i, j]:#010x}\nwant        {want[i, j]:#010x}\n"
            f"repeat      {repeat_command().replace('.venv', '.venv-gpu')}"
        )


NARROW = ["float16", "bfloat16", "aligned:13:float16", "aligned:7:bfloat16", "fused:13:float16"]
