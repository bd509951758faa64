"""Layers of the accumulator `float8`: their operands are the model's, MX blocks regrouped."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from compare import generator
from devices import on_devices
from linear_cases import layer_of, operands, quantized, run
from mxdot.gpu import MXTensor, Regrouped, regroup
from mxdot.gpu.ops import float8
from mxdot.model import schemes
from mxdot.model.schemes import SCHEMES
from mxdot.nn import MXLinear, Recipe, convert, freeze, quantized_init

MX = {
    "mxfp8": Recipe(accumulator="float8"),
    "narrow": Recipe(
        "e2m1", "e3m2", "e2m3", block_size=16, scale_rule="floor", accumulator="float8"
    ),
    "saved": Recipe("e4m3", "e4m3", saved="quantized", accumulator="float8"),
}
OF_SCHEMES = {
    "per tensor": Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", accumulator="float8"),
    "rows": Recipe("fp8_e4m3_row", "fp8_e4m3_row", accumulator="float8"),
    "rows and tensor": Recipe("fp8_e4m3_row", "fp8_e4m3_tensor", accumulator="float8"),
    "tiles": Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", accumulator="float8"),
    "blocks and rows": Recipe("fp8_e4m3_b128_f16", "fp8_e4m3_row", accumulator="float8"),
    "saved": Recipe("fp8_e4m3_row", "fp8_e4m3_row", saved="quantized", accumulator="float8"),
}
EVERY = {**MX, **{f"scheme, {name}": recipe for name, recipe in OF_SCHEMES.items()}}
every_recipe = pytest.mark.parametrize("recipe", EVERY.values(), ids=EVERY)


def regrouped(x, role, recipe, axis):
    """Values of the model's blocks, regrouped: float64."""
    return regroup(MXTensor.from_model(quantized(x, role, recipe, axis))).dequantize().double()


@on_devices
@pytest.mark.parametrize("name", MX)
def test_the_three_products_of_regrouped_blocks(name, device):
    recipe = MX[name]
    x, weight, g = operands(generator("float8", name), 50, 72, 40, device)
    results = run(layer_of(weight, recipe), x, g)
    pairs = (
        (regrouped(x, "activation", recipe, 1), regrouped(weight, "weight", recipe, 1)),
        (regrouped(g, "gradient", recipe, 1), regrouped(weight, "weight", recipe, 0)),
        (regrouped(g, "gradient", recipe, 0), regrouped(x, "activation", recipe, 0)),
    )
    # The FP8 units keep 13 fraction bits of the largest of 32 products.
    most = 2.0**-20 if device == "cpu" else 2.0**-8
    for result, (a, b) in zip(results, pairs, strict=True):
        error = (result.cpu().double() - a @ b.T).abs()
        assert torch.all(error <= most * (a.abs() @ b.abs().T) + 1e-30)


@on_devices
@pytest.mark.parametrize("name", OF_SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_output_of_schemes(name, dtype, device):
    """Whole groups of rows and columns, so that NumPy need not fill up."""
    recipe = OF_SCHEMES[name]
    x, weight, _ = operands(generator("float8 of schemes"), 128, 256, 128, device)
    x, weight = x.to(dtype) / 8, weight.to(dtype) / 8
    a, b = (
        schemes.quantize(t.float().cpu().numpy(), str(of)).dequantize().astype(np.float64)
        for t, of in ((x, recipe.activation), (weight, recipe.weight))
    )
    for layer in (layer_of(weight, recipe), layer_of(weight, recipe).freeze()):
        y = layer(x)
        assert y.dtype == dtype
        error = np.abs(y.detach().double().cpu().numpy() - a @ b.T)
        most = {torch.float32: 2.0**-20, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10}[dtype]
        if device != "cpu":
            most += 2.0**-8
        assert np.all(error <= most * (np.abs(a) @ np.abs(b).T))


@every_recipe
def test_sizes_that_no_group_divides(recipe):
    x, weight, g = operands(generator("odd"), 7, 40, 24)
    want = run(layer_of(weight, replace(recipe, accumulator="fast")), x, g)
    for result, near in zip(run(layer_of(weight, recipe), x, g), want, strict=True):
        assert result.shape == near.shape
        cosine = nn.functional.cosine_similarity(result.flatten(), near.flatten(), dim=0)
        assert cosine > 0.9999


@every_recipe
def test_frozen_layers_and_codes_alone(recipe):
    torch.manual_seed(0)
    layer, x = MXLinear(256, 48, recipe=recipe), torch.randn(5, 256)
    want = layer(x)
    assert torch.equal(layer.freeze()(x), want)
    if not recipe.of_schemes:
        assert isinstance(layer.frozen, Regrouped)
    layer.freeze(keep_weight=False)
    assert torch.equal(layer(x), want)
    with quantized_init(recipe):
        other = nn.Linear(256, 48)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), want)


def test_gradients_that_e4m3_does_not_hold_are_multiplied_as_fast_ones():
    x, weight, g = operands(generator("e5m2"), 64, 128, 32)
    recipe = Recipe(gradient="e5m2")
    want = run(layer_of(weight, recipe), x, g)
    for saved in ("input", "quantized"):
        changed = replace(recipe, accumulator="float8", saved=saved)
        result = run(layer_of(weight, changed), x, g)
        assert not torch.equal(result[0], want[0])
        assert torch.equal(result[1], want[1])
        assert torch.equal(result[2], want[2])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@every_recipe
def test_one_graph(recipe):
    torch.compiler.reset()
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(128, 64, bias=False), nn.ReLU(), nn.Linear(64, 32, bias=False)
    )
    convert(network, recipe)
    x, steps = torch.randn(20, 128), []
    for work in (network, torch.compile(network, fullgraph=True, backend="aot_eager")):
        network.zero_grad()
        y = work(x)
        y.square().sum().backward()
        steps.append([y.detach(), *(p.grad.clone() for p in network.parameters())])
    for result, want in zip(*steps, strict=True):
        assert torch.equal(result, want)
    freeze(network, keep_weight=False)
    with torch.no_grad():
        result = torch.compile(network, fullgraph=True, backend="aot_eager")(x)
        assert torch.equal(result, network(x))


def test_which_schemes():
    taken = {name for name, scheme in SCHEMES.items() if float8.takes(scheme)}
    assert taken == {
        *(f"fp8_e4m3_{of}" for of in ("tensor", "row", "128x128", "b128", "b128_f16")),
    }


FORMATS = "must be one of e4m3, e3m2, e2m3, e2m1, int4 with accumulator float8, not"
SCHEMES_TAKEN = "must be a scheme of e4m3 under one float scale for whole rows or 128 elements with"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("e5m2",), f"weight {FORMATS} e5m2"),
        (("e4m3", None), f"activation {FORMATS} None"),
        (("e4m3", "int8"), f"activation {FORMATS} int8"),
        (("fp8_e5m2_row", "fp8_e4m3_row"), f"weight {SCHEMES_TAKEN}"),
        (("fp8_e4m3_row", "e4m3"), f"activation {SCHEMES_TAKEN}"),
        (("int4_g128", None), f"activation {SCHEMES_TAKEN}"),
        (
            ("e4m3", "e4m3", "e4m3", 24),
            "block_size must divide 128 with accumulator float8, not 24",
        ),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Recipe(*arguments, accumulator="float8")
