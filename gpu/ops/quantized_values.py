"""Values of a tensor quantised to MX blocks, without its codes in memory: operator
`mxdot::quantized_values`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import executors
from ..call_cache import Prepared, kind
from ..names import named_format
from ..operators import operator
from ..tensors.mx import MXTensor
from . import quantize as mx

PREPARED = Prepared()


@dataclass(frozen=True)
class QuantizedValues:
    """A checked request: a contiguous float tensor (..., K), the name of a format, a block size
    that divides K, a scale rule, and the dtype of the values; rounded to nearest even, NaN
    poisons."""

    x: Tensor
    format: str
    block_size: int
    scale_rule: str
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.x.device


def quantized_values(
    x: Tensor, fmt: str, block_size: int, scale_rule: str, dtype: torch.dtype
) -> Tensor:
    """`quantize(x, fmt, ...).dequantize(dtype)`, bit for bit; arguments are not checked here."""
    return _quantized_values(x, fmt, block_size, scale_rule, dtype, None)


def _fake(
    x: Tensor, fmt: str, block_size: int, scale_rule: str, dtype: torch.dtype, *others: Any
) -> Tensor:
    return x.new_empty(x.shape, dtype=dtype)


@operator("quantized_values", _fake)
def _quantized_values(
    x: Tensor,
    fmt: str,
    block_size: int,
    scale_rule: str,
    dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    """Values in the shape of x."""
    x = x.contiguous()

    def make() -> Callable[[Tensor], Tensor]:
        request = QuantizedValues(x, fmt, block_size, scale_rule, dtype)
        return executors.prepare(executors.QUANTIZED_VALUES, executor, request)

    return PREPARED((fmt, block_size, scale_rule, dtype, executor, *kind(x)), make)(x)


def refusal(_: QuantizedValues) -> None:
    """One operator after the other takes every request."""


def prepare(request: QuantizedValues) -> Callable[[Tensor], Tensor]:
    """The work for requests like this one: one operator after the other."""
    fmt, block_size, dtype = named_format(request.format), request.block_size, request.dtype
    rules = fmt, block_size, request.x.ndim - 1, request.scale_rule, "nearest_even", "poison", None

    def work(x: Tensor) -> Tensor:
        codes, scales = executors.run(executors.QUANTIZE, None, mx.Quantization(x, *rules))
        made = MXTensor.of_valid_codes(codes, scales, fmt, block_size, x.ndim - 1)
        return made.dequantize(dtype)

    return work
