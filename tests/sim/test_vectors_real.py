"""The captured slice of a real sentence encoder: what it holds, and the model's products of it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxdot.model import MXArray, accumulator, matmul, quantize
from mxdot.util.data.tensors import REAL_FILE, load_tensors
from rational import dot as oracle

REAL = REAL_FILE.parent
LIMIT = 2**20
SHAPES = {
    "query": ((32, 384), (64, 384)),
    "mlp_up": ((32, 384), (64, 384)),
    "mlp_down": ((16, 1536), (24, 1536)),
}
# Signal to quantisation noise of the whole product, in dB: 6 for every bit of a significand.
SQNR = {
    "e4m3": (24, 31),
    "e5m2": (19, 26),
    "e3m2": (19, 26),
    "e2m3": (24, 31),
    "e2m1": (12, 18),
    "int8": (32, 40),
}
# The least ratio of a quantised product to an accumulator's error, in dB.
ACCURACY = {
    "exact": 130,
    "float32": 130,
    "fixed:48:-20": 90,
    "blackwell": 120,
    "hopper-promoted": 65,
    "hopper": 60,
    "ada": 60,
    "aligned:13": 65,
}
SAMPLE = 8  # dot products of each product that the oracle takes


def layer(name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Activations (tokens, K) and weights (outputs, K) of a layer."""
    x, w = load_tensors(REAL_FILE, (f"{name}.input", f"{name}.weight"))
    assert isinstance(x, np.ndarray)
    assert isinstance(w, np.ndarray)
    return x, w


def decibels(signal: NDArray[np.float64], got: NDArray) -> float:
    noise = np.square(signal - got.astype(np.float64)).sum()
    return float(10 * np.log10(np.square(signal).sum() / max(noise, 1e-300)))


def test_file_is_small_and_holds_what_its_description_says():
    assert sum(path.stat().st_size for path in REAL.iterdir()) <= LIMIT
    assert [path.name for path in REAL.glob("*.npz")] == [REAL_FILE.name]
    with np.load(REAL_FILE) as file:
        arrays = dict(file)
    assert {name: x.shape for name, x in arrays.items()} == {
        f"{name}.{part}": shape
        for name, shapes in SHAPES.items()
        for part, shape in zip(("input", "weight"), shapes, strict=True)
    }
    for name, x in arrays.items():
        assert x.dtype == np.float32, name
        assert np.isfinite(x).all(), name
        assert 0.01 < x.std() < 10, name
        assert len(np.unique(x)) > 0.9 * x.size, name


def test_regression_takes_a_layer_that_fits():
    """Without names, the first two arrays: a layer's input and weight."""
    x, y = load_tensors(REAL_FILE)
    np.testing.assert_array_equal(x, layer("query")[0])
    np.testing.assert_array_equal(y, layer("query")[1])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("fmt", SQNR)
def test_quantisation_noise_is_plausible(name, fmt):
    x, weight = layer(name)
    want = x.astype(np.float64) @ weight.astype(np.float64).T
    low, high = SQNR[fmt]
    assert low < decibels(want, matmul(quantize(x, fmt), quantize(weight, fmt), "exact")) < high


@pytest.mark.parametrize("text", ACCURACY)
@pytest.mark.parametrize("formats", [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1")])
@pytest.mark.parametrize("name", SHAPES)
def test_product_equals_the_oracle(name, formats, text):
    check(name, formats, text)


@pytest.mark.parametrize("name", SHAPES)
def test_integer_product_equals_the_oracle(name):
    check(name, ("int8", "int8"), "int32")


def check(name: str, formats: tuple[str, str], text: str) -> None:
    """The model's matrix product: every result is near, a sample equals the oracle."""
    x, weight = layer(name)
    a, b = quantize(x, formats[0]), quantize(weight, formats[1])
    got = matmul(a, b, text)
    assert got.shape == (len(x), len(weight))
    want = a.dequantize().astype(np.float64) @ b.dequantize().astype(np.float64).T
    assert decibels(want, got) > ACCURACY.get(text, 130)
    rng = np.random.default_rng(0)
    for row, column in rng.integers(0, got.shape, (SAMPLE, 2)).tolist():
        result = oracle.dot(*formats, blocks(a, b, row, column), str(accumulator(text)))
        assert got.view(np.uint32)[row, column] == result.bits, (row, column)


def blocks(
    a: MXArray, b: MXArray, row: int, column: int
) -> list[tuple[list[int], list[int], int, int]]:
    """The blocks of one dot product (codes of a, codes of b, scale of a, scale of b)."""
    codes_a, scales_a = (part[row].tolist() for part in a.blocks_last())
    codes_b, scales_b = (part[column].tolist() for part in b.blocks_last())
    return list(zip(codes_a, codes_b, scales_a, scales_b, strict=True))
