"""Codes of checkpoints go into frozen layers bit for bit, and no floats are made on the way."""

import copy
import json
import re
import tracemalloc

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from alive import Alive
from compare import generator
from mxdot import gpu
from mxdot.gpu.schemes import PackedWeights
from mxdot.model import schemes
from mxdot.model.checkpoints import Checkpoint
from mxdot.model.schemes import array
from mxdot.nn import MXExperts, Recipe, convert, freeze, load_checkpoint, quantized_init
from mxdot.nn.networks import directory

WIDTH, LAYERS = 1024, 2
RNG = generator("load_checkpoint")


def float8(*shape):
    codes = torch.from_numpy(RNG.integers(0, 126, shape).astype(np.uint8))
    return codes.view(torch.float8_e4m3fn)


def numbers(high, *shape):
    return torch.from_numpy(RNG.integers(0, high, shape).astype(np.uint8))


def scales(*shape):
    return torch.from_numpy((RNG.random(shape) + 0.01).astype(np.float32))


def words(*shape):
    return torch.from_numpy(RNG.integers(0, 2**32, shape, np.uint32).view(np.int32))


N, K = WIDTH, WIDTH
LAYOUTS = {
    "deepseek fp8": lambda: {
        "weight": float8(N, K),
        "weight_scale_inv": scales(N // 128, K // 128),
    },
    "nvfp4-pack-quantized": lambda: {
        "weight_packed": numbers(256, N, K // 2),
        "weight_scale": float8(N, K // 16),
        "weight_global_scale": scales(1),
    },
    "mxfp4-pack-quantized": lambda: {
        "weight_packed": numbers(256, N, K // 2),
        "weight_scale": numbers(20, N, K // 32) + 110,
    },
    "mxfp8-quantized": lambda: {
        "weight": float8(N, K),
        "weight_scale": numbers(20, N, K // 32) + 110,
    },
    "int-quantized": lambda: {
        "weight": numbers(256, N, K).view(torch.int8),
        "weight_scale": scales(N, 1),
    },
    "pack-quantized": lambda: {
        "weight_packed": words(N, K // 8),
        "weight_scale": scales(N, K // 128).half(),
        "weight_shape": torch.tensor([N, K]),
    },
    "gptq": lambda: {
        "qweight": words(K // 8, N),
        "qzeros": words(K // 128, N // 8) & 0x77777777,
        "scales": scales(K // 128, N).half(),
    },
}
RECIPES = {
    "deepseek fp8": (Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128"), False),
    "nvfp4-pack-quantized": (Recipe("nvfp4", "nvfp4"), False),
    "mxfp4-pack-quantized": (Recipe("e2m1", None, None), False),
    "mxfp8-quantized": (Recipe(accumulator="float8"), False),
    "int-quantized": (Recipe("int8_channel", "int8_affine"), True),
    "pack-quantized": (None, True),
    "gptq": (None, True),
}
"""Recipes by layout, None for the checkpoint's own scheme; whether to take it in any case."""


def network():
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


@pytest.fixture
def stored(tmp_path):
    """Write a checkpoint of `network` by a layout; its path."""

    def write(layout):
        tensors = {}
        for i in range(LAYERS):
            tensors |= {f"{i}.{name}": part for name, part in LAYOUTS[layout]().items()}
            tensors[f"{i}.bias"] = torch.randn(WIDTH, dtype=torch.bfloat16)
        save_file(tensors, tmp_path / "model.safetensors")
        methods = {"quant_method": "gptq", "bits": 4} if layout == "gptq" else {}
        config = json.dumps({"quantization_config": methods})
        (tmp_path / "config.json").write_text(config)
        return tmp_path

    return write


def empty(recipe):
    with torch.device("meta"), quantized_init(recipe):
        return network()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, stored, monkeypatch):
    monkeypatch.setattr(array, "CHECKED_AT_ONCE", 2**14)  # little of a layer, as of a real one
    path = stored(layout)
    checkpoint = Checkpoint(path)
    assert set(checkpoint.layouts.values()) == {layout}
    recipe, own = RECIPES[layout]
    if own:
        recipe = Recipe(checkpoint["0"].scheme, recipe and recipe.activation)
    with Alive():
        load_checkpoint(empty(recipe), path)  # tables of formats are made once
    model = empty(recipe)
    tracemalloc.start()
    with Alive() as alive:
        assert load_checkpoint(model, path) is model
        alive.count()
    tracemalloc.stop()
    codes = sum(part.nbytes for layer in model for part in layer.weight.named_parts().values())
    assert (
        alive.most <= codes + 4 * WIDTH**2 + 200_000
    )  # one layer of float32; and Python's objects
    assert alive.most_floats < WIDTH**2  # scales and biases
    for name, layer in model.named_children():
        values = layer.weight.data.dequantize()
        want = torch.from_numpy(checkpoint[name].dequantize())
        if layout == "mxfp8-quantized":  # regrouped
            assert torch.allclose(values, want, rtol=0, atol=float(want.abs().max()) * 2**-9)
        elif isinstance(layer.weight.data, PackedWeights):
            assert torch.equal(values, want)
        else:
            torch.testing.assert_close(values, want, rtol=0, atol=0, equal_nan=True)
        bias = checkpoint.others[f"{name}.bias"].astype(np.float32)
        assert torch.equal(layer.bias.float(), torch.from_numpy(bias))
    x = torch.randn(2, WIDTH, dtype=torch.bfloat16)
    filled = empty(recipe).to_empty(device="cpu")
    load_checkpoint(filled, checkpoint)
    assert filled[0].bias.dtype == torch.float32
    assert torch.equal(filled.bfloat16()(x), model(x))


@pytest.mark.parametrize("recipe", [Recipe("e2m1"), Recipe("nvfp4", "nvfp4")], ids=str)
def test_states_of_frozen_layers_take_no_memory_but_their_own(recipe):
    state = freeze(convert(network(), recipe), keep_weight=False).state_dict()
    model = empty(recipe)
    with Alive() as alive:
        model.load_state_dict(state, assign=True)
    assert alive.most_floats <= 4 * WIDTH * LAYERS  # biases
    assert torch.equal(model[1].weight.data.dequantize(), state["1.weight"].data.dequantize())


@pytest.mark.parametrize("recipe", [Recipe("e2m1"), Recipe("nvfp4", "nvfp4")], ids=str)
def test_tensors_of_files_of_this_package(recipe, tmp_path):
    source = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16))
    quantizer = recipe.quantizer("weight")
    codes = {f"old.{i}": quantizer.codes(layer.weight.detach()) for i, layer in enumerate(source)}
    gpu.save(tmp_path / "codes.safetensors", codes)
    want = freeze(convert(source, recipe), keep_weight=False)
    model = copy.deepcopy(want).to("meta").to_empty(device="cpu")
    codes = gpu.load(tmp_path / "codes.safetensors")
    load_checkpoint(model, codes, rename=lambda name: name.removeprefix("old."))
    for mine, other in zip(model, want, strict=True):
        assert torch.equal(mine.weight.data.dequantize(), other.weight.data.dequantize())


class Stack(nn.Module):
    _apply_gate = None


def test_stacked_experts(tmp_path):
    blocks, exponents = numbers(256, 3, 24, 2, 16), numbers(20, 3, 24, 2) + 110
    tensors = {"experts.down_proj_blocks": blocks, "experts.down_proj_scales": exponents}
    tensors |= {
        name.replace("down", "gate_up"): part.repeat(1, 4, 1, *[1] * (part.ndim - 3))
        for name, part in tensors.items()
    }
    save_file(tensors, tmp_path / "model.safetensors")
    module = Stack()
    module.num_experts, module.has_gate, module.has_bias = 3, True, False
    module.is_transposed, module.has_post_expert_norm = False, False
    module.gate_up_proj = nn.Parameter(torch.randn(3, 96, 64))
    module.down_proj = nn.Parameter(torch.randn(3, 24, 64))
    checkpoint = Checkpoint(tmp_path)
    model = nn.ModuleDict({"experts": MXExperts(module, Recipe("e2m1", None, None))})
    with pytest.raises(ValueError, match="of layers that hold codes \\(none; freeze with keep_we"):
        load_checkpoint(model, checkpoint)
    load_checkpoint(freeze(model, keep_weight=False), checkpoint)
    other = {
        name: schemes.quantize(np.ones((2, 24, 64), np.float32), "mxfp4") for name in checkpoint
    }
    with pytest.raises(
        ValueError, match=r"down_proj: weight must have shape \(3, 24, 64\) and axis"
    ):
        load_checkpoint(model, other)
    for name in ("down_proj", "gate_up_proj"):
        want = checkpoint[f"experts.{name}"].dequantize()
        for i, layer in enumerate(getattr(model["experts"], f"quantized_{name}")):
            assert np.array_equal(layer.weight.data.dequantize().numpy(), want[i])


def a_layer(recipe, *shape):
    return nn.ModuleDict({"own": freeze(convert(nn.Linear(*shape), recipe), keep_weight=False)})


def of(x, name, **options):
    return {"own": schemes.quantize(np.ones(x, np.float32), name, **options)}


@pytest.mark.parametrize(
    ("recipe", "shape", "weights", "message"),
    [
        (Recipe(), (64, 8), of((8, 32), "mxfp8_e4m3"), "own: weight must have shape (8, 64) and a"),
        (Recipe(), (64, 8), of((8, 64), "mxfp4"), "own: weight must be of the recipe's e4m3 in e8"),
        (
            Recipe("nvfp4", None),
            (64, 8),
            of((8, 64), "mxfp4"),
            "recipe's e2m1 in float32 per tensor, e",
        ),
        (
            Recipe(),
            (64, 8),
            {"own": np.ones((8, 64))},
            "own: weight must be a ScaledArray, a Scale",
        ),
        (Recipe(), (40, 8), of((8, 40), "mxfp8_e4m3:b8"), "own: features of the layer must be who"),
        (Recipe(), (64, 8), {}, "checkpoint must have every layer of codes, not lack 'own'"),
        (
            Recipe(),
            (64, 8),
            {"owm": None},
            "hold codes (own; freeze with keep_weight=False), not o",
        ),
        (Recipe(), (64, 8), 7, "checkpoint must be a path or a mapping, not int"),
    ],
    ids=str,
)
def test_refusals(recipe, shape, weights, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        load_checkpoint(a_layer(recipe, *shape), weights)


def test_a_part_of_the_layers():
    model = nn.ModuleDict({**a_layer(Recipe(), 64, 8), "other": nn.Linear(8, 8)})
    given = {**of((8, 64), "mxfp8_e4m3:ceil"), "elsewhere": None}
    load_checkpoint(model, given, strict=False)
    assert (model["own"].weight.data.dequantize() == 1).all()


def test_what_stays_on_the_device_meta_is_said():
    model = a_layer(Recipe(), 64, 8).to("meta")
    with pytest.warns(
        UserWarning, match=r"leaves on the device meta: own.bias; the checkpoint has"
    ):
        load_checkpoint(model, of((8, 64), "mxfp8_e4m3:ceil"))
    assert not model["own"].weight.is_meta


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.own = nn.Embedding(16, 64), nn.Linear(64, 64)
        self.head = nn.Linear(64, 16, bias=False)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize("names", [["embedding"], ["head"], ["embedding", "head"]])
def test_tied_weights_on_the_device_meta_stay_tied(names, tmp_path):
    rows = torch.randn(16, 64)
    tensors = {f"{name}.weight": rows.clone() for name in names}
    codes = {"own.weight_packed": numbers(256, 64, 32), "own.weight_scale": numbers(9, 64, 2)}
    save_file({**tensors, "own.bias": torch.zeros(64), **codes}, tmp_path / "model.safetensors")
    recipe = Recipe(Checkpoint(tmp_path)["own"].scheme, None, None)
    with torch.device("meta"):
        model = convert(Tied(), recipe, skip=["head"])
    assert model.head.weight is model.embedding.weight
    load_checkpoint(freeze(model, keep_weight=False), tmp_path)
    assert model.head.weight is model.embedding.weight
    assert torch.equal(model.head.weight, rows)


def test_codes_of_no_layout_are_not_values(tmp_path):
    for codes in (numbers(9, 16, 64).view(torch.int8), float8(16, 64)):
        save_file({"0.weight": codes}, tmp_path / "model.safetensors")
        with pytest.raises(
            ValueError, match=r"0.weight must have a dtype of the kind of torch.floa"
        ):
            load_checkpoint(nn.Sequential(nn.Linear(64, 16)), tmp_path)


def test_scales_of_inputs_have_no_place(stored):
    path = stored("int-quantized") / "model.safetensors"
    save_file(load_file(path) | {"0.pre_quant_scale": torch.ones(WIDTH)}, path)
    recipe = Recipe(Checkpoint(path)["0"].scheme, None)
    with pytest.raises(ValueError, match=r"^0: a layer must take .* by 0.pre_quant_scale$"):
        load_checkpoint(empty(recipe), path)


def test_scales_of_inputs_are_read_once(stored, monkeypatch):
    path, reads, read = stored("int-quantized"), [], Checkpoint.input_scales.fget
    assert read is not None

    def counted(checkpoint):
        reads.append(checkpoint)
        return read(checkpoint)

    monkeypatch.setattr(Checkpoint, "input_scales", property(counted))
    weights = directory._decoded(path, load_file(path / "model.safetensors"))
    assert set(weights) == {f"{i}.{part}" for i in range(LAYERS) for part in ("weight", "bias")}
    assert len(reads) == 1
