"""Weights of gpt-oss, DeepSeek and GGUF files are read bit for bit; damaged files are refused."""

import numpy as np
import pytest
import torch

from compare import generator
from library_weights import stored, weights
from mxdot.model import E4M3
from mxdot.model.checkpoints import Checkpoint


def test_gpt_oss(tmp_path):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    rng = generator("gpt-oss")
    blocks = torch.from_numpy(rng.integers(0, 256, (3, 24, 4, 16)).astype(np.uint8))
    scales = torch.from_numpy(rng.integers(110, 140, (3, 24, 4)).astype(np.uint8))
    tensors = {"mlp.experts.gate_up_proj_blocks": blocks, "mlp.experts.gate_up_proj_scales": scales}
    array = stored(tmp_path, tensors)["mlp.experts.gate_up_proj"]
    want = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    assert array.shape == (3, 24, 128)
    assert np.array_equal(array.dequantize(), want.transpose(1, 2).numpy())


@pytest.mark.parametrize("shape", [(256, 384), (576, 192), (100, 130)])
@pytest.mark.parametrize("exponents", [False, True])
def test_deepseek(tmp_path, shape, exponents):
    rng = generator("deepseek", shape)
    codes = rng.integers(0, 127, shape).astype(np.uint8)
    grid = -(-shape[0] // 128), -(-shape[1] // 128)
    scales = (rng.standard_normal(grid) ** 2 + 0.01).astype(np.float32)
    stored_scales = torch.from_numpy(scales)
    if exponents:
        scales = np.ldexp(np.float32(1), rng.integers(-20, 20, grid)).astype(np.float32)
        stored_scales = torch.from_numpy(scales).to(torch.float8_e8m0fnu)
    tensors = {
        "down_proj.weight": torch.from_numpy(codes).view(torch.float8_e4m3fn),
        "down_proj.weight_scale_inv": stored_scales,
    }
    array = stored(tmp_path, tensors)["down_proj"]
    spread = scales.repeat(128, axis=0).repeat(128, axis=1)[: shape[0], : shape[1]]
    want = (E4M3.values[codes] * spread.astype(np.float64)).astype(np.float32)
    assert np.array_equal(array.dequantize(), want)
    assert np.array_equal(array.codes, codes)


def test_gguf(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    x = weights("gguf").numpy()
    kinds = {
        "blk.0.ffn_up": gguf.GGMLQuantizationType.Q8_0,
        "blk.0.ffn_down": gguf.GGMLQuantizationType.MXFP4,
    }
    want = {}
    for name, kind in kinds.items():
        data = gguf.quants.quantize(x, kind)
        want[name] = gguf.quants.dequantize(data, kind)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
    writer.add_tensor("output_norm.weight", x[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    checkpoint = Checkpoint(path)
    assert checkpoint.layouts == {"blk.0.ffn_up": "gguf Q8_0", "blk.0.ffn_down": "gguf MXFP4"}
    for name, values in want.items():
        assert np.array_equal(checkpoint[name].dequantize(), values), name
    path.write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(ValueError, match=r"model.gguf: it must be a GGUF file, whole: .* is cut$"):
        Checkpoint(path)


def test_exponents_are_no_numbers(tmp_path):
    tensors = {
        "w.weight": torch.zeros(4, 64, dtype=torch.uint8).view(torch.float8_e4m3fn),
        "w.weight_scale_inv": torch.ones(1, 1, dtype=torch.int32),
    }
    message = "w: weight_scale_inv must be float32, float16 or bfloat16, not int32"
    with pytest.raises(TypeError, match=message):
        stored(tmp_path, tensors)["w"]


def test_names_and_damage(tmp_path):
    tensors = {"w.weight": torch.zeros(4, 64)}
    checkpoint = stored(tmp_path, tensors)
    assert len(checkpoint) == 0
    with pytest.raises(KeyError, match="weight must be one of none, not 'w'"):
        checkpoint["w"]
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"model.safetensors: it must be a safetensors file: "):
        Checkpoint(file)
