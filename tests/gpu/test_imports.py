"""Modules that importing the packages loads."""

import subprocess
import sys

import pytest

from mxdot.model.errors import missing_package


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


@pytest.mark.parametrize(
    ("package", "statement", "extra"),
    [
        ("torch", "import mxdot.gpu", "gpu"),
        ("torch", "from mxdot.nn import convert", "gpu"),
        ("transformers", "import mxdot.nn.transformers", "nn"),
        ("transformers", "networks.load_network('.')", "nn"),
        ("transformers", "bench.main(['--model', 'llama'])", "nn"),
    ],
)
def test_a_missing_package_is_said_with_its_extra(package, statement, extra):
    script = f"import sys\nsys.modules[{package!r}] = None\n"
    for name in ("networks", "bench"):
        script += f"from mxdot.nn import {name}\n" * statement.startswith(name)
    done = subprocess.run(
        [sys.executable, "-c", script + statement], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert done.stderr.endswith(f": pip install 'mxdot[{extra}]'\n")


def test_what_another_package_lacks_stays_as_it_is():
    error = ModuleNotFoundError("No module named 'sympy'", name="sympy")
    assert missing_package(error, "torch", "mxdot.gpu needs PyTorch", "gpu") is error
