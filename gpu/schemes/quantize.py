"""Quantisation of tensors by any scheme, `mxdot.model.schemes.quantize` on a device: operator
`mxdot::scheme_quantize`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...model.blocks import check_axis
from ...model.schemes import Limits, Scheme
from ...model.schemes.grouping import Granularity, grid_shape
from ...model.schemes.quantize import check_policies, check_values, quantized
from ...model.schemes.table import scheme as find
from .. import checks, executors
from ..chunks import chunk_size
from ..names import named_scheme, scheme_name
from ..once import Prepared, kind
from ..operators import operator
from ..ops.quantize import random_words
from ..tensors.scaled import ScaledTensor

PREPARED = Prepared()


@dataclass(frozen=True)
class SchemeQuantization:
    """A checked request, for executors. x: a float of any shape; `axis` not negative.

    words: uint32 of the shape of `x` for ``stochastic`` rounding, else None.
    """

    x: Tensor
    scheme: Scheme
    axis: int
    limits: Limits | None
    rounding: str
    nonfinite: str
    words: Tensor | None

    @property
    def device(self) -> torch.device:
        """Where the input is."""
        return self.x.device


def quantize(
    x: Tensor,
    scheme: Scheme | str,
    *,
    axis: int = -1,
    limits: Limits | None = None,
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: torch.Generator | Tensor | None = None,
    executor: str | None = None,
) -> ScaledTensor:
    """Quantise `x` by a Scheme or a name in SCHEMES, the groups' columns along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape but an empty one,
    any strides. Rows, tiles, `limits`, `rounding` and `nonfinite`: as in the model's `quantize`.
    rng: for ``stochastic`` rounding, a torch.Generator or one uint32 word per element of x.
    executor: ``torch`` or ``triton``; None takes Triton on CUDA where it can, else PyTorch. All
    have the same bits.
    The result is on the device of `x`, cut from its gradient.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme = find(scheme)
    check_policies(rounding, nonfinite)
    values = checks.floats("x", x)
    axis = check_axis(tuple(values.shape), axis)
    check_values(tuple(values.shape))
    words = random_words(rng, values) if rounding == "stochastic" else None
    low, high, shape = _flat(limits)
    name = scheme_name(scheme)
    made = (values, name, axis, low, high, shape, rounding, nonfinite, words, executor)
    parts = _quantize(*made)
    return ScaledTensor.of_parts(name, parts, axis)


def _flat(limits: Limits | None) -> tuple[list[float], list[float], list[int]]:
    """What the operator takes for `limits`: no shape is none, for theirs has axes."""
    if limits is None:
        return [], [], []
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be Limits or None, not {type(limits).__name__}")
    return limits.low.ravel().tolist(), limits.high.ravel().tolist(), list(limits.low.shape)


def _fake(x: Tensor, scheme: str, axis: int, *others: Any) -> list[Tensor]:
    found = named_scheme(scheme)
    moved, axis = list(x.shape), axis % x.ndim
    columns = moved.pop(axis)

    def groups(granularity: Granularity) -> tuple[int, ...]:
        group = granularity.group((prod(moved), columns))
        return grid_shape((*moved, columns), group, axis)

    inner = groups(found.levels[-1].granularity)
    parts = [x.new_empty(x.shape, dtype=getattr(torch, found.code_dtype.name))]
    for level in found.levels:
        dtype = getattr(torch, level.format.dtype.name)
        parts.append(x.new_empty(groups(level.granularity), dtype=dtype))
    if found.zero_point:
        parts.append(x.new_empty(inner, dtype=torch.int32))
    if len(found.elements) > 1:
        parts.append(x.new_empty(inner, dtype=torch.uint8))
    return parts


@operator("scheme_quantize", _fake)
def _quantize(
    x: Tensor,
    scheme: str,
    axis: int,
    low: list[float],
    high: list[float],
    limits_shape: list[int],
    rounding: str,
    nonfinite: str,
    words: Tensor | None,
    executor: str | None,
) -> list[Tensor]:
    """Codes, the scales of every level, and zero points and selectors where there are some."""
    limits = None
    if limits_shape:
        sides = (np.asarray(side, np.float32).reshape(limits_shape) for side in (low, high))
        limits = Limits(*sides)
    rules = named_scheme(scheme), axis, limits, rounding, nonfinite

    def run_anew(x: Tensor) -> list[Tensor]:
        request = SchemeQuantization(x, *rules, words)
        return executors.run(executors.SCHEME_QUANTIZE, executor, request)

    if limits is not None or words is not None:
        return run_anew(x)

    def make() -> Callable[[Tensor], list[Tensor]]:
        request = SchemeQuantization(x, *rules, None)
        return executors.prepare(executors.SCHEME_QUANTIZE, executor, request) or run_anew

    return PREPARED((scheme, axis, rounding, nonfinite, executor, *kind(x)), make)(x)


def refusal(request: SchemeQuantization) -> None:
    """Plain PyTorch takes everything."""


def run(request: SchemeQuantization) -> list[Tensor]:
    """The executor ``torch``."""
    r = request
    rules = (r.scheme, r.axis, r.limits, r.rounding, r.nonfinite, r.words)
    return quantized(r.x, *rules, chunk_size(r.device)).arrays
