"""Directories of models from strangers: a model of finite size, or ValueError in one line."""

import json
from importlib import import_module

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damaged, fuzz, misspelt, outcome
from mxdot.nn.networks.directory import load_model


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=11, intermediate_size=32, **size)
    directory = tmp_path_factory.mktemp("networks")
    transformers.BertModel(config).save_pretrained(directory)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def check(files, folder):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    model = outcome(load_model, folder, errors=ValueError)
    if model is not None:
        assert all(parameter.device.type == "cpu" for parameter in model.parameters())
        assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert {path.name for path in folder.iterdir()} == set(files)


@fuzz(40)
@given(st.data())
def test_bytes(whole, tmp_path, data):
    name = data.draw(st.sampled_from(["config.json", "model.safetensors"]))
    check(whole | {name: data.draw(damaged([whole[name]]))}, tmp_path)


@fuzz(40)
@given(st.data())
def test_values_of_the_configuration(whole, tmp_path, data):
    values = json.loads(whole["config.json"])
    key = data.draw(st.sampled_from(sorted(values)))
    odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())
    values[data.draw(st.just(key) | misspelt([key]))] = data.draw(odd)
    check(whole | {"config.json": json.dumps(values).encode()}, tmp_path)
