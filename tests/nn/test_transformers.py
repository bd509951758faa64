"""quantize_ in torchao's manner, and the quantiser of the library transformers."""

import json
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch import nn

from mxdot.gpu.tensors.container import holds_codes
from mxdot.nn import RECIPES, MXLinear, Recipe, convert, freeze, quantize_
from mxdot.nn.recipes import recipe_fields, recipe_of

# quantize_ ----------------------------------------------------------------------------------------


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU())


def test_quantize_converts_and_freezes_in_place():
    want, first, x = network(), MXLinear(64, 64), torch.randn(3, 64)
    model = nn.Sequential(first, *network())
    assert quantize_(model, "nvfp4") is None
    assert holds_codes(model[1].weight)
    assert not first.is_frozen  # it is not a Linear of this call
    want = freeze(convert(want, RECIPES["nvfp4"]))
    assert torch.equal(model[1](x), want[0](x))


def test_a_filter_sees_layers_and_names():
    inner = nn.ModuleDict({"a[0]": nn.Linear(32, 32), "b": nn.Linear(32, 32)})
    model, seen = nn.Sequential(nn.Linear(64, 32), inner), []
    fields = {"weight": "e2m1", "activation": None, "gradient": None}
    quantize_(model, fields, lambda layer, name: seen.append((layer, name)) or "[" not in name)
    assert [name for _, name in seen] == ["0", "1.a[0]", "1.b"]
    assert all(isinstance(layer, nn.Linear) for layer, _ in seen)
    assert type(inner["a[0]"]) is nn.Linear
    assert model[0].recipe == inner["b"].recipe == Recipe("e2m1", None, None)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((nn.Linear(32, 32),), ValueError, "model must hold its torch.nn.Linear, not be one"),
        ((3,), TypeError, "model must be a torch.nn.Module, not int"),
        ((network(), "mxfp9"), ValueError, "recipe must be one of .*, not 'mxfp9'"),
        ((network(), {"weights": "e4m3"}), ValueError, "field of a recipe must be one of weight,"),
        ((network(), 8), TypeError, "recipe must be a Recipe, its name or fields, not 8"),
        ((network(), "mxfp8", "0"), TypeError, "filter_fn must take a layer and its name, or be"),
        ((network(), "mxfp8", lambda *_: False), ValueError, "model must have a torch.nn.Linear"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        quantize_(*arguments)


@pytest.mark.parametrize(
    "recipe",
    [*RECIPES.values(), Recipe(machine="a100-bf16"), Recipe(accumulator="aligned:9")],
    ids=str,
)
def test_fields_of_a_recipe(recipe):
    assert recipe_of(json.loads(json.dumps(recipe_fields(recipe)))) == recipe


def test_own_schemes_have_no_fields():
    mine = replace(import_module("mxdot.model.schemes").SCHEMES["int4_g32"], name="mine")
    with pytest.raises(ValueError, match="weight must have a name to be kept in a file, not mine"):
        recipe_fields(Recipe(mine, None))


# transformers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library():
    import_module("mxdot.nn.transformers")
    module = import_module("transformers")
    module.utils.logging.disable_progress_bar()
    return module


def saved(library, path, **options):
    torch.manual_seed(0)
    config = library.LlamaConfig(
        vocab_size=97,
        num_hidden_layers=1,
        num_attention_heads=2,
        hidden_size=128,
        intermediate_size=128,
        max_position_embeddings=32,
        attention_bias=True,
        **options,
    )
    library.LlamaForCausalLM(config).bfloat16().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def directory(library, tmp_path_factory):
    return saved(library, tmp_path_factory.mktemp("llama"))


def load(library, directory, **settings):
    if settings:
        settings = {"quantization_config": {"quant_method": "mxdot", **settings}}
    return library.AutoModelForCausalLM.from_pretrained(directory, dtype="auto", **settings)


TOKENS = torch.arange(4)[None]


@pytest.mark.parametrize(
    "recipe",
    ["mxfp8", "nvfp4", "int4_weights", "w8a8", {"weight": "e2m1", "activation": None},
     {"machine": "a100-bf16"}],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_quantised_saved_and_loaded(library, directory, recipe, tmp_path):
    model = load(library, directory, recipe=recipe)
    assert model.is_quantized
    layers = [module for module in model.modules() if isinstance(module, MXLinear)]
    assert len(layers) == 7
    assert all(holds_codes(layer.weight) and layer.is_frozen for layer in layers)
    assert type(model.lm_head) is nn.Linear
    other = load(library, directory)
    freeze(convert(other, recipe_of(recipe), skip=["lm_head"]), keep_weight=False)
    want = other(TOKENS).logits
    assert torch.equal(model(TOKENS).logits, want)
    model.save_pretrained(tmp_path)
    names = import_module("safetensors").safe_open(tmp_path / "model.safetensors", "pt").keys()
    assert any("q_proj.weight_" in name for name in names)
    assert not any(name.endswith("q_proj.weight") for name in names)
    again = load(library, tmp_path)
    assert torch.equal(again(TOKENS).logits, want)
    again.save_pretrained(tmp_path / "more")
    assert torch.equal(load(library, tmp_path / "more")(TOKENS).logits, want)


@torch.no_grad()
def test_a_tied_head(library, tmp_path):
    """It stays in high precision; without codes of its own it is not saved as if it had some."""
    tied = saved(library, tmp_path / "tied", tie_word_embeddings=True)
    model = load(library, tied, recipe="mxfp8")
    assert type(model.lm_head) is nn.Linear
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.save_pretrained(tmp_path / "codes")
    again = load(library, tmp_path / "codes")
    assert torch.equal(again(TOKENS).logits, model(TOKENS).logits)
    model = load(library, tied, recipe="mxfp8", skip=[])
    with pytest.raises(ValueError, match="skip must name lm_head to be saved: its weight is tied"):
        model.save_pretrained(tmp_path / "refused")


def test_weights_of_floats_for_training(library, directory, tmp_path):
    model = load(library, directory, recipe="mxfp8", skip=["lm_head", "*mlp*"], freeze=False)
    layer = model.model.layers[0].self_attn.q_proj
    assert isinstance(layer, MXLinear)
    assert layer.keeps_weight
    assert type(model.model.layers[0].mlp.up_proj) is nn.Linear
    model(TOKENS, labels=TOKENS).loss.backward()
    assert layer.weight.grad.abs().sum() > 0
    model.save_pretrained(tmp_path)
    again = load(library, tmp_path)
    with torch.no_grad():
        assert torch.equal(again(TOKENS).logits, model(TOKENS).logits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recipe": "fp8"}, "recipe must be one of fp8_current, .*, not 'fp8'"),
        ({"recipe": "int4_learned"}, "limits must be one of current, octav, not learned"),
        ({"recipe": {"weight": None}}, "weight must have a format or a scheme with freeze"),
        ({"skip": ["nothing"]}, "skip must name layers of the model"),
    ],
)
def test_refused_settings(library, directory, settings, message):
    with pytest.raises(ValueError, match=message):
        load(library, directory, **settings)


def test_limits_are_not_saved(library, directory, tmp_path):
    model = load(library, directory, recipe="w8a8")
    calibrate = import_module("mxdot.nn").calibrate
    calibrate(model, [{"input_ids": TOKENS}])
    with pytest.raises(ValueError, match=r"activation_limits of .*q_proj must be None to be saved"):
        model.save_pretrained(tmp_path)
