"""An accumulator that is added to the model alone is refused by every executor that lacks it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from added_accumulator import Halved
from added_accumulator import halved as halved
from doc_examples import files
from interpreter import DEVICE, for_kernels
from mxdot.gpu import matmul, quantize, schemes
from mxdot.gpu.accumulators.products import RULES
from mxdot.model import Aligned
from mxdot.model import matmul as model_matmul
from mxdot.model import quantize as model_quantize
from small_tensors import refused

A = quantize(torch.ones(4, 64), "e4m3")
SCHEME = schemes.quantize(torch.ones(4, 64), "nvfp4")
REASON = "accumulator halved:13 must have its class Halved in RULES of gpu/accumulators/products.py"


@pytest.mark.usefixtures("halved")
@pytest.mark.parametrize("rule", ["halved:13", Halved(13)])
def test_refused_by_pytorch(rule):
    with refused(ValueError, f"executor torch cannot take this: {REASON}"):
        matmul(A, A, rule, executor="torch")
    with refused(ValueError, f"executor torch cannot take this: {REASON}"):
        matmul(A, A, rule)
    with refused(ValueError, REASON):
        schemes.matmul(SCHEME, SCHEME, rule)


@pytest.mark.usefixtures("halved")
@pytest.mark.parametrize("executor", [pytest.param("triton", marks=for_kernels)])
def test_refused_by_kernels(executor):
    a = A.to(DEVICE)
    reason = "accumulator halved:13 must have its class Halved in KERNELS of gpu/kernels/emulate.py"
    with refused(ValueError, f"executor triton cannot take this: {reason}"):
        matmul(a, a, "halved:13", executor=executor)


def test_its_own_rule_is_taken(halved, monkeypatch):
    monkeypatch.setitem(RULES, Halved, lambda rule, *others: RULES[Aligned](rule, *others) / 2)
    a = model_quantize(np.ones((4, 64), np.float32), "e4m3")
    want = torch.from_numpy(model_matmul(a, a, halved))
    assert torch.equal(matmul(A, A, halved), want)


def test_classes_of_one_description_are_kept_apart(monkeypatch):
    """Two classes of one name, as when a notebook runs a cell again."""
    first, second = (type("Again", (Halved,), {}) for _ in range(2))
    for factor, kind in enumerate((first, second), 1):
        monkeypatch.setitem(
            RULES, kind, lambda *_, factor=factor: torch.full((4, 4), float(factor))
        )
        monkeypatch.setattr("mxdot.gpu.ops.matmul.check_known", lambda rule: rule)
    assert [matmul(A, A, kind(13))[0, 0].item() for kind in (first, second)] == [1, 2]


OF_THE_PAGE = """
import numpy as np
import torch
from interpreter import DEVICE
from mxdot.gpu import matmul, quantize
from mxdot.model import matmul as model_matmul

torch.manual_seed(0)
for fmt, rule in (("e4m3", "nearest:6"), ("int8", "nearest:4"), ("bf16", "nearest:9")):
    a, b = (quantize(torch.randn(12, 96), fmt) for _ in "ab")
    want = model_matmul(a.to_model(), b.to_model(), rule).view(np.int32)
    for executor, device in (("torch", "cpu"), ("triton", DEVICE)):
        values = matmul(a.to(device), b.to(device), rule, executor=executor)
        assert (values.cpu().numpy().view(np.int32) == want).all(), (fmt, executor)
"""


@pytest.mark.parametrize("executor", [pytest.param("triton", marks=for_kernels)])
@pytest.mark.slow
def test_the_accumulator_of_the_page(executor, tmp_path):
    """The one that docs/architecture.md adds, in PyTorch and in Triton."""
    for name, text in files("architecture.md").items():
        (tmp_path / name).write_text(text)
    places = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1] / "lib")])
    env = {**os.environ, "PYTHONPATH": places, "MXDOT_PLUGINS": "nearest_gpu"}
    command = [sys.executable, "-W", "ignore", "-c", OF_THE_PAGE]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
