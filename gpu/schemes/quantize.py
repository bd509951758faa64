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

from ...model.arrays import axis_last, matched
from ...model.blocks import check_axis
from ...model.schemes import Limits, Scheme
from ...model.schemes.grouping import Granularity, grid_shape, group_in
from ...model.schemes.quantize import (
    check_policies,
    check_takes_limits,
    check_values,
    matrix_limits,
    quantized_within,
)
from ...model.schemes.scales import Bounds
from .. import checks, executors
from ..call_cache import Prepared, kind
from ..chunks import chunk_size
from ..names import known_scheme, named_scheme
from ..operators import operator
from ..ops.quantize import is_seed, random_words, seeded_words
from ..tensors.scaled import ScaledTensor

PREPARED = Prepared()


@dataclass(frozen=True)
class SchemeQuantization:
    """A checked request, for executors. x: a float of any shape; `axis` not negative.

    limits: a tensor holds magnitudes, and lies on the device of `x`. words: for ``stochastic``
    rounding uint32 of the shape of `x`, or a seed and an offset, int64; else None.
    """

    x: Tensor
    scheme: Scheme
    axis: int
    limits: Limits | Tensor | None
    rounding: str
    nonfinite: str
    words: Tensor | None

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def bounds(self) -> Bounds | None:
        """Low and high of the outermost groups of the matrix, float64 on the device."""
        moved = tuple(axis_last(self.x, self.axis).shape)
        whole = prod(moved[:-1]), moved[-1]
        group = group_in(self.scheme.levels[0].granularity, moved, whole)
        if not (self.limits is None or isinstance(self.limits, Limits)):
            high = axis_last(self.limits, self.axis)
            high = high.reshape(-1, moved[-1] // group[1]).to(torch.float64)
            return -high, high
        given = matrix_limits(self.limits, moved, group, self.axis)
        return None if given is None else (matched(given[0], self.x), matched(given[1], self.x))


def quantize(
    x: Tensor,
    scheme: Scheme | str,
    *,
    axis: int = -1,
    limits: Limits | Tensor | None = None,
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: torch.Generator | Tensor | None = None,
    executor: str | None = None,
) -> ScaledTensor:
    """Quantise `x` by a Scheme or a name in SCHEMES, the groups' columns along `axis`.

    x: float32, float16, bfloat16, or float64 that holds float32 values; any shape but an empty one,
    any strides. Rows, tiles, `limits`, `rounding` and `nonfinite`: as in the model's `quantize`.
    limits: also float32 magnitudes in the shape of the outermost scales, on the device of `x`, of
    schemes without zero points: -m to m. Their values are not looked at; they must be finite and
    not negative.
    rng: for ``stochastic`` rounding, a torch.Generator, one uint32 word per element of x, or int64
    (seed, offset), whose words (`mxdot.gpu.ops.quantize.seeded_words`) kernels make as they round.
    executor: ``torch`` or ``triton``; None takes Triton on CUDA where it can, else PyTorch. All
    have the same bits.
    The result is on the device of `x`, cut from its gradient.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme, name = known_scheme(scheme)
    check_policies(rounding, nonfinite)
    if limits is not None:
        check_takes_limits(scheme)
    values = checks.floats("x", x)
    axis = check_axis(tuple(values.shape), axis)
    check_values(tuple(values.shape))
    words = None
    if rounding == "stochastic":
        words = rng if is_seed(rng) else random_words(rng, values)
        checks.same_device(x=values, rng=words)
    low, high, shape = _flat(limits, values, scheme, axis)
    magnitudes = _magnitudes(limits, values, scheme, axis)
    made = (values, name, axis, low, high, shape, magnitudes, rounding, nonfinite, words, executor)
    parts = _quantize(*made)
    return ScaledTensor.of_parts(name, parts, axis)


def _flat(
    limits: Limits | Tensor | None, x: Tensor, scheme: Scheme, axis: int
) -> tuple[list[float], list[float], list[int]]:
    """Limits as arguments of the operator; an empty shape stands for none."""
    if limits is None or isinstance(limits, Tensor):
        return [], [], []
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be Limits or None, not {type(limits).__name__}")
    want = _grid(x, axis, scheme.levels[0].granularity)
    if limits.low.shape != want:
        raise ValueError(f"limits must have shape {want}, not {limits.low.shape}")
    return limits.low.ravel().tolist(), limits.high.ravel().tolist(), list(limits.low.shape)


def _magnitudes(
    limits: Limits | Tensor | None, x: Tensor, scheme: Scheme, axis: int
) -> Tensor | None:
    """Limits that are a tensor; ValueError for what does not fit."""
    if limits is None or isinstance(limits, Limits):
        return None
    if scheme.zero_point:
        raise ValueError(f"limits must be Limits of {scheme}, which has zero points, not a tensor")
    want = _grid(x, axis, scheme.levels[0].granularity)
    if limits.dtype != torch.float32 or limits.device != x.device or limits.shape != want:
        raise ValueError(
            f"limits must be float32 of shape {want} on {x.device}, not "
            f"{checks.dtype_name(limits.dtype)} of {tuple(limits.shape)} on {limits.device}"
        )
    return limits.detach()


def _grid(x: Tensor, axis: int, granularity: Granularity) -> tuple[int, ...]:
    """The shape of the scales of a level."""
    moved = list(x.shape)
    columns = moved.pop(axis)
    group = granularity.group((prod(moved), columns))
    return grid_shape((*moved, columns), group, axis)


def _fake(x: Tensor, scheme: str, axis: int, *others: Any) -> list[Tensor]:
    known = named_scheme(scheme)
    axis %= x.ndim
    inner = _grid(x, axis, known.levels[-1].granularity)
    parts = [x.new_empty(x.shape, dtype=getattr(torch, known.code_dtype.name))]
    for level in known.levels:
        dtype = getattr(torch, level.format.dtype.name)
        parts.append(x.new_empty(_grid(x, axis, level.granularity), dtype=dtype))
    if known.zero_point:
        parts.append(x.new_empty(inner, dtype=torch.int32))
    if len(known.elements) > 1:
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
    magnitudes: Tensor | None,
    rounding: str,
    nonfinite: str,
    words: Tensor | None,
    executor: str | None,
) -> list[Tensor]:
    """Codes, the scales of every level, and zero points and selectors where there are some."""
    limits = magnitudes
    if limits_shape:
        sides = (np.asarray(side, np.float32).reshape(limits_shape) for side in (low, high))
        limits = Limits(*sides)
    rules = named_scheme(scheme), axis, limits, rounding, nonfinite

    def run_anew(x: Tensor, words: Tensor | None = None) -> list[Tensor]:
        request = SchemeQuantization(x, *rules, words)
        return executors.run(executors.SCHEME_QUANTIZE, executor, request)

    if limits is not None:
        return run_anew(x, words)

    def make() -> Callable[..., list[Tensor]]:
        request = SchemeQuantization(x, *rules, words)
        return executors.prepare(executors.SCHEME_QUANTIZE, executor, request) or run_anew

    given = () if words is None else (words,)
    kinds = [fact for each in (x, *given) for fact in kind(each)]
    return PREPARED((scheme, axis, rounding, nonfinite, executor, *kinds), make)(x, *given)


def refusal(request: SchemeQuantization) -> None:
    """Plain PyTorch takes everything."""


def run(request: SchemeQuantization) -> list[Tensor]:
    """The executor ``torch``."""
    r = request
    words = seeded_words(r.words, r.x.shape) if is_seed(r.words) else r.words
    rules = (r.scheme, r.axis, r.bounds, r.rounding, r.nonfinite, words)
    return quantized_within(r.x, *rules, chunk_size(r.device)).arrays
