"""Layouts of GPTQ and of AWQ: integers in 32-bit words."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..schemes import ScaledArray
from .parts import (
    Parts,
    check_zeros,
    integer_format,
    needed,
    transposed_array,
    words_of,
    zero_points_of,
)

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in a 32-bit word of each of 8 neighbours, in AWQ's layout."""
GPTQ_STORED_ZERO = {"gptq": 1, "gptq_v2": 0}
"""Number that each version of GPTQ subtracts from zero points, by its name in config.json."""


def gptq(
    qweight: NDArray,
    qzeros: NDArray,
    scales: NDArray,
    g_idx: NDArray | None = None,
    bits: int = 4,
    stored_zero: int = 1,
) -> ScaledArray:
    """GPTQ: words along the input; a zero point is stored less `stored_zero` (0 in version 2).

    Version 1 subtracts from whole words, so a zero point of 0 borrows from its neighbour, and the
    sum here undoes it. g_idx: the group of each input. Groups in the order of activations
    (desc_act) repeat their scales for each element.
    """
    fmt = integer_format(bits)
    numbers = words_of(qweight, bits, 0)
    if qzeros.dtype in (np.int32, np.uint32):
        ones = stored_zero * (0xFFFFFFFF // (2**bits - 1))
        qzeros = qzeros.view(np.uint32) + np.uint32(ones)
    zeros = zero_points_of(words_of(qzeros, bits, 1), fmt)
    check_zeros("qzeros", zeros, scales)
    if g_idx is not None:
        groups = len(scales)
        if g_idx.shape != (len(numbers),) or not 0 <= g_idx.min() <= g_idx.max() < groups:
            raise ValueError(f"g_idx must have a group from 0 to {groups - 1} for each input")
        if not np.array_equal(g_idx, np.arange(len(numbers)) // max(len(numbers) // groups, 1)):
            zeros, scales = zeros[g_idx], scales[g_idx]
    return transposed_array(numbers, zeros, scales, fmt, "gptq")


def awq(qweight: NDArray, qzeros: NDArray, scales: NDArray, bits: int = 4) -> ScaledArray:
    """AWQ: words along the output, with neighbours in the order `AWQ_ORDER`."""
    fmt = integer_format(bits)

    def ordered(packed: NDArray) -> NDArray:
        numbers = words_of(packed, bits, 1)
        order = AWQ_ORDER if bits == 4 else tuple(range(32 // bits))
        cut = numbers.reshape(len(numbers), -1, len(order))
        return cut[:, :, order].reshape(numbers.shape)

    zeros = zero_points_of(ordered(qzeros), fmt)
    check_zeros("qzeros", zeros, scales)
    return transposed_array(ordered(qweight), zeros, scales, fmt, "awq")


def read_gptq(parts: Parts, config: Mapping) -> ScaledArray:
    """A weight in the version of GPTQ that config.json names."""
    stored_zero = GPTQ_STORED_ZERO[_version(config, "gptq", *GPTQ_STORED_ZERO)]
    codes, zeros, scales = needed("gptq", parts, "qweight", "qzeros", "scales")
    bits = int(config.get("bits", 4))
    if config.get("desc_act") and "g_idx" not in parts:
        raise ValueError("tensors of a gptq weight with desc_act must have 'g_idx', not lack it")
    return gptq(codes, zeros, scales, parts.get("g_idx"), bits, stored_zero)


def read_awq(parts: Parts, config: Mapping) -> ScaledArray:
    """A weight of AWQ; ValueError if config.json names another packing than gemm."""
    _version(config, "gemm", "gemm")
    codes, zeros, scales = needed("awq", parts, "qweight", "qzeros", "scales")
    return awq(codes, zeros, scales, int(config.get("bits", 4)))


def is_awq(parts: Parts, config: Mapping) -> bool:
    """Whether config.json, or else the shape of the codes, is AWQ's."""
    if method := str(config.get("quant_method", "")).lower():
        return method == "awq"
    return parts["qweight"].shape[1] != parts["scales"].shape[1]


def _version(config: Mapping, default: str, *known: str) -> str:
    """The packing that config.json names; ValueError unless it is known."""
    names = [config[key] for key in ("checkpoint_format", "version", "format") if key in config]
    name = str(names[0]).lower() if names else default
    if name not in known:
        raise ValueError(f"format in config.json must be {' or '.join(known)}, not {name!r}")
    return name
