"""Which product computes a layer's output, as the layer says itself, and as it is."""

import pytest
import torch

from mxdot.nn import MXLinear, Recipe, kernel_of, multiply

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
