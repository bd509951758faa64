"""Layouts of gpt-oss, DeepSeek and GGUF files."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..errors import integer
from ..formats import E2M1, E8M0, FLOAT16, INT8_FULL, ElementFormat, ScaleFormat
from ..schemes import ScaledArray
from ..schemes.grouping import Granularity, block
from .parts import E8M0_DTYPE, ELEMENTS, e8m0_codes, float_scale, nibbles, scaled_array, tiles_of

LARGEST_TILE = 2**31 - 1


def mxfp4_blocks(blocks: NDArray, scales: NDArray) -> ScaledArray:
    """gpt-oss: uint8 `blocks` (..., rows, groups, 16), E8M0 `scales` (..., rows, groups)."""
    codes = nibbles(blocks)
    codes = codes.reshape(*codes.shape[:-2], codes.shape[-2] * codes.shape[-1])
    return scaled_array(E2M1, codes, [e8m0_codes("scales", scales)], [(block(32), E8M0)], "mxfp4")


def mx_elements(
    codes: NDArray, scales: NDArray, elements: ElementFormat, block_size: int = 32
) -> ScaledArray:
    """Codes of one format, one per byte, in blocks of a row under E8M0 scales."""
    if codes.dtype in ELEMENTS:
        codes = codes.view(np.uint8)
    levels: list[tuple[Granularity, ScaleFormat]] = [(block(block_size), E8M0)]
    return scaled_array(
        elements, codes, [e8m0_codes("scales", scales)], levels, f"mx_b{block_size}"
    )


def deepseek_fp8(
    weight: NDArray, scale_inv: NDArray, rows: int = 128, columns: int = 128
) -> ScaledArray:
    """DeepSeek-V3: FP8 `weight` and the scale of each tile, float32 or E8M0 (V3.1 on).

    The scale multiplies, in spite of its name. Any number of rows and columns.
    """
    integer("rows", rows, 1, LARGEST_TILE)
    integer("columns", columns, 1, LARGEST_TILE)
    if weight.dtype not in ELEMENTS:
        known = ", ".join(map(str, ELEMENTS))
        raise TypeError(f"weight must be one of {known}, not {weight.dtype}")
    elements, codes = ELEMENTS[weight.dtype], weight.view(np.uint8)
    if scale_inv.dtype in (np.uint8, E8M0_DTYPE):
        fmt: ScaleFormat = E8M0
        stored = e8m0_codes("weight_scale_inv", scale_inv)
    else:
        stored, fmt = float_scale("weight_scale_inv", scale_inv)
    stored, groups = tiles_of(codes, stored, rows, columns)
    return scaled_array(elements, codes, [stored], [(groups, fmt)], f"{rows}x{columns}")


def block_shape(config: Mapping) -> tuple[int, int]:
    """Rows and columns of a tile."""
    rows, columns = config.get("weight_block_size", (128, 128))
    return int(rows), int(columns)


def gguf_q8_0(blocks: NDArray) -> ScaledArray:
    """GGUF Q8_0: (..., groups, 34) bytes, a float16 scale and 32 codes of int8 each."""
    scale = np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]
    codes = np.ascontiguousarray(blocks[..., 2:]).reshape(*blocks.shape[:-2], -1)
    return scaled_array(INT8_FULL, codes, [scale], [(block(32), FLOAT16)], "q8_0")


def gguf_mxfp4(blocks: NDArray) -> ScaledArray:
    """GGUF MXFP4: (..., groups, 17) bytes, an E8M0 scale; low halves hold the first 16 codes."""
    scale, packed = np.ascontiguousarray(blocks[..., 0]), blocks[..., 1:]
    codes = np.concatenate([packed & 15, packed >> 4], axis=-1)
    codes = codes.reshape(*blocks.shape[:-2], -1)
    return scaled_array(E2M1, codes, [scale], [(block(32), E8M0)], "mxfp4")
