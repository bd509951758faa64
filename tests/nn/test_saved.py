"""Inputs that layers keep for the backward pass: bits of the operands, and bytes."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from compare import generator
from devices import on_devices
from linear_cases import operands, run
from mxdot.nn import MXLinear, Recipe, convert, freeze

RECIPES = {
    "mxfp8": Recipe(),
    "three formats": Recipe("e2m3", "e3m2", "e5m2", block_size=16, scale_rule="even"),
    "mxfp4, stochastic": Recipe("e2m1", "e2m1", "e2m1", gradient_rounding="stochastic"),
    "exact": Recipe(accumulator="exact"),
    "hopper": Recipe("e2m3", "e2m1", "e4m3", accumulator="hopper"),
    "weights alone": Recipe("e4m3", None, "e4m3"),
    "int8": Recipe("int8_channel", "int8_affine"),
    "int4": Recipe("int4_g128", "int4_g32"),
    "nvfp4": Recipe("nvfp4", "nvfp4", "nvfp4"),
    "int32": Recipe("int8_channel", "int8_affine", accumulator="int32"),
}
every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def layers(recipe, weight):
    """Two equal layers, one that keeps inputs and one that keeps codes."""
    for saved in ("input", "quantized"):
        layer = MXLinear(
            *reversed(weight.shape), device=weight.device, recipe=replace(recipe, saved=saved)
        )
        layer.load_state_dict({"weight": weight, "bias": weight[:, 0]})
        yield layer.to(weight.dtype)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 37, 64])
@every_recipe
def test_results_are_those_of_a_layer_that_keeps_its_input(recipe, rows, dtype, device):
    x, weight, g = operands(generator("saved", rows), rows, 72, 40, device)
    x, weight, g = (t.to(dtype) for t in (x, weight, g))
    results = []
    for layer in layers(recipe, weight):
        torch.manual_seed(0)
        results.append(run(layer, x, g))
    for result, want in zip(*results, strict=True):
        assert result.dtype == dtype
        # A library may sum operands that lie otherwise in memory in another order.
        tolerance = 2.0 ** (-20 if dtype.itemsize > 2 else -7)
        if device == "cpu" or recipe.accumulator != "fast":
            tolerance = 0
        scale = want.abs().max() if want.numel() else 1
        assert torch.all((result - want).abs() <= tolerance * scale), (result - want).abs().max()


def kept_bytes(network, x):
    """Bytes saved for the backward pass, without parameters."""
    own = {p.untyped_storage().data_ptr() for p in network.parameters()}
    sizes = {}

    def pack(t):
        if t.untyped_storage().data_ptr() not in own:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = network(x)
    return sum(sizes.values()), y


@pytest.mark.parametrize(
    ("recipe", "bits"),
    [
        (Recipe(), 8.25),
        (Recipe("e4m3", "e3m2"), 6.25),
        (Recipe("e4m3", "e2m1"), 4.25),
        (Recipe("int8_channel", "int8_channel"), 8.125),
        (Recipe("nvfp4", "nvfp4"), 4.5078125),
    ],
    ids=str,
)
def test_bytes_that_are_kept(recipe, bits):
    """In float32 a layer would keep 4 bytes an element, in bfloat16 2."""
    x = torch.randn(128, 256)
    for saved, size in (("input", 32), ("quantized", bits)):
        network = MXLinear(256, 64, bias=False, recipe=replace(recipe, saved=saved))
        count, y = kept_bytes(network, x)
        assert count <= x.numel() * size / 8 + 4
        assert y.requires_grad


def test_nothing_is_kept_for_a_weight_without_a_gradient():
    for recipe in (Recipe(), Recipe(saved="quantized"), Recipe("int8_channel", "int8_channel")):
        layer, x = MXLinear(64, 32, recipe=recipe), torch.randn(8, 64, requires_grad=True)
        layer.weight.requires_grad_(False)
        count, y = kept_bytes(layer, x)
        assert count == 0
        y.sum().backward()
        assert x.grad is not None
        assert kept_bytes(freeze(layer), x)[0] == 0


@pytest.mark.parametrize("recipe", [Recipe(), Recipe("int8_channel", "int8_affine")], ids=str)
def test_a_network_trains(recipe):
    """Step by step as with inputs kept."""
    losses = []
    for saved in ("input", "quantized"):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
        convert(network, replace(recipe, saved=saved))
        optimizer = torch.optim.SGD(network.parameters(), 0.5)
        x = torch.randn(64, 64)
        losses.append([])
        for _ in range(5):
            loss = (network(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[1][-1] < losses[1][0]


def test_refusals():
    with pytest.raises(ValueError, match=r"^saved must be one of input, quantized, not 'codes'$"):
        Recipe(saved="codes")
