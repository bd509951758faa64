"""Dense packing of sub-byte codes: FP4 two to a byte, FP6 four to three bytes, element 0 lowest."""

from math import lcm

import torch
from torch import Tensor

from ..model.formats import ElementFormat
from . import checks
from .formats import element_format


def _group(fmt: ElementFormat) -> tuple[int, int]:
    """(elements, bytes) of the smallest group that fills whole bytes."""
    total = lcm(fmt.bits, 8)
    return total // fmt.bits, total // 8


def pack(codes: Tensor, fmt: ElementFormat | str) -> Tensor:
    """Pack uint8 `codes` along the last axis, little-endian: (..., n) to (..., n x bits / 8).

    Bits above the format's width are ignored. ValueError when n is not a whole number of byte
    groups (2 for FP4, 4 for FP6).
    """
    fmt = element_format(fmt, "fmt")
    codes = checks.uint8("codes", codes)
    elements, size = _group(fmt)
    if codes.ndim == 0 or codes.shape[-1] % elements:
        raise ValueError(
            f"codes of format {fmt.name} must have a last axis that is a multiple of {elements} "
            f"long to pack, not shape {tuple(codes.shape)}"
        )
    *lead, count = codes.shape
    groups = codes.reshape(*lead, count // elements, elements)
    return _regroup(groups, fmt.bits, size, 8).reshape(*lead, count // elements * size)


def unpack(packed: Tensor, fmt: ElementFormat | str) -> Tensor:
    """The inverse of `pack`: (..., bytes) to (..., bytes x 8 / bits) codes."""
    fmt = element_format(fmt, "fmt")
    packed = checks.uint8("packed", packed)
    elements, size = _group(fmt)
    if packed.ndim == 0 or packed.shape[-1] % size:
        raise ValueError(
            f"packed {fmt.name} must have a last axis that is a multiple of {size} bytes long, "
            f"not shape {tuple(packed.shape)}"
        )
    *lead, count = packed.shape
    groups = packed.reshape(*lead, count // size, size)
    return _regroup(groups, 8, elements, fmt.bits).reshape(*lead, count // size * elements)


def _regroup(fields: Tensor, width: int, count: int, new_width: int) -> Tensor:
    """(..., fields of `width` bits) to (..., `count` fields of `new_width` bits), lowest first.

    A new field takes its bits from the old fields that overlap it: bytes suffice for all of it.
    """
    parts = []
    for i in range(count):
        low, high = i * new_width, (i + 1) * new_width
        value = torch.zeros_like(fields[..., 0])
        for j in range(low // width, (high - 1) // width + 1):
            shift = j * width - low
            field = fields[..., j] & (2**width - 1)
            if shift >= 0:
                value |= torch.bitwise_left_shift(field, shift)
            else:
                value |= torch.bitwise_right_shift(field, -shift)
        parts.append(value & (2**new_width - 1))
    return torch.stack(parts, dim=-1)
