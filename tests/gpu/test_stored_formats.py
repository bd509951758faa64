"""Files keep all that a format is."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from mxdot import gpu
from mxdot.gpu import MXTensor, schemes
from mxdot.gpu.tensors.store import KEY
from small_tensors import CODES, SCALES, X
from stored_formats import E3M3, own_scheme


def test_own_formats_have_their_values(tmp_path):
    tensors = {
        "mx": MXTensor(CODES + 3, SCALES + 127, E3M3),
        "own": schemes.quantize(X * torch.linspace(-4, 4, 64), own_scheme()),
    }
    gpu.save(tmp_path / "x", tensors)
    loaded = gpu.load(tmp_path / "x")
    for name, x in tensors.items():
        assert torch.equal(loaded[name].dequantize(), x.dequantize())
    assert loaded["mx"].format == E3M3
    assert loaded["own"].scheme == tensors["own"].scheme


@pytest.mark.parametrize("fmt", ["e4m3", "int8", "bf16"])
def test_files_that_keep_names(tmp_path, fmt):
    x = gpu.quantize(X, fmt)
    gpu.save(tmp_path / "x", {"x": x})
    with safe_open(tmp_path / "x", "pt") as file:
        facts = json.loads(file.metadata()[KEY])
        parts = {f"x.{part}": file.get_tensor(f"x.{part}") for part in ("codes", "scales")}
    assert facts["x"]["format"]["name"] == fmt
    facts["x"]["format"] = fmt
    save_file(parts, tmp_path / "x", metadata={KEY: json.dumps(facts)})
    loaded = gpu.load(tmp_path / "x")["x"]
    assert loaded.format == x.format
    assert torch.equal(loaded.dequantize(), x.dequantize())
