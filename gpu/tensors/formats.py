"""Element formats as tensors have them, where torch.compile may be looking."""

from operator import index

import torch
from torch import Tensor

from ...model.formats import ElementFormat, FloatFormat, IntegerFormat
from ...model.formats import element_format as model_format


def code_dtype(fmt: ElementFormat) -> torch.dtype:
    """What codes are kept in, as the model's `dtype`: unsigned, which PyTorch only moves and casts
    where they are wider than a byte.
    """
    if fmt.bits <= 8:
        return torch.uint8
    return torch.uint16 if fmt.bits <= 16 else torch.uint32


def in_order(codes: Tensor, places: Tensor) -> Tensor:
    """Codes (R, K) with the elements of each block of len(places) in the order of `places`."""
    as_signed = {torch.uint16: torch.int16, torch.uint32: torch.int32}  # which can be indexed
    blocks = codes.view(as_signed.get(codes.dtype, codes.dtype)).unflatten(1, (-1, len(places)))
    return blocks[..., places].flatten(1).view(codes.dtype)


def element_format(value: ElementFormat | str, name: str = "format") -> ElementFormat:
    """The ElementFormat of a name or of itself, as the model's `element_format`.

    torch.compile takes the numbers of an object that comes from outside for variables, and computes
    with them otherwise than Python does. `index` makes each of them a constant of the graph, so
    that every format has a graph of its own.
    """
    fmt = model_format(value, name)
    if not torch.compiler.is_compiling():
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
