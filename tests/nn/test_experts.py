"""Stacked experts of a mixture: quantised, multiplied, trained, frozen, saved."""

import copy
from importlib import import_module

import pytest
import torch
from torch import nn

import stacked_experts
from mxdot.gpu.tensors.container import holds_codes
from mxdot.nn import MXExperts, MXLinear, Recipe, convert, evaluate, freeze, quantize_
from stacked_experts import EXPERTS, HIDDEN, Block, Experts, routed


def by_hand(experts, recipe, x, index, weights):
    """Each expert's tokens through an MXLinear of its own for each product."""
    out = torch.zeros_like(x)
    for e in range(EXPERTS):
        token, place = torch.where(index == e)

        def product(name, rows, e=e):
            weight = getattr(experts, name)[e]
            weight = weight.T if experts.is_transposed else weight
            layer = MXLinear(weight.shape[1], weight.shape[0], bias=False, recipe=recipe)
            del layer.weight
            layer.weight = weight
            bias = getattr(experts, f"{name}_bias")[e] if experts.has_bias else 0
            return layer(rows) + bias

        if len(token):
            y = product("gate_up_proj" if experts.has_gate else "up_proj", x[token])
            y = experts._apply_gate(y) if experts.has_gate else experts.act_fn(y)
            y = product("down_proj", y) * weights[token, place, None]
            out = out.index_add(0, token, y)
    return out


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        (Recipe(), {}),
        (Recipe(), {"transposed": True, "bias": True}),
        (Recipe(), {"gate": False}),
        (Recipe("e2m1", "e2m1", "e2m1", accumulator="exact"), {}),
        (Recipe("int8_channel", "int8_affine"), {}),
        (Recipe("nvfp4", "nvfp4", groups="sums"), {"transposed": True}),
    ],
    ids=str,
)
def test_outputs_and_gradients_are_those_of_a_layer_for_each_expert(recipe, options):
    torch.manual_seed(0)
    block = Block(**options)
    other = copy.deepcopy(block.experts)
    convert(block, recipe)
    assert isinstance(block.experts, MXExperts)
    x, index, weights = routed()
    results = []
    for run in (block, lambda *args: by_hand(other, recipe, *args)):
        given = x.clone().requires_grad_()
        y = run(given, index, weights)
        y.square().sum().backward()
        results.append([y.detach(), given.grad])
    for (name, mine), want in zip(
        block.experts.named_parameters(), other.parameters(), strict=True
    ):
        results[0].append(mine.grad)
        results[1].append(want.grad)
        assert (mine.grad[1] == 0).all(), name
    for mine, want in zip(*results, strict=True):
        torch.testing.assert_close(mine, want, rtol=1e-5, atol=1e-5)


RECIPES = {
    "values, grouped": (Recipe(), "grouped_mm (torch)"),
    "a scale for the tensor": (
        Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor"),
        "experts: values (torch)",
    ),
    "accumulator": (Recipe(accumulator="aligned:9"), "experts: matmul (torch)"),
    "int32": (Recipe("int8_channel", "int8_affine"), "experts: int8_matmul (torch)"),
}


@pytest.mark.parametrize(("recipe", "kernel"), RECIPES.values(), ids=RECIPES)
@torch.no_grad()
def test_frozen_saved_and_loaded(recipe, kernel):
    torch.manual_seed(0)
    block = convert(Block(transposed=True, bias=True), recipe)
    given = routed()
    want = block(*given)
    tolerance = {"rtol": 1e-5, "atol": 1e-5}  # of sums in another order; INT32 sums are exact
    freeze(block)
    assert block.experts.kernel == kernel
    torch.testing.assert_close(block(*given), want, **tolerance)
    loaded = freeze(convert(Block(transposed=True, bias=True), recipe))
    loaded.load_state_dict(block.state_dict())
    assert torch.equal(loaded(*given), block(*given))
    freeze(block, keep_weight=False)
    torch.testing.assert_close(block(*given), want, **tolerance)
    assert len(block.experts.quantized_down_proj) == EXPERTS
    assert all(holds_codes(layer.weight) for layer in block.experts.quantized_gate_up_proj)
    assert not block.experts.keeps_weight
    other = Block(transposed=True, bias=True)
    quantize_(other, recipe)
    other.load_state_dict(block.state_dict())
    assert torch.equal(other(*given), block(*given))
    half = copy.deepcopy(block).bfloat16()
    result = half(given[0].bfloat16(), given[1], given[2].bfloat16())
    assert result.dtype == torch.bfloat16
    assert torch.nn.functional.cosine_similarity(result.float(), want, dim=-1).min() > 0.99


@pytest.mark.parametrize(("name", "size"), [("INNER", 42), ("HIDDEN", 44)])
def test_kernel_of_sizes_that_the_library_refuses(name, size, monkeypatch):
    monkeypatch.setattr(stacked_experts, name, size)
    assert freeze(convert(Block(), Recipe())).experts.kernel == "experts: values (torch)"


def assign(experts, weight):
    experts.down_proj = nn.Parameter(weight)


CHANGES = {
    "copy_": lambda experts, weight: experts.down_proj.copy_(weight),
    "detach": lambda experts, weight: experts.down_proj.detach().copy_(weight),
    "data": lambda experts, weight: setattr(experts.down_proj, "data", weight),
    "data in place": lambda experts, weight: experts.down_proj.data.copy_(weight),
    "data of an expert": lambda experts, weight: [
        experts.down_proj.data[e].copy_(weight[e]) for e in range(EXPERTS)
    ],
    "parameter": assign,
    "own dictionary": lambda experts, weight: experts._parameters.update(
        down_proj=nn.Parameter(weight)
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("recipe", [Recipe(), Recipe("int8_channel", "int8_affine")], ids=str)
@torch.no_grad()
def test_changes_of_frozen_weights_are_multiplied_by(recipe, change):
    block, given = freeze(convert(Block(), recipe)), routed()
    weight = torch.randn_like(block.experts.down_proj)
    own = block(*given)
    replaced = torch.func.functional_call(block, {"experts.down_proj": weight}, given)
    assert torch.equal(block(*given), own)
    change(block.experts, weight)
    result = block(*given)
    assert torch.equal(result, replaced)
    assert torch.equal(copy.deepcopy(block)(*given), result)
    new = convert(Block(), recipe)
    new.load_state_dict(block.state_dict())
    assert torch.equal(freeze(new)(*given), result)


def test_a_parameter_of_frozen_experts_takes_no_gradient():
    experts = freeze(convert(Block(), Recipe())).experts
    assign(experts, torch.randn_like(experts.down_proj))
    assert not experts.down_proj.requires_grad


def test_nothing_is_quantised_twice(monkeypatch):
    block, given = freeze(convert(Block(), Recipe())), routed()
    monkeypatch.setattr(MXExperts, "_frozen", lambda *_: pytest.fail("quantised again"))
    for _ in range(2):
        block(*given)


@torch.no_grad()
def test_indices_of_other_devices_and_no_tokens():
    block = convert(Block(bias=True), Recipe())
    x, index, weights = routed()
    index[0, 0] = EXPERTS
    mine = block(x, index, weights)
    weights[0, 0] = 0
    index[0, 0] = 0
    torch.testing.assert_close(mine, block(x, index, weights))
    frozen = freeze(block)
    index[0, 0] = EXPERTS
    torch.testing.assert_close(frozen(x, index, weights), mine)
    assert block(x[:0], index[:0], weights[:0]).shape == (0, HIDDEN)


def test_evaluate_compares_experts_as_one_layer(monkeypatch):
    block = Block()
    model, batches = convert(copy.deepcopy(block), Recipe()), [routed()]
    monkeypatch.setattr(
        Experts, "forward", lambda self, *given: by_hand(self, Recipe(None, None, None), *given)
    )
    for frozen in (False, True):
        (layer,) = evaluate(model, block, batches).layers
        assert (layer.name, layer.alone) == ("experts", layer.within)
        assert 20 < layer.alone.sqnr < 40
        if not frozen:
            freeze(model, keep_weight=False)


def test_left_alone_and_refused():
    block = nn.Sequential(Block(), nn.Linear(32, 32))
    with pytest.warns(UserWarning, match=r"0.experts \(Experts\)"):
        convert(block, Recipe("int4_channel", "int4_tensor", limits="octav"))
    assert type(block[0].experts) is Experts
    with pytest.raises(
        TypeError, match=r"experts must be a module of stacked .*, not Linear and c"
    ):
        MXExperts(nn.Linear(3, 3))
    frozen = freeze(convert(Block(), Recipe()), keep_weight=False).experts
    with pytest.raises(ValueError, match="unfreeze must be of experts frozen with keep_weight=Tru"):
        frozen.unfreeze()


# Those of transformers ----------------------------------------------------------------------------


def tiny(kind):
    library = import_module("transformers")
    torch.manual_seed(0)
    size = {"vocab_size": 61, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 64}
    size |= {"intermediate_size": 64, "num_local_experts": 3, "num_experts_per_tok": 2}
    size |= {"num_key_value_heads": 2, "head_dim": 32}
    config = getattr(library, f"{kind}Config")(**size)
    return getattr(library, f"{kind}ForCausalLM")(config).eval()


@pytest.mark.parametrize(("kind", "router"), [("Mixtral", "*gate"), ("GptOss", "*router")])
@torch.no_grad()
def test_models_of_transformers(kind, router, tmp_path):
    model, tokens = tiny(kind), torch.arange(9)[None]
    want = model(tokens).logits
    plain = convert(copy.deepcopy(model), Recipe(None, None, None), skip=[router])
    assert sum(isinstance(module, MXExperts) for module in plain.modules()) == 1
    torch.testing.assert_close(plain(tokens).logits, want, rtol=1e-4, atol=1e-4)
    quantised = convert(copy.deepcopy(model), Recipe(), skip=[router])
    result = quantised(tokens).logits
    assert 0.98 < torch.nn.functional.cosine_similarity(result, want, dim=-1).min() < 1
    import_module("mxdot.nn.transformers")
    library = import_module("transformers")
    library.utils.logging.disable_progress_bar()
    model.save_pretrained(tmp_path / "floats")
    settings = {"quant_method": "mxdot", "skip": ["lm_head", router]}
    made = library.AutoModelForCausalLM.from_pretrained(
        tmp_path / "floats", quantization_config=settings
    )
    assert sum(isinstance(module, MXLinear) for module in made.modules()) == 4 + 2 * 3
    expected = freeze(convert(model, Recipe(), skip=["lm_head", router]), keep_weight=False)
    assert torch.equal(made(tokens).logits, expected(tokens).logits)
    made.save_pretrained(tmp_path / "codes")
    again = library.AutoModelForCausalLM.from_pretrained(tmp_path / "codes")
    assert torch.equal(again(tokens).logits, made(tokens).logits)
