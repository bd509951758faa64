"""The machines and the running values of 16 bits in PyTorch: the model's bits."""

import numpy as np
import pytest
import torch

from cases import random_cases
from compare import FULL, generator
from mxdot.gpu import MXTensor, matmul
from mxdot.model import E2M1, E4M3, MACHINES, PRESETS, Preset, accumulator, format_pairs
from mxdot.model import matmul as model_matmul
from mxdot.model.formats import FLOAT32

ROWS = 40 if FULL else 12
OTHERS = [name for name in MACHINES if name not in PRESETS]
NARROW = ["float16", "bfloat16", "aligned:13:float16", "aligned:7:bfloat16", "fused:13:float16"]


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
    got = matmul(tensor(cases.a), tensor(cases.b), text, torch.tensor(c), executor="torch")
    assert (got.view(torch.int32).numpy() == want.view(np.int32)).all()


@pytest.mark.triton
@pytest.mark.parametrize("text", [*OTHERS, *NARROW])
def test_kernels_take_what_is_a_preset_like_others(text):
    from mxdot.gpu.kernels import emulate

    rule = accumulator(text)
    fmt = E2M1 if text == "blackwell-mxf4nvf4" else E4M3
    taken = emulate.refusal(rule, fmt, fmt, 32) is None
    plain = isinstance(rule, Preset) and not rule.permuted and rule.running == FLOAT32
    assert taken == plain
