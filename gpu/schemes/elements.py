"""Codes of any scheme's elements to exact float64 and back."""

from functools import cache

import torch
from torch import Tensor

from ...model.formats import ElementFormat, IntegerFormat
from .. import elements

SPARE = (1 << 29) - 1  # bits of a float64 that no float32 has
BEYOND = 2.0**100  # saturates every format, and is no infinity in float32


@cache
def values(formats: tuple[ElementFormat, ...], device: torch.device) -> Tensor:
    """(formats, codes): the value of every code of each format, float64."""
    return torch.stack([torch.tensor(fmt.values, device=device) for fmt in formats])


def decode(codes: Tensor, formats: tuple[ElementFormat, ...], book: Tensor | None = None) -> Tensor:
    """Exact float64 values of uint8 `codes`, each of the format that `book` names."""
    # Not as they are: an index of uint8 would be a mask.
    which = 0 if book is None else book.to(torch.int32)
    return values(formats, codes.device)[which, codes.to(torch.int32)]


def encode(ratio: Tensor, element: ElementFormat, zero_point: Tensor | int = 0) -> Tensor:
    """Codes of finite float64 `ratio` (rounded to odd before), RNE, saturating."""
    if isinstance(element, IntegerFormat):
        return _encode_integer(ratio, element, zero_point)
    bits = ratio.view(torch.int64)
    sticky = ((bits & SPARE) != 0).to(torch.int64) * (SPARE + 1)
    odd = ((bits & ~SPARE) | sticky).view(torch.float64)
    # Exact in float32, or so small that no rounding can see what float32 loses.
    narrow = odd.clamp(-BEYOND, BEYOND).to(torch.float32)
    return elements.encode(narrow, element, "nearest_even", None)


def _encode_integer(ratio: Tensor, element: IntegerFormat, zero_point: Tensor | int) -> Tensor:
    units = (ratio * 2.0**element.fraction_bits).round() + zero_point
    integers = units.clamp(element.lowest_encoded, element.highest).to(torch.int32)
    if element.sign_magnitude:
        codes = integers.abs() | ratio.signbit().to(torch.int32) * 2 ** (element.bits - 1)
    else:
        codes = integers & (2**element.bits - 1)
    return codes.to(torch.uint8)
