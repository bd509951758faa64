"""Linear layers: data, and the three products as the model defines them."""

import numpy as np
import torch

from mxdot import model
from mxdot.nn import MXLinear, Recipe


def operands(rng, rows, in_features, out_features, device="cpu"):
    """x (M, K), weight (N, K), g (M, N), float32 of several magnitudes."""
    shapes = ((rows, in_features), (out_features, in_features), (rows, out_features))
    arrays = [rng.standard_normal(s) * np.exp2(rng.integers(-3, 4, s)) for s in shapes]
    return [torch.tensor(a.astype(np.float32), device=device) for a in arrays]


def layer_of(weight, recipe, bias=False):
    layer = MXLinear(weight.shape[1], weight.shape[0], bias, weight.device, recipe=recipe)
    layer.weight = torch.nn.Parameter(weight.clone())
    return layer


def assert_product(result, a, b, relative=2.0**-20):
    """`result` is a b of float64 arrays within `relative` of the sum of the terms' magnitudes."""
    error, magnitude = np.abs(result.detach().double().cpu().numpy() - a @ b), np.abs(a) @ np.abs(b)
    assert np.all(error <= relative * (magnitude + 1e-30)), (error / (magnitude + 1e-30)).max()


def training_losses(model, loss_of, optimizer, steps):
    """Losses of `steps` steps of training, each before its step."""
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def quantized(x, role, recipe, axis):
    """The model's blocks of a torch tensor along `axis`, as rows: blocked along the last axis."""
    rows = np.moveaxis(x.detach().cpu().numpy(), axis, -1)
    fmt = getattr(recipe, role)
    return model.quantize(
        rows, fmt, block_size=recipe.block_size, scale_rule=recipe.scale_rule, pad=True
    )


def expected(x, weight, g, recipe, multiply):
    """Output, input gradient and weight gradient; multiply(a, b) takes two MXArrays."""
    y = multiply(quantized(x, "activation", recipe, 1), quantized(weight, "weight", recipe, 1))
    dx = multiply(quantized(g, "gradient", recipe, 1), quantized(weight, "weight", recipe, 0))
    dw = multiply(quantized(g, "gradient", recipe, 0), quantized(x, "activation", recipe, 0))
    return y, dx, dw


def in_float64(a, b):
    """The products of the quantised values, not rounded to float32."""
    return a.dequantize().astype(np.float64) @ b.dequantize().astype(np.float64).T


def run(layer, x, g):
    """Output and gradients of the input and the weight of a layer."""
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(g)
    return y.detach(), x.grad, layer.weight.grad


RECIPES = {
    "mxfp8": Recipe(),
    "e5m2 gradients": Recipe(gradient="e5m2", scale_rule="floor"),
    "three formats": Recipe("e2m3", "e3m2", "e5m2", block_size=16, scale_rule="even"),
    "mxfp4": Recipe("e2m1", "e2m1", "e2m1"),
    "mxint8": Recipe("int8", "int8", "int8"),
}
