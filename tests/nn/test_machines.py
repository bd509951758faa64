"""Networks that are not quantised, through a machine's accumulator: bits of the model's dot."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from compare import generator
from devices import bits, on_devices
from linear_cases import layer_of, operands, run
from mxdot import model
from mxdot.gpu.ops.unscaled import unscaled
from mxdot.nn import Recipe, convert, freeze

PLAIN = ("bf16", "fp16", "tf32")


def model_operand(x, role, recipe, axis):
    rows = np.moveaxis(x.detach().cpu().numpy(), axis, -1)
    fmt, rules = getattr(recipe, role), {"block_size": recipe.block_size, "pad": True}
    if fmt in PLAIN:
        return model.unscaled(rows, fmt, **rules)
    return model.quantize(rows, fmt, scale_rule=recipe.scale_rule, **rules)


def by_dot(a, b, rule):
    """`model.dot` of every row of `a` with every row of `b`."""
    pairs = [(i, j) for i in range(a.shape[0]) for j in range(b.shape[0])]
    x, y = (
        model.MXArray(m.codes[list(of)], m.scales[list(of)], m.format, m.block_size)
        for m, of in zip((a, b), zip(*pairs, strict=True), strict=True)
    )
    return model.dot(x, y, rule).reshape(a.shape[0], b.shape[0])


@on_devices
@pytest.mark.parametrize(
    ("machine", "fmt", "rule"),
    [
        ("ampere-bf16", "bf16", "ampere-bf16"),
        ("V100-fp16", "fp16", "volta"),
        ("h100-bf16", "bf16", "hopper-bf16"),
        ("b200-fp16", "fp16", "blackwell-fp16"),
        ("mi300x-bf16", "bf16", "cdna3-fp16"),
        ("mi250x-bf16", "bf16", "cdna2-bf16"),
        ("a100-tf32", "tf32", "ampere-tf32"),
        ("h100-fp8", "e4m3", "hopper"),
        ("mi300x-fp8", "e4m3fnuz", "cdna3-fp8"),
    ],
)
def test_all_three_products_have_the_bits_of_the_models_dot(machine, fmt, rule, device):
    """No length is a multiple of the machine's group."""
    recipe = Recipe(machine=machine)
    assert (recipe.weight, recipe.activation, recipe.gradient) == (fmt,) * 3
    assert recipe.accumulator == model.accumulator(rule)
    x, weight, g = operands(generator("machine", machine), 5, 37, 7, device)
    results = run(layer_of(weight, recipe), x, g)
    both = ("activation", "weight"), ("gradient", "weight"), ("gradient", "activation")
    values, axes = ((x, weight), (g, weight), (g, x)), ((1, 1), (1, 0), (0, 0))
    for result, *sides in zip(results, both, values, axes, strict=True):
        a, b = (
            model_operand(value, role, recipe, axis)
            for role, value, axis in zip(*sides, strict=True)
        )
        np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(by_dot(a, b, rule)))


@pytest.mark.parametrize("fmt", PLAIN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_elements_are_the_models(fmt, dtype):
    rng = generator("unscaled", fmt)
    x = torch.tensor(rng.standard_normal((3, 40)) * np.exp2(rng.integers(-40, 40, (3, 40))))
    x[0, :8] = torch.tensor([torch.nan, torch.inf, -torch.inf, 65519, -65520, 3.4e38, -0.0, 1e-8])
    x = x.to(dtype)
    result = unscaled(x, fmt, 32).to_model()
    want = model.unscaled(x.float().numpy(), fmt, pad=True)
    np.testing.assert_array_equal(result.codes, want.codes)
    np.testing.assert_array_equal(result.scales, want.scales)


def test_frozen_saved_and_loaded(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(40, 24), nn.ReLU(), nn.Linear(24, 5)).bfloat16()
    x, recipe = torch.randn(3, 40).bfloat16(), Recipe(machine="a100-bf16")
    convert(network, recipe)
    want = network(x)
    assert want.dtype == torch.bfloat16
    for keep_weight in (True, False):
        frozen = freeze(copy.deepcopy(network), keep_weight)
        assert torch.equal(frozen(x), want)
    torch.save(frozen.state_dict(), tmp_path / "codes.pt")
    other = freeze(convert(nn.Sequential(nn.Linear(40, 24), nn.ReLU(), nn.Linear(24, 5)), recipe),
                   keep_weight=False)  # fmt: skip
    other.load_state_dict(torch.load(tmp_path / "codes.pt"))
    assert torch.equal(other(x), want)


def test_saved_operands_give_the_same_gradients():
    recipe = Recipe(machine="h100-bf16", hadamard=16)
    x, weight, g = operands(generator("saved"), 6, 20, 9)
    want = run(layer_of(weight, recipe), x, g)
    for mine, other in zip(run(layer_of(weight, replace(recipe, saved="quantized")), x, g), want,
                           strict=True):  # fmt: skip
        assert torch.equal(mine, other)


def test_formats_without_scales_meet_any_accumulator():
    x, weight, g = operands(generator("aligned"), 4, 40, 6)
    recipe = Recipe("bf16", "bf16", "bf16", accumulator="aligned:10")
    result = run(layer_of(weight, recipe), x, g)[0]
    a, b = model_operand(x, "activation", recipe, 1), model_operand(weight, "weight", recipe, 1)
    np.testing.assert_array_equal(bits(result.numpy()), bits(by_dot(a, b, "aligned:10")))
    fast = run(layer_of(weight, Recipe("bf16", "bf16", "bf16")), x, g)[0]
    torch.testing.assert_close(fast, x.bfloat16().float() @ weight.bfloat16().float().T)


def test_copies_and_names():
    recipe = Recipe(machine=" A100-BF16 ")
    assert recipe.machine == "a100-bf16"
    assert replace(recipe, block_size=64).accumulator == recipe.accumulator
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert "machine='a100-bf16'" in repr(recipe)
    assert Recipe(machine="hopper", gradient="e5m2").gradient == "e5m2"
    scaled = Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", machine="h100-fp8")
    assert (scaled.weight, scaled.gradient) == ("fp8_e4m3_tensor", None)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"machine": "h100"}, ValueError, "machine must be one of .* H100 has .*h100-bf16"),
        ({"machine": "hoper"}, ValueError, "machine must be one of .*; nearest: hopper"),
        ({"machine": 8}, TypeError, "machine must be the name of a machine, not 8"),
        ({"machine": "hopper", "accumulator": "exact"}, ValueError,
         "accumulator must be hopper or left out with machine hopper, not exact"),
        ({"weight": "bf16", "activation": "int8_affine"}, ValueError,
         "weight must have scales, or be None, in a recipe with schemes, not bf16"),
        ({"machine": "a100-bf16", "gradient_rounding": "stochastic"}, ValueError,
         "gradient_rounding must be nearest_even for gradients of bf16, not stochastic"),
        ({"weight": "bf16", "accumulator": "float8"}, ValueError, "weight must be one of e4m3"),
        ({"weight": "bf16", "accumulator": "block_scaled"}, ValueError, "weight and activation"),
        ({"weight": "bf16", "limits": "delayed"}, ValueError, "weight must have a scheme"),
    ],
)  # fmt: skip
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        Recipe(**options)
