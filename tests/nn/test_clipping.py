"""Limits that are learned or found by OCTAV in each pass, and gradients of what they clip."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from compare import generator
from devices import on_devices
from linear_cases import layer_of, operands, training_losses
from mxdot.model import schemes
from mxdot.model.schemes import SCHEMES, Limits
from mxdot.model.schemes.calibrate import thresholds
from mxdot.nn import RECIPES, MXLinear, Recipe, convert, freeze
from mxdot.nn import limits as nn_limits
from mxdot.nn.quantizers import SchemeQuantizer

LEARNED, OCTAV = RECIPES["int4_learned"], RECIPES["int4_octav"]
KINDS = ("straight_through", "zero", "magnitude_aware")


# Gradients by their formulas ----------------------------------------------------------------------


def factor(kind, x, limit):
    """dy/dx beyond the limit, as published; float64."""
    with np.errstate(divide="ignore"):
        beyond = {"straight_through": 1, "zero": 0, "magnitude_aware": limit / np.abs(x)}[kind]
    return np.where(np.abs(x) < limit, 1.0, beyond)


def of_lsq(x, limit, largest):
    """dy/dm of m = s x largest by the step s: round(v) - v within, the ends of the range beyond."""
    v = x / (limit / largest)
    step = np.where(np.abs(x) < limit, np.rint(v) - v, np.sign(x) * largest)
    return step / largest


@on_devices
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_their_formulas(kind, rows, device):
    """Magnitude-aware: m / |x| (Sakr et al.); of the limit: what LSQ has for its step."""
    rng = generator("clipped", kind, rows)
    x = rng.standard_normal((6, 50)).astype(np.float32)
    g = rng.standard_normal((6, 50)).astype(np.float32)
    limit = rng.uniform(0.5, 1.5, (6 if rows else 1, 1)).astype(np.float32)
    x[0, :3] = limit[0, 0] * np.array([1, -1, 1.0001])
    x[1, 0] = 0
    scheme = SCHEMES["int4_channel" if rows else "int4_tensor"]
    tensors = [torch.tensor(t, device=device, requires_grad=True) for t in (x, limit)]
    quantizer = SchemeQuantizer(scheme, 1)
    y = nn_limits.Clipped.apply(*tensors, quantizer, kind)
    assert torch.equal(y, tensors[0])
    y.backward(torch.tensor(g, device=device))
    x, limit = x.astype(float), limit.astype(float)
    np.testing.assert_allclose(tensors[0].grad.cpu(), g * factor(kind, x, limit), rtol=1e-6)
    want = (g * of_lsq(x, limit, 7)).sum(axis=1 if rows else None, keepdims=True)
    np.testing.assert_allclose(tensors[1].grad.cpu(), want, rtol=1e-4, atol=1e-5)


def test_where_the_largest_value_is_beyond():
    """A straight-through estimate lets it grow; the others do not, least of all magnitude-aware."""
    x = torch.tensor([[0.5, -4.0, 8.0]])
    grads = []
    for kind in KINDS:
        leaf = x.clone().requires_grad_()
        quantizer = SchemeQuantizer(SCHEMES["int4_tensor"], 1)
        nn_limits.Clipped.apply(leaf, torch.ones(1, 1), quantizer, kind).sum().backward()
        grads.append(leaf.grad[0].tolist())
    assert grads == [[1, 1, 1], [1, 0, 0], [1, 0.25, 0.125]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_of_zero_is_none(kind):
    """Rows of zeros, whose largest magnitude is their limit, go on learning."""
    x = torch.tensor([[0.0, 0.0], [0.5, -0.25]], requires_grad=True)
    limit = torch.tensor([[0.0], [1.0]], requires_grad=True)
    quantizer = SchemeQuantizer(SCHEMES["int4_channel"], 1)
    nn_limits.Clipped.apply(x, limit, quantizer, kind).sum().backward()
    assert x.grad is not None
    assert limit.grad is not None
    assert x.grad.tolist() == [[1, 1], [1, 1]]
    assert limit.grad[0] == 0
    assert limit.grad.isfinite().all()


@pytest.mark.parametrize("recipe", ["int4_octav", "int4_learned"])
def test_a_layer_with_a_row_of_zeros_has_no_nan(recipe):
    torch.manual_seed(1)
    layer = nn.Linear(16, 4, bias=False)
    nn.init.zeros_(layer.weight[0])
    made = convert(nn.Sequential(layer), RECIPES[recipe])
    made(torch.randn(8, 16)).square().sum().backward()
    made(torch.zeros(8, 16)).sum().backward()
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("scheme", ["fp8_e4m3_tensor", "nvfp4"])
def test_the_gradient_of_a_limit_of_floats(scheme):
    """By Euler's theorem: quantisation scales as x and the limit do together."""
    rng = generator("euler", scheme)
    x = torch.tensor(rng.standard_normal((4, 32)).astype(np.float32))
    quantizer = SchemeQuantizer(SCHEMES[scheme], 1)
    limit = torch.tensor([[1.25]], requires_grad=True)
    y, twice = (quantizer.values(c * x, False, c * limit.detach()) for c in (1, 2))
    assert torch.equal(2 * y, twice)
    nn_limits.Clipped.apply(x, limit, quantizer, "zero").sum().backward()
    want = ((y - x * (x.abs() < 1.25)) / 1.25).double().sum()
    torch.testing.assert_close(limit.grad.double().squeeze(), want, rtol=1e-5, atol=1e-6)


class OfLSQ(nn.Module):
    """An independent layer of INT4 with learned limits: autograd does the gradients."""

    def __init__(self, weight, weight_limit, activation_limit):
        super().__init__()
        parts = (weight, weight_limit, activation_limit)
        self.weight, self.weight_limit, self.activation_limit = map(nn.Parameter, parts)

    @staticmethod
    def quantized(x, limit):
        step = limit / 7
        v = (x / step).clamp(-7, 7)
        return (v + (v.round() - v).detach()) * step

    def forward(self, x):
        x = self.quantized(x, self.activation_limit)
        return functional.linear(x, self.quantized(self.weight, self.weight_limit))


@on_devices
def test_a_layer_learns_as_an_independent_one(device):
    """Ten steps with limits that clip: losses, weights and limits."""
    x, weight, _ = operands(generator("learned"), 64, 24, 16, device)
    target = torch.tanh(x[:, :16])
    layer = layer_of(weight, LEARNED)
    layer.weight_limit.data.copy_(weight.abs().amax(1, keepdim=True) / 2)
    layer.activation_limit.data.fill_(1.5)
    other = OfLSQ(*(t.detach().clone() for t in layer.parameters()))
    optimizers = [torch.optim.Adam(each.parameters(), 1e-3) for each in (layer, other)]
    losses, others = (
        training_losses(each, lambda model: (model(x) - target).square().mean(), optimizer, 10)
        for each, optimizer in zip((layer, other), optimizers, strict=True)
    )
    assert losses == pytest.approx(others, rel=1e-3)
    for name, learned in layer.named_parameters():
        torch.testing.assert_close(learned, getattr(other, name), rtol=1e-3, atol=1e-4)
    assert layer.activation_limit != 1.5


# Where limits come from ---------------------------------------------------------------------------


def values(x, scheme, limit):
    """float64 of a matrix within magnitudes, by the model."""
    limit = np.asarray(limit, np.float32)
    made = schemes.quantize(x.detach().cpu().numpy(), scheme, limits=Limits(-limit, limit))
    return made.dequantize().astype(np.float64)


@on_devices
@pytest.mark.parametrize("weight", ["int4_channel", "int4_tensor", "int8_channel"])
def test_octav_is_the_models_in_every_pass(weight, device):
    """Its calibrator's limits for the rows or the tensor at hand."""
    layer = layer_of(torch.randn(16, 40, device=device), replace(OCTAV, weight=weight))
    for step in range(3):
        x = torch.randn(12, 40, device=device) ** 3 * 2**step
        parts = []
        for name, part in (("int4_tensor", x), (weight, layer.weight)):
            array = part.detach().cpu().numpy()
            limits = schemes.calibrate([array], name, "octav")
            assert np.all(limits.high < np.abs(array).max())
            magnitude = np.maximum(-limits.low, limits.high)
            parts.append(values(part, name, magnitude))
            own = nn_limits.octav(part, SCHEMES[name]).cpu().numpy()
            np.testing.assert_allclose(own, magnitude, rtol=3e-7)
        want = parts[0] @ parts[1].T
        result = layer(x).detach().double().cpu().numpy()
        np.testing.assert_allclose(result, want, atol=1e-5 * np.abs(want).max())
        with torch.no_grad():
            layer.weight.mul_(1.5)


@pytest.mark.parametrize("x", [torch.zeros(4, 8), torch.full((4, 8), 3.0), torch.empty(0, 8)])
def test_octav_of_equal_values_of_zeros_and_of_none(x):
    scheme = SCHEMES["int4_tensor"]
    assert nn_limits.octav(x, scheme).tolist() == [[3.0 if x.any() else 0.0]]
    layer = MXLinear(8, 4, recipe=OCTAV)
    assert layer(x).isfinite().all()
    x = torch.tensor([[1.0, torch.inf, torch.nan, -1.0]])
    assert nn_limits.octav(x, scheme).tolist() == [[1.0]]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("recipe", [OCTAV, LEARNED])
@pytest.mark.parametrize("features", [(8, 0), (0, 8)])
def test_a_layer_without_features(recipe, features):
    layer, x = MXLinear(*features, recipe=recipe), torch.randn(3, features[0], requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert y.shape == (3, features[1])
    assert layer.freeze()(x).shape == y.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_thresholds_of_tensors_are_those_of_arrays(dtype):
    """To the bit, whatever PyTorch's default dtype is."""
    rng, default = generator("thresholds"), torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        for bits in (2, 3, 4, 8):
            rows = rng.standard_normal((150, 300)).astype(np.float32) ** 3
            want = thresholds(rows, bits)
            np.testing.assert_array_equal(thresholds(torch.from_numpy(rows), bits).numpy(), want)
    finally:
        torch.set_default_dtype(default)


def test_learning_begins_in_the_first_pass_of_training():
    """With OCTAV's limits for integers, the largest magnitudes for floats; until then current."""
    x = torch.randn(12, 40)
    for weight, activation in (("int4_channel", "int4_tensor"), ("fp8_e4m3_tensor",) * 2):
        recipe = Recipe(weight, activation, limits="learned")
        layer = MXLinear(40, 16, False, recipe=recipe)
        current = MXLinear.from_linear(layer, replace(recipe, limits="current"))
        assert torch.equal(layer.eval()(x), current(x))
        assert not any(p.any() for p in (layer.weight_limit, layer.activation_limit))
        layer.train()(x)
        first = nn_limits.octav if "int4" in weight else nn_limits.largest
        for role, part in (("weight", layer.weight), ("activation", x)):
            own = getattr(layer, f"{role}_limit")
            scheme = SCHEMES[weight if role == "weight" else activation]
            assert torch.equal(own, first(part, scheme))
            assert own.shape == ((16, 1) if scheme.name == "int4_channel" else (1, 1))
        kept = layer.activation_limit.item()
        layer(9 * x)
        assert layer.activation_limit.item() == kept


NOTHING = {
    "empty": torch.zeros(0, 40),
    "zero": torch.zeros(12, 40),
    "NaN": torch.full((12, 40), torch.nan),
}


@pytest.mark.parametrize("first", NOTHING.values(), ids=NOTHING)
def test_learning_waits_for_a_value(first):
    layer, other = (MXLinear(40, 16, recipe=LEARNED) for _ in range(2))
    other.load_state_dict(layer.state_dict())
    x, zeros = torch.randn(12, 40), torch.zeros_like(layer.weight)
    y = layer(first)  # whose backward pass is to come
    assert not layer.activation_limit.any()
    layer(x).sum().backward()
    y.sum().backward()
    other(x)
    assert torch.equal(layer.activation_limit, other.activation_limit)
    assert layer.activation_limit.item() > 0
    assert layer.activation_limit.grad is not None
    layer = MXLinear(40, 16, recipe=LEARNED)
    weight = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight.copy_(zeros)
        layer(x)
        assert not layer.weight_limit.any()
        layer.weight.copy_(weight)
        layer(x)
    assert layer.weight_limit.all()


def test_a_limit_that_training_left_at_0_is_said():
    """As after a first pass of zeros in a compiled network, which does not look at values."""
    layer = MXLinear(40, 16, recipe=LEARNED)
    layer(torch.randn(12, 40))
    layer.activation_limit.data.zero_()
    message = r"^activation_limit is 0 after training, whose first activation had no finite magni"
    with pytest.warns(UserWarning, match=message):
        layer.freeze()
    layer.freeze()  # says it once


def test_a_limit_that_turned_negative_is_its_magnitude():
    layer, x = MXLinear(40, 16, recipe=LEARNED), torch.randn(12, 40)
    layer(x).sum().backward()
    before, slope = layer(x), layer.activation_limit.grad.clone()
    layer.activation_limit.data.neg_()
    layer.zero_grad()
    y = layer(x)
    y.sum().backward()
    assert torch.equal(y, before)
    assert torch.equal(layer.activation_limit.grad, -slope)


def network(recipe=LEARNED):
    torch.manual_seed(0)
    return convert(nn.Sequential(nn.Linear(40, 48), nn.GELU(), nn.Linear(48, 40)), recipe)


def test_limits_are_saved_kept_by_casts_and_frozen(tmp_path):
    net, x = network(), torch.randn(16, 40)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(3):
        net(x).square().mean().backward()
        optimizer.step()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = network()
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    assert torch.equal(other(x), net(x))  # in training, where none begins anew
    narrow = copy.deepcopy(net)
    narrow(x).square().mean().backward()
    narrow.bfloat16()
    for role in ("weight", "activation"):
        name = f"{role}_limit"
        assert torch.equal(getattr(narrow[0], name), getattr(net[0], name))
        assert getattr(narrow[0], name).grad.dtype == torch.float32
    assert narrow(x.bfloat16()).dtype == torch.bfloat16
    want = net(x)
    freeze(net)
    torch.testing.assert_close(net(x), want)  # by integer sums
    assert not any(p.requires_grad for name, p in net.named_parameters() if "limit" in name)
    assert net[0].unfreeze().activation_limit.requires_grad
    freeze(net, keep_weight=False)
    torch.testing.assert_close(net(x), want)
    plain = MXLinear.from_linear(network()[0], Recipe())
    assert set(plain._parameters) == {"weight", "bias"}


@pytest.mark.parametrize("recipe", [LEARNED, OCTAV], ids=["learned", "octav"])
def test_static_limits_take_the_place_of_others(recipe):
    layer, x = MXLinear(40, 16, recipe=recipe).eval(), torch.randn(12, 40)
    before = layer(x)
    layer.activation_limits = Limits([[-0.5]], [[0.5]])
    static = layer(x)
    layer.activation_limits = None
    assert torch.equal(layer(x), before)
    assert not torch.equal(static, before)


def test_hybrid_clips_weights_by_magnitude_and_stops_activations():
    assert nn_limits.derivative(OCTAV, "weight") == "magnitude_aware"
    assert nn_limits.derivative(OCTAV, "activation") == "zero"
    assert {nn_limits.derivative(LEARNED, role) for role in nn_limits.NAMES} == {"zero"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": "max"}, "limits must be one of current, delayed, learned, octav, not 'max'"),
        ({"clipped_gradient": "mad"}, "clipped_gradient must be one of straight_through, zero, ma"),
        (
            {"clipped_gradient": "zero"},
            "clipped_gradient must be straight_through unless limits are learned or octav, not ze",
        ),
        (
            {"limits": "delayed"},
            "weight must have a scheme with an outermost float scale for the tensor, without zero ",
        ),
        (
            {"weight": "int4_g128", "activation": None, "limits": "learned"},
            "weight must have a scheme with an outermost float scale for the tensor or for rows, w",
        ),
        (
            {"weight": "int8_channel", "activation": "int8_channel", "limits": "octav"},
            "activation must have a scheme with an outermost float scale for the tensor, without",
        ),
        (
            {"weight": "int8_channel", "activation": "int8_affine", "limits": "learned"},
            "activation must have a scheme .* without zero points",
        ),
        (
            {"weight": "fp8_e4m3_tensor", "activation": None, "limits": "octav"},
            "weight must have integer elements with limits octav, not fp8_e4m3_tensor",
        ),
        (
            {"weight": "int8_channel", "activation": None, "limits": "octav", "groups": "sums"},
            "weight must have a scheme with an outermost float scale for the tensor, without",
        ),
        (
            {
                "weight": "int8_channel",
                "activation": None,
                "limits": "learned",
                "saved": "quantized",
            },
            "saved must be input where gradients depend on what is clipped, not quantized",
        ),
        ({"groups": "rows"}, "groups must be one of features, sums, not 'rows'"),
        ({"window": 0}, "window must be from 1 to 65536, not 0"),
        ({"margin": 17}, "margin must be from 0 to 16, not 17"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**options)
