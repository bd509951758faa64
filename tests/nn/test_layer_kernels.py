"""Which product computes a layer's output, as the layer says itself, and as it is."""

import copy

import pytest
import torch

from devices import CUDA
from mxdot.gpu.ops import few_rows
from mxdot.nn import MXLinear, Recipe, kernel_of, multiply
from mxdot.nn.recipes import RECIPES

INT8 = Recipe("int8_channel", "int8_affine")
SAYS = {
    # recipe, before it is frozen, after, what a frozen one then calls
    "mxfp8": (Recipe(), "values (torch)", "values (torch)", None),
    "exact": (Recipe(accumulator="exact"), "matmul ({})", "matmul ({})", "matmul"),
    "float8": (
        Recipe(accumulator="float8"),
        "float8_matmul ({fp8})",
        "float8_matmul ({fp8})",
        "float8_matmul",
    ),
    "block scaled": (
        Recipe(accumulator="block_scaled"),
        "block_scaled_matmul ({blocks})",
        "block_scaled_matmul ({blocks})",
        "block_scaled_matmul",
    ),
    "w8a8": (INT8, "values (torch)", "int8_matmul ({})", "schemes.int8_matmul"),
    "w4a8": (
        Recipe("int4_g128", "int8_channel"),
        "values (torch)",
        "schemes.matmul (torch)",
        "schemes.matmul",
    ),
    "w4": (
        Recipe("int4_g128", None),
        "values (torch)",
        "weight_only_matmul ({})",
        "schemes.weight_only_matmul",
    ),
    "w4, exact": (
        Recipe("int4_g128", None, accumulator="exact"),
        "schemes.matmul (torch)",
        "schemes.matmul (torch)",
        "schemes.matmul",
    ),
    "w4 in groups of 32": (Recipe("int4_g32", None), "values (torch)", "values (torch)", None),
}
OF_SCHEMES = ("matmul", "int8_matmul", "weight_only_matmul")
EVERY = (
    "matmul",
    "float8_matmul",
    "block_scaled_matmul",
    *(f"schemes.{name}" for name in OF_SCHEMES),
)


@pytest.mark.parametrize("keep_weight", [True, False])
@pytest.mark.parametrize(("recipe", "before", "after", "calls"), SAYS.values(), ids=SAYS)
def test_a_layer_says_what_it_calls(recipe, before, after, calls, keep_weight, monkeypatch):
    layer = MXLinear(128, 32, recipe=recipe, dtype=torch.bfloat16)
    x = torch.randn(3, 128, dtype=torch.bfloat16)
    assert kernel_of(layer) == before.format("torch", fp8="torch", blocks="torch")
    layer.freeze(keep_weight)
    assert layer.kernel == kernel_of(layer) == after.format("torch", fp8="torch", blocks="torch")
    assert f"kernel={layer.kernel!r}" in repr(layer)
    called = []
    for name in EVERY:
        owner, _, attribute = name.rpartition(".")
        owner = multiply.schemes if owner else multiply
        monkeypatch.setattr(owner, attribute, _spy(name, getattr(owner, attribute), called))
    layer(x)
    assert called == ([] if calls is None else [calls])
    if not keep_weight:
        layer.to("meta")
        assert layer.kernel == after.format("torch", fp8="torch", blocks="torch")


def _spy(name, whole, called):
    def call(*args, **kwargs):
        called.append(name)
        return whole(*args, **kwargs)

    return call


@pytest.mark.cuda
@pytest.mark.parametrize(("recipe", "before", "after", "calls"), SAYS.values(), ids=SAYS)
def test_on_a_gpu(recipe, before, after, calls):
    layer = MXLinear(128, 32, recipe=recipe, device="cuda")
    hopper = torch.cuda.get_device_capability() == (9, 0)
    blocks = torch.cuda.get_device_capability() >= (10, 0)
    named = {
        "fp8": "scaled_mm" if hopper else "torch",
        "blocks": "scaled_mm" if blocks else "torch",
    }
    assert layer.kernel == before.format("triton or torch", **named)
    assert layer.freeze().kernel == after.format("triton or torch", **named)


@pytest.mark.parametrize("recipe", ["mxfp8", "nvfp4", "fp8_current", "int4_weights"])
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_few_rows_of_a_frozen_layer(recipe, device, monkeypatch):
    """The kernel that `kernel_of` names, and values near those of a layer that keeps its weight."""
    torch.manual_seed(0)
    kept = MXLinear(1100, 40, recipe=RECIPES[recipe], device=device, dtype=torch.bfloat16)
    codes = copy.deepcopy(kept).freeze(keep_weight=False)
    kept.freeze()
    called = []
    for name in ("few_rows_matmul", "rows_matmul"):
        monkeypatch.setattr(few_rows, name, _spy(name, getattr(few_rows, name), called))
    for rows in (1, 3, 16, 17):
        x = torch.randn(rows, 1100, device=device, dtype=torch.bfloat16)
        called.clear()
        with torch.no_grad():
            torch.testing.assert_close(codes(x), kept(x), rtol=0.05, atol=0.05)
        named = kernel_of(codes, rows) == "few_rows_matmul (triton or torch)"
        wanted = device == "cuda" and rows <= 16 and recipe != "int4_weights"
        assert (bool(called), named) == (wanted, wanted)
    with pytest.raises(ValueError, match="rows must be from 1"):
        kernel_of(codes, 0)
