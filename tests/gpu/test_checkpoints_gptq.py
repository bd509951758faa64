"""Weights of GPTQ and AWQ are read bit for bit, also as their libraries wrote them."""

import numpy as np
import pytest
import torch

from compare import generator
from library_weights import packed_by_hand, stored, weights


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
