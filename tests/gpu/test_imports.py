"""Modules that importing the packages loads."""

import subprocess
import sys


def run(script):
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_gpu_path_works_without_triton():
    """Nothing on the way to a result on a CPU imports Triton, or anything of the hardware's."""
    run("""
import sys
for name in ("triton", "amaranth", "cocotb", "safetensors"):
    sys.modules[name] = None
import torch
from mxdot.gpu import matmul, quantize
x = quantize(torch.ones(2, 32), "e4m3")
assert matmul(x, x, "hopper").tolist() == [[32, 32], [32, 32]]
""")


def test_the_model_does_not_import_torch():
    run("""
import sys
import mxdot.model
assert "torch" not in sys.modules
""")
