"""Files of MXTensors and ScaledTensors from strangers: valid tensors, or ValueError in one line."""

import json
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from compare import generator
from fuzz import damaged, fuzz, misspelt, outcome
from mxdot import gpu
from mxdot.gpu.schemes import quantize as quantize_scheme
from mxdot.gpu.tensors.store import KEY
from mxdot.model import E2M1, E4M3
from mxdot.model.schemes.files import described

X = torch.from_numpy(generator("store").standard_normal((4, 64), "f4"))
TENSORS = {
    "mx": gpu.quantize(X, "e4m3"),
    "small": gpu.quantize(X, "e2m1", axis=0, block_size=4),
    **{
        name: quantize_scheme(X, name)
        for name in ("nvfp4", "int4_affine_g128:b32", "mixed4", "mx9")
    },
}

SHAPE = {"block_size": 32, "axis": 1, "padding": 0}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "whole.safetensors"
    gpu.save(path, TENSORS)
    return path


def facts_of(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()[KEY], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def check(path, folder):
    """Values that are read can be written and read again unchanged."""
    tensors = outcome(gpu.load, path, errors=ValueError)
    if tensors is None:
        return
    again = folder / "again.safetensors"
    if outcome(lambda: gpu.save(again, tensors) or True, errors=ValueError):
        loaded = gpu.load(again)
        assert set(loaded) == set(tensors)
        for name, tensor in tensors.items():
            want, result = tensor.dequantize(), loaded[name].dequantize()
            torch.testing.assert_close(result, want, rtol=0, atol=0, equal_nan=True)


@fuzz(60)
@given(st.data())
def test_bytes(whole, tmp_path, data):
    path = tmp_path / "odd.safetensors"
    path.write_bytes(data.draw(damaged([whole.read_bytes()])))
    check(path, tmp_path)


@fuzz(100)
@given(st.data())
def test_facts(whole, tmp_path, data):
    text, parts = facts_of(whole)
    name = data.draw(st.sampled_from(list(TENSORS)))
    one = json.dumps({name: json.loads(text)[name]})
    path = tmp_path / "odd.safetensors"
    save_file(parts, path, metadata={KEY: data.draw(misspelt([one]))})
    check(path, tmp_path)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        pytest.param("[" * 100_000, "its 'mxdot' is nested too deeply", id="nested"),
        ("{", "Expecting property name"),
        ("[]", "its 'mxdot' must be facts by name"),
        ('{"mx": 3}', "its 'mxdot' must be facts by name"),
        ('{"mx": {}}', "'format'"),
        (json.dumps({"no": {"format": described(E4M3), **SHAPE}}), "no.codes"),
    ],
)
def test_facts_that_are_none(whole, tmp_path, facts, message):
    _, parts = facts_of(whole)
    save_file(parts, tmp_path / "odd.safetensors", metadata={KEY: facts})
    with pytest.raises(
        ValueError, match=r"path must be a file written by mxdot\.gpu\.save"
    ) as error:
        gpu.load(tmp_path / "odd.safetensors")
    assert message in str(error.value)


def test_no_safetensors_file(tmp_path):
    (tmp_path / "odd.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"path must be a file written by mxdot\.gpu\.save"):
        gpu.load(tmp_path / "odd.safetensors")


@pytest.mark.timeout(60)
def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it must be a regular file, not a pipe or device"):
        gpu.load(tmp_path / "pipe")


def test_a_file_does_not_vouch_for_its_codes(tmp_path):
    """`valid` is a word of the program's, not of a file's."""
    parts = {"x.codes": torch.full((1, 32), 255, dtype=torch.uint8)}
    parts["x.scales"] = torch.full((1, 1), 127, dtype=torch.uint8)
    facts = {"format": described(E2M1), **SHAPE, "valid": True}
    save_file(parts, tmp_path / "odd.safetensors", metadata={KEY: json.dumps({"x": facts})})
    with pytest.raises(ValueError, match="codes"):
        gpu.load(tmp_path / "odd.safetensors")


@pytest.mark.parametrize(
    "names",
    [["codes", "scales_0"], ["scales_0", "scales_1"], ["codes", "scales_0", "scales_1", "codes"]],
)
def test_parts_that_a_scheme_has_not(whole, tmp_path, names):
    text, parts = facts_of(whole)
    facts = json.loads(text)["nvfp4"]
    facts["parts"] = names
    save_file(parts, tmp_path / "odd.safetensors", metadata={KEY: json.dumps({"nvfp4": facts})})
    with pytest.raises(ValueError, match="parts of nvfp4 must be"):
        gpu.load(tmp_path / "odd.safetensors")
