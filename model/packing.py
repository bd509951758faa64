"""Dense packing of codes of any width, entry 0 in the lowest bits.

A byte holds two FP4 codes, three bytes hold four FP6 codes. `pack_rows` takes arrays of NumPy and
tensors of PyTorch.
"""

from math import lcm, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, cast, namespace
from .formats import ElementFormat, element_format


def pack(codes: ArrayLike, fmt: ElementFormat | str) -> NDArray[np.uint8]:
    """Pack `codes` along the last axis, little-endian: (..., n) to (..., n x bits / 8).

    Raises ValueError unless n is a multiple of the codes in whole bytes (2 for FP4, 4 for FP6).
    """
    fmt = element_format(fmt, "fmt")
    return packed_codes(fmt.check(codes), fmt)


def unpack(packed: ArrayLike, fmt: ElementFormat | str) -> NDArray:
    """The inverse of `pack`: (..., bytes) to (..., bytes x 8 / bits) codes."""
    fmt = element_format(fmt, "fmt")
    packed = np.asarray(packed)
    if packed.dtype != np.uint8:
        raise TypeError(f"packed must have dtype uint8, not {packed.dtype}")
    return unpacked_codes(packed, fmt).astype(fmt.dtype, copy=False)


def packed_codes(codes: Array, fmt: ElementFormat) -> Array:
    """`pack` of checked codes."""
    elements, size = _group(fmt.bits)
    shape = tuple(codes.shape)
    if not shape or shape[-1] % elements:
        raise ValueError(
            f"codes of format {fmt.name} must have a last axis that is a multiple of {elements} "
            f"long to pack, not shape {shape}"
        )
    rows = codes.reshape(prod(shape[:-1]), shape[-1])
    return pack_rows(rows, fmt.bits).reshape(*shape[:-1], shape[-1] // elements * size)


def unpacked_codes(packed: Array, fmt: ElementFormat) -> Array:
    """`unpack` of uint8 bytes to integers that are wide enough."""
    elements, size = _group(fmt.bits)
    shape = tuple(packed.shape)
    if not shape or shape[-1] % size:
        raise ValueError(
            f"packed {fmt.name} must have a last axis that is a multiple of {size} bytes long, "
            f"not shape {shape}"
        )
    count = shape[-1] // size * elements
    rows = packed.reshape(prod(shape[:-1]), shape[-1])
    return unpack_rows(rows, fmt.bits, count).reshape(*shape[:-1], count)


def pack_rows(entries: Array, bits: int) -> Array:
    """The low `bits` of each integer of (rows, count), in whole bytes: uint8 (rows, bytes)."""
    count = entries.shape[1]
    elements, size = _group(bits)
    fields = _filled(cast(entries, _carrier(bits)), elements)
    packed = cast(_regroup(fields, bits, size, 8), "uint8")
    return packed.reshape(len(entries), -(-count // elements) * size)[:, : -(-count * bits // 8)]


def unpack_rows(packed: Array, bits: int, count: int) -> Array:
    """The inverse of `pack_rows`: (rows, count) of integers that are wide enough."""
    elements, size = _group(bits)
    fields = _filled(cast(packed, _carrier(bits)), size)
    entries = _regroup(fields, 8, elements, bits)
    return entries.reshape(len(packed), fields.shape[1] * elements)[:, :count]


def _group(bits: int) -> tuple[int, int]:
    """(entries, bytes) of the smallest group that fills whole bytes."""
    total = lcm(bits, 8)
    return total // bits, total // 8


def _carrier(bits: int) -> str:
    return "uint8" if bits <= 8 else "int64"


def _filled(rows: Array, length: int) -> Array:
    """`rows` as (rows, groups, length), padded with zeros."""
    xp = namespace(rows)
    missing = -rows.shape[1] % length
    if missing:
        zeros = xp.zeros_like(xp.broadcast_to(rows[:, :1], (len(rows), missing)))
        rows = xp.concat([rows, zeros], 1)
    return rows.reshape(len(rows), rows.shape[1] // length, length)


def _regroup(fields: Array, bits: int, count: int, new_bits: int) -> Array:
    """`count` fields of `new_bits` bits from fields of `bits` bits, the lowest first."""
    xp = namespace(fields)
    parts = []
    for i in range(count):
        low, high = i * new_bits, (i + 1) * new_bits
        value = None
        for j in range(low // bits, (high - 1) // bits + 1):
            field = fields[..., j] & (2**bits - 1)
            shift = j * bits - low
            if shift > 0:
                field = xp.bitwise_left_shift(field, shift)
            elif shift < 0:
                field = xp.bitwise_right_shift(field, -shift)
            value = field if value is None else value | field
        parts.append(value & (2**new_bits - 1))
    return xp.stack(parts, -1)
