"""torchao's tensors, and files that it wrote, are read bit for bit."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from compare import generator
from library_weights import packed_by_hand, stored, weights
from mxdot.gpu.torchao import from_torchao
from mxdot.model.checkpoints import Checkpoint


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
