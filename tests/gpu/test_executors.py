"""Who cannot carry a request out says why in one sentence: executors, and measurements of a GPU."""

import os
import subprocess
import sys
from importlib import import_module

import pytest
import torch

from mxdot import gpu
from mxdot.gpu import executors
from small_tensors import A, X, refused


@pytest.fixture
def without_triton(monkeypatch):
    """Make Triton impossible to find, as if it were not installed."""
    monkeypatch.setattr(executors, "find_spec", lambda _: None)
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)


@pytest.mark.usefixtures("without_triton")
def test_no_triton():
    message = "executor triton cannot take this: Triton is not installed"
    with refused(ValueError, message):
        gpu.matmul(A, A, "exact", executor="triton")
    with refused(ValueError, message):
        gpu.quantize(X, "e4m3", executor="triton")
    assert torch.equal(gpu.matmul(A, A, "exact"), torch.zeros(4, 4))


def in_another_process(script):
    """Run without Triton's interpreter, which takes every device; other tests switch it on."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", script], check=True, env=env)


@pytest.mark.triton
def test_a_cpu_tensor_to_a_kernel():
    in_another_process("""
import torch
from mxdot import gpu
from mxdot.gpu.names import named_scheme
x = torch.ones(2, 32)
a = gpu.quantize(x, "e4m3")
for call in (
    lambda: gpu.quantize(x, "e4m3", executor="triton"),
    lambda: gpu.matmul(a, a, "exact", executor="triton"),
):
    try:
        call()
    except ValueError as error:
        want = "executor triton cannot take this: Triton kernels take CUDA tensors, not cpu"
        assert str(error) == want, error
    else:
        raise AssertionError("taken")
""")


@pytest.mark.triton
def test_an_old_gpu_is_left_to_pytorch():
    in_another_process("""
import torch
from mxdot.gpu import executors
from mxdot.gpu.ops.quantize import Quantization
from mxdot.model import E4M3

class OnAnOldGpu(Quantization):
    device = torch.device("cuda")

torch.cuda.get_device_capability = lambda device: (7, 5)
request = OnAnOldGpu(torch.ones(32), E4M3, 32, 0, "floor", "nearest_even", "poison", None)
reason = executors.refusal(executors.QUANTIZE, "triton", request)
assert reason == "Triton needs compute capability 8.0 or later, not 7.5", reason
assert executors.choose(executors.QUANTIZE, None, request).__module__ == "mxdot.gpu.ops.quantize"
""")


@pytest.mark.parametrize("program", ["hardware.agreement", "bench.__main__"])
def test_measurements_without_a_gpu(program, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with refused(SystemExit, "this is measured on a CUDA GPU, and PyTorch sees none"):
        import_module(f"mxdot.gpu.{program}").main()
