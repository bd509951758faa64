"""MXLinear against the model's quantisation and products, and against torch.nn.Linear."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from compare import generator
from devices import bits, on_devices
from linear_cases import RECIPES, expected, in_float64, layer_of, operands, quantized, run
from mxdot import model
from mxdot.gpu import quantize
from mxdot.nn import MXLinear, Recipe

every_recipe = pytest.mark.parametrize("name", RECIPES)
UNQUANTIZED = Recipe(None, None, None)


def assert_close(result, want, scale, relative):
    """Errors of `result` are at most `relative` of `scale`, the sum of the terms' magnitudes."""
    error = np.abs(result.double().cpu().numpy() - want)
    assert np.all(error <= relative * scale), (error / scale).max()


@on_devices
@every_recipe
def test_the_three_products_quantise_along_their_own_axis(name, device):
    """Sizes that no block divides; each product against the model's, in float64."""
    recipe = RECIPES[name]
    x, weight, g = operands(generator("linear", name), 50, 72, 40, device)
    results = run(layer_of(weight, recipe), x, g)
    want = expected(x, weight, g, recipe, in_float64)
    magnitude = expected(
        x, weight, g, recipe, lambda a, b: np.abs(a.dequantize()) @ np.abs(b.dequantize()).T
    )
    for result, product, scale in zip(results, want, magnitude, strict=True):
        assert result.dtype == torch.float32
        assert_close(result, product, scale + 1e-30, 2.0**-20)


@on_devices
@pytest.mark.parametrize("accumulator", ["exact", "aligned:13", "hopper", "float32"])
def test_the_study_path_has_the_bits_of_the_accumulator(accumulator, device):
    for name in ("mxfp8", "three formats"):
        recipe = replace(RECIPES[name], accumulator=accumulator)
        x, weight, g = operands(generator("study", accumulator, name), 20, 72, 40, device)
        results = run(layer_of(weight, recipe), x, g)
        want = expected(x, weight, g, recipe, lambda a, b: model.matmul(a, b, accumulator))
        for result, product in zip(results, want, strict=True):
            np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(product))


def test_int32_of_int8():
    recipe = Recipe("int8", "int8", "int8", accumulator="int32")
    x, weight, g = operands(generator("int32"), 20, 64, 32)
    want = expected(x, weight, g, recipe, lambda a, b: model.matmul(a, b, "int32"))
    for result, product in zip(run(layer_of(weight, recipe), x, g), want, strict=True):
        np.testing.assert_array_equal(bits(result.numpy()), bits(product))


@on_devices
def test_bfloat16_multiplies_the_same_values(device):
    """Quantised values of normal size are exact in bfloat16: one rounding of the result."""
    recipe = Recipe()
    x, weight, g = operands(generator("bfloat16"), 64, 64, 64, device)
    x, weight, g = (t.bfloat16() for t in (x, weight, g))
    results = run(layer_of(weight, recipe), x, g)
    want = expected(x.float(), weight.float(), g.float(), recipe, in_float64)
    for result, product in zip(results, want, strict=True):
        assert result.dtype == torch.bfloat16
        error = np.abs(result.double().cpu().numpy() - product)
        assert np.all(error <= 2.0**-8 * np.abs(product) + 2.0**-12)


# Without formats it is torch.nn.Linear ------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(24,), (5, 24), (2, 3, 24), (0, 24)])
def test_without_formats_it_is_linear(shape, bias):
    torch.manual_seed(0)
    plain = nn.Linear(24, 10, bias)
    layer = MXLinear.from_linear(copy.deepcopy(plain), UNQUANTIZED)
    x, g = torch.randn(shape), torch.randn(*shape[:-1], 10)
    for result, want in zip(run(layer, x, g), run(plain, x, g), strict=True):
        torch.testing.assert_close(result, want)
    if bias:
        torch.testing.assert_close(layer.bias.grad, plain.bias.grad)


def test_exact_operands_have_the_gradients_of_linear():
    """Integers up to 14 are elements of E4M3 in every block: nothing is rounded."""
    rng = generator("exact operands")
    x, weight, g = (
        torch.tensor(rng.integers(-14, 15, shape).astype(np.float32))
        for shape in ((32, 64), (32, 64), (32, 32))
    )
    plain = nn.Linear(64, 32, bias=False)
    plain.weight = nn.Parameter(weight.clone())
    linear = run(plain, x, g)
    for recipe in (Recipe(), Recipe(scale_rule="floor", accumulator="exact")):
        for result, want in zip(run(layer_of(weight, recipe), x, g), linear, strict=True):
            assert torch.equal(result, want)


@every_recipe
def test_gradients_are_those_of_linear_but_for_quantisation(name):
    """The direction of each gradient stays: its cosine to that of nn.Linear is near 1."""
    recipe = RECIPES[name]
    x, weight, g = operands(generator("direction", name), 128, 128, 128)
    plain = nn.Linear(128, 128, bias=False)
    plain.weight = nn.Parameter(weight.clone())
    least = 0.97 if name == "mxfp4" else 0.99
    for result, want in zip(run(layer_of(weight, recipe), x, g), run(plain, x, g), strict=True):
        assert nn.functional.cosine_similarity(result.flatten(), want.flatten(), dim=0) > least


def test_finite_differences():
    """The gradient is the slope of the function if the format resolves the step."""
    recipe = Recipe("int8", None, None)  # y is linear in x
    x, weight, g = operands(generator("slope"), 4, 32, 32)
    layer = layer_of(weight, recipe)
    dx = run(layer, x, g)[1]
    # The backward product quantises the weight along its other axis, hence the tolerance.
    step = 0.5
    for i in range(0, 32, 7):
        moved = x.clone()
        moved[:, i] += step
        slope = ((layer(moved) - layer(x)) * g).sum(dim=1) / step
        torch.testing.assert_close(slope, dx[:, i], rtol=0.05, atol=0.1 * float(dx.abs().mean()))


def test_a_second_derivative_is_refused():
    layer, x = MXLinear(32, 32), torch.randn(32, 32, requires_grad=True)
    (dx,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


def test_gradients_that_are_not_needed():
    layer = MXLinear(32, 32, bias=False)
    layer.weight.requires_grad_(False)
    x = torch.randn(4, 32, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is None
    layer.weight.requires_grad_(True)
    layer(x.detach()).sum().backward()
    assert layer.weight.grad is not None


# Values that are not finite, and none -------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("accumulator", ["fast", "exact"])
def test_a_value_that_is_not_finite_poisons_its_rows(bad, accumulator):
    layer = MXLinear(64, 32, recipe=Recipe(accumulator=accumulator))
    x = torch.randn(3, 64)
    x[1, 5] = bad
    y = layer(x)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()


@pytest.mark.parametrize("accumulator", ["fast", "exact"])
def test_no_rows(accumulator):
    layer = MXLinear(32, 32, recipe=Recipe(accumulator=accumulator))
    y, dx, dw = run(layer, torch.empty(2, 0, 32), torch.empty(2, 0, 32))
    assert y.shape == dx.shape == (2, 0, 32)
    assert not dw.any()


# Randomness ---------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("accumulator", ["fast", "exact"])
def test_stochastic_gradients_repeat_with_the_seed(accumulator, device):
    recipe = Recipe("e2m1", "e2m1", "e2m1", gradient_rounding="stochastic", accumulator=accumulator)
    x, weight, g = operands(generator("seeds"), 40, 64, 64, device)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(run(layer_of(weight, recipe), x, g))
    for first, again, _ in zip(*results, strict=True):
        assert torch.equal(first, again)
    assert torch.equal(results[0][0], results[2][0])  # nothing random in the output
    assert not torch.equal(results[0][1], results[2][1])
    assert not torch.equal(results[0][2], results[2][2])


def test_fast_and_exact_draw_the_same_words():
    """One seed gives both paths the same operands."""
    x, weight, g = operands(generator("words"), 32, 32, 32)
    results = []
    for accumulator in ("fast", "exact"):
        torch.manual_seed(3)
        recipe = Recipe(gradient="e2m1", gradient_rounding="stochastic", accumulator=accumulator)
        results.append(run(layer_of(weight, recipe), x, g))
    for fast, exact in zip(*results, strict=True):
        torch.testing.assert_close(fast, exact, rtol=1e-5, atol=1e-3)


def test_stochastic_gradients_have_no_bias():
    """The mean over many draws approaches the product with the unrounded gradient."""
    recipe = Recipe(None, None, "e2m1", gradient_rounding="stochastic")
    nearest = Recipe(None, None, "e2m1")
    x, weight, g = operands(generator("bias"), 32, 32, 32)
    torch.manual_seed(0)
    draws = torch.stack([run(layer_of(weight, recipe), x, g)[1] for _ in range(400)])
    true = g @ weight
    spread = draws.std(dim=0) / 20  # of the mean of 400
    assert ((draws.mean(dim=0) - true).abs() < 5 * spread + 1e-4 * true.abs().max()).all()
    assert ((run(layer_of(weight, nearest), x, g)[1] - true).abs() > 5 * spread).any()


# Use as torch.nn.Linear is used -------------------------------------------------------------------


def test_state_dict_round_trip(tmp_path):
    plain, layer = nn.Linear(32, 16), MXLinear(32, 16)
    assert layer.state_dict().keys() == plain.state_dict().keys()
    layer.load_state_dict(plain.state_dict())
    assert torch.equal(layer.weight, plain.weight)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    back = nn.Linear(32, 16)
    back.load_state_dict(torch.load(tmp_path / "layer.pt"))
    assert torch.equal(back.weight, layer.weight)
    assert torch.equal(back.bias, layer.bias)


def test_a_layer_can_be_copied_and_saved(tmp_path):
    layer = MXLinear(32, 16, recipe=Recipe(gradient="e5m2", accumulator="aligned:13"))
    torch.save(layer, tmp_path / "layer.pt")
    x = torch.randn(4, 32)
    for other in (copy.deepcopy(layer), torch.load(tmp_path / "layer.pt", weights_only=False)):
        assert other.recipe == layer.recipe
        assert torch.equal(other(x), layer(x))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@torch.no_grad()
def test_a_copy_of_a_compiled_layer_has_weights_of_its_own(copied):
    layer, x = MXLinear(32, 16), torch.randn(4, 32)
    layer.compile(backend="eager")
    other = copied(layer)
    other.weight.zero_()
    assert torch.equal(other(x), layer.bias.expand(4, 16))
    assert layer(x).ne(other(x)).any()


@on_devices
@pytest.mark.parametrize("accumulator", ["fast", "exact"])
def test_autocast(accumulator, device):
    """The result has autocast's dtype; operands are quantised from what came in."""
    layer = MXLinear(64, 32, device=device, recipe=Recipe(accumulator=accumulator))
    x = torch.randn(8, 64, device=device, requires_grad=True)
    with torch.autocast(device, torch.bfloat16):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32
    want = in_float64(
        quantized(x, "activation", layer.recipe, 1),
        quantized(layer.weight, "weight", layer.recipe, 1),
    )
    want += layer.bias.detach().cpu().double().numpy()
    np.testing.assert_allclose(y.detach().cpu().double().numpy(), want, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("accumulator", ["fast", "exact", "float8", "block_scaled"])
def test_autocast_of_the_other_16_bit_type(accumulator):
    layer = MXLinear(40, 24, dtype=torch.bfloat16, recipe=Recipe(accumulator=accumulator))
    x = torch.randn(8, 40, dtype=torch.bfloat16, requires_grad=True)
    want = layer(x)
    with torch.autocast("cpu", torch.float16):
        y = layer(x)
        y.float().sum().backward()
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), want.float(), rtol=0.02, atol=0.02)
    assert x.grad.isfinite().all()


def test_autocast_of_a_network_with_bfloat16_between_layers():
    net = nn.Sequential(MXLinear(32, 64), nn.GELU(), MXLinear(64, 32))
    with torch.autocast("cpu", torch.bfloat16):
        y = net(torch.randn(8, 32))
    y.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_repr_names_the_recipe():
    text = repr(MXLinear(32, 16, recipe=Recipe(accumulator="hopper")))
    assert "in_features=32" in text
    assert "accumulator=" in text


# torch.compile ------------------------------------------------------------------------------------

COMPILED = {
    "mxfp8": Recipe(),
    "mxfp4 stochastic": Recipe("e2m1", "e2m1", "e2m1", gradient_rounding="stochastic"),
    "blocks of 16": Recipe("e5m2", None, "int8", block_size=16, scale_rule="floor"),
}


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's
def test_the_fast_path_compiles_without_graph_breaks():
    """Forward and backward, one recipe after the other through the same code."""
    torch.compiler.reset()
    x, g = torch.randn(24, 40), torch.randn(24, 48)
    for name, recipe in COMPILED.items():
        layer = MXLinear(40, 48, recipe=recipe)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        results = []
        for function in (layer, compiled):
            torch.manual_seed(0)
            layer.zero_grad()
            leaf = x.clone().requires_grad_()
            with torch.autocast("cpu", torch.bfloat16, enabled=name == "mxfp8"):
                y = function(leaf)
            y.backward(g.to(y.dtype))
            results.append([y.detach(), leaf.grad, *(p.grad.clone() for p in layer.parameters())])
        for eager, traced in zip(*results, strict=True):
            torch.testing.assert_close(traced, eager)


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(2, 31), ValueError, "input must have shape (..., 32), not (2, 31)"),
        (torch.zeros(()), ValueError, "input must have shape (..., 32), not ()"),
        (torch.zeros(2, 32).bfloat16(), TypeError, "input must have the weight's dtype float32"),
        (torch.zeros(2, 32).double(), TypeError, "input must have dtype float32, bfloat16 or"),
        (torch.zeros(2, 32).long(), TypeError, "not int64"),
        ([1.0] * 32, TypeError, "input must be a dense torch.Tensor, not list"),
        (quantize(torch.zeros(2, 32), "e4m3"), TypeError, "torch.Tensor, not MXTensor"),
        (torch.zeros(2, 32).to_sparse(), TypeError, "not torch.sparse_coo"),
    ],
)
def test_bad_input(x, error, message):
    with pytest.raises(error) as caught:
        MXLinear(32, 16)(x)
    assert message in str(caught.value)


def test_bad_recipe():
    with pytest.raises(TypeError, match="recipe must be a Recipe, not str"):
        MXLinear(32, 16, recipe="mxfp8")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"linear must be a torch.nn.Linear, not Conv2d"):
        MXLinear.from_linear(nn.Conv2d(1, 1, 1))
