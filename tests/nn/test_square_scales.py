"""Weights with a scale to a square of elements, as NVFP4's recipe has them."""

import torch

from mxdot.gpu import PackedTensor, schemes
from mxdot.nn import MXLinear, Recipe

SQUARES = "nvfp4_16x16"


def test_a_weight_and_its_transpose_have_the_same_values():
    torch.manual_seed(0)
    weight = torch.randn(48, 64)
    one, other = (schemes.quantize(x, SQUARES).dequantize() for x in (weight, weight.T))
    assert torch.equal(one, other.T)
    plain = [schemes.quantize(x, "nvfp4").dequantize() for x in (weight, weight.T)]
    assert not torch.equal(plain[0], plain[1].T)


def test_layers_of_such_weights():
    """Sizes that squares do not fill; both products take the same weight."""
    torch.manual_seed(0)
    layer = MXLinear(72, 40, False, recipe=Recipe(SQUARES, "nvfp4", "nvfp4"))
    x, g = torch.randn(8, 72, requires_grad=True), torch.randn(8, 40)
    y = layer(x)
    y.backward(g)
    filled = torch.nn.functional.pad(layer.weight.detach(), (0, 8, 0, 8))
    weight = schemes.quantize(filled, SQUARES).dequantize()[:40, :72]
    rows, columns = (
        schemes.quantize(torch.nn.functional.pad(t.detach(), (0, 8)), "nvfp4").dequantize()
        for t in (x, g)
    )
    torch.testing.assert_close(y, rows[:, :72] @ weight.T)
    torch.testing.assert_close(x.grad, columns[:, :40] @ weight)
    assert isinstance(layer.freeze(keep_weight=False).weight.data, PackedTensor)
    assert torch.equal(layer(x), y)
