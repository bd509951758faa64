"""An accumulator that is added to the model alone is refused by every executor that lacks it."""

import numpy as np
import pytest
import torch

from added_accumulator import Halved
from added_accumulator import halved as halved
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
