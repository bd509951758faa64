"""Dense packing of codes: `mxdot.model.pack` and `unpack` on tensors."""

from torch import Tensor

from ...model.formats import ElementFormat
from ...model.packing import packed_codes, unpacked_codes
from .. import checks
from .formats import code_dtype, element_format


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
