"""convert: layers that stay in high precision are named, and none is passed by in silence."""

import copy
import warnings

import pytest
import torch
from torch import nn

from mxdot.nn import MXLinear, Recipe, convert

COARSE = Recipe("e2m1", "e2m1", "e2m1")


def left(model, *arguments, **options):
    """The names and classes in the one warning of `convert`; none where it does not warn."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        convert(model, *arguments, **options)
    if not caught:
        return []
    (warning,) = caught
    assert warning.category is UserWarning
    assert warning.filename == __file__
    before, _, rest = str(warning.message).partition(": ")
    named, _, after = rest.partition("; ")
    assert before.startswith("convert leaves in high precision")
    assert after == "name in skip what is meant to stay so"
    return named.split(", ")


class Halved(nn.Linear):
    def forward(self, x):
        return super().forward(x) / 2


class Expert(nn.Module):
    """A weight of its own, as some networks have them in place of nn.Linear."""

    def __init__(self):
        super().__init__()
        self.up = nn.Parameter(torch.zeros(4, 32, 64))
        self.activation = nn.GELU()


class Positions(nn.Module):
    """Parameters that are added, beside layers."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(16, 32))
        self.out = nn.Linear(32, 32)


class Adapted(nn.Module):
    """Matrices of its own beside a layer."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(32, 32)
        self.down, self.up = nn.Parameter(torch.zeros(4, 32)), nn.Parameter(torch.zeros(32, 4))


class Routed(nn.Module):
    """Experts' weights beside a layer."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.weights = nn.Parameter(torch.zeros(4, 32, 32))


class Patches(nn.Module):
    """Parameters outside layers that are added or that scale."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 16, 32))
        self.gamma = nn.Parameter(torch.ones(32, 1, 1))
        self.relative_bias = nn.Parameter(torch.zeros(49, 4))
        self.out = nn.Linear(32, 32)


def with_a_forward_of_its_own(linear):
    linear.forward = lambda x: nn.functional.linear(x, linear.weight)
    return linear


ATTENTION = "{0} (MultiheadAttention)", "{0}.out_proj (NonDynamicallyQuantizableLinear)"


def attentions(*names):
    return [line.format(name) for name in names for line in ATTENTION]


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.MultiheadAttention(32, 4), attentions("0")),
        (nn.MultiheadAttention(32, 4, kdim=16), attentions("0")),
        (nn.TransformerEncoderLayer(32, 4, 64), attentions("0.self_attn")),
        (
            nn.TransformerDecoderLayer(32, 4, 64),
            attentions("0.self_attn", "0.multihead_attn"),
        ),
        (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
            attentions("0.layers.0.self_attn", "0.layers.1.self_attn"),
        ),
        (Halved(32, 32), ["0 (Halved)"]),
        (nn.LazyLinear(32), ["0 (LazyLinear)"]),
        (nn.Bilinear(8, 8, 8), ["0 (Bilinear)"]),
        (nn.Conv2d(3, 8, 3), ["0 (Conv2d)"]),
        (nn.ConvTranspose1d(3, 8, 3), ["0 (ConvTranspose1d)"]),
        (nn.LSTM(8, 8), ["0 (LSTM)"]),
        (nn.GRUCell(8, 8), ["0 (GRUCell)"]),
        (Expert(), ["0 (Expert)"]),
        (
            nn.utils.parametrizations.orthogonal(nn.Linear(8, 8)),
            ["0.parametrizations.weight (ParametrizationList)"],
        ),
        (MXLinear(32, 32), []),
        (nn.Linear(32, 32), []),
        (nn.Embedding(8, 32), []),
        (nn.LayerNorm((8, 32)), []),
        (nn.BatchNorm2d(8), []),
        (Positions(), []),
        (Patches(), []),
        (Adapted(), ["0 (Adapted)"]),
        (Routed(), ["0 (Routed)"]),
        (with_a_forward_of_its_own(nn.Linear(32, 32)), ["0 (Linear)"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layers_that_stay_are_named(layer, named):
    before = {name: type(module) for name, module in nn.Sequential(layer).named_modules()}
    model = nn.Sequential(layer, nn.Linear(32, 32))
    assert left(model) == named
    assert type(model[1]) is MXLinear
    for line in named:
        name, _, kind = line.partition(" ")
        assert type(model.get_submodule(name)) is before[name]
        assert kind == f"({before[name].__name__})"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_a_layer_that_was_compiled_is_named():
    """Its call would go on to run what was compiled."""
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    model[0].compile()
    assert left(model) == ["0 (Linear)"]


def test_one_warning_names_all_and_each_once():
    attention = nn.MultiheadAttention(32, 4)
    model = nn.Sequential(attention, nn.Conv1d(4, 4, 1), attention, nn.Linear(32, 32))
    assert left(model) == [*attentions("0"), "1 (Conv1d)"]


@pytest.mark.parametrize(
    "options",
    [
        {"skip": ["0*", "again"]},
        {"recipe": Recipe(high_precision=["0*", "again"])},
        {"skip": ["0"], "recipe": Recipe(high_precision=["*.out_proj", "again"])},
    ],
    ids=["skip", "recipe", "both"],
)
def test_layers_that_are_meant_to_stay_are_not_named(options):
    conv = nn.Conv1d(4, 4, 1)
    model = nn.Sequential(nn.MultiheadAttention(32, 4), conv, nn.Linear(32, 32))
    model.again = conv
    assert left(model, **options) == []
    assert type(model[2]) is MXLinear


def test_refused_models_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"model must have a torch\.nn\.Linear to convert"):
            convert(nn.MultiheadAttention(32, 4))


@pytest.mark.parametrize("kind", [nn.Linear, MXLinear])
def test_an_output_projection_that_attention_never_calls_stays(kind):
    """It reads the weight: an MXLinear in that place would be passed by."""
    attention = nn.MultiheadAttention(32, 4)
    attention.out_proj = kind(32, 32)
    model = nn.Sequential(attention, nn.Linear(32, 32))
    assert left(model) == ["0 (MultiheadAttention)", f"0.out_proj ({kind.__name__})"]
    assert type(attention.out_proj) is kind


def test_an_output_projection_that_attention_calls_is_replaced():
    class Attention(nn.MultiheadAttention):
        def forward(self, x):
            return self.out_proj(nn.functional.linear(x, self.in_proj_weight[:32]))

    attention = Attention(32, 4)
    attention.out_proj = nn.Linear(32, 32)
    assert left(nn.Sequential(attention)) == ["0 (Attention)"]
    assert type(attention.out_proj) is MXLinear


def encoder(layers=2):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, layers).eval()


def by_hand(layer, x, mask=None):
    """One encoder layer, its linear layers called."""
    x = layer.norm1(x + layer.self_attn(x, x, x, key_padding_mask=mask, need_weights=False)[0])
    return layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))


def test_the_fused_path_of_encoder_layers_passes_no_layer_by():
    """In eval mode without gradients PyTorch would read the weights itself."""
    plain = encoder(1).layers[0]
    layer = copy.deepcopy(plain)
    assert left(layer, COARSE) == attentions("self_attn")
    x = torch.randn(2, 8, 64)
    with torch.no_grad():
        result, want = layer(x), by_hand(layer, x)
        torch.testing.assert_close(result, want, rtol=0, atol=1e-6)
        assert (want - plain(x)).abs().max() > 0.01


def test_a_stack_of_encoder_layers_takes_padding():
    """In eval mode without gradients PyTorch would make nested tensors, for the fused path."""
    stack = encoder()
    assert left(stack, COARSE) == attentions("layers.0.self_attn", "layers.1.self_attn")
    x, mask = torch.randn(2, 8, 64), torch.zeros(2, 8, dtype=torch.bool)
    mask[1, 5:] = True
    with torch.no_grad():
        result, want = stack(x, src_key_padding_mask=mask), x
        for layer in stack.layers:
            want = by_hand(layer, want, mask)
    torch.testing.assert_close(result[~mask], want[~mask], rtol=0, atol=1e-6)


def test_encoder_layers_that_stay_keep_their_fused_path():
    stack = encoder()
    model = nn.Sequential(stack, nn.Linear(64, 64))
    convert(model, skip=["0.*"])
    assert stack.use_nested_tensor
    assert all(layer.activation_relu_or_gelu == 1 for layer in stack.layers)
