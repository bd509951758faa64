"""Changes of the floats of a frozen layer are multiplied by, however PyTorch makes them."""

import copy
import pickle

import pytest
import torch
from torch import nn

from mxdot.nn import RECIPES, MXLinear, Recipe, freeze

OTHER = 64, 64


def other():
    torch.manual_seed(1)
    return torch.randn(OTHER)


def assign(layer):
    layer.weight = nn.Parameter(other())


def merge(layer):
    """As adapters of low rank are merged."""
    layer.weight.data += other()


def averaged(layer):
    """As averages of weights are kept."""
    for p in layer.parameters():
        p.mul_(0.5).add_(torch.ones_like(p), alpha=0.25)


CHANGES = {
    "data": lambda layer: setattr(layer.weight, "data", other()),
    "data in place": merge,
    "data copied": lambda layer: layer.weight.data.copy_(other()),
    "copy_": lambda layer: layer.weight.copy_(other()),
    "mul_": lambda layer: layer.weight.mul_(3.1),
    "row": lambda layer: layer.weight.__setitem__(3, 7.0),
    "average": averaged,
    "parameter": assign,
    "nn.init": lambda layer: nn.init.uniform_(layer.weight),
    "load": lambda layer: layer.load_state_dict({"weight": other()}, strict=False),
}
ALIASES = {
    "detach": lambda layer: layer.weight.detach().mul_(3.1),
    "view": lambda layer: layer.weight[:8].zero_(),
    "transpose": lambda layer: layer.weight.T.add_(1.0),
    "foreach": lambda layer: torch._foreach_mul_([layer.weight], 3.1),
    "out": lambda layer: torch.add(other(), 1.0, out=layer.weight),
}


def frozen(recipe):
    torch.manual_seed(0)
    return MXLinear(64, 64, recipe=recipe).freeze()


def anew(layer):
    """A layer with the parameters of another, quantised from its floats."""
    made = MXLinear(64, 64, recipe=layer.recipe)
    made.load_state_dict(layer.state_dict())
    return made.freeze()


@pytest.mark.parametrize("name", ["mxfp8", "w8a8", "fp8_delayed", "int4_learned"])
def test_changes_are_multiplied_by(name):
    x = torch.randn(3, 64)
    with torch.no_grad():
        for change in (*CHANGES.values(), *ALIASES.values()):
            layer = frozen(RECIPES[name])
            before = layer(x)
            change(layer)
            assert torch.equal(layer(x), anew(layer)(x))
            assert not torch.equal(layer(x), before)
            assert not layer.weight.requires_grad


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("name", ["data", "data copied", "average", "parameter"])
def test_a_compiled_layer_sees_them(name):
    layer, x = frozen(RECIPES["w8a8"]), torch.randn(3, 64)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        before = compiled(x)
        CHANGES[name](layer)
        want = anew(layer)(x)
        assert not torch.equal(before, want)
        for _ in range(2):
            assert torch.equal(compiled(x), want)
            assert torch.equal(layer(x), want)


def test_nothing_is_quantised_twice(monkeypatch):
    layer, x = frozen(Recipe()), torch.randn(3, 64)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.copy(layer)]
    want = layer(x)
    monkeypatch.setattr(MXLinear, "_frozen_weight", lambda *_: pytest.fail("quantised again"))
    for each in (layer, *copies):
        assert torch.equal(each(x), want)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy], ids=["deepcopy", "copy"])
def test_copies_see_their_own_changes(copied):
    layer, x = frozen(Recipe()), torch.randn(3, 64)
    layer.weight.detach().mul_(3.1)  # which no pass has seen
    other = copied(layer)
    assert torch.equal(other(x), anew(layer)(x))
    other.weight.data += 1.0
    assert torch.equal(other(x), anew(other)(x))
    assert torch.equal(layer(x), anew(layer)(x))


def test_a_weight_is_a_plain_parameter_where_no_layer_keeps_it():
    layer = frozen(Recipe())
    tied = MXLinear(64, 64, False)
    tied.weight = layer.weight
    freeze(nn.Sequential(layer, tied))
    layer.unfreeze()
    tied.weight.data += 1.0
    x = torch.randn(3, 64)
    want = MXLinear(64, 64, False)
    want.weight = nn.Parameter(layer.weight.detach().clone())
    assert torch.equal(tied(x), want(x))
    tied.unfreeze()
    assert type(layer.weight) is nn.Parameter
    assert layer.weight is tied.weight
    assert layer.weight.requires_grad


@pytest.mark.parametrize("name", ["mxfp8", "w8a8"])
def test_a_replaced_weight_is_multiplied_by(name):
    layer, x, weight = frozen(RECIPES[name]), torch.randn(3, 64), other()
    replaced = anew(layer)
    replaced.weight = nn.Parameter(weight)
    with torch.no_grad():
        want, own = replaced(x), layer(x)
        assert torch.equal(torch.func.functional_call(layer, {"weight": weight}, (x,)), want)
        assert torch.equal(layer(x), own)
        layer._parameters["weight"] = nn.Parameter(weight)
        for each in (layer, copy.deepcopy(layer)):
            assert torch.equal(each(x), want)
        layer.weight.mul_(3.1)
        assert torch.equal(layer(x), anew(layer)(x))


def test_floats_in_place_of_codes_are_not_frozen():
    layer = frozen(Recipe()).freeze(keep_weight=False)
    layer.weight = nn.Parameter(other())
    assert not copy.deepcopy(layer).is_frozen


def test_tensors_are_swapped():
    """As libraries do that move or load Parameters of tensor subclasses."""
    layer, x = frozen(Recipe()), torch.randn(3, 64)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.load_state_dict({"weight": other()}, strict=False)
        assert torch.equal(layer(x), anew(layer)(x))
        layer.unfreeze().to(torch.bfloat16)
        assert layer.weight.dtype == torch.bfloat16
        layer.freeze().to(torch.float32)
        assert torch.equal(layer(x), anew(layer)(x))
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
