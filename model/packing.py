"""Dense packing of sub-byte codes: FP4 two to a byte, FP6 four to three bytes, element 0 lowest."""

from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .formats import ElementFormat, element_format


def _group(fmt: ElementFormat) -> tuple[int, int]:
    """(elements, bytes) of the smallest group that fills whole bytes."""
    total = lcm(fmt.bits, 8)
    return total // fmt.bits, total // 8


def pack(codes: ArrayLike, fmt: ElementFormat | str) -> NDArray[np.uint8]:
    """Pack uint8 `codes` along the last axis, little-endian: (..., n) to (..., n x bits / 8).

    ValueError when n is not a whole number of byte groups (2 for FP4, 4 for FP6).
    """
    fmt = element_format(fmt, "fmt")
    codes = fmt.check(codes)
    elements, size = _group(fmt)
    if codes.ndim == 0 or codes.shape[-1] % elements:
        raise ValueError(
            f"codes of format {fmt.name} must have a last axis that is a multiple of {elements} "
            f"long to pack, not shape {codes.shape}"
        )
    *lead, count = codes.shape
    groups = codes.reshape(*lead, count // elements, elements).astype(np.uint32)
    word = np.bitwise_or.reduce(
        groups << (fmt.bits * np.arange(elements, dtype=np.uint32)), axis=-1
    )
    packed = word[..., None] >> (8 * np.arange(size, dtype=np.uint32))
    return (packed & 0xFF).astype(np.uint8).reshape(*lead, count // elements * size)


def unpack(packed: ArrayLike, fmt: ElementFormat | str) -> NDArray[np.uint8]:
    """The inverse of `pack`: (..., bytes) to (..., bytes x 8 / bits) codes."""
    fmt = element_format(fmt, "fmt")
    packed = np.asarray(packed)
    elements, size = _group(fmt)
    if packed.dtype != np.uint8:
        raise TypeError(f"packed must have dtype uint8, not {packed.dtype}")
    if packed.ndim == 0 or packed.shape[-1] % size:
        raise ValueError(
            f"packed {fmt.name} must have a last axis that is a multiple of {size} bytes long, "
            f"not shape {packed.shape}"
        )
    *lead, count = packed.shape
    groups = packed.reshape(*lead, count // size, size).astype(np.uint32)
    word = np.bitwise_or.reduce(groups << (8 * np.arange(size, dtype=np.uint32)), axis=-1)
    codes = word[..., None] >> (fmt.bits * np.arange(elements, dtype=np.uint32))
    return (codes & (2**fmt.bits - 1)).astype(np.uint8).reshape(*lead, count // size * elements)
