"""Layers whose weight is its codes: the bits of the frozen layer, saved, loaded and moved."""

import copy
import io

import pytest
import torch
from torch import nn

from devices import on_devices
from mxdot.gpu import MXTensor, PackedTensor
from mxdot.gpu.ops import few_rows
from mxdot.gpu.schemes import PackedWeights, ScaledTensor
from mxdot.nn import RECIPES as NAMED
from mxdot.nn import MXLinear, Recipe, convert, freeze, kernel_of

RECIPES = {
    "mx": (Recipe(), MXTensor),
    "mx, activations as they are": (Recipe("e2m1", None), PackedTensor),
    "accumulator": (Recipe(accumulator="hopper"), MXTensor),
    "int8": (Recipe("int8_channel", "int8_affine"), ScaledTensor),
    "six bits": (Recipe("e3m2", "e3m2", block_size=12), PackedTensor),
    "groups": (Recipe("int4_g32", None), PackedTensor),
    "two levels": (Recipe("nvfp4", "nvfp4"), PackedTensor),
    "zero points": (Recipe("int4_affine_g128", None), PackedTensor),
    "three bits": (Recipe("msfp12", None), PackedTensor),
    "tiles": (Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128"), ScaledTensor),
    "scheme, accumulator": (Recipe("int4_g128", None, accumulator="exact"), PackedTensor),
    "packed": (Recipe("int4_g128", None), PackedWeights),
}
every_recipe = pytest.mark.parametrize(("recipe", "kind"), RECIPES.values(), ids=RECIPES)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def network(recipe, seed=0):
    """A network with sizes that no group divides."""
    torch.manual_seed(seed)
    return convert(nn.Sequential(nn.Linear(72, 40), nn.ReLU(), nn.Linear(40, 5)), recipe)


@on_devices
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_recipe
def test_the_bits_of_a_frozen_layer(recipe, kind, dtype, device):
    net = network(recipe).to(device, dtype)
    x = torch.randn(3, 7, 72, device=device, dtype=dtype)
    codes = freeze(copy.deepcopy(net), keep_weight=False)
    assert [type(layer.weight.data) for layer in codes[::2]] == [kind] * 2
    assert not any(layer.weight.requires_grad for layer in codes[::2])
    freeze(net)
    with torch.no_grad():
        for layer, other in zip(net[::2], codes[::2], strict=True):
            want, atol = layer(x), 0.0
            if kernel_of(other, x[..., 0].numel()).startswith("few_rows"):  # on CUDA
                atol = 4 * torch.finfo(dtype).eps * want.abs().max().item()  # another order of sums
            torch.testing.assert_close(other(x), want, rtol=0, atol=atol)
            x = torch.randn(4, 40, device=device, dtype=dtype)


@every_recipe
def test_saved_loaded_and_moved(recipe, kind):
    net, x = freeze(network(recipe), keep_weight=False), torch.randn(4, 72)
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    assert isinstance(saved["0.weight"], kind)
    for assign in (False, True):
        other = freeze(network(recipe, 1), keep_weight=False)
        assert not torch.equal(other(x), net(x))
        other.load_state_dict(saved, assign=assign)
        assert torch.equal(other(x), net(x))
    assert torch.equal(copy.deepcopy(net).cpu()(x), net(x))
    assert net.to("meta")[0].weight.is_meta


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("name", ["mx", "six bits", "accumulator", "int8", "two levels", "packed"])
def test_one_graph(name):
    torch.compiler.reset()
    net, x = freeze(network(RECIPES[name][0]), keep_weight=False), torch.randn(4, 72)
    with torch.no_grad():
        result = torch.compile(net, fullgraph=True, backend="aot_eager")(x)
        assert torch.equal(result, net(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize(
    "recipe",
    [
        NAMED["mxfp8"],
        NAMED["nvfp4"],
        Recipe("e2m1", None),
        Recipe("fp8_e4m3_row", "fp8_e4m3_row"),
        Recipe("fp8_e4m3_row", "fp8_e4m3_row", accumulator="float8"),
    ],
    ids=str,
)
def test_one_graph_of_few_rows(recipe, monkeypatch):
    """Few rows take the path that they take on a CUDA device, by a kernel of their own."""
    monkeypatch.setattr(few_rows, "is_few", lambda x: len(x) <= few_rows.MOST_ROWS)
    torch.compiler.reset()
    net, x = freeze(network(recipe), keep_weight=False), torch.randn(4, 72)
    net, x = net.to(torch.bfloat16), x.to(torch.bfloat16)
    with torch.no_grad():
        result = torch.compile(net, fullgraph=True, backend="aot_eager")(x)
        assert torch.equal(result, net(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("name", ["fp8_delayed", "mxfp8", "w8a8", "int4_weights"])
def test_one_graph_where_biases_take_gradients(name):
    """A layer after the first would have a gradient for its input, which codes refuse."""
    torch.compiler.reset()
    net, x = freeze(network(NAMED[name]), keep_weight=False), torch.randn(4, 72)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    result = compiled(x)
    assert torch.equal(result, net(x))
    with pytest.raises(ValueError, match=r"^keep_weight must be True of a frozen layer for grad"):
        result.sum().backward()
    net = net[0]
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    compiled(x).square().sum().backward()
    gradient, net.bias.grad = net.bias.grad, None
    net(x).square().sum().backward()
    assert torch.equal(gradient, net.bias.grad)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", NAMED)
def test_exported(name, gradients):
    net, x = freeze(network(NAMED[name]), keep_weight=False), torch.randn(4, 72)
    with torch.set_grad_enabled(gradients):
        exported = torch.export.export(net, (x,))
    assert torch.equal(exported.module()(x), net(x))
    assert type(net[0].weight) is type(freeze(network(NAMED[name]), keep_weight=False)[0].weight)


def test_a_weight_without_a_format_stays():
    layer = MXLinear(40, 8, recipe=Recipe(None, "e4m3", None)).freeze(keep_weight=False)
    x = torch.randn(2, 40)
    assert layer.keeps_weight
    assert torch.equal(layer(x), layer.freeze()(x))


@pytest.mark.parametrize("recipe", [Recipe(), Recipe("nvfp4", "nvfp4")], ids=str)
def test_a_cast_of_the_model_leaves_codes(recipe):
    net, x = freeze(network(recipe), keep_weight=False), torch.randn(4, 72)
    want = net(x)
    assert torch.equal(net.bfloat16().float()[0].weight.dequantize(), net[0].weight.dequantize())
    assert net.half()[0].bias.dtype == torch.float16
    assert net(x.half()).dtype == torch.float16
    assert torch.allclose(net.float()(x), want, atol=0.1)  # biases were rounded


def test_a_refused_load_leaves_the_layer():
    layer = MXLinear(64, 8)
    weight = layer.weight
    before = weight.detach().clone()
    with pytest.raises(RuntimeError, match="to take MXTensor"):
        layer.load_state_dict(frozen().state_dict(), assign=True)
    assert layer.keeps_weight
    assert layer.weight is weight  # though the bias has been loaded
    assert torch.equal(weight, before)


def frozen():
    return MXLinear(64, 8).freeze(keep_weight=False)


REFUSED = {
    "unfreeze": (
        lambda: frozen().unfreeze(),
        "unfreeze must be of a layer frozen with keep_weight=True, not False",
    ),
    "convert": (
        lambda: MXLinear.from_linear(frozen()),
        "linear must be of a layer frozen with keep_weight=True, not False",
    ),
    "gradient": (
        lambda: frozen()(torch.ones(2, 64, requires_grad=True)).sum().backward(),
        "keep_weight must be True of a frozen layer for gradients, not False",
    ),
    "floats": (
        lambda: frozen().load_state_dict(MXLinear(64, 8).state_dict()),
        "takes a copy of its like only, not of Tensor of (8, 64)",
    ),
    "codes": (
        lambda: MXLinear(64, 8).load_state_dict(frozen().state_dict()),
        "takes no copy of MXTensor((8, 64), e4m3, 32, -1, 0, device='cpu'), which holds codes",
    ),
    "codes assigned": (
        lambda: MXLinear(64, 8).load_state_dict(frozen().state_dict(), assign=True),
        "keep_weight=False and of equal recipe to take MXTensor((8, 64), e4m3, 32, -1, 0, device=",
    ),
    "codes of another format": (
        lambda: (
            MXLinear(64, 8, recipe=Recipe("e2m1"))
            .freeze(keep_weight=False)
            .load_state_dict(frozen().state_dict(), assign=True)
        ),
        "weight must be of a layer frozen with keep_weight=False and of equal recipe to take ",
    ),
    "flag": (
        lambda: MXLinear(64, 8).freeze("no"),  # pyright: ignore[reportArgumentType]
        "keep_weight must be True or False, not 'no'",
    ),
}


@pytest.mark.parametrize(("work", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(work, message):
    with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
        work()
    assert message in str(error.value)
