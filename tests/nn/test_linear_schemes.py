"""MXLinear with schemes against the model's quantisation and products, and PyTorch's gradients."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from compare import generator
from devices import bits, on_devices
from linear_cases import assert_product, layer_of, operands, run
from mxdot.gpu import MXTensor
from mxdot.gpu.schemes import PackedWeights, ScaledTensor
from mxdot.model import Int32, schemes
from mxdot.model.formats import E4M3
from mxdot.model.schemes import E8M0, SCHEMES, Level, Scheme, block
from mxdot.nn import MXLinear, Recipe, convert, freeze

INT8 = Recipe("int8_channel", "int8_affine")
INT4 = Recipe("int4_g128", None)
RECIPES = {
    "int8": INT8,
    "int4 weights": INT4,
    "nvfp4": Recipe("nvfp4", "nvfp4"),
    "fp8 tiles": Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", "fp8_e5m2_b128"),
    "tiles of activations": Recipe("mx9", "fp8_e4m3_128x128"),
    "mx beside a scheme": Recipe("vsquant4_u4", "e4m3", "e5m2", block_size=16),
    "a code book": Recipe("mixed4", "int8_channel"),
    "activations only": Recipe(None, "uint8_affine"),
}
COLUMNS = {  # what K is filled up to: whole groups of weights and activations
    **dict.fromkeys(RECIPES, 1),
    "int4 weights": 128,
    "nvfp4": 16,
    "fp8 tiles": 128,
    "tiles of activations": 128,
    "mx beside a scheme": 16,
    "a code book": 32,
}
every_recipe = pytest.mark.parametrize("name", RECIPES)


def scheme_of(recipe, role):
    """Scheme of a role in a recipe with schemes, as the docs say."""
    value = getattr(recipe, role)
    if value in SCHEMES:
        return SCHEMES[value]
    return Scheme(
        "mx",
        ({"e4m3": E4M3, "e5m2": SCHEMES["mxfp8_e5m2"].elements[0]}[value],),
        (Level(block(recipe.block_size), E8M0, recipe.scale_rule),),
        "a test",
    )


def padded(x, rows, columns):
    """An array filled up with zeros to whole groups."""
    x = x.detach().cpu().numpy()
    below, right = -x.shape[0] % rows, -x.shape[1] % columns
    return np.pad(x, ((0, below), (0, right)))


def quantized(x, recipe, role, columns=128):
    """The model's array of a role; 128 is a multiple of every group here."""
    scheme = scheme_of(recipe, role)
    rows = 128 if "128x128" in scheme.name else 1
    return schemes.quantize(padded(x, rows, columns), scheme)


def values(x, recipe, role):
    """float64, in the shape of `x`."""
    x = x.detach().cpu()
    if getattr(recipe, role) is None:
        return x.double().numpy()
    return quantized(x, recipe, role).dequantize()[: x.shape[0], : x.shape[1]].astype(np.float64)


@on_devices
@every_recipe
def test_products_of_the_values_that_each_operand_has_once(name, device):
    """Sizes that no group divides: output, and both gradients of the same quantised operands."""
    recipe = RECIPES[name]
    x, weight, g = operands(generator("linear schemes", name), 20, 200, 40, device)
    y, dx, dw = run(layer_of(weight, recipe), x, g)
    left, right = values(x, recipe, "activation"), values(weight, recipe, "weight")
    slope = values(g, recipe, "gradient")
    assert y.dtype == dx.dtype == dw.dtype == torch.float32
    assert_product(y, left, right.T)
    assert_product(dx, slope, right)
    assert_product(dw, slope.T, left)


@on_devices
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("accumulator", ["exact", "fused:13", "hopper-fp16", "int32"])
def test_an_accumulator_gives_the_models_output(accumulator, frozen, device):
    for name, base in RECIPES.items():
        integers = name == "int8" or (name == "int4 weights" and accumulator != "int32")
        if base.weight is None or (accumulator == "int32" and not integers):
            continue
        recipe = replace(base, accumulator=accumulator)
        x, weight, g = operands(generator("accumulated", accumulator, name), 6, 200, 10, device)
        layer = layer_of(weight, recipe)
        y, dx, dw = run(layer.freeze() if frozen else layer, x, g)
        columns = COLUMNS[name]
        b, a = quantized(weight, recipe, "weight", columns), padded(x, 1, columns)
        if recipe.activation is not None:
            a = quantized(x, recipe, "activation", columns)
        want = schemes.matmul(a, b, accumulator)[:6, :10]
        np.testing.assert_array_equal(bits(y.cpu().numpy()), bits(want), name)
        slope = values(g, recipe, "gradient")
        assert_product(dx, slope, values(weight, recipe, "weight"))
        if frozen:
            assert dw is None
        else:
            assert_product(dw, slope.T, values(x, recipe, "activation"))


# Frozen layers ------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize(
    "pair",
    [
        ("int8_channel", "int8_affine"),
        ("int8_tensor", "uint8_affine"),
        ("int4_g32", "int8_channel"),
    ],
    ids="x".join,
)
def test_frozen_integer_layers_have_exact_sums(pair, device):
    """Without an accumulator they are the model's int32 product in every bit."""
    recipe = Recipe(*pair)
    x, weight, _ = operands(generator("frozen integers", pair), 16, 96, 24, device)
    a, b = (
        schemes.quantize(x.cpu().numpy(), pair[1]),
        schemes.quantize(weight.cpu().numpy(), pair[0]),
    )
    layer = layer_of(weight, recipe).freeze()
    assert isinstance(layer.frozen, ScaledTensor)
    np.testing.assert_array_equal(bits(layer(x).cpu().numpy()), bits(schemes.matmul(a, b, "int32")))


@on_devices
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [(40, 200), (128, 256)], ids=str)
def test_frozen_int4_weights_stay_packed(size, dtype, device):
    """Beside the values; K is filled up to whole groups."""
    recipe = Recipe("int4_g128", None)
    x, weight, _ = operands(generator("frozen int4", size), 12, size[1], size[0], device)
    layer = layer_of(weight, recipe).to(dtype).freeze()
    assert isinstance(layer.frozen, PackedWeights)
    x = (x / 64).to(dtype)
    w = values(layer.weight.float(), recipe, "weight")
    want = x.double().cpu().numpy() @ w.T
    magnitude = np.abs(x.double().cpu().numpy()) @ np.abs(w).T
    result = layer(x)
    assert result.dtype == dtype
    assert np.all(np.abs(result.double().cpu().numpy() - want) <= 2.0**-7 * magnitude)
    back = copy.deepcopy(layer).float()
    assert isinstance(back.frozen, PackedWeights)
    assert_product(back(x.float()), x.double().cpu().numpy(), w.T)


def test_groups_that_no_kernel_takes_stay_values():
    for scheme in ("int4_g32", "int4_affine_g128", "int8_channel", "nvfp4"):
        layer = MXLinear(128, 16, recipe=Recipe(scheme, None)).freeze()
        assert isinstance(layer.frozen, torch.Tensor)


def test_where_there_are_exact_sums():
    assert INT8.inference_accumulator(66311) == Int32()
    assert INT8.inference_accumulator(66312) == "fast"  # it could overflow
    assert Recipe("int4_g128", "int8_channel").inference_accumulator(10**6) == Int32()
    for name in ("int4 weights", "nvfp4", "mx beside a scheme", "activations only"):
        assert RECIPES[name].inference_accumulator(128) == "fast"
    assert Recipe("vsquant8_u6", "vsquant8_u6").inference_accumulator(48) == "fast"
    assert Recipe("int8", "int8", "int8").inference_accumulator(128) == "fast"
    assert (
        replace(INT8, accumulator="exact").inference_accumulator(128)
        == replace(INT8, accumulator="exact").accumulator
    )


@on_devices
@pytest.mark.parametrize(
    "recipe",
    [Recipe(), Recipe("e2m1", accumulator="exact"), INT4, RECIPES["nvfp4"], Recipe(None, None)],
    ids=str,
)
def test_freezing_changes_no_bit_of_other_layers(recipe, device):
    x, weight, _ = operands(generator("frozen"), 12, 72, 20, device)
    layer = layer_of(weight, recipe, bias=True)
    before = layer(x)
    layer.freeze()
    assert torch.equal(layer(x), before)
    assert isinstance(layer.frozen, MXTensor) == (recipe.accumulator != "fast")
    layer.unfreeze()
    assert layer.frozen is None
    layer(x).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("recipe", [INT8, Recipe(None, "e4m3", None)], ids=str)
def test_a_frozen_layer_follows_its_weight(recipe):
    layer = MXLinear(64, 32, recipe=recipe).freeze()
    x = torch.randn(4, 64)
    before = layer(x)
    layer.weight.mul_(2)
    after = layer(x)
    assert not torch.equal(after, before)
    assert torch.equal(layer.unfreeze().freeze()(x), after)


def test_frozen_layers_are_loaded_moved_copied_and_saved(tmp_path):
    """Results equal the same layer frozen afterwards."""
    layer, other = (MXLinear(64, 32, recipe=INT8) for _ in range(2))
    assert layer.freeze().state_dict().keys() == nn.Linear(64, 32).state_dict().keys()
    x = torch.randn(4, 64)
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer(x), other.freeze()(x))
    torch.save(layer, tmp_path / "layer.pt")
    for same in (copy.deepcopy(layer), torch.load(tmp_path / "layer.pt", weights_only=False)):
        assert torch.equal(same(x), layer(x))
    narrow = copy.deepcopy(layer).bfloat16()
    want = copy.deepcopy(layer).unfreeze().bfloat16().freeze()
    assert torch.equal(narrow(x.bfloat16()), want(x.bfloat16()))
    assert narrow(x.bfloat16()).dtype == torch.bfloat16
    assert MXLinear.from_linear(layer, Recipe()).frozen is None


def test_a_frozen_layer_passes_gradients_to_its_input():
    layer = MXLinear(64, 32, recipe=INT8).freeze()
    x = torch.randn(4, 64, requires_grad=True)
    layer(x).sum().backward()
    assert_product(x.grad, np.ones((4, 32)), values(layer.weight, INT8, "weight"))
    assert layer.weight.grad is None


# Networks -----------------------------------------------------------------------------------------


class FakeQuantized(nn.Linear):
    """An independent layer: values by rules of its own, gradients by autograd."""

    def forward(self, input):  # noqa: A002  # nn.Linear's name
        low = input.detach().min().clamp(max=0)
        scale = (input.detach().max().clamp(min=0) - low) / 255
        zero = (-128 - low / scale).round().clamp(-128, 127)
        x = ((input / scale).round() + zero).clamp(-128, 127)
        step = self.weight.detach().abs().amax(1, keepdim=True) / 127
        w = (self.weight / step).round().clamp(-127, 127) * step
        return nn.functional.linear(
            input + ((x - zero) * scale - input).detach(),
            self.weight + (w - self.weight).detach(),
            self.bias,
        )


def network(linear):
    torch.manual_seed(1)
    return nn.Sequential(linear(24, 64), nn.GELU(), linear(64, 64), nn.GELU(), linear(64, 5))


@on_devices
def test_training_with_int8_weights_by_channel_and_asymmetric_activations(device):
    """Ten steps as an independent network of fake quantisation takes them."""
    rng = generator("int8 training")
    x = torch.tensor(rng.standard_normal((96, 24)).astype(np.float32), device=device)
    labels = (x[:, :5] + x[:, 5:10] * x[:, 10:15]).argmax(dim=1)
    losses, nets = [], []
    for made in (convert(network(nn.Linear), INT8), network(FakeQuantized)):
        net = made.to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
        steps = []
        for _ in range(10):
            loss = cross_entropy(net(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        losses.append(steps)
        nets.append(net)
    assert losses[0][-1] < 0.8 * losses[0][0]
    # A value next to a tie may take the other code: scales differ in their last bit.
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.02)
    frozen = freeze(copy.deepcopy(nets[0]))
    assert all(isinstance(layer.frozen, ScaledTensor) for layer in frozen[::2])
    torch.testing.assert_close(frozen(x), nets[0](x), rtol=1e-4, atol=1e-2)


@on_devices
def test_weight_only_converts_a_network_for_inference(device):
    """INT4 groups: close to the float32 network, and equal to it with the dequantised weights."""
    net = network(nn.Linear).to(device)
    quantised = convert(copy.deepcopy(net), Recipe("int4_g32", None))
    x = torch.randn(32, 24, device=device)
    assert 0.01 < (quantised(x) - net(x)).norm() / net(x).norm() < 0.3
    with torch.no_grad():
        for module in net:
            if isinstance(module, nn.Linear):
                w = quantized(module.weight, Recipe("int4_g32", None), "weight").dequantize()
                module.weight.copy_(torch.tensor(w[:, : module.in_features]))
    torch.testing.assert_close(quantised(x), net(x))


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # and its own
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # too
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("recipe", [INT8, INT4, replace(INT4, accumulator="exact")], ids=str)
def test_a_compiled_layer(recipe, frozen):
    """Quantisation of schemes runs as it is, between compiled graphs."""
    torch.compiler.reset()
    layer = MXLinear(48, 24, recipe=recipe)
    if frozen:
        layer.freeze()
    results = []
    for function in (layer, torch.compile(layer, backend="aot_eager")):
        layer.zero_grad()
        x = torch.linspace(-1, 1, 480).reshape(10, 48).requires_grad_()
        y = function(x)
        y.square().sum().backward()
        results.append([y.detach(), x.grad, layer.weight.grad])
    for eager, compiled in zip(*results, strict=True):
        assert (eager is None) == (compiled is None)
        if eager is not None:
            torch.testing.assert_close(compiled, eager)


@on_devices
@pytest.mark.parametrize("recipe", [INT8, replace(INT4, accumulator="fused:25")], ids=str)
def test_autocast(recipe, device):
    layer = MXLinear(64, 32, device=device, recipe=recipe)
    x = torch.randn(8, 64, device=device, requires_grad=True)
    with torch.autocast(device, torch.bfloat16):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x), rtol=0.02, atol=0.02)


# Values that are not finite, and none -------------------------------------------------------------


@pytest.mark.parametrize("accumulator", ["fast", "exact"])
def test_a_value_that_is_not_finite_poisons_its_group(accumulator):
    layer = MXLinear(64, 32, recipe=Recipe("int4_g32", "int8_channel", accumulator=accumulator))
    x = torch.randn(3, 64)
    x[1, 5] = np.nan
    y = layer(x)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()


@every_recipe
@pytest.mark.parametrize("accumulator", ["fast", "exact"])
def test_no_rows(name, accumulator):
    recipe = RECIPES[name]
    if recipe.weight is None and accumulator == "exact":
        recipe = replace(recipe, weight="int4_tensor")
    layer = MXLinear(32, 32, recipe=replace(recipe, accumulator=accumulator))
    y, dx, dw = run(layer, torch.empty(2, 0, 32), torch.empty(2, 0, 32))
    assert y.shape == dx.shape == (2, 0, 32)
    assert not dw.any()


def test_freeze_wants_a_layer_to_freeze():
    with pytest.raises(ValueError, match=r"^model must have an MXLinear to freeze, not none$"):
        freeze(nn.Linear(2, 2))
