"""Weights that compressed-tensors and ModelOpt wrote are read bit for bit."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compare import generator
from library_weights import stored, weights
from mxdot.model.checkpoints import Checkpoint


def scheme_of(**weights):
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))


def written(name, state, scheme):
    """A state as the library compresses it, and its own values of the weight."""
    from compressed_tensors.compressors.base import BaseCompressor

    compressor = BaseCompressor.get_value_from_registry(name)
    packed = compressor.compress(dict(state), scheme)
    values = compressor.decompress(dict(packed), scheme)["weight"]
    return {f"layer.{k}": v.data for k, v in packed.items()}, values.float().numpy()


def group_scales(x, size, largest):
    amax = x.reshape(len(x), -1, size).abs().amax(dim=-1)
    return torch.where(amax == 0, torch.ones_like(amax), amax) / largest


@pytest.mark.parametrize("size", [32, 128])
def test_int4_in_groups(tmp_path, size):
    scheme = scheme_of(num_bits=4, type="int", strategy="group", group_size=size, symmetric=True)
    x = weights(f"int4 {size}")
    state = {"weight": x, "weight_scale": group_scales(x, size, 7.5).half()}
    tensors, values = written("pack-quantized", state, scheme)
    config = {"config_groups": {"group_0": {"weights": {"num_bits": 4}}}}
    array = stored(tmp_path, tensors, config)["layer"]
    assert 8 in array.codes  # -8
    assert np.array_equal(array.dequantize().astype(np.float16), values)  # as float16, like scales


def test_int4_with_zero_points(tmp_path):
    scheme = scheme_of(num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)
    x = weights("int4 affine")
    zeros = torch.from_numpy(generator("zeros").integers(-8, 8, (48, 4)).astype(np.int8))
    state = {"weight": x, "weight_scale": group_scales(x, 32, 7.5), "weight_zero_point": zeros}
    tensors, values = written("pack-quantized", state, scheme)
    array = stored(tmp_path, tensors)["layer"]
    assert np.array_equal(array.dequantize(), values)


def test_int8_by_channel(tmp_path):
    scheme = scheme_of(num_bits=8, type="int", strategy="channel", symmetric=True)
    x = weights("int8")
    state = {"weight": x, "weight_scale": group_scales(x, 128, 127.5)}
    tensors, values = written("int-quantized", state, scheme)
    checkpoint = stored(tmp_path, tensors)
    assert checkpoint.layouts == {"layer": "int-quantized"}
    assert np.array_equal(checkpoint["layer"].dequantize(), values)


def powers(scale):
    return torch.exp2(torch.floor(torch.log2(scale)))


@pytest.mark.parametrize(
    ("bits", "layout", "scheme_name", "largest", "dtype"),
    [
        (8, "mxfp8-quantized", "mxfp8_e4m3", 448.0, torch.float32),
        (4, "mxfp4-pack-quantized", "mxfp4", 6.0, torch.bfloat16),
    ],
)
def test_mx(tmp_path, bits, layout, scheme_name, largest, dtype):
    options = {"type": "float", "strategy": "group", "group_size": 32, "scale_dtype": torch.uint8}
    x = weights(f"mxfp{bits}").to(dtype)
    state = {"weight": x, "weight_scale": powers(group_scales(x.float(), 32, largest)).to(dtype)}
    tensors, values = written(layout, state, scheme_of(num_bits=bits, **options))
    array = stored(tmp_path, tensors)["layer"]
    assert array.scheme.name == scheme_name
    assert np.array_equal(array.dequantize(), values)


def test_nvfp4(tmp_path):
    scheme = scheme_of(num_bits=4, type="float", strategy="tensor_group", group_size=16)
    x = weights("nvfp4")
    whole = torch.tensor([1024.0])  # its reciprocal is exact
    scales = (group_scales(x, 16, 6.0) * whole).to(torch.float8_e4m3fn)
    scales[3] = torch.zeros(8).to(torch.float8_e4m3fn)  # as for a row of zeros
    state = {"weight": x, "weight_scale": scales.float(), "weight_global_scale": whole}
    tensors, _ = written("nvfp4-pack-quantized", state, scheme)
    array = stored(tmp_path, tensors)["layer"]
    assert array.scheme.name == "nvfp4"
    got = array.dequantize()
    nibbles = tensors["layer.weight_packed"].numpy()
    codes = np.stack([nibbles & 15, nibbles >> 4], -1).reshape(48, 128)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    want = np.where(codes & 8, -1, 1) * table[codes & 7]
    want = want * scales.float().numpy().repeat(16, axis=1) / 1024
    assert np.array_equal(got, want.astype(np.float32))
    assert not got[3].any()


def test_modelopt(tmp_path):
    rng = generator("modelopt")
    packed = rng.integers(0, 256, (16, 32)).astype(np.uint8)
    scales = rng.integers(1, 120, (16, 4)).astype(np.uint8)
    tensors = {
        "o.weight": torch.from_numpy(packed),
        "o.weight_scale": torch.from_numpy(scales).view(torch.float8_e4m3fn),
        "o.weight_scale_2": torch.tensor(0.0123),
    }
    array = stored(tmp_path, tensors, {"quant_method": "modelopt"})["o"]
    assert array.scheme.name == "nvfp4"
    assert np.array_equal(array.scales[1], scales)
    assert array.scales[0].item() == np.float32(0.0123)
    assert np.array_equal(array.codes[:, 0::2], packed & 15)


def test_modelopt_int4(tmp_path):
    """Two neighbouring rows per byte."""
    rng = generator("modelopt int4")
    numbers = rng.integers(-8, 8, (24, 256))
    scales = rng.standard_normal((24, 2)).astype(np.float32) ** 2 + np.float32(0.01)
    packed = (numbers[0::2] & 15 | (numbers[1::2] & 15) << 4).astype(np.uint8)
    tensors = {"o.weight": torch.from_numpy(packed), "o.weight_scale": torch.from_numpy(scales)}
    inputs = torch.linspace(0.5, 2, 256).bfloat16()
    checkpoint = stored(tmp_path, tensors | {"o.pre_quant_scale": inputs})
    assert checkpoint.layouts == {"o": "modelopt int4"}
    want = numbers * scales.repeat(128, axis=1)
    assert np.array_equal(checkpoint["o"].dequantize(), want.astype(np.float32))
    assert np.array_equal(checkpoint.input_scales["o"].astype("f4"), inputs.float().numpy())
    assert checkpoint.tensors_of("o") == ["o.weight", "o.weight_scale", "o.pre_quant_scale"]
    assert not checkpoint.others


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("config", "layout"),
    [
        ("INT4_AWQ_CFG", "modelopt int4"),
        ("W4A8_AWQ_BETA_CFG", "modelopt int4"),  # refused
        ("FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", "int-quantized"),
        ("FP8_PER_CHANNEL_PER_TOKEN_CFG", "int-quantized"),
        ("INT8_SMOOTHQUANT_CFG", "int-quantized"),
        ("NVFP4_DEFAULT_CFG", "modelopt nvfp4"),
        ("MXFP4_DEFAULT_CFG", "modelopt mxfp4"),
        ("MXFP8_DEFAULT_CFG", "mxfp8-quantized"),
        ("FP8_DEFAULT_CFG", "int-quantized"),
    ],
)
def test_modelopt_writes(tmp_path, monkeypatch, config, layout):
    """A model that the library exports has the values that its own tensors have."""
    quantization = pytest.importorskip("modelopt.torch.quantization")
    from modelopt.torch.export import export_hf_checkpoint, unified_export_hf
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4}
    options = {"num_hidden_layers": 1, "vocab_size": 97, "architectures": ["LlamaForCausalLM"]}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **options)).to(torch.bfloat16)
    tokens = torch.randint(0, 97, (2, 16))
    quantization.quantize(model, getattr(quantization, config), lambda made: made(tokens))
    names = {module: name for name, module in model.named_modules() if name.endswith("_proj")}
    values, export = {}, unified_export_hf._export_quantized_weight

    def recorded(module, *given):
        if "INT4" in config:
            values[names[module]] = module.weight_quantizer(module.weight.float()).detach()
        return export(module, *given)

    monkeypatch.setattr(unified_export_hf, "_export_quantized_weight", recorded)
    export_hf_checkpoint(model, export_dir=tmp_path)
    checkpoint, tensors = Checkpoint(tmp_path), load_file(tmp_path / "model.safetensors")
    assert checkpoint.layouts == dict.fromkeys(sorted(names.values()), layout)
    for name in names.values():
        if "W4A8" in config:
            with pytest.raises(ValueError, match=f"{name}: weight_scale_2 of INT4 codes must be m"):
                checkpoint[name]
            continue
        parts = {part: tensors.get(f"{name}.{part}") for part in MODELOPT_PARTS}
        got = torch.from_numpy(checkpoint[name].dequantize())
        if "INT4" in config:  # the library packs bfloat16, whose ties can be other ones
            same = torch.isclose(got, values[name], rtol=2**-20, atol=0)
            assert same.float().mean() > 0.998, name
            step = tensors[f"{name}.weight_scale"].float().repeat_interleave(128, dim=1)
            assert ((got - values[name]).abs() <= 1.001 * step).all(), name
        else:
            # NVFP4: the library rounds the product of both scales first.
            tolerance = 2**-22 if config.startswith("NV") else 0
            want = by_modelopt(config, *parts.values())
            assert torch.allclose(got, want, rtol=tolerance, atol=0), name
        assert f"{name}.pre_quant_scale" not in checkpoint.others
    scaled = {name for name in names.values() if f"{name}.pre_quant_scale" in tensors}
    assert set(checkpoint.input_scales) == scaled
    assert any("down_proj" in name for name in scaled) == ("AWQ" in config or "SMOOTH" in config)


MODELOPT_PARTS = ("weight", "weight_scale", "weight_scale_2")


def by_modelopt(config, weight, scale, scale_2):
    """The library's own values of a weight that it has written."""
    from modelopt.torch.quantization import qtensor

    if config.startswith("FP8_2D") and scale.ndim == 4:
        scale = scale[:, 0, :, 0].repeat_interleave(128, 0).repeat_interleave(128, 1)
    if config.startswith(("FP8", "INT8")):
        return weight.float() * (scale[:, None] if scale.ndim == 1 else scale)
    size = 16 if config.startswith("NV") else 32
    kind = getattr(qtensor, config.split("_")[0] + "QTensor")
    shape = torch.Size([len(weight), len(scale[0]) * size])
    made = kind(shape, torch.float32, weight)
    options = {"scale": scale, "block_sizes": {-1: size}}
    if scale_2 is not None:
        options["double_scale"] = scale_2
    return made.dequantize(torch.float32, **options)
