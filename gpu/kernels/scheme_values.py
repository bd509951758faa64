"""The executor ``triton`` of `mxdot::scheme_values`, of schemes that take one pass."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import scheme_levels, scheme_quantize, scheme_rows

if TYPE_CHECKING:
    from ..schemes.quantized_values import SchemeValues


def refusal(request: "SchemeValues") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    if request.dtype == torch.float64:
        return "dtype must be float32, float16 or bfloat16, not float64"
    if request.x.dtype == torch.float64:
        return "x must be float32, float16 or bfloat16, not float64"
    reason = scheme_quantize.refusal(request.quantization)
    if reason is None and _kernels(request) is None:
        return f"scales must be of rows, or 8-bit floats in one float32, not {request.scheme}'s"
    return reason


def _kernels(request: "SchemeValues") -> ModuleType | None:
    kernels = scheme_rows, scheme_levels
    return next((each for each in kernels if each.takes(request.quantization)), None)


def prepare(request: "SchemeValues") -> Callable[[Tensor], Tensor]:
    """The work for requests like this one: values in the shape of x."""
    kernels = _kernels(request)
    assert kernels is not None
    make = kernels.prepare(request.quantization, request.dtype)
    return lambda x: make(x)[0]
