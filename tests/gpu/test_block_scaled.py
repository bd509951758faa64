"""Products of MXFP8 and NVFP4 blocks as a GPU's own units take them.

None of these runs on such a GPU. What the library would be given is read here as its documents say
that it reads it, entry by entry, and multiplied in float64.
"""

import re

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.nn.functional import ScalingType, SwizzleType

from compare import generator
from devices import tensor
from linear_cases import layer_of, operands, run
from mxdot import gpu
from mxdot.gpu import mx_matmul, schemes
from mxdot.gpu.ops import block_scaled
from mxdot.model.formats import FORMATS
from mxdot.nn import Recipe, kernel_of

SHAPES = [(16, 32), (5, 64), (130, 96), (257, 160)]
PAIRS = [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("nvfp4", "nvfp4")]
MX = Recipe(accumulator="block_scaled")
OF_PAIR = "weight and activation with accumulator block_scaled:"
NVFP4 = Recipe("nvfp4", "nvfp4", accumulator="block_scaled")


def quantized(name, rows, length, seed=0):
    rng = generator("block scaled", name, rows, length, seed)
    x = rng.standard_normal((rows, length)).astype(np.float32)
    x *= np.exp2(rng.integers(-9, 2, (rows, 1))).astype(np.float32)
    x = tensor(x, "cpu")
    return schemes.quantize(x, name) if name == "nvfp4" else gpu.quantize(x, name)


def tiled_scale(tiles, row, block, blocks):
    """The byte of a row's block in tiles of 128 x 4, of the layout as cuBLAS documents it:
    32 x 16 bytes, row mod 32 by row div 32 and block; `blocks` of a row."""
    tile = row // 128 * -(-blocks // 4) + block // 4
    return int(tiles[tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4])


def read(elements, scales, kinds, swizzles):
    """Float64 values of an operand (R, K) of the library."""
    assert swizzles[0] == SwizzleType.SWIZZLE_32_4_4
    raw = elements.view(torch.uint8).numpy()
    if elements.dtype == torch.float4_e2m1fn_x2:  # the first element in the lower half
        codes = np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1)
        values = FORMATS["e2m1"].values[codes]
    else:
        values = elements.to(torch.float64).numpy()
    size = {ScalingType.BlockWise1x32: 32, ScalingType.BlockWise1x16: 16}[kinds[0]]
    blocks = values.shape[1] // size
    tiles = scales[0].view(torch.uint8).numpy()
    of_code = FORMATS["e4m3"].values
    if kinds[0] == ScalingType.BlockWise1x32:
        assert scales[0].dtype == torch.float8_e8m0fnu
        of_code = np.exp2(np.arange(256.0) - 127)
    result = np.empty(values.shape)
    for row in range(len(values)):
        for block in range(blocks):
            part = slice(block * size, (block + 1) * size)
            scale = of_code[tiled_scale(tiles, row, block, blocks)]
            result[row, part] = values[row, part] * scale
    if len(kinds) > 1:
        assert (kinds[1], swizzles[1]) == (ScalingType.TensorWise, SwizzleType.NO_SWIZZLE)
        result *= float(scales[1])
    return result


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "nvfp4"])
def test_an_operand_as_the_library_reads_it(name, shape):
    x = quantized(name, *shape)
    result = block_scaled.operand(*block_scaled._parts(x))
    assert result.elements.is_contiguous()
    values = read(*result).astype(np.float32)
    assert [size % of for size, of in zip(values.shape, (16, 32), strict=True)] == [0, 0]
    np.testing.assert_array_equal(values[: shape[0], : shape[1]], x.dequantize().numpy())
    values[: shape[0], : shape[1]] = 0
    assert not values.any()


@pytest.fixture
def units(monkeypatch):
    """A device that has them, and the library's product as its documents describe it."""

    def scaled_mm(a, b, a_scales, a_kinds, b_scales, b_kinds, *, swizzle_a, swizzle_b, **options):
        assert [each.is_contiguous() for each in (a, b.t())] == [True, True]
        x = read(a, a_scales, a_kinds, swizzle_a)
        y = read(b.t(), b_scales, b_kinds, swizzle_b)
        return torch.from_numpy(x @ y.T).to(options["output_dtype"])

    monkeypatch.setattr(functional, "scaled_mm", scaled_mm)
    monkeypatch.setattr(block_scaled, "has_units", lambda device: True)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_products_by_the_library(pair, dtype, units):
    a, b = (quantized(name, rows, 96, rows) for name, rows in zip(pair, (37, 150), strict=True))
    want = a.dequantize().double() @ b.dequantize().double().t()
    result = block_scaled.block_scaled_matmul(a, b, dtype)
    assert (result.shape, result.dtype, result.is_contiguous()) == ((37, 150), dtype, True)
    most = torch.finfo(dtype).eps * want.abs() + torch.finfo(torch.float16).tiny
    assert torch.all((result.double() - want).abs() <= most)
    if pair[0] != "nvfp4" and dtype != torch.float16:
        assert torch.equal(mx_matmul(a, b, method="block_scaled", out_dtype=dtype), result)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_values_where_a_device_has_no_units(pair):
    a, b = (quantized(name, rows, 96, rows) for name, rows in zip(pair, (37, 150), strict=True))
    result = block_scaled.block_scaled_matmul(a, b, torch.float32)
    assert torch.equal(result, a.dequantize() @ b.dequantize().t())


@pytest.mark.parametrize("recipe", [MX, NVFP4], ids=["mxfp8", "nvfp4"])
def test_layers_give_the_library_their_blocks(recipe, units):
    x, weight, g = operands(generator("block scaled layer"), 50, 72, 40, "cpu")
    layer = layer_of(weight, recipe)
    assert kernel_of(layer) == "block_scaled_matmul (scaled_mm)"
    results = run(layer, x, g)
    plain = Recipe(recipe.weight, recipe.activation)
    for result, want in zip(results, run(layer_of(weight, plain), x, g), strict=True):
        torch.testing.assert_close(result, want, rtol=1e-5, atol=1e-5)
    frozen = layer.freeze(keep_weight=False)(x)
    assert torch.equal(frozen, results[0])
    assert "kernel='block_scaled_matmul (scaled_mm)'" in repr(layer)


def test_a_gradient_that_the_units_refuse_is_multiplied_fast():
    recipe = Recipe("e5m2", "e4m3", "e5m2", accumulator="block_scaled")
    assert recipe.transposed_rule == "fast"
    assert MX.transposed_rule == "block_scaled"
    assert Recipe("e4m3", "e4m3", None, accumulator="block_scaled").transposed_rule == "fast"
    assert NVFP4.transposed_rule == "fast"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weight": "e2m1"}, f"{OF_PAIR} formats must be e4m3 or e5m2, not e2m1"),
        ({"weight": "e5m2", "activation": "e5m2"}, f"{OF_PAIR} formats must not both be e5m2"),
        ({"block_size": 16}, "block_size must be 32 with accumulator block_scaled, not 16"),
        ({"weight": "nvfp4"}, f"{OF_PAIR} both must be nvfp4, or neither, not nvfp4 and e4m3"),
    ],
)
def test_recipes_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Recipe(**arguments, accumulator="block_scaled")


def test_products_that_are_refused():
    a = quantized("e4m3", 4, 64)
    message = "method block_scaled needs a GPU of compute capability 10.0 or later, not cpu"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        mx_matmul(a, a, method="block_scaled")
    small = gpu.quantize(torch.ones(4, 64), "e4m3", block_size=16)
    message = "block_size of b must be 32 with method block_scaled, not 16"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        mx_matmul(a, small, method="block_scaled")
    narrow = gpu.quantize(torch.ones(4, 64), "int8")
    message = "a and b with method block_scaled: formats must be e4m3 or e5m2, not int8"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        mx_matmul(narrow, a, method="block_scaled")
