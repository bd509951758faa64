"""Delayed scales: those of a step are made of the largest magnitudes of the steps before it."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from compare import generator
from devices import on_devices
from linear_cases import assert_product, operands
from mxdot.model import schemes
from mxdot.model.schemes import Limits
from mxdot.nn import RECIPES, MXLinear, Recipe, advance_scales, convert, freeze
from mxdot.nn.recipe import ROLES

DELAYED = RECIPES["fp8_delayed"]
MAGNITUDES = (1.0, 8.0, 2.0, 0.25, 100.0, 1.0, 0.0, 3.0)  # of a step's values


def layer_of(recipe, device="cpu", shape=(24, 40)):
    torch.manual_seed(0)
    return MXLinear(shape[1], shape[0], False, device, recipe=recipe)


def values(x, scheme, limit):
    """float64 of a matrix within -limit to limit, by the model."""
    limits = Limits([[-limit]], [[limit]])
    return schemes.quantize(x, scheme, limits=limits).dequantize().astype(np.float64)


class Reference:
    """The history of one role, by hand: a list of what each step saw."""

    def __init__(self, window, margin):
        self.window, self.margin, self.steps, self.now = window, margin, [], 0.0

    def limit(self, x):
        self.now = max(self.now, amax := float(np.abs(x).max()))
        largest = max(self.steps[-self.window :], default=0.0)
        return largest * 2.0**self.margin if largest else amax

    def advance(self):
        if self.now:
            self.steps.append(self.now)
        self.now = 0.0


@on_devices
@pytest.mark.parametrize(("window", "margin"), [(1, 0), (3, 0), (16, 1)])
def test_every_step_has_the_scales_of_the_history_before_it(window, margin, device):
    """The first step, and one after steps of zeros alone, those of its own values."""
    recipe = replace(DELAYED, window=window, margin=margin)
    layer = layer_of(recipe, device)
    want = {role: Reference(window, margin) for role in ROLES}
    rng = generator("delayed", window, margin)
    for magnitude in MAGNITUDES:
        x, _, g = operands(rng, 12, 40, 24, device)
        x, g = (x * magnitude).requires_grad_(), g / 8 * magnitude
        weight = layer.weight.detach().cpu().numpy().copy()
        layer.zero_grad()
        y = layer(x)
        y.backward(g)
        arrays = {"weight": weight, "activation": x.detach().cpu().numpy(), "gradient": g.cpu()}
        q = {}
        for role, array in arrays.items():
            array = np.asarray(array)
            q[role] = values(array, getattr(recipe, role), want[role].limit(array))
        assert_product(y, q["activation"], q["weight"].T, 2.0**-18)
        assert_product(x.grad, q["gradient"], q["weight"], 2.0**-18)
        assert_product(layer.weight.grad, q["gradient"].T, q["activation"], 2.0**-18)
        advance_scales(layer)
        with torch.no_grad():
            layer.weight.mul_(1.25)
        for i, role in enumerate(ROLES):
            want[role].advance()
            history = layer.amax_history[i].tolist()
            assert history[0] == 0
            steps = want[role].steps[::-1][:window]
            assert history[1 : 1 + len(steps)] == steps
    assert layer.amax_history.shape == (3, 1 + window)


def test_values_beyond_the_history_saturate():
    layer = layer_of(DELAYED)
    x = torch.linspace(-1, 1, 80).reshape(2, 40)
    layer(x)
    advance_scales(layer)
    torch.testing.assert_close(layer.eval()(100 * x), layer(100 * x.clamp(-0.01, 0.01)))


def test_a_step_has_one_scale_however_often_layers_run():
    """Passes before `advance_scales` change nothing; it takes the largest of them."""
    layer, x = layer_of(DELAYED), torch.randn(8, 40)
    layer(x)
    advance_scales(layer)
    before = layer(x / 2)
    layer(4 * x)
    assert torch.equal(layer(x / 2), before)
    advance_scales(layer)
    assert layer.amax_history[ROLES.index("activation"), 1] == (4 * x).abs().max()
    kept = layer.amax_history.clone()
    advance_scales(layer)  # no pass since
    assert torch.equal(layer.amax_history, kept)


def test_what_is_not_finite_is_not_remembered():
    layer, x = layer_of(DELAYED), torch.ones(8, 40)
    layer(x)
    advance_scales(layer)
    x[2, 3] = torch.inf
    assert layer(x).isnan().all()  # the group, all of it, as with current scales
    advance_scales(layer)
    assert layer.amax_history[ROLES.index("activation"), :3].tolist() == [0, 1, 0]
    assert layer(torch.ones(8, 40)).isfinite().all()


def test_evaluation_and_frozen_layers_remember_nothing():
    layer, x = layer_of(DELAYED), torch.randn(8, 40)
    layer(x)
    advance_scales(layer)
    kept = layer.amax_history.clone()
    layer.eval()(9 * x)
    frozen = copy.deepcopy(layer).train().freeze()
    frozen(9 * x)
    assert torch.equal(layer.amax_history, kept)
    assert torch.equal(frozen.amax_history, kept)
    assert torch.equal(frozen(x), layer(x))
    assert torch.equal(frozen.freeze(keep_weight=False)(x), layer(x))


def network(recipe=DELAYED):
    torch.manual_seed(0)
    return convert(nn.Sequential(nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 40)), recipe)


def train(net, run, steps=3):
    """Every loss, gradient and buffer."""
    optimizer, seen = torch.optim.SGD(net.parameters(), 0.1), []
    for i in range(steps):
        torch.manual_seed(i)
        x = torch.randn(16, 40) * 2**i
        loss = (run(net, x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        seen += [loss.detach(), *(p.grad.clone() for p in net.parameters())]
        optimizer.step()
        advance_scales(net)
        seen += [b.clone() for b in net.buffers()]
    return seen


@pytest.mark.parametrize("reentrant", [False, True])
def test_under_activation_checkpointing(reentrant):
    """Layers that run twice in a step have the same scales both times."""

    def run(net, x):
        for part in net:
            x = x.requires_grad_() if x.is_leaf else x
            x = checkpoint(part, x, use_reentrant=reentrant)
        return x

    for result, want in zip(
        train(network(), run), train(network(), lambda n, x: n(x)), strict=True
    ):
        assert torch.equal(result, want)


def test_it_is_in_the_state_dict_and_not_cast(tmp_path):
    net, x = network(), torch.randn(16, 40)
    train(net, lambda n, x: n(x))
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = network()
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    assert torch.equal(other(x), net(x))
    history = net[0].amax_history.clone()
    narrow = copy.deepcopy(net).bfloat16()
    assert narrow[0].amax_history.dtype == torch.float32
    assert torch.equal(narrow[0].amax_history, history)
    assert {"0.amax_history", "2.amax_history"} < set(net.state_dict())
    with pytest.raises(RuntimeError, match=r'Missing key.*"0.amax_history"'):
        network().load_state_dict(network(Recipe()).state_dict())
    assert not MXLinear.from_linear(net[0], Recipe())._buffers
    assert "amax_history" in net[0]._buffers
    frozen = freeze(copy.deepcopy(net), keep_weight=False)
    torch.save(frozen.state_dict(), tmp_path / "frozen.pt")
    served = freeze(network(), keep_weight=False)
    served.load_state_dict(torch.load(tmp_path / "frozen.pt", weights_only=True))
    assert torch.equal(served(x), frozen(x))


def test_refusals():
    with pytest.raises(ValueError, match=r"^model must have an MXLinear with limits delayed, not"):
        advance_scales(network(Recipe()))
    with pytest.raises(TypeError, match=r"^model must be a torch.nn.Module, not Recipe$"):
        advance_scales(Recipe())
