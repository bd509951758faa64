"""Weights that are written where networks are made quantised: by initialisers and from floats."""

import copy

import pytest
import torch
from torch import nn

from mxdot.nn import MXLinear, Recipe, convert, freeze, quantized_init
from quantized_layers import RECIPES, WIDTH, plain


def test_initialisers_inside_write_floats_that_are_quantised_once():
    torch.manual_seed(0)
    want = plain()
    for layer in want:
        nn.init.trunc_normal_(layer.weight, std=1.5)  # changes in place, until all are within 2
        layer.weight.data.mul_(0.5)
    freeze(convert(want, Recipe()), keep_weight=False)
    torch.manual_seed(0)
    with quantized_init(Recipe()):
        network = plain()
        for layer in network:
            nn.init.trunc_normal_(layer.weight, std=1.5)
            layer.weight.data.mul_(0.5)
    x = torch.randn(3, WIDTH)
    assert torch.equal(network(x), want(x))


@pytest.mark.parametrize("initialise", [nn.init.normal_, nn.init.xavier_uniform_, nn.init.zeros_])
def test_every_recipe_takes_initialisers(initialise):
    for recipe, *_ in RECIPES.values():
        torch.manual_seed(0)
        layer = nn.Linear(WIDTH, WIDTH, bias=False)
        initialise(layer.weight)
        want = MXLinear.from_linear(layer, recipe).freeze(keep_weight=False)
        torch.manual_seed(0)
        with quantized_init(recipe):
            made = nn.Linear(WIDTH, WIDTH, bias=False)
            initialise(made.weight)
            x = torch.randn(3, WIDTH)
            assert torch.equal(made(x), want(x))  # inside too, what was written is there


def test_floats_are_quantised_as_they_are_loaded():
    source = plain()
    with quantized_init(Recipe("e2m1")):
        network = plain()
        network.load_state_dict(source.state_dict())
    x = torch.randn(3, WIDTH)
    want = freeze(convert(source, Recipe("e2m1")), keep_weight=False)
    assert torch.equal(network(x), want(x))
    with pytest.raises(RuntimeError, match="takes a copy of its like only, not of Tensor"):
        network.load_state_dict(plain().state_dict())


# By recipe: features that its groups do not divide.
PADDED = {
    "mxfp8": Recipe(),
    "mxfp4": Recipe("e2m1"),
    "float8": Recipe(accumulator="float8"),
    "int4": Recipe("int4_g128", None),
    "nvfp4": Recipe("nvfp4", "nvfp4"),
}
INITIALISERS = {
    "normal_": lambda w: nn.init.normal_(w),
    "xavier_uniform_": lambda w: nn.init.xavier_uniform_(w),
    "orthogonal_": lambda w: nn.init.orthogonal_(w),
    "eye_": lambda w: nn.init.eye_(w),
    "sparse_": lambda w: nn.init.sparse_(w, 0.25),
    "data": lambda w: setattr(w, "data", torch.linspace(-1, 1, 8000).reshape(40, 200)),
    "all rows": lambda w: w.__setitem__(slice(None), 0.5),
}


@pytest.mark.parametrize("recipe", PADDED.values(), ids=PADDED)
@pytest.mark.parametrize("initialise", INITIALISERS.values(), ids=INITIALISERS)
def test_filled_up_weights_are_written_in_their_own_shape(recipe, initialise):
    torch.manual_seed(0)
    layer = nn.Linear(200, 40)
    with torch.no_grad():
        initialise(layer.weight)
    want = MXLinear.from_linear(layer, recipe).freeze(keep_weight=False)
    torch.manual_seed(0)
    with quantized_init(recipe):
        made = nn.Linear(200, 40)
        with torch.no_grad():
            initialise(made.weight)
    x = torch.randn(3, 200)
    assert torch.equal(made(x), want(x))


@pytest.mark.parametrize("recipe", PADDED.values(), ids=PADDED)
@pytest.mark.parametrize("assign", [False, True])
def test_filled_up_weights_are_loaded_from_floats(recipe, assign):
    source = nn.Linear(200, 40)
    with torch.device("meta" if assign else "cpu"), quantized_init(recipe):
        made = nn.Linear(200, 40)
        made.load_state_dict(source.state_dict(), assign=assign)
    want = MXLinear.from_linear(source, recipe).freeze(keep_weight=False)
    x = torch.randn(3, 200)
    assert torch.equal(made(x), want(x))
    assert not made.keeps_weight


def test_layers_are_written_by_their_own_recipes():
    own = Recipe("e4m3", scale_rule="floor")
    weight = torch.randn(64, 64)
    with quantized_init(Recipe("e4m3")):
        layer = MXLinear(64, 64, bias=False, recipe=own)
        copied = copy.deepcopy(layer)
        for each in (layer, copied):
            each.weight.copy_(weight)
    source = nn.Linear(64, 64, bias=False)
    source.weight.data.copy_(weight)
    want = MXLinear.from_linear(source, own).freeze(keep_weight=False)
    other = MXLinear.from_linear(source, Recipe("e4m3")).freeze(keep_weight=False)
    x = torch.randn(3, 64)
    assert torch.equal(layer(x), want(x))
    assert torch.equal(copied(x), want(x))
    assert not torch.equal(other(x), want(x))


def test_a_slice_is_not_written():
    with (
        pytest.raises(ValueError, match="must be of the whole weight of a layer that was made"),
        quantized_init(),
    ):
        nn.Linear(64, 64).weight[:32].zero_()


def test_tied_weights_take_gradients():
    with quantized_init():
        table, layer = nn.Embedding(8, 64), nn.Linear(64, 8)
        layer.weight = table.weight
    assert not layer.is_frozen
    layer(torch.randn(3, 64)).sum().backward()
    assert table.weight.grad is not None


def test_initialisers_on_the_device_meta():
    with torch.device("meta"), quantized_init():
        layer = nn.Linear(64, 64)
        assert nn.init.normal_(layer.weight) is layer.weight
