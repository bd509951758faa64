"""The random Hadamard transform: its matrix, its bits, and the product that it is for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import philox
from compare import generator
from devices import on_devices
from linear_cases import operands, run
from mxdot.model import schemes
from mxdot.nn import RECIPES, MXLinear, Recipe
from mxdot.nn.hadamard import SIZES, Hadamard

every_size = pytest.mark.parametrize("size", SIZES)


def matrix(mix):
    """H diag(s) / sqrt(n), float64, by its definition."""
    n = mix.size
    h = [[(-1.0) ** (i & j).bit_count() for j in range(n)] for i in range(n)]
    signs = [-1.0 if (mix.signs >> i) & 1 else 1.0 for i in range(n)]
    return np.array(h) * np.array(signs) / n**0.5


def of_model(x, mix):
    """Float32 rounds of sums and differences, in NumPy, index by index."""
    x = np.pad(x, ((0, 0), (0, -x.shape[1] % mix.size))).astype(np.float32)
    out = np.empty_like(x)
    for start in range(0, x.shape[1], mix.size):
        v = [x[:, start + i] * (-1 if (mix.signs >> i) & 1 else 1) for i in range(mix.size)]
        apart = 1
        while apart < mix.size:
            v = [v[i ^ apart] - v[i] if i & apart else v[i] + v[i ^ apart] for i in range(mix.size)]
            apart *= 2
        out[:, start : start + mix.size] = np.stack(v, 1) * np.float32(mix.size**-0.5)
    return out


@on_devices
@every_size
def test_it_is_orthogonal_exactly(size, device):
    for seed in range(20):
        mix = Hadamard.seeded(size, seed)
        rows = mix(torch.eye(size, device=device)).cpu().numpy().astype(np.float64)
        np.testing.assert_array_equal(rows.T, matrix(mix))
        np.testing.assert_array_equal(rows @ rows.T, np.eye(size))


@every_size
def test_signs_are_the_seeds(size):
    every = {Hadamard.seeded(size, seed).signs for seed in range(200)}
    assert Hadamard.seeded(size, 7) == Hadamard.seeded(size, 7)
    assert len(every) == 16 if size == 4 else len(every) > 190
    drawn = np.random.default_rng(7).integers(0, 2, size)
    signs = Hadamard.seeded(size, 7).signs
    assert [(signs >> i) & 1 for i in range(size)] == drawn.tolist()


@on_devices
@every_size
def test_every_bit(size, device):
    """Values of many magnitudes; lengths that the size does not divide, and 0."""
    rng, mix = generator("hadamard", size), Hadamard.seeded(size, 1)
    for shape in ((5, 3 * size), (7, size + 1), (1, 1), (0, size), (3, 0)):
        x = rng.standard_normal(shape) * np.exp2(rng.integers(-40, 40, shape))
        x = x.astype(np.float32)
        result = mix(torch.tensor(x, device=device))
        np.testing.assert_array_equal(result.cpu().numpy(), of_model(x, mix))
        assert result.shape[1] == mix.length(shape[1])


@every_size
def test_where_it_is_exact(size):
    """Integers up to 2^24 together, and bfloat16 whose exponents lie 16 - log2(size) apart."""
    rng, mix = generator("exact hadamard", size), Hadamard.seeded(size, 2)
    most = 2**24 // size
    integers = rng.integers(-most, most + 1, (50, size))
    integers[0] = most
    exponents = rng.integers(0, 16 - size.bit_length() + 2, (50, size))
    narrow = rng.integers(128, 256, (50, size)) * np.exp2(exponents)
    narrow[0] = 255 * 2.0 ** (17 - size.bit_length())
    narrow[0, 0] = 129
    for x in (integers, narrow):
        result = mix(torch.tensor(x.astype(np.float32))).numpy().astype(np.float64)
        np.testing.assert_array_equal(result, x.astype(np.float64) @ matrix(mix).T)
    assert narrow[0, 1] / narrow[0, 0] > 2.0 ** (16 - size.bit_length())


@on_devices
@pytest.mark.parametrize("saved", ["input", "quantized"])
def test_it_leaves_products_as_they_are(saved, device):
    """Without formats but for a weight's: gradients are those of a plain layer, rounded."""
    x, weight, g = operands(generator("hadamard product"), 37, 72, 40, device)
    layers = [
        MXLinear(72, 40, False, device, recipe=Recipe("e4m3", None, None, saved=saved, hadamard=n))
        for n in (0, *SIZES)
    ]
    want, *results = [run(layer_with(layer, weight), x, g) for layer in layers]
    for result in results:
        assert torch.equal(result[0], want[0])
        assert torch.equal(result[1], want[1])
        torch.testing.assert_close(result[2], want[2], rtol=1e-4, atol=1e-3)
        assert not torch.equal(result[2], want[2])


def layer_with(layer, weight):
    layer.weight = torch.nn.Parameter(weight.clone())
    return layer


def mixed(x, mix):
    return mix(torch.tensor(np.ascontiguousarray(x))).numpy()


def values(x, scheme, words=None):
    """Values of a matrix filled up to whole groups, by the model; float64."""
    below = -x.shape[0] % 16 if "16x16" in str(scheme) else 0
    x = np.pad(x, [(0, below), (0, -x.shape[1] % 16)])
    rounding = "nearest_even" if words is None else "stochastic"
    made = schemes.quantize(x, scheme, rounding=rounding, rng=words).dequantize()
    return made.astype(np.float64)


def drawn(shape):
    """Words of a seed and an offset that PyTorch draws."""
    pair = torch.randint_like(torch.empty(2, dtype=torch.int64), 0, 2**32)
    seed, offset = pair.tolist()
    return philox.words(seed, offset, shape)


@pytest.mark.parametrize("saved", ["input", "quantized"])
@pytest.mark.parametrize("rows", [32, 37])
def test_the_nvfp4_recipe_by_the_model(rows, saved):
    """Squares of weights, blocks along each sum, mixed operands, gradients by given words."""
    recipe = replace(RECIPES["nvfp4"], saved=saved)
    x, weight, g = operands(generator("nvfp4", rows), rows, 72, 40)
    layer = layer_with(MXLinear(72, 40, False, recipe=recipe), weight)
    torch.manual_seed(5)
    y, dx, dw = run(layer, x, g)
    x, weight, g = x.numpy(), weight.numpy(), g.numpy()
    w = values(weight, recipe.weight)
    want = values(x, "nvfp4") @ w[:40].T
    np.testing.assert_allclose(y.numpy(), want[:, :40], atol=2e-5 * np.abs(want).max())
    torch.manual_seed(5)
    slope = values(g, "nvfp4", words=drawn((rows, 48)))
    want = slope[:, :40] @ w[:40, :72]
    np.testing.assert_allclose(dx.numpy(), want, atol=2e-5 * np.abs(want).max())
    mix = Hadamard.seeded(16, 0)
    whole = rows + -rows % 16
    slope = values(mixed(g.T, mix), "nvfp4", words=drawn((40, whole)))
    want = slope @ values(mixed(x.T, mix), "nvfp4").T
    np.testing.assert_allclose(dw.numpy(), want, atol=2e-5 * np.abs(want).max())


def gradients(recipe, x, weight, g, count):
    out_features, in_features = weight.shape
    layer = layer_with(MXLinear(in_features, out_features, False, recipe=recipe), weight)
    for _ in range(count):
        layer.zero_grad()
        yield run(layer, x, g)[2]


def test_stochastic_gradients_have_no_bias():
    """INT4 scales saturate nothing: means of many draws come near the exact product."""
    recipe = Recipe(None, None, "int4_g32", groups="sums", gradient_rounding="stochastic")
    x, weight, g = operands(generator("unbiased"), 32, 32, 16)
    torch.manual_seed(0)
    (nearest,) = gradients(replace(recipe, gradient_rounding="nearest_even"), x, weight, g, 1)
    draws = torch.stack(list(gradients(recipe, x, weight, g, 400)))
    exact = g.T @ x
    off, error = draws.mean(0) - exact, draws.std(0) / 400**0.5
    assert 0.8 < (off / error).square().mean().sqrt() < 1.2
    assert off.norm() < (nearest - exact).norm() / 4


@pytest.mark.parametrize("fmt", ["e2m1", "int4_g32"])
def test_what_is_large_costs_less(fmt):
    """Student's t with three degrees of freedom, in blocks of 32."""
    rng = generator("outliers", fmt)
    x, g = (rng.standard_t(3, (256, n)).astype(np.float32) for n in (64, 32))
    errors = []
    for size in (0, 16):
        recipe = Recipe(fmt, fmt, fmt, groups="sums", hadamard=size)
        (dw,) = gradients(recipe, torch.tensor(x), torch.ones(32, 64), torch.tensor(g), 1)
        errors.append(np.linalg.norm(dw.numpy() - g.T.astype(float) @ x))
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hadamard": 8}, "hadamard must be 0, 4, 16, 64, not 8"),
        ({"hadamard": -16}, "hadamard must be from 0 to 64, not -16"),
        ({"hadamard": 16, "hadamard_seed": -1}, "hadamard_seed must be from 0 to"),
        (
            {"weight": "nvfp4", "hadamard": 16},
            "hadamard must be 0 for schemes with groups along features, not 16",
        ),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**options)
