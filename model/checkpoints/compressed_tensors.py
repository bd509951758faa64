"""Layouts of compressed-tensors and of ModelOpt."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..errors import integer
from ..formats import ElementFormat, ScaleFormat
from ..schemes import ScaledArray
from ..schemes.grouping import CHANNEL, TENSOR, Granularity
from .models import deepseek_fp8
from .parts import (
    ELEMENTS,
    FLOATS,
    INTEGERS,
    Parts,
    check_zeros,
    dense_words,
    float_scale,
    groups_of,
    int4_array,
    integer_codes,
    integer_format,
    needed,
    nibbles,
    nvfp4_array,
    scaled_array,
    word_count,
    zero_points_of,
)


def nvfp4_packed(packed: NDArray, scale: NDArray, global_scale: NDArray) -> ScaledArray:
    """compressed-tensors NVFP4: the global scale divides; the tensor scale here is RNE(1 / it)."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / np.asarray(global_scale, np.float32).reshape(())
    return nvfp4_array(packed, scale, inverse, "nvfp4-pack-quantized")


def pack_quantized(
    packed: NDArray, scale: NDArray, columns: int, bits: int = 4, zero_point: NDArray | None = None
) -> ScaledArray:
    """compressed-tensors integers in 32-bit words; zero points are packed along the rows."""
    fmt = integer_format(bits)
    integer("bits", bits, 4, 8)
    count = word_count(columns, bits)
    if packed.ndim != 2 or packed.shape[1] != count:
        raise ValueError(
            f"weight_packed of {bits} bits and {columns} columns must have shape (rows, {count}), "
            f"not {packed.shape}"
        )
    codes = integer_codes(dense_words(packed, bits, columns), fmt)
    stored, scale_format = float_scale("weight_scale", scale)
    zeros = None
    if zero_point is not None:
        transposed = np.ascontiguousarray(zero_point.T)
        zeros = zero_points_of(dense_words(transposed, bits, len(codes)).T, fmt)
        check_zeros("weight_zero_point", zeros, stored)
    levels: list[tuple[Granularity, ScaleFormat]] = [(groups_of(stored, codes), scale_format)]
    return scaled_array(fmt, codes, [stored], levels, "pack-quantized", zeros)


def int_quantized(
    weight: NDArray, scale: NDArray, zero_point: NDArray | None = None, bits: int = 8
) -> ScaledArray:
    """compressed-tensors INT8, and FP8: a code per byte, a scale per tensor, row or group.

    bits: 4 for integers from -8 to 7, one per byte.
    """
    fmt = integer_format(bits)
    elements: ElementFormat = ELEMENTS.get(weight.dtype, fmt)
    if elements == fmt and weight.dtype != np.int8:
        raise TypeError(f"weight must be int8, or FP8, not {weight.dtype}")
    if elements == fmt and ((weight < fmt.lowest) | (weight > fmt.highest)).any():
        raise ValueError(f"weight must be from {fmt.lowest} to {fmt.highest}, not beyond")
    codes = weight.view(np.uint8) & np.uint8(2**elements.bits - 1)
    stored, fmt = float_scale("weight_scale", scale)
    groups = TENSOR if stored.size == 1 else CHANNEL
    if stored.ndim == codes.ndim and stored.size > 1:
        groups = groups_of(stored, codes)
    shape = (1,) * codes.ndim if groups == TENSOR else (*codes.shape[:-1], -1)
    if zero_point is not None and zero_point.dtype.kind not in "iu":
        raise TypeError(f"zero_point must hold integers, not {zero_point.dtype}")
    zeros = None if zero_point is None else zero_point.reshape(shape)
    levels: list[tuple[Granularity, ScaleFormat]] = [(groups, fmt)]
    return scaled_array(elements, codes, [stored.reshape(shape)], levels, "quantized", zeros)


def read_packed(parts: Parts, config: Mapping) -> ScaledArray:
    """Integers in words, whose bits follow from their shape and the configuration."""
    packed, scale, shape = needed(
        "pack-quantized", parts, "weight_packed", "weight_scale", "weight_shape"
    )
    _check_order(parts.get("weight_g_idx"))
    columns, known = int(shape[-1]), _packed_bits(config) or [*INTEGERS]
    fitting = [bits for bits in known if word_count(columns, bits) == packed.shape[-1]]
    bits = (fitting or known)[0]
    return pack_quantized(packed, scale, columns, bits, parts.get("weight_zero_point"))


def _packed_bits(config: Mapping) -> list[int]:
    """Bits of the weights in each group of a configuration of compressed-tensors."""
    groups = config.get("config_groups", {}).values()
    return [int(bits) for g in groups if (bits := (g.get("weights") or {}).get("num_bits"))]


def _check_order(g_idx: NDArray | None) -> None:
    if g_idx is not None:
        raise ValueError("weight_g_idx must be missing: groups must hold neighbours of a row")


def modelopt_nvfp4(packed: NDArray, scale: NDArray, scale_2: NDArray) -> ScaledArray:
    """ModelOpt NVFP4: E4M3 `scale` per 16 elements, and `scale_2` for the tensor."""
    tensor = np.asarray(scale_2, np.float32).reshape(())
    return nvfp4_array(packed, scale, tensor, "modelopt")


def modelopt_int4(packed: NDArray, scale: NDArray) -> ScaledArray:
    """ModelOpt INT4: bytes of the codes of two neighbouring rows, the first one in the low half."""
    codes = np.ascontiguousarray(nibbles(packed.swapaxes(-1, -2)).swapaxes(-1, -2))
    return int4_array(codes, scale, "modelopt")


def int4_alone(weight: NDArray, scale: NDArray, scale_2: NDArray | None) -> ScaledArray:
    """ModelOpt INT4; ValueError for W4A8."""
    if scale_2 is not None:
        raise ValueError(
            "weight_scale_2 of INT4 codes must be missing: W4A8 rounds their values again to FP8"
        )
    return modelopt_int4(weight, scale)


def holds_pairs_of_rows(weight: NDArray, scale: NDArray) -> bool:
    """Whether bytes hold the codes of two rows, as float scales for twice the rows tell."""
    if weight.ndim < 2 or weight.dtype != np.uint8 or scale.dtype not in FLOATS:
        return False
    return scale.shape[:-1] == (*weight.shape[:-2], 2 * weight.shape[-2])


def rows_or_tiles(
    weight: NDArray, scale: NDArray, zero_point: NDArray | None, g_idx: NDArray | None
) -> ScaledArray:
    """INT8 or FP8; ModelOpt's tiles of 128 x 128 have scales (rows, 1, columns, 1)."""
    _check_order(g_idx)
    if scale.ndim == 4 and scale.shape[1] == scale.shape[3] == 1:
        return deepseek_fp8(weight, scale[:, 0, :, 0])
    return int_quantized(weight, scale, zero_point)
