"""Networks that are made quantised: their bits, their bytes, and the floats on the way."""

import copy
import io
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

from alive import Alive
from mxdot.nn import MXLinear, Recipe, convert, freeze, quantized_init
from quantized_layers import LAYERS, RECIPES, WIDTH, plain

every_recipe = pytest.mark.parametrize(("recipe", "kind", "most"), RECIPES.values(), ids=RECIPES)


def bytes_of(*tensors):
    """Bytes of all parts of tensors that may be containers."""
    count = 0
    for x in tensors:
        parts = x.named_parts().values() if hasattr(x, "named_parts") else [x]
        count += sum(part.untyped_storage().nbytes() for part in parts)
    return count


def saved(network):
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    return file


@every_recipe
def test_bytes_of_parameters_and_of_files(recipe, kind, most):
    with quantized_init(recipe):
        network = plain(256)
    assert [type(layer.weight.data) for layer in network] == [kind] * LAYERS
    bfloat16 = 2 * LAYERS * 256**2
    assert bytes_of(*network.parameters()) <= most * bfloat16
    assert bytes_of(*network.state_dict().values()) <= most * bfloat16
    assert len(saved(network).getbuffer()) <= most * bfloat16 + 4000  # names


@every_recipe
def test_the_bits_of_a_network_frozen_later(recipe, kind, most):
    torch.manual_seed(0)
    want = freeze(convert(plain(), recipe), keep_weight=False)
    torch.manual_seed(0)
    with quantized_init(recipe):
        network = plain()
    x = torch.randn(5, WIDTH)
    assert torch.equal(network(x), want(x))
    assert [type(module) for module in network] == [MXLinear] * LAYERS
    assert str(network) == str(want)
    with quantized_init(recipe):
        other = plain()
    assert not torch.equal(other(x), want(x))
    file = saved(want)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), want(x))
    assert torch.equal(copy.deepcopy(other)(x), want(x))


def test_floats_of_one_layer_at_a_time():
    with Alive() as floats, quantized_init(Recipe("e2m1")):
        plain()
    one = 4 * WIDTH**2
    assert one <= floats.most_floats < 2 * one
    with Alive() as floats:
        plain()
    assert floats.most_floats == LAYERS * one


@pytest.mark.slow
def test_a_fresh_process_loads_what_was_saved(tmp_path):
    recipe = "Recipe('e2m1', gradient=None)"
    make = f"""
import sys, torch
from torch import nn
from mxdot.nn import Recipe, quantized_init
def network():
    with quantized_init({recipe}):
        return nn.Sequential(nn.Linear(72, 40), nn.GELU(), nn.Linear(40, 8))
"""
    first = f"""{make}
net, x = network(), torch.randn(3, 72)
torch.save(net.state_dict(), sys.argv[1] + "/net.pt")
torch.save((x, net(x)), sys.argv[1] + "/want.pt")
"""
    second = f"""{make}
net = network()
net.load_state_dict(torch.load(sys.argv[1] + "/net.pt", weights_only=True))
x, want = torch.load(sys.argv[1] + "/want.pt")
assert torch.equal(net(x), want)
"""
    for script in (first, second):
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


@every_recipe
def test_the_device_meta(recipe, kind, most):
    with quantized_init(recipe):
        source = nn.Sequential(nn.Linear(72, 40), nn.ReLU(), nn.Linear(40, 5))
    x = torch.randn(4, 72)

    def shapes():
        with torch.device("meta"), quantized_init(recipe):
            return nn.Sequential(nn.Linear(72, 40), nn.ReLU(), nn.Linear(40, 5))

    assert all(p.is_meta for p in shapes().parameters())
    assigned = shapes()
    assigned.load_state_dict(source.state_dict(), assign=True)
    assert torch.equal(assigned(x), source(x))
    filled = shapes().to_empty(device="cpu")
    assert not any(p.is_meta for p in filled.parameters())
    filled.load_state_dict(source.state_dict())
    assert torch.equal(filled(x), source(x))


# What becomes of other layers ---------------------------------------------------------------------


class Halved(nn.Linear):
    pass


def test_which_layers():
    own = Recipe("int8_channel", None)
    with quantized_init(Recipe("e2m1")):
        layers = [nn.Linear(32, 8), MXLinear(32, 8), MXLinear(32, 8, recipe=own), Halved(32, 8)]
        attention = nn.MultiheadAttention(32, 4)
    recipes = [layer.recipe for layer in layers[:3]]
    assert recipes == [Recipe("e2m1"), Recipe("e2m1"), own]
    assert not any(layer.keeps_weight for layer in layers[:3])
    assert type(layers[3]) is Halved
    assert type(attention.out_proj) is not MXLinear
    assert type(nn.Linear(32, 8)) is nn.Linear
    assert MXLinear(32, 8).keeps_weight


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")  # it is not, then
def test_encoders_of_pytorch():
    """The fused path would read the weights itself, in evaluation mode."""
    with quantized_init():
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2).eval()
        whole = nn.Transformer(32, 4, 1, 1, 64, batch_first=True).eval()  # writes its parameters
    x = torch.randn(2, 5, 32)
    with torch.no_grad():
        assert encoder(x).isfinite().all()
        assert whole(x, x).isfinite().all()


def test_other_threads_make_what_they_made():
    made = []
    with quantized_init():
        thread = threading.Thread(target=lambda: made.append(nn.Linear(32, 8)))
        thread.start()
        thread.join()
    assert type(made[0]) is nn.Linear


def test_an_error_inside_ends_it():
    with pytest.raises(RuntimeError, match="stop"), quantized_init():
        raise RuntimeError("stop")
    assert type(nn.Linear(32, 8)) is nn.Linear
    with quantized_init():
        assert type(nn.Linear(32, 8)) is MXLinear


def nested():
    with quantized_init(), quantized_init():
        pass


def mismatch(made, loaded):
    networks = []
    for recipe in (made, loaded):
        with quantized_init(recipe):
            networks.append(nn.Linear(64, 8))
    networks[0].load_state_dict(networks[1].state_dict())


REFUSED = {
    "weights": (
        lambda: quantized_init(Recipe(None, "e4m3", None)).__enter__(),
        "recipe must have a format or a scheme of weights, not None",
    ),
    "names": (
        lambda: quantized_init(Recipe(high_precision=["head"])).__enter__(),
        "high_precision must be empty for layers that have no names yet, not ('head',)",
    ),
    "type": (
        lambda: quantized_init("e4m3").__enter__(),  # pyright: ignore[reportArgumentType]
        "recipe must be a Recipe, not str",
    ),
    "nested": (nested, "quantized_init must not be entered inside another"),
    "format": (
        lambda: mismatch(Recipe(), Recipe("e2m1")),
        "takes a copy of its like only, not of PackedTensor((8, 64), MXTensor, e2m1, 32, -1, 0, ",
    ),
    "packed formats": (
        lambda: mismatch(Recipe("e2m1"), Recipe("e2m3")),
        "takes a copy of its like only, not of PackedTensor((8, 64), MXTensor, e2m3, 32, -1, 0, ",
    ),
    "scheme": (
        lambda: mismatch(Recipe("int8_channel", None), Recipe("int8_tensor", None)),
        "takes a copy of its like only, not of ScaledTensor((8, 64), int8_tensor, -1, ",
    ),
}


@pytest.mark.parametrize(("work", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(work, message):
    with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
        work()
    assert message in str(error.value)
    assert type(nn.Linear(32, 8)) is nn.Linear
