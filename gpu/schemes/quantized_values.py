"""Values of a matrix quantised by a scheme, without its codes in memory: operator
`mxdot::scheme_values`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import executors
from ..call_cache import Prepared, kind
from ..names import named_scheme
from ..operators import operator
from .quantize import SchemeQuantization, quantize

PREPARED = Prepared()


@dataclass(frozen=True)
class SchemeValues:
    """A checked request: a float tensor whose last axis groups run along, a scheme, and the dtype
    of the values; rounded to nearest even, NaN poisons."""

    x: Tensor
    scheme: str
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def quantization(self) -> SchemeQuantization:
        """The request to quantise `x`."""
        rules = named_scheme(self.scheme), self.x.ndim - 1, None, "nearest_even", "poison", None
        return SchemeQuantization(self.x, *rules)


def _fake(x: Tensor, scheme: str, dtype: torch.dtype, *_: Any) -> Tensor:
    return x.new_empty(x.shape, dtype=dtype)


@operator("scheme_values", _fake)
def scheme_values(
    x: Tensor, scheme: str, dtype: torch.dtype, executor: str | None = None
) -> Tensor:
    """`quantize(x, scheme).dequantize(dtype)`, bit for bit; arguments are not checked here."""

    def make() -> Callable[[Tensor], Tensor]:
        return executors.prepare(executors.SCHEME_VALUES, executor, SchemeValues(x, scheme, dtype))

    return PREPARED((scheme, dtype, executor, *kind(x)), make)(x)


def refusal(_: SchemeValues) -> None:
    """One operator after the other takes every request."""


def prepare(request: SchemeValues) -> Callable[[Tensor], Tensor]:
    """The work for requests like this one: one operator after the other."""
    scheme, dtype = request.scheme, request.dtype

    def work(x: Tensor) -> Tensor:
        return quantize(x, scheme).dequantize(dtype)

    return work
