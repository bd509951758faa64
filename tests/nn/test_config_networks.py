"""Networks in the manner of the transformers library: converted, evaluated, made quantised."""

import copy
import io
import warnings

import pytest
import torch
from torch import nn

from config_network import Config, LanguageModel
from linear_cases import training_losses
from mxdot.nn import MXLinear, Recipe, convert, evaluate, freeze, quantized_init

RECIPES = {
    "mxfp8": Recipe(),
    "mxfp4": Recipe("e2m1", "e4m3"),
    "float8": Recipe(accumulator="float8"),
    "int4": Recipe("int4_g128", None),
    "w8a8": Recipe("int8_channel", "int8_affine"),
    "nvfp4": Recipe("nvfp4", "nvfp4"),
}
every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
LINEAR = ["attention.qkv", "attention.out", "mlp.gate", "mlp.up", "mlp.down"]


def language_model(**options):
    torch.manual_seed(0)
    return LanguageModel(Config(**options))


def tokens(count=3):
    return torch.randint(97, (count, 16), generator=torch.Generator().manual_seed(1))


def mx_layers(model):
    return [name for name, module in model.named_modules() if isinstance(module, MXLinear)]


def test_every_linear_layer_is_converted_without_a_warning():
    model = language_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(model, Recipe(high_precision=["head"]))
    assert mx_layers(model) == [f"blocks.{i}.{name}" for i in range(2) for name in LINEAR]
    assert model.head.weight is model.tokens.weight
    assert mx_layers(convert(language_model()))[-1] == "head"


def test_weights_that_lie_transposed_are_named():
    model = language_model(transposed=True)
    named = (
        r"high precision.*: blocks.0.attention.qkv \(Conv1D\), blocks.1.attention.qkv \(Conv1D\);"
    )
    with pytest.warns(UserWarning, match=named):
        convert(model)
    assert type(model.blocks[0].attention.qkv).__name__ == "Conv1D"
    model = language_model(transposed=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(model, skip=["*.qkv"])


@every_recipe
def test_it_trains_and_is_evaluated(recipe):
    reference = language_model()
    model = convert(copy.deepcopy(reference), recipe, skip=["head"])
    evaluation = evaluate(model, reference, [{"input_ids": tokens()}], "cosine")
    assert len(evaluation.layers) == 10
    assert all(0.9 < cosine <= 1 for cosine in evaluation.values().values())
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    def loss_of(network):
        logits = network(input_ids=tokens())["logits"][:, :-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens()[:, 1:].flatten())

    losses = training_losses(model, loss_of, optimizer, 8)
    assert losses[-1] < losses[0]


@every_recipe
def test_it_is_made_quantised_saved_and_served(recipe):
    """The initialisation of the network runs inside, on codes."""
    sizes = {"width": 128, "layers": 1, "tied": False}  # of whole groups
    want = freeze(convert(language_model(**sizes), recipe), keep_weight=False)
    torch.manual_seed(0)
    with quantized_init(recipe):
        made = LanguageModel(Config(**sizes))
    x = tokens()
    with torch.no_grad():
        assert torch.equal(made(x)["logits"], want(x)["logits"])
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    with torch.device("meta"), quantized_init(recipe):
        served = LanguageModel(Config(**sizes))
    served.load_state_dict(torch.load(file, weights_only=True), assign=True)
    with torch.no_grad():
        assert torch.equal(served(x)["logits"], want(x)["logits"])


def test_a_head_that_is_tied_shares_the_floats_of_the_embedding():
    with quantized_init(Recipe("e2m1")):
        model = LanguageModel(Config())
    assert model.head.weight is model.tokens.weight
    assert model.head.keeps_weight
    assert not model.blocks[0].mlp.up.keeps_weight
    with torch.no_grad():
        assert model(tokens())["logits"].isfinite().all()
