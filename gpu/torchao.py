"""Tensors of torchao as tensors of schemes, bit for bit."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model.checkpoints import modelopt_nvfp4, mx_elements
from ..model.formats import E2M1, E4M3, E5M2, ElementFormat
from ..model.schemes import ScaledArray
from .tensors.scaled import ScaledTensor

ELEMENTS: dict[torch.dtype, ElementFormat] = {
    torch.float8_e4m3fn: E4M3,
    torch.float8_e5m2: E5M2,
    torch.float4_e2m1fn_x2: E2M1,
}


def from_torchao(x: Any) -> ScaledTensor:
    """An MXTensor or NVFP4Tensor of torchao as a ScaledTensor, on its device.

    Codes and scales keep their bits. Raises TypeError for another class, and ValueError for scales
    in the order of a kernel (`is_swizzled_scales`).
    """
    kind = type(x).__name__
    if kind not in _READERS:
        raise TypeError(f"x must be one of torchao's {', '.join(_READERS)}, not {kind}")
    if getattr(x, "is_swizzled_scales", False):
        raise ValueError("scales of x must be in the order of its rows, not swizzled")
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


def _bytes(x: Tensor) -> NDArray[np.uint8]:
    return x.detach().contiguous().view(torch.uint8).cpu().numpy()


_READERS = {"MXTensor": _mx, "NVFP4Tensor": _nvfp4}
