"""The executor ``triton`` of `mxdot::scheme_values`, of schemes that take one pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import scheme_quantize, scheme_rows

if TYPE_CHECKING:
    from ..schemes.quantized_values import SchemeValues


def refusal(request: "SchemeValues") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    if request.x.dtype == torch.float64:
        return "x must be float32, float16 or bfloat16, not float64"
    reason = scheme_quantize.refusal(request.quantization)
    if reason is None and scheme_quantize.prepare(request.quantization, request.dtype) is None:
        if not request.x.is_contiguous():
            return "x must be contiguous"
        return (
            f"scales must be of rows, of {scheme_rows.SHORTEST} values or more, or 8-bit floats in "
            f"one float32, not those of {request.scheme} for rows of {request.x.shape[-1]}"
        )
    return reason


def prepare(request: "SchemeValues") -> Callable[[Tensor], Tensor]:
    """The work for requests like this one: values in the shape of x."""
    make = scheme_quantize.prepare(request.quantization, request.dtype)
    assert make is not None
    return lambda x: make(x)[0]
