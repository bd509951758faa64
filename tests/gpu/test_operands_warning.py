"""A machine warns once of operands that its row has not, compiled too."""

import pytest
import torch

from mxdot.gpu import matmul, quantize, schemes
from mxdot.model import OperandsWarning
from mxdot.model.accumulators import machine
from mxdot.nn import MXLinear, Recipe, convert
from operand_warnings import FP8, line, recorded

E2M1 = quantize(torch.ones(4, 32), "e2m1")


@pytest.fixture(autouse=True)
def as_in_a_new_process():
    machine._warn.cache_clear()


def caught(call):
    """The lines of OperandsWarning that `call` gives."""
    return [str(each.message) for each in recorded(call) if each.category is OperandsWarning]


@pytest.mark.parametrize("compiled", [False, True])
def test_once_for_each_machine_and_pair(compiled):
    def product(a, b):
        return matmul(a, b, "hopper")

    if compiled:
        product = torch.compile(product, fullgraph=True, backend="eager")
    want = line("hopper", FP8, "e2m1 x e2m1")
    assert caught(lambda: product(E2M1, E2M1)) == [want]
    assert caught(lambda: product(E2M1, E2M1)) == []
    e4m3 = quantize(torch.ones(4, 32), "e4m3")
    assert caught(lambda: product(e4m3, e4m3)) == []


def test_the_caller_is_named():
    with pytest.warns(OperandsWarning) as warned:
        matmul(E2M1, E2M1, "hopper")
    assert warned[0].filename == __file__


def test_schemes_and_floats():
    x = schemes.quantize(torch.ones(4, 32), "nvfp4")
    assert caught(lambda: schemes.matmul(x, x, "ampere")) == [line("ampere", "fp16", "e2m1 x e2m1")]
    floats = torch.ones(4, 32, dtype=torch.bfloat16)
    assert caught(lambda: schemes.matmul(floats, x, "ampere")) == [
        line("ampere", "fp16", "bf16 x bf16")
    ]


def test_a_layer():
    layer = convert(torch.nn.Linear(32, 32), Recipe("e4m3", "e2m1", accumulator="hopper"))
    assert isinstance(layer, MXLinear)
    assert caught(lambda: layer(torch.ones(2, 32))) == [line("hopper", FP8, "e2m1 x e4m3")]
