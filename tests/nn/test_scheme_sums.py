"""Schemes along the axis that each product sums over: three products of the model's values."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from compare import generator
from devices import bits, on_devices
from linear_cases import assert_product, layer_of, operands, run
from mxdot.gpu.schemes import quantize
from mxdot.model import schemes
from mxdot.model.schemes import SCHEMES, Limits
from mxdot.nn import Recipe

RECIPES = {
    "fp8 blocks": Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", "fp8_e4m3_b128", groups="sums"),
    "nvfp4": Recipe("nvfp4", "nvfp4", "nvfp4", groups="sums"),
    "rows": Recipe("int8_channel", "int8_affine_channel", "fp8_e5m2_row", groups="sums"),
    "int4": Recipe("int4_g32", "int4_affine_g128", None, groups="sums"),
    "a code book": Recipe("mixed4", "mx9", "vsquant4_u4", groups="sums"),
}
every_recipe = pytest.mark.parametrize("name", RECIPES)
INTEGERS = Recipe("int8_channel", "int8_tensor", "int8_channel", groups="sums", accumulator="int32")


def array(x, scheme, axis, columns=128):
    """The model's array, groups along `axis`, with rows the other one; filled up to them."""
    x = np.moveaxis(x.detach().cpu().numpy(), axis, -1)
    rows = 128 if "128x128" in str(scheme) else 1
    x = np.pad(x, ((0, -x.shape[0] % rows), (0, -x.shape[1] % columns)))
    return schemes.quantize(x, scheme)


def values(x, scheme, axis):
    """float64 (rows, axis)."""
    if scheme is None:
        return np.moveaxis(x.detach().cpu().double().numpy(), axis, -1)
    other, own = x.shape[1 - axis], x.shape[axis]
    return array(x, scheme, axis).dequantize()[:other, :own].astype(np.float64)


@on_devices
@pytest.mark.parametrize("saved", ["input", "quantized"])
@every_recipe
def test_each_product_has_its_own_axis(name, saved, device):
    """Sizes that no group divides."""
    recipe = replace(RECIPES[name], saved=saved)
    x, weight, g = operands(generator("sums", name), 20, 200, 40, device)
    y, dx, dw = run(layer_of(weight, recipe), x, g)
    of = recipe
    assert_product(y, values(x, of.activation, 1), values(weight, of.weight, 1).T)
    assert_product(dx, values(g, of.gradient, 1), values(weight, of.weight, 0).T)
    assert_product(dw, values(g, of.gradient, 0), values(x, of.activation, 0).T)


@on_devices
@pytest.mark.parametrize("saved", ["input", "quantized"])
@pytest.mark.parametrize("rule", ["exact", "fused:13", "hopper-fp16"])
def test_an_accumulator_computes_all_three(rule, saved, device):
    """With the model's bits."""
    recipe = Recipe("nvfp4", "nvfp4", "nvfp4", groups="sums", accumulator=rule, saved=saved)
    assert recipe.transposed_rule == recipe.accumulator
    x, weight, g = operands(generator("accumulated sums", rule), 6, 40, 10, device)
    results = run(layer_of(weight, recipe), x, g)
    pairs = (((x, 1), (weight, 1)), ((g, 1), (weight, 0)), ((g, 0), (x, 0)))
    for result, pair in zip(results, pairs, strict=True):
        a, b = (array(part, "nvfp4", axis, 16) for part, axis in pair)
        np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(schemes.matmul(a, b, rule)))


@on_devices
def test_integer_sums_of_all_three(device):
    x, weight, g = operands(generator("integer sums"), 6, 40, 10, device)
    results = run(layer_of(weight, INTEGERS), x, g)
    roles = ((x, "int8_tensor"), (weight, "int8_channel"), (g, "int8_channel"))
    (x, s), (weight, t), (g, u) = roles
    pairs = (((x, s, 1), (weight, t, 1)), ((g, u, 1), (weight, t, 0)), ((g, u, 0), (x, s, 0)))
    for result, pair in zip(results, pairs, strict=True):
        a, b = (array(*part, 1) for part in pair)
        want = schemes.matmul(a, b, "int32")
        np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(want))


def test_which_rule_backward_products_have():
    nvfp4 = Recipe("nvfp4", "nvfp4", "nvfp4", groups="sums", accumulator="exact")
    assert replace(nvfp4, groups="features").transposed_rule == "fast"
    assert replace(nvfp4, gradient=None).transposed_rule == "fast"
    assert replace(INTEGERS, gradient="fp8_e5m2_row").transposed_rule == "fast"
    blocks = replace(RECIPES["fp8 blocks"], accumulator="float8")
    assert blocks.transposed_rule == "float8"
    assert replace(blocks, gradient="fp8_e5m2_b128").transposed_rule == "fast"


@on_devices
def test_the_fp8_units_take_all_three(device):
    """Results are the values' products, to the bits that those units and bfloat16 keep."""
    recipe = replace(RECIPES["fp8 blocks"], accumulator="float8")
    x, weight, g = operands(generator("float8 sums"), 20, 200, 40, device)
    result = run(layer_of(weight, recipe), x, g)
    want = run(layer_of(weight, RECIPES["fp8 blocks"]), x, g)
    for mine, its in zip(result, want, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-3 * its.abs().max().item())


# Limits that are a tensor -------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("scheme", ["int4_channel", "fp8_e4m3_tensor", "nvfp4", "fp8_e4m3_128x128"])
@pytest.mark.parametrize("axis", [0, 1])
def test_magnitudes_are_as_limits(scheme, axis, device):
    """Codes and scales per outermost group, within -m to m."""
    rng = generator("magnitudes", scheme, axis)
    x = rng.standard_normal((256, 128)).astype(np.float32)
    shape = schemes.quantize(x, scheme, axis=axis).scales[0].shape
    limit = rng.uniform(0.1, 3, shape).astype(np.float32)
    limit.flat[0] = 0
    want = schemes.quantize(x, scheme, axis=axis, limits=Limits(-limit, limit))
    result = quantize(
        torch.tensor(x, device=device), scheme, axis=axis, limits=torch.tensor(limit, device=device)
    ).to_model()
    np.testing.assert_array_equal(result.codes, want.codes)
    for mine, its in zip(result.level_scales, want.level_scales, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_magnitudes_that_do_not_fit():
    x, one = torch.ones(4, 32), torch.ones(1, 1)
    for limits, scheme, message in (
        (one, "int8_affine", "limits must be Limits of int8_affine, which has zero points, not a"),
        (one.double(), "int8_tensor", r"float32 of shape \(1, 1\) on cpu, not float64 of \(1, 1\)"),
        (one, "int8_channel", r"limits must be float32 of shape \(4, 1\) on cpu, not float32 of"),
    ):
        with pytest.raises(ValueError, match=message):
            quantize(x, scheme, limits=limits)
    with pytest.raises(TypeError, match=r"^limits must be Limits or None, not float$"):
        quantize(x, SCHEMES["int8_tensor"], limits=1.0)
