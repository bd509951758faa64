"""Layouts of torchao's tensors."""

import numpy as np
from numpy.typing import NDArray

from ..formats import E2M1, INT4_FULL
from ..schemes import ScaledArray
from .models import mx_elements
from .parts import ELEMENTS, int4_array, nibbles, transposed_array, words_of, zero_points_of

TORCHAO = ("._weight_qdata", "._weight_scale", "._weight_zero_point")
"""Ends of the names of torchao's tensors of integers."""


def torchao_int4(qdata: NDArray, scale: NDArray, zero_point: NDArray) -> ScaledArray:
    """torchao INT4 of two layouts, scales and zero points (groups, rows).

    Int4Tensor: bytes of two signed codes, with any leading axes. Its zero points are numbers that
    it adds after scaling, so they must be zero. Int4PlainInt32Tensor: 32-bit words of unsigned
    codes, zero points of int8.
    """
    if qdata.ndim < 2 or (qdata.dtype == np.int32 and qdata.ndim > 2):
        raise ValueError(f"qdata must have 2 axes (more if it is int8), not shape {qdata.shape}")
    if scale.shape != zero_point.shape or not _groups_by_rows(qdata, scale):
        raise ValueError(
            f"scale and zero_point of qdata {qdata.shape} must have shape (..., groups, rows), not "
            f"{scale.shape} and {zero_point.shape}"
        )
    if qdata.dtype == np.int32:
        if zero_point.dtype != np.int8:
            raise TypeError(f"zero_point of words must be int8, not {zero_point.dtype}")
        zeros = zero_points_of(zero_point, INT4_FULL)
        return transposed_array(words_of(qdata, 4, 1).T, zeros, scale, INT4_FULL, "int4")
    if qdata.dtype not in (np.int8, np.uint8):
        raise TypeError(f"qdata must be int8 or int32, not {qdata.dtype}")
    if zero_point.astype(np.float32).any():
        raise ValueError("zero_point must be zero: an Int4Tensor adds others after scaling")
    return int4_array(
        nibbles(qdata.view(np.uint8)), np.ascontiguousarray(scale.swapaxes(-1, -2)), "int4"
    )


def _groups_by_rows(qdata: NDArray, scale: NDArray) -> bool:
    """Whether scales have shape (..., groups, rows)."""
    return qdata.ndim > 1 and (
        scale.ndim == qdata.ndim and (*scale.shape[:-2], scale.shape[-1]) == qdata.shape[:-1]
    )


def torchao_mx(codes: NDArray, scales: NDArray) -> ScaledArray:
    """MXTensor: codes of FP8, or of FP4 in halves of bytes."""
    elements = ELEMENTS.get(codes.dtype, E2M1)
    codes = codes if codes.dtype in ELEMENTS else nibbles(codes)
    return mx_elements(codes, scales, elements, codes.shape[-1] // scales.shape[-1])


def is_int4(qdata: NDArray, scale: NDArray, zero_point: NDArray) -> bool:
    """Whether tensors of no named class are INT4; ValueError if they can be INT8 too."""
    if qdata.dtype == np.int32:
        return True
    if zero_point.dtype == np.int8 or not _groups_by_rows(qdata, scale):
        return False
    if scale.shape[:-1] == qdata.shape[:-1]:
        raise ValueError(
            f"scales {scale.shape} of qdata {qdata.shape} fit INT4 and INT8: the file's metadata "
            "must name torchao's class"
        )
    return True
