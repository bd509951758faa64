"""Element formats of tensors, traceable by torch.compile: codes, packing, float32 by its bits."""

from operator import index

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...model.formats import FLOAT32, ElementFormat, FloatFormat, IntegerFormat, TableFormat
from ...model.formats import element_format as model_format
from ...model.packing import packed_codes, unpacked_codes
from .. import checks

FLOAT32_BIAS, FLOAT32_FRACTION = FLOAT32.bias, FLOAT32.mantissa_bits


def code_dtype(fmt: ElementFormat) -> torch.dtype:
    """Unsigned dtype of codes, as the model's `dtype`. PyTorch only moves and casts wider ones than
    uint8.
    """
    if fmt.bits <= 8:
        return torch.uint8
    return torch.uint16 if fmt.bits <= 16 else torch.uint32


def in_order(codes: Tensor, places: Tensor) -> Tensor:
    """Codes (R, K) with the elements of each block of len(places) in the order of `places`."""
    blocks = _signed(codes).unflatten(1, (-1, len(places)))
    return blocks[..., places].flatten(1).view(codes.dtype)


def filled_up(codes: Tensor, block: int, size: int) -> Tensor:
    """Codes (R, K) with each block of `block` elements filled up with zeros to `size`."""
    blocks = _signed(codes).unflatten(1, (-1, block))
    return pad(blocks, (0, size - block)).flatten(1).view(codes.dtype)


def _signed(codes: Tensor) -> Tensor:
    """Codes as integers of their width that can be indexed."""
    as_signed = {torch.uint16: torch.int16, torch.uint32: torch.int32}
    return codes.view(as_signed.get(codes.dtype, codes.dtype))


def element_format(value: ElementFormat | str, name: str = "format") -> ElementFormat:
    """The ElementFormat of a name or of itself, as the model's `element_format`.

    torch.compile takes the numbers of an object that comes from outside for variables, and computes
    with them otherwise than Python does. `index` makes each of them a constant of the graph, so
    that every format has a graph of its own.
    """
    fmt = model_format(value, name)
    if isinstance(fmt, TableFormat) or not torch.compiler.is_compiling():
        return fmt
    if isinstance(fmt, FloatFormat):
        return FloatFormat(
            fmt.name, index(fmt.exponent_bits), index(fmt.mantissa_bits), fmt.specials
        )
    return IntegerFormat(
        fmt.name,
        index(fmt.bits),
        index(fmt.lowest),
        index(fmt.highest),
        index(fmt.fraction_bits),
        symmetric=True,
    )


def pack(codes: Tensor, fmt: ElementFormat | str) -> Tensor:
    """Pack `codes` along the last axis, little-endian: (..., n) to (..., n x bits / 8).

    Bits above the format's width are ignored. ValueError when n is not a whole number of byte
    groups (2 for FP4, 4 for FP6).
    """
    fmt = element_format(fmt, "fmt")
    return packed_codes(checks.of_dtype("codes", codes, code_dtype(fmt)), fmt)


def unpack(packed: Tensor, fmt: ElementFormat | str) -> Tensor:
    """The inverse of `pack`: (..., bytes) to (..., bytes x 8 / bits) codes."""
    fmt = element_format(fmt, "fmt")
    return unpacked_codes(checks.uint8("packed", packed), fmt).to(code_dtype(fmt))


def power32(exponent: Tensor) -> Tensor:
    """2^exponent as float32, for an int32 `exponent` from -127 (a subnormal) to 127."""
    bits = torch.bitwise_left_shift(exponent + FLOAT32_BIAS, FLOAT32_FRACTION)
    return torch.where(exponent == -FLOAT32_BIAS, 1 << (FLOAT32_FRACTION - 1), bits).view(
        torch.float32
    )


def exponent32(x: Tensor) -> Tensor:
    """The exponent floor(log2(x)) of non-negative float32 `x`, int32; -127 for a subnormal or 0."""
    return torch.bitwise_right_shift(x.view(torch.int32), FLOAT32_FRACTION) - FLOAT32_BIAS
