"""Tensors of torchao as tensors of schemes, bit for bit."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model.checkpoints import int_quantized, modelopt_nvfp4, mx_elements, torchao_int4
from ..model.formats import E2M1, E4M3, E5M2, ElementFormat
from ..model.schemes import ScaledArray
from .tensors.scaled import ScaledTensor

ELEMENTS: dict[torch.dtype, ElementFormat] = {
    torch.float8_e4m3fn: E4M3,
    torch.float8_e5m2: E5M2,
    torch.float4_e2m1fn_x2: E2M1,
}
INTEGER_BITS: dict[torch.dtype, int] = {torch.int4: 4, torch.int8: 8}


def from_torchao(x: Any) -> ScaledTensor:
    """A tensor of torchao as a ScaledTensor, on its device: MX, NVFP4, INT4 and INT8.

    Codes and scales keep their bits; scales of bfloat16 become float32. Raises TypeError for a
    class that has no reader, and ValueError for scales in the order of a kernel
    (`is_swizzled_scales`), for scales of inputs (`act_pre_scale`) and for zero points that are no
    integers.
    """
    kind = type(x).__name__
    if kind not in _READERS:
        raise TypeError(f"x must be one of torchao's {', '.join(_READERS)}, not {kind}")
    if getattr(x, "is_swizzled_scales", False):
        raise ValueError("scales of x must be in the order of its rows, not swizzled")
    if getattr(x, "act_pre_scale", None) is not None:
        raise ValueError("x must have no act_pre_scale: numbers that multiply a layer's inputs")
    return ScaledTensor.from_model(_READERS[kind](x), x.qdata.device)


def _mx(x: Any) -> ScaledArray:
    if x.elem_dtype not in ELEMENTS:
        known = ", ".join(map(str, ELEMENTS))
        raise ValueError(f"elements of x must be one of {known}, not {x.elem_dtype}")
    elements, codes = ELEMENTS[x.elem_dtype], _bytes(x.qdata)
    if elements == E2M1:
        codes = np.stack([codes & 15, codes // 16], axis=-1).reshape(*codes.shape[:-1], -1)
    scales = _bytes(x.scale).reshape(*codes.shape[:-1], -1)
    return mx_elements(codes, scales, elements, x.block_size)


def _nvfp4(x: Any) -> ScaledArray:
    whole = (
        np.ones((), np.float32) if x.per_tensor_scale is None else x.per_tensor_scale.cpu().numpy()
    )
    packed = _bytes(x.qdata)
    scales = _bytes(x.scale).reshape(*packed.shape[:-1], -1)
    return modelopt_nvfp4(packed, scales, whole)


def _int4(x: Any) -> ScaledArray:
    zeros = x.zero_point.cpu()
    zeros = (zeros.float() if zeros.is_floating_point() else zeros).numpy()
    return torchao_int4(x.qdata.cpu().numpy(), _float(x.scale), zeros)


def _intx(x: Any) -> ScaledArray:
    bits = INTEGER_BITS.get(x.target_dtype)
    if bits is None:
        known = ", ".join(map(str, INTEGER_BITS))
        raise ValueError(f"target_dtype of x must be one of {known}, not {x.target_dtype}")
    zeros = x.zero_point.cpu()
    if torch.is_floating_point(zeros) and not torch.equal(zeros, zeros.round()):
        raise ValueError("zero points of x must be integers, not a float to add")
    if isinstance(x.block_size, tuple | list) and any(size != 1 for size in x.block_size[:-1]):
        raise ValueError(f"block_size of x must have groups of one row, not {x.block_size}")
    zero_points = zeros.to(torch.int32).contiguous().numpy() if zeros.any() else None
    return int_quantized(x.qdata.cpu().numpy(), _float(x.scale), zero_points, bits)


def _float(scale: Tensor) -> NDArray:
    """Scales, bfloat16 as float32."""
    scale = scale.cpu().contiguous()
    return (scale.float() if scale.dtype == torch.bfloat16 else scale).numpy()


def _bytes(x: Tensor) -> NDArray[np.uint8]:
    return x.detach().contiguous().view(torch.uint8).cpu().numpy()


_READERS = {
    "MXTensor": _mx,
    "NVFP4Tensor": _nvfp4,
    "Int4Tensor": _int4,
    "Int4PlainInt32Tensor": _int4,
    "IntxUnpackedToInt8Tensor": _intx,
}
