"""The machines and the running values of 16 bits in PyTorch: the model's bits."""

import numpy as np
import pytest
import torch

from cases import random_cases
from compare import FULL, generator
from gpu_products import NARROW
from mxdot.gpu import MXTensor, matmul
from mxdot.model import MACHINES, PRESETS, format_pairs
from mxdot.model import matmul as model_matmul

ROWS = 40 if FULL else 12
OTHERS = [name for name in MACHINES if name not in PRESETS]


def operands(text):
    """The first operands of a machine, and some for all other rules."""
    machine = MACHINES.get(text)
    ((a, b),) = format_pairs(machine.operands[0] if machine else "e5m2")
    return a.name, b.name


def tensor(x):
    codes = torch.from_numpy(x.codes.astype(np.int32)).to(CODES[x.codes.dtype.name])
    return MXTensor(codes, torch.tensor(x.scales), x.format.name, x.block_size)


CODES = {"uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32}


@pytest.mark.parametrize("text", [*OTHERS, *NARROW])
@pytest.mark.parametrize("block", [8, 48])
def test_pytorch_is_the_model(text, block):
    cases = random_cases(generator("gpu machines", text, block), operands(text), ROWS, 2, block)
    c = np.repeat(cases.c[:, None], ROWS, axis=1)
    with np.errstate(invalid="ignore"):
        want = model_matmul(cases.a, cases.b, text, c)
    result = matmul(tensor(cases.a), tensor(cases.b), text, torch.tensor(c), executor="torch")
    assert (result.view(torch.int32).numpy() == want.view(np.int32)).all()
