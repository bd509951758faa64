"""convert: which layers change, and what stays the same about them."""

import pytest
import torch
from torch import nn
from torch.nn import utils as hooks
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import remove_parametrizations

from linear_cases import training_losses
from mxdot.nn import MXLinear, Recipe, convert, freeze, quantize_


class Network(nn.Module):
    """Nested layers, a tied weight, one layer under two names."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2)
        )
        self.shared = nn.Linear(32, 32)
        self.again = self.shared
        self.lm_head = nn.Linear(32, 64, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.lm_head(self.again(self.shared(x)))


def kinds(model):
    return {
        name: type(module)
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, nn.Linear)
    }


def test_every_linear_layer_is_replaced():
    model = Network()
    parameters = {name: id(p) for name, p in model.named_parameters()}
    assert convert(model) is model
    assert set(kinds(model).values()) == {MXLinear}
    assert {name: id(p) for name, p in model.named_parameters()} == parameters
    assert model.again is model.shared
    assert model.lm_head.weight is model.embedding.weight
    assert type(model.embedding) is nn.Embedding
    model(torch.arange(64)).square().mean().backward()


def test_skip_and_the_recipes_own_names():
    model = convert(Network(), Recipe(high_precision=("*head", "absent")), skip=["blocks.0.*"])
    assert {name for name, kind in kinds(model).items() if kind is MXLinear} == {
        "blocks.1.0",
        "blocks.1.2",
        "shared",
        "again",
    }


def test_one_of_two_names_is_enough_to_keep_a_layer():
    model = convert(Network(), skip=["again"])
    assert type(model.shared) is type(model.again) is nn.Linear


def test_a_layer_itself_is_replaced():
    linear = nn.Linear(32, 16)
    made = convert(linear, Recipe(weight="e2m1"))
    assert type(made) is MXLinear
    assert made.recipe.weight == "e2m1"
    assert made.weight is linear.weight


def test_hooks_and_mode_stay():
    linear, calls = nn.Linear(32, 32), []
    linear.register_forward_hook(lambda *_: calls.append(1))
    model = convert(nn.Sequential(linear).eval())
    model(torch.zeros(1, 32))
    assert calls == [1]
    assert not model[0].training


def test_state_dicts_are_those_of_the_model():
    plain, converted = Network(), convert(Network())
    converted.load_state_dict(plain.state_dict())
    again = Network()
    again.load_state_dict(converted.state_dict())
    for key, value in plain.state_dict().items():
        assert torch.equal(again.state_dict()[key], value)


def test_a_training_step_changes_every_parameter():
    torch.manual_seed(0)
    model = convert(Network(), Recipe(gradient_rounding="stochastic"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    tokens = torch.arange(64)
    losses = training_losses(
        model, lambda network: nn.functional.cross_entropy(network(tokens), tokens), optimizer, 5
    )
    assert losses[-1] < losses[0]
    assert not any(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("model",), TypeError, "model must be a torch.nn.Module, not str"),
        ((nn.Linear(2, 2), "mxfp8"), TypeError, "recipe must be a Recipe, not str"),
        ((Network(), None, "lm_head"), TypeError, "skip must be a sequence of layer names"),
        ((Network(), None, None), TypeError, "skip must be a sequence of layer names, not None"),
        ((Network(), None, ["lmhead"]), ValueError, "not 'lmhead'"),
        ((nn.GELU(),), ValueError, "model must have a torch.nn.Linear to convert, not none"),
        (
            (Network(), None, ["*"]),
            ValueError,
            "must have a torch.nn.Linear to convert, not only such that stay in high precision",
        ),
        (
            (nn.Sequential(weight_norm(nn.Linear(2, 2))),),
            ValueError,
            "to convert, not ParametrizedLinear alone: .*remove_parametrizations makes a Linear",
        ),
        ((nn.Conv1d(2, 2, 1),), ValueError, "to convert, not Conv1d alone$"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        convert(*arguments)


def test_a_parametrized_layer_becomes_a_linear():
    """The remedy of the message works."""
    network = nn.Sequential(weight_norm(nn.Linear(32, 32)))
    with pytest.raises(ValueError, match="remove_parametrizations"):
        convert(network)
    remove_parametrizations(network[0], "weight")
    assert isinstance(convert(network)[0], MXLinear)


BY_HOOKS = {
    "prune.remove": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    "remove_weight_norm": hooks.weight_norm,
    "remove_spectral_norm": hooks.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize(("remedy", "change"), BY_HOOKS.items(), ids=BY_HOOKS)
def test_weights_that_hooks_compute_are_not_frozen(remedy, change):
    """No layer is changed; the remedy of the message works."""
    network = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    change(network[1])
    message = f"^layer '1' must hold its weight to be frozen, not .*: torch.nn.utils.{remedy} makes"
    with pytest.raises(ValueError, match=message):
        quantize_(network)
    assert not any(isinstance(layer, MXLinear) for layer in network)
    convert(network)
    for keep_weight in (False, True):
        with pytest.raises(ValueError, match=message):
            freeze(network, keep_weight)
    assert not any(layer.is_frozen for layer in network)
    with pytest.raises(ValueError, match=r"^the layer must hold its weight to be frozen"):
        network[1].freeze()
    remove = prune.remove if remedy == "prune.remove" else getattr(hooks, remedy)
    remove(network[1], "weight")
    x = torch.randn(2, 32)
    assert freeze(network, keep_weight=False)(x).shape == (2, 32)


def test_weights_that_freezing_unties_are_said():
    network = convert(Network())
    freeze(network)
    assert network.lm_head.weight is network.embedding.weight
    message = (
        r"^freeze unties weights, whose place codes take: embedding\.weight and lm_head\.weight; "
        r"keep_weight=True leaves them tied$"
    )
    with pytest.warns(UserWarning, match=message):
        freeze(network, keep_weight=False)
    assert not network.lm_head.keeps_weight
    freeze(network, keep_weight=False)  # nothing is tied
