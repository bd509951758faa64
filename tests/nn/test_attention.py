"""Attention's products by a recipe: bits of the model, masks, gradients, networks that call it."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from compare import generator
from devices import on_devices
from mxdot import model
from mxdot.model.formats import FloatFormat
from mxdot.nn import Recipe, convert, evaluate, quantized_init
from mxdot.nn.attention import attention, has_attention, set_attention

PLAIN = ("bf16", "fp16", "tf32")


def heads(*name, queries=5, keys=7, key_heads=2, device="cpu"):
    rng = generator("attention", *name)
    sizes = (2, 2, queries), (2, key_heads, keys), (2, key_heads, keys)
    made = [torch.from_numpy(rng.standard_normal((*s, 24), np.float32)) for s in sizes]
    return [x.to(device) for x in made]


def product(a, b, recipe):
    """Of two matrices, by the model."""
    device, (a, b) = a.device, (a.cpu(), b.cpu())
    fmt, rules = recipe.attention, {"block_size": 32, "pad": True}
    if fmt in PLAIN:
        made = [model.unscaled(x.numpy(), fmt, **rules) for x in (a, b)]
    else:
        made = [model.quantize(x.numpy(), fmt, scale_rule="ceil", **rules) for x in (a, b)]
    if recipe.attention_rule == "fast":
        x, y = (m.dequantize().astype(np.float64) for m in made)
        return torch.from_numpy(x @ y.T).float().to(device)
    return torch.from_numpy(model.matmul(made[0], made[1], recipe.accumulator)).to(device)


def by_hand(q, k, v, recipe, visible=None):
    made = []
    for x, y, z in zip(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), strict=True):
        scores = product(x, y, recipe) * 24**-0.5
        if visible is not None:
            scores = scores.masked_fill(~visible, -torch.inf)
        made.append(product(torch.softmax(scores, -1), z.T.contiguous(), recipe))
    return torch.stack(made).reshape(q.shape)


RECIPES = [
    Recipe(accumulator="exact", attention="e4m3"),
    Recipe(accumulator="aligned:6", attention="e2m3"),
    Recipe(machine="h100-bf16", attention="bf16"),
    Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", machine="h100-fp8", attention="e4m3"),
]


@on_devices
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_the_models_bits_by_an_accumulator(recipe, device):
    q, k, v = heads(str(recipe), device=device)
    assert torch.equal(attention(recipe, q, k, v), by_hand(q, k, v, recipe))
    visible = torch.ones(5, 7, dtype=torch.bool, device=device).tril()
    want = by_hand(q, k, v, recipe, visible)
    assert torch.equal(attention(recipe, q, k, v, is_causal=True), want)


@pytest.mark.parametrize(
    "recipe",
    [Recipe(attention="e2m1"), Recipe("int8_channel", "int8_affine", attention="int8")],
    ids=str,
)
def test_values_of_other_recipes(recipe):
    q, k, v = heads("values")
    torch.testing.assert_close(attention(recipe, q, k, v), by_hand(q, k, v, recipe))
    assert attention(recipe, *(x.bfloat16() for x in (q, k, v))).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        made = attention(recipe, q, k, v)
    assert torch.equal(made, attention(recipe, *(x.bfloat16() for x in (q, k, v))))


TWO = torch.tensor([0, 3])
MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "bool": {"attn_mask": torch.arange(35).reshape(5, 7) % 3 > 0},
    "nothing to see": {"attn_mask": torch.arange(5)[:, None].expand(5, 7) > 0},
    "nothing to see by floats": {"attn_mask": torch.zeros(5, 7).index_fill(0, TWO, -torch.inf)},
    "bias": {"attn_mask": torch.arange(7.0).expand(2, 1, 5, 7)},
    "scale": {"scale": 0.3},
}


@pytest.mark.parametrize("key_heads", [1, 2])
@pytest.mark.parametrize("options", MASKS.values(), ids=MASKS)
def test_pytorchs_attention_where_the_format_is_wide(options, key_heads):
    """TF32 keeps 11 digits."""
    given = heads("masks", key_heads=key_heads)
    recipe, options = Recipe(attention="tf32"), {**options, "enable_gqa": key_heads == 1}
    want = scaled_dot_product_attention(*given, **options)
    torch.testing.assert_close(attention(recipe, *given, **options), want, rtol=0.01, atol=0.01)
    if key_heads == 2 and options.get("attn_mask", torch.empty(0)).ndim < 3:
        alone = [x[0, 0] for x in given]
        want = scaled_dot_product_attention(*alone, **{**options, "enable_gqa": False})
        made = attention(recipe, *alone, **options)
        torch.testing.assert_close(made, want, rtol=0.01, atol=0.01)
    three = [x[0] for x in given]
    if key_heads == 2 and "bias" not in str(options.keys()) and options.get("scale") is None:
        mask = options.get("attn_mask")
        if mask is None or mask.ndim == 2:
            want = scaled_dot_product_attention(*three, **options)
            made = attention(recipe, *three, **options)
            torch.testing.assert_close(made, want, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("recipe", [RECIPES[0], Recipe(attention="e4m3")], ids=str)
def test_gradients_pass_straight_through(recipe):
    """Those of attention of the values that are multiplied, but of Q and K themselves."""
    results = []
    for given in (recipe, Recipe(attention="tf32")):
        q, k, v = (x.requires_grad_() for x in heads("gradients"))
        attention(given, q, k, v).square().sum().backward()
        results.append((q.grad, k.grad, v.grad))
    for mine, want in zip(*results, strict=True):
        assert nn.functional.cosine_similarity(mine.flatten(), want.flatten(), 0) > 0.98


@pytest.mark.parametrize("recipe", [RECIPES[0], Recipe(attention="tf32")], ids=str)
def test_gradients_where_a_row_sees_nothing(recipe):
    """Gradients under a mask of bool equal those under one of floats; a masked row has none."""
    visible, results = torch.ones(5, 7, dtype=torch.bool).index_fill(0, TWO, False), []
    for mask in (visible, torch.zeros(5, 7).masked_fill(~visible, -torch.inf)):
        q, k, v = (x.requires_grad_() for x in heads("gradients"))
        made = attention(recipe, q, k, v, mask)
        made.square().sum().backward()
        results.append((made, q.grad, k.grad, v.grad))
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)
    assert not results[0][1][:, :, TWO].any()


@pytest.mark.parametrize("recipe", [RECIPES[0], Recipe(attention="tf32")], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(5, 0), (0, 7)])
def test_no_keys_and_no_queries(recipe, queries, keys):
    given = [x.requires_grad_() for x in heads("none", queries=queries, keys=keys)]
    made = attention(recipe, *given)
    made.sum().backward()
    assert made.shape == given[0].shape
    assert not made.any()


def test_dropout_drops():
    q, k, v = heads("dropout")
    torch.manual_seed(0)
    made = attention(Recipe(attention="e4m3"), q, k, v, dropout_p=1.0)
    assert not made.any()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = nn.MultiheadAttention(32, 2, batch_first=True)
        self.out = nn.Linear(32, 32)

    def forward(self, x):
        if len(x) > 9:
            raise RuntimeError("too long")
        return self.out(self.mixer(x, x, x, need_weights=False)[0])


@pytest.mark.filterwarnings("ignore:convert leaves")
@pytest.mark.parametrize("grad", [False, True])
def test_networks_that_call_it(grad):
    torch.manual_seed(0)
    block, x = Block().eval(), torch.randn(3, 6, 32)
    plain = convert(copy.deepcopy(block), Recipe(None, None, None))
    quantised = convert(copy.deepcopy(block), Recipe(None, None, None, attention="e2m1"))
    with torch.set_grad_enabled(grad):
        want, made = plain(x), quantised(x)
        torch.testing.assert_close(want, block(x))
        assert nn.functional.cosine_similarity(want.flatten(), made.flatten(), 0) > 0.9
        assert not torch.allclose(want, made, rtol=1e-3)
        for each in (copy.deepcopy(quantised), pickle.loads(pickle.dumps(quantised))):
            assert torch.equal(each(x), made)
        with pytest.raises(RuntimeError, match="too long"):
            quantised(torch.randn(10, 6, 32))
        torch.testing.assert_close(plain(x), want, rtol=0, atol=0)  # nothing is left in force
        q = torch.randn(1, 1, 4, 8)
        assert torch.equal(
            scaled_dot_product_attention(q, q, q), scaled_dot_product_attention(q, q, q)
        )


class Heads(nn.Module):
    def forward(self, x):
        q, k, v = x.chunk(3, -1)
        return scaled_dot_product_attention(q, k, v)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x):
        if len(x) > 9:
            raise KeyboardInterrupt
        return scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), is_causal=True)


def test_nothing_is_in_force_after_an_interrupt():
    model, q = convert(Attention(), Recipe(attention="e2m1")), torch.randn(1, 1, 4, 8)
    want = scaled_dot_product_attention(q, q, q)
    with pytest.raises(KeyboardInterrupt):
        model(torch.randn(10, 6, 32))
    assert torch.equal(scaled_dot_product_attention(q, q, q), want)


@torch.no_grad()
def test_the_class_stays_what_it_was():
    model, x = Attention(), torch.randn(3, 6, 32)
    convert(model, Recipe(attention="e2m1"))
    assert isinstance(model, Attention)
    assert type(model).__name__ == "Attention"
    other = convert(Attention(), Recipe(attention="e4m3"))
    assert type(other) is type(model)  # a compiler has one code for both
    restored = pickle.loads(pickle.dumps(model))
    assert type(restored) is type(model)
    assert torch.equal(restored(x), model(x))
    for _ in range(2):
        set_attention(model, Recipe())
        assert type(model) is Attention


@torch.no_grad()
def test_a_graph_of_fx_is_copied_with_it():
    """Its class makes copies by itself."""
    graph, x = symbolic_trace(nn.Sequential(Heads(), nn.Linear(8, 8))), torch.randn(2, 4, 24)
    model = convert(graph, Recipe(attention="e2m1"))
    want = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), want)
    set_attention(model, Recipe())
    assert not torch.equal(model(x), want)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@torch.no_grad()
def test_compiled_networks_have_it_too():
    torch.manual_seed(0)
    model, x = convert(Attention(), Recipe(attention="e2m1")), torch.randn(3, 6, 32)
    want = model(x)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        assert torch.equal(compiled(x), want)
    set_attention(model, Recipe())
    assert not torch.equal(model(x), want)


class Checkpointed(nn.Module):
    def __init__(self, block, **options):
        super().__init__()
        self.block, self.options = block, options

    def forward(self, x):
        return checkpoint(self.block, x, **self.options) if self.options else self.block(x)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_layers_that_a_backward_pass_computes_again(use_reentrant):
    """They have the recipe's attention where their module is converted by itself."""
    recipe, gradients = Recipe(attention="e2m1"), []
    original, x = Attention(), torch.randn(3, 6, 32)
    for options in ({}, {"use_reentrant": use_reentrant}):
        block, given = copy.deepcopy(original), x.clone().requires_grad_()
        Checkpointed(convert(block, recipe), **options)(given).square().sum().backward()
        gradients.append(block.qkv.weight.grad)
    assert torch.equal(*gradients)
    model = convert(Checkpointed(original, use_reentrant=use_reentrant), recipe)
    made = model(x.clone().requires_grad_())
    with pytest.raises(ValueError, match="attention must be None where activation checkpointing"):
        made.sum().backward()


@pytest.mark.filterwarnings("ignore:convert leaves")
def test_evaluate_shows_what_each_call_costs():
    torch.manual_seed(0)
    block, batches = nn.Sequential(Block(), Block()), [torch.randn(3, 6, 32) for _ in range(2)]
    model = convert(copy.deepcopy(block), Recipe(None, None, None, attention="e4m3"))
    evaluation = evaluate(model, block, batches)
    shown = {layer.name: layer for layer in evaluation.layers}
    assert [*shown] == ["0.out", "1.out", "attention 1", "attention 2"]
    assert shown["attention 1"].kernel == "values (torch)"
    for name in ("attention 1", "attention 2"):
        assert 20 < shown[name].alone.sqnr < 45
        assert shown[name].alone.count == 2 * 3 * 6 * 32
    assert shown["attention 1"].alone == shown["attention 1"].within
    assert shown["0.out"].alone.sqnr > 100 > shown["0.out"].within.sqnr
    other = convert(copy.deepcopy(block), Recipe(attention="e4m3", accumulator="hopper"))
    kernels = [layer.kernel for layer in evaluate(other, block, batches[:1]).layers]
    assert kernels[-1] == "matmul (torch)"


@pytest.mark.filterwarnings("ignore:convert leaves")
def test_attention_that_nothing_computes_is_said():
    block = nn.Sequential(nn.Linear(32, 32))
    model = convert(copy.deepcopy(block), Recipe(attention="e4m3"))
    with pytest.warns(UserWarning, match="evaluate leaves out attention, which model never"):
        evaluate(model, block, [torch.randn(2, 32)])
    convert(nn.Sequential(model, nn.Linear(32, 32)), Recipe())
    assert has_attention(model)
    set_attention(model, Recipe())
    assert not has_attention(model)


def test_refusals():
    with pytest.raises(
        ValueError, match=r"attention must be a format of e4m3, .*, or None, not e5m3"
    ):
        Recipe(attention=FloatFormat("e5m3", 5, 3))
    with pytest.raises(ValueError, match=r"attention must fit the accumulator: .*int32"):
        Recipe("int8", "int8", "int8", accumulator="int32", attention="e4m3")
    with pytest.raises(TypeError, match="attention must be an ElementFormat or its name, not 8"):
        Recipe(attention=8)  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        ValueError, match="attention must be None in quantized_init, whose networks"
    ):
        quantized_init(Recipe(attention="e4m3")).__enter__()
    q, k, v = heads("refused")
    with pytest.raises(ValueError, match="attention of the recipe must be a format, not None"):
        attention(Recipe(), q, k, v)
    with pytest.raises(ValueError, match="attn_mask must be None with is_causal, not a tensor"):
        attention(Recipe(attention="e4m3"), q, k, v, torch.ones(5, 7), is_causal=True)
    with pytest.raises(TypeError, match="value must have one dtype, not float32, float32, float16"):
        attention(Recipe(attention="e4m3"), q, k, v.half())
    message = "attn_mask must have dtype bool or float32, not int64"
    with pytest.raises(TypeError, match=message):
        attention(Recipe(attention="e4m3"), q, k, v, torch.ones(5, 7, dtype=torch.int64))
    with torch.autocast("cpu", torch.bfloat16):
        attention(Recipe(attention="e4m3"), q, k, v.half(), torch.ones(5, 7).half())
