"""Weights of checkpoints that their own libraries wrote are read bit for bit."""

import json

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import generator
from mxdot.gpu.torchao import from_torchao
from mxdot.model import E4M3
from mxdot.model.checkpoints import Checkpoint


def weights(name: str, rows: int = 48, columns: int = 128) -> torch.Tensor:
    """Random weights with a row of zeros, a block of zeros and an outlier."""
    rng = generator("checkpoints", name)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    x[3] = 0
    x[5, :32] = 0
    x[7, 9] = 40
    return torch.from_numpy(x)


def stored(tmp_path, tensors, config=None):
    """The checkpoint of tensors and a quantization_config, in a directory."""
    save_file({k: v.contiguous() for k, v in tensors.items()}, tmp_path / "model.safetensors")
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    return Checkpoint(tmp_path)


# compressed-tensors -------------------------------------------------------------------------------


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


def test_mxfp8(tmp_path):
    scheme = scheme_of(
        num_bits=8, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8
    )
    x = weights("mxfp8")
    state = {"weight": x, "weight_scale": powers(group_scales(x, 32, 448.0))}
    tensors, values = written("mxfp8-quantized", state, scheme)
    array = stored(tmp_path, tensors)["layer"]
    assert array.scheme.name == "mxfp8_e4m3"
    assert np.array_equal(array.dequantize(), values)


def test_mxfp4(tmp_path):
    scheme = scheme_of(
        num_bits=4, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8
    )
    x = weights("mxfp4").bfloat16()
    state = {"weight": x, "weight_scale": powers(group_scales(x.float(), 32, 6.0)).bfloat16()}
    tensors, values = written("mxfp4-pack-quantized", state, scheme)
    array = stored(tmp_path, tensors)["layer"]
    assert array.scheme.name == "mxfp4"
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


# Other layouts ------------------------------------------------------------------------------------


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


def packed_by_hand(numbers, axis):
    """Eight numbers of four bits per word along `axis`, one after the other."""
    moved = np.moveaxis(numbers, axis, -1)
    words = np.zeros((*moved.shape[:-1], moved.shape[-1] // 8), np.uint32)
    for i in range(8):
        words |= moved[..., i::8].astype(np.uint32) << np.uint32(4 * i)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32))


@pytest.mark.parametrize("version", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("order", ["neighbours", "cut", "activations"])
def test_gptq(tmp_path, version, order):
    """Version 1 subtracts one from each field of a word: a zero point of 0 borrows."""
    rng = generator("gptq", version, order)
    numbers, zeros = rng.integers(0, 16, (128, 24)), rng.integers(0, 16, (4, 24))
    scales = rng.standard_normal((4, 24)).astype(np.float16) ** 2 + np.float16(0.01)
    g_idx = np.arange(128, dtype=np.int32) // (36 if order == "cut" else 32)
    if order == "activations":
        rng.shuffle(g_idx)
    words = packed_by_hand(zeros, 1)
    tensors = {
        "q.qweight": packed_by_hand(numbers, 0),
        "q.qzeros": words - 0x11111111 if version == "gptq" else words,
        "q.scales": torch.from_numpy(scales),
        "q.g_idx": torch.from_numpy(g_idx),
    }
    config = {"quant_method": "gptq", "bits": 4, "checkpoint_format": version}
    array = stored(tmp_path, tensors, config)["q"]
    want = (numbers - zeros[g_idx]) * scales.astype(np.float64)[g_idx]
    assert np.array_equal(array.dequantize(), want.T.astype(np.float32))
    assert array.scales[0].shape == (24, 4 if order == "neighbours" else 128)


def test_gptq_refusals(tmp_path):
    tensors = {
        "q.qweight": torch.zeros(4, 8, dtype=torch.int32),
        "q.qzeros": torch.zeros(2, 1, dtype=torch.int32),
        "q.scales": torch.ones(2, 8).half(),
        "q.g_idx": torch.tensor([0, 2] * 16, dtype=torch.int32),
    }
    config = {"quant_method": "gptq", "bits": 4}
    with pytest.raises(ValueError, match=r"q: g_idx must have a group from 0 to 1 for each input$"):
        stored(tmp_path, tensors, config)["q"]
    config["checkpoint_format"] = "gptq_p"
    message = "q: format in config.json must be gptq or gptq_v2, not 'gptq_p'$"
    with pytest.raises(ValueError, match=message):
        stored(tmp_path, tensors, config)["q"]
    config = {"quant_method": "awq", "version": "GEMV"}
    with pytest.raises(ValueError, match=r"format in config.json must be gemm, not 'gemv'$"):
        stored(tmp_path, tensors, config)["q"]


def test_awq(tmp_path):
    rng = generator("awq")
    numbers, zeros = rng.integers(0, 16, (64, 32)), rng.integers(0, 16, (2, 32))
    scales = rng.standard_normal((2, 32)).astype(np.float16) ** 2 + np.float16(0.01)
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # the neighbour in each place of a word

    def awq(x):
        return packed_by_hand(x.reshape(len(x), -1, 8)[:, :, order].reshape(x.shape), 1)

    tensors = {
        "k.qweight": awq(numbers),
        "k.qzeros": awq(zeros),
        "k.scales": torch.from_numpy(scales),
    }
    array = stored(tmp_path, tensors, {"quant_method": "awq", "bits": 4})["k"]
    want = (numbers - zeros.repeat(32, axis=0)) * scales.astype(np.float64).repeat(32, axis=0)
    assert np.array_equal(array.dequantize(), want.T.astype(np.float32))


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


@pytest.mark.filterwarnings("ignore")
def test_autoawq_writes(tmp_path):
    gemm = pytest.importorskip("awq.modules.linear.gemm")
    from awq.utils.packing_utils import dequantize_gemm

    layer, scales, zeros = affine(4)
    packed = gemm.WQLinear_GEMM.from_linear(layer, 4, 32, False, scales.T, zeros.T)
    tensors = {f"k.{name}": part for name, part in packed.state_dict().items()}
    array = stored(tmp_path, tensors, {"quant_method": "awq", "bits": 4})["k"]
    want = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales, 4, 32)
    assert torch.equal(torch.from_numpy(array.dequantize()).half(), want.T)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("version", ["gptq", "gptq_v2"])
def test_gptqmodel_writes(tmp_path, bits, version):
    module = pytest.importorskip("gptqmodel.nn_modules.qlinear.torch")
    from gptqmodel.quantization import QuantizeConfig
    from gptqmodel.utils import model as convert

    layer, scales, zeros = affine(bits)
    sizes = {"in_features": 128, "out_features": 64, "bias": False}
    packed = module.TorchLinear(bits=bits, group_size=32, sym=False, desc_act=True, **sizes)
    order = generator("gptqmodel").permutation(128) // 32
    packed.pack(layer, scales, zeros, torch.from_numpy(order.astype(np.int32)))
    assert not zeros[1].any()
    if version == "gptq":
        convert.convert_gptq_v2_to_v1_format_module(packed, QuantizeConfig(bits=bits))
    tensors = {f"k.{name}": part.clone() for name, part in packed.state_dict().items()}
    config = {"quant_method": "gptq", "bits": bits, "checkpoint_format": version}
    array = stored(tmp_path, tensors, config)["k"]
    if version == "gptq":  # as the library loads it
        convert.convert_gptq_v1_to_v2_format_module(packed, bits, torch.int32)
    packed.post_init()
    want = packed.dequantize_weight().T
    assert torch.equal(torch.from_numpy(array.dequantize()).half(), want.half())


def affine(bits: int):
    """A layer, and scales and zero points (rows, groups) of 32 of its inputs."""
    layer = torch.nn.Linear(128, 64, bias=False).half()
    drawn = weights(f"affine {bits}", rows=64).half()
    drawn[1].abs_()  # zero points of 0
    layer.weight = torch.nn.Parameter(drawn, requires_grad=False)
    groups = drawn.float().reshape(64, -1, 32)
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scales = ((high - low) / (2**bits - 2)).clamp(min=2**-10).half()
    zeros = (-low / scales.float()).round().clamp(0, 2**bits - 1).int()
    return layer, scales, zeros


def test_exponents_are_no_numbers(tmp_path):
    tensors = {
        "w.weight": torch.zeros(4, 64, dtype=torch.uint8).view(torch.float8_e4m3fn),
        "w.weight_scale_inv": torch.ones(1, 1, dtype=torch.int32),
    }
    message = "w: weight_scale_inv must be float32, float16 or bfloat16, not int32"
    with pytest.raises(TypeError, match=message):
        stored(tmp_path, tensors)["w"]


def test_names_and_damage(tmp_path):
    assert ml_dtypes.float8_e8m0fnu
    tensors = {"w.weight": torch.zeros(4, 64)}
    checkpoint = stored(tmp_path, tensors)
    assert len(checkpoint) == 0
    with pytest.raises(KeyError, match="weight must be one of none, not 'w'"):
        checkpoint["w"]
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"model.safetensors: it must be a safetensors file: "):
        Checkpoint(file)


# Tensors of torchao -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2"])
def test_torchao_mx(dtype):
    pytest.importorskip("torchao")
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    x = MXTensor.to_mx(weights(f"torchao {dtype}").bfloat16(), getattr(torch, dtype), 32)
    got = from_torchao(x)
    assert torch.equal(got.dequantize(), x.dequantize(torch.float32))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [None, 0.003])
def test_torchao_nvfp4(whole):
    pytest.importorskip("torchao")
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

    scale = None if whole is None else torch.tensor(whole)
    x = NVFP4Tensor.to_nvfp4(weights(f"torchao nvfp4 {whole}"), per_tensor_scale=scale)
    got, want = from_torchao(x).dequantize(), x.dequantize(torch.float32)
    # torchao rounds the product of both scales first.
    assert torch.allclose(got, want, rtol=2**-22, atol=0)
    if whole is None:
        assert torch.equal(got, want)
    assert not got[3].any()


def test_scales_of_inputs_of_torchao():
    kind = type("Int4Tensor", (), {"act_pre_scale": torch.ones(64)})
    with pytest.raises(ValueError, match=r"x must have no act_pre_scale: numbers that multiply "):
        from_torchao(kind())


def test_torchao_refusals():
    with pytest.raises(TypeError, match="x must be one of torchao's MXTensor, NVFP4Tensor, Int4"):
        from_torchao(torch.zeros(3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["int4", "int8"])
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "ASYMMETRIC"])
def test_torchao_intx(dtype, mapping):
    quantization = pytest.importorskip("torchao.quantization")
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_primitives import MappingType

    layer = torch.nn.Linear(128, 48, bias=False)
    layer.weight = torch.nn.Parameter(weights(f"intx {dtype}"), requires_grad=False)
    config = quantization.IntxWeightOnlyConfig(
        getattr(torch, dtype), PerGroup(32), MappingType[mapping]
    )
    quantization.quantize_(layer, config)
    got = from_torchao(layer.weight)
    assert (got.zero_points is None) == (mapping == "SYMMETRIC")
    assert torch.equal(got.dequantize(), layer.weight.dequantize())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("config", ["Float8WeightOnlyConfig", "Int8WeightOnlyConfig"])
def test_torchao_rows(tmp_path, config):
    quantization = pytest.importorskip("torchao.quantization")
    layer = torch.nn.Linear(128, 48, bias=False)
    layer.weight = torch.nn.Parameter(weights(config), requires_grad=False)
    quantization.quantize_(layer, getattr(quantization, config)())
    checkpoint = flattened(tmp_path, layer.weight)
    assert checkpoint.layouts["up"] == "torchao " + ("fp8" if config[0] == "F" else "integers")
    want = layer.weight.dequantize().nan_to_num()  # a row of zeros has scale 0 and codes of NaN
    assert np.array_equal(checkpoint["up"].dequantize(), want.numpy())


def test_int4_as_torchao_stores_it(tmp_path):
    """Without the library: bytes of signed codes, words of unsigned ones, the order of a kernel."""
    rng = generator("torchao int4 by hand")
    numbers, zeros = rng.integers(0, 16, (6, 64)), rng.integers(0, 16, (2, 6))
    scale = rng.random((2, 6), np.float32) + np.float32(0.5)
    signed = numbers ^ 8  # bits of numbers - 8
    plain = {
        "_weight_qdata": torch.from_numpy((signed[:, ::2] | signed[:, 1::2] << 4).astype(np.int8)),
        "_weight_scale": torch.from_numpy(scale),
        "_weight_zero_point": torch.zeros(2, 6),
    }
    words = plain | {
        "_weight_qdata": packed_by_hand(numbers, 1),
        "_weight_zero_point": torch.from_numpy(zeros.astype(np.int8)),
    }
    path = tmp_path / "model.safetensors"
    for parts, zero in ((plain, np.full((2, 6), 8)), (words, zeros)):
        checkpoint = stored(tmp_path, {f"up.{name}": part for name, part in parts.items()})
        assert checkpoint.layouts == {"up": "torchao int4"}
        want = (numbers - zero.T.repeat(32, axis=1)) * scale.T.repeat(32, axis=1)
        assert np.array_equal(checkpoint["up"].dequantize(), want.astype(np.float32))
    save_file(plain, path, {"up.weight": '{"_type": "Int4TilePackedTo4dTensor"}'})
    with pytest.raises(ValueError, match=r"up.weight must have codes and scales by row, not in "):
        Checkpoint(path)


def int4_tensor(dtype, rows=6, columns=64, size=32):
    """An Int4Tensor by hand, for the library quantises with kernels that a CPU lacks."""
    from torchao.quantization import Int4Tensor

    rng = generator("torchao int4")
    numbers = torch.from_numpy(rng.integers(-8, 8, (rows, columns)).astype(np.int8))
    scale = torch.from_numpy(rng.random((columns // size, rows), np.float32) + 0.5).to(dtype)
    packed = numbers[:, ::2] & 15 | numbers[:, 1::2] << 4
    shape = torch.Size([rows, columns])
    return Int4Tensor(packed, scale, torch.zeros_like(scale), [1, size], shape), numbers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_torchao_int4(tmp_path, dtype):
    pytest.importorskip("torchao")
    from torchao.prototype.gptq.api import _int4_row_dequantize_zp

    x, numbers = int4_tensor(dtype)
    want = _int4_row_dequantize_zp(numbers, x.scale.float(), x.zero_point.float(), 32)
    assert torch.allclose(from_torchao(x).dequantize(), want, rtol=2**-20, atol=2**-20)
    exact = numbers * x.scale.float().T.repeat_interleave(32, dim=1)
    assert torch.equal(from_torchao(x).dequantize(), exact)
    checkpoint = flattened(tmp_path, x)
    assert checkpoint.layouts == {"up": "torchao int4"}
    assert np.array_equal(checkpoint["up"].dequantize(), exact.numpy())
    x.zero_point[0, 0] = 1
    message = "zero_point must be zero: an Int4Tensor adds others after scaling"
    with pytest.raises(ValueError, match=message):
        from_torchao(x)
    with pytest.raises(ValueError, match=f"up: {message}"):
        flattened(tmp_path, x)["up"]


@pytest.mark.filterwarnings("ignore")
def test_torchao_int4_words(tmp_path):
    """Words of eight codes, with zero points of int8."""
    pytest.importorskip("torchao")
    from torchao.quantization import Int4PlainInt32Tensor

    rng = generator("torchao int4 words")
    numbers, zeros = rng.integers(0, 16, (24, 128)), rng.integers(0, 16, (4, 24))
    scale = torch.from_numpy(rng.random((4, 24), np.float32) + 0.5).half()
    parts = packed_by_hand(numbers, 1), scale, torch.from_numpy(zeros.astype(np.int8))
    x = Int4PlainInt32Tensor(*parts, [1, 32], torch.Size([24, 128]))
    want = (numbers - zeros.T.repeat(32, axis=1)) * scale.float().numpy().T.repeat(32, axis=1)
    assert np.array_equal(from_torchao(x).dequantize().numpy(), want.astype(np.float32))
    checkpoint = flattened(tmp_path, x)
    assert checkpoint.layouts == {"up": "torchao int4"}
    assert np.array_equal(checkpoint["up"].dequantize(), want.astype(np.float32))
    x.zero_point = x.zero_point.half()
    with pytest.raises(TypeError, match=r"up: zero_point of words must be int8, not float16"):
        flattened(tmp_path, x)["up"]


@pytest.mark.filterwarnings("ignore")
def test_torchao_int4_in_the_order_of_a_kernel(tmp_path):
    pytest.importorskip("torchao")
    from torchao.quantization import Int4TilePackedTo4dTensor

    codes = torch.zeros(1, 8, 32, 4, dtype=torch.int32)
    scales = torch.ones(32, 8, 2, dtype=torch.bfloat16)
    x = Int4TilePackedTo4dTensor(codes, scales, [1, 32], torch.Size([8, 1024]))
    with pytest.raises(ValueError, match=r"up.weight must have codes and scales by row, not in "):
        flattened(tmp_path, x)
    with pytest.raises(TypeError, match=r"x must be one of torchao's .*Int4PlainInt32Tensor"):
        from_torchao(x)


def flattened(tmp_path, tensor):
    """The checkpoint of a tensor of torchao as the library lays it out in safetensors files."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

    tensors, about = flatten_tensor_state_dict({"up.weight": tensor})
    path = tmp_path / "model.safetensors"
    save_file({name: part.contiguous() for name, part in tensors.items()}, path, about)
    return Checkpoint(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["mx", "mx fp4", "nvfp4", "integers"])
def test_torchao_writes(tmp_path, kind):
    """Tensors as the library lays them out in safetensors files."""
    pytest.importorskip("torchao")
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    x = weights(f"torchao file {kind}")
    if kind == "nvfp4":
        made = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=torch.tensor(0.003))
    elif kind == "integers":
        layer = torch.nn.Linear(128, 48, bias=False)
        layer.weight = torch.nn.Parameter(x, requires_grad=False)
        quantize_(layer, IntxWeightOnlyConfig(torch.int4, PerGroup(32)))
        made = layer.weight
    else:
        dtype = torch.float4_e2m1fn_x2 if kind == "mx fp4" else torch.float8_e5m2
        made = MXTensor.to_mx(x, dtype, 32)
    checkpoint = flattened(tmp_path, made)
    assert checkpoint.layouts == {"up": f"torchao {kind.removesuffix(' fp4')}"}
    assert np.array_equal(checkpoint["up"].dequantize(), from_torchao(made).dequantize().numpy())
    tensors, about = flatten_tensor_state_dict({"up.weight": made})
    swizzled = {k: v.replace('scales": false', 'scales": true') for k, v in about.items()}
    if kind != "integers":
        path = checkpoint.path
        save_file({name: part.contiguous() for name, part in tensors.items()}, path, swizzled)
        with pytest.raises(
            ValueError, match=r"up.weight must have codes and scales by row, not in "
        ):
            Checkpoint(path)
