"""Requantisation of tensors of INT32 sums, as `mxdot.model.requantize` (docs/numerics.md, 8)."""

from typing import NamedTuple

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ...model.errors import integer, integer_array
from ...model.formats import INT8_FULL, IntegerFormat
from ...model.requantize import (
    HIGHEST,
    LOWEST,
    FixedRescale,
    FloatRescale,
    Rescale,
    check_rescale,
    check_shape,
    integer_format,
)
from .. import checks
from ..eager import eager

BEYOND = 2.0**32  # every integer format


class Requantized(NamedTuple):
    """int32 integers of the output, and bool where they were rounded and where clipped."""

    integers: Tensor
    inexact: Tensor
    clipped: Tensor


def requantize(
    sums: Tensor,
    rescale: Rescale,
    output: IntegerFormat | str = INT8_FULL,
    *,
    zero_point: Tensor | ArrayLike = 0,
    low: int | None = None,
    high: int | None = None,
) -> Tensor:
    """int32 integers of `output`: min(max(rescaled sum + zero_point, low), high).

    sums: a tensor of integers within INT32, of any shape: those of `IntegerSums`, for one.
    rescale: a rule of `mxdot.model.requantize`; its parameters and `zero_point` (integers of
    `output`) are one for all or broadcast to the sums. low, high: the clipping range inside that
    of `output` (all of it when None). The result has the shape and the device of `sums`.
    TypeError or ValueError, naming the argument.
    """
    return requantize_traced(
        sums, rescale, output, zero_point=zero_point, low=low, high=high
    ).integers


@eager
def requantize_traced(
    sums: Tensor,
    rescale: Rescale,
    output: IntegerFormat | str = INT8_FULL,
    *,
    zero_point: Tensor | ArrayLike = 0,
    low: int | None = None,
    high: int | None = None,
) -> Requantized:
    """As `requantize`, and where non-zero bits were rounded away and results clipped."""
    check_rescale(rescale)
    output = integer_format(output)
    values = checks.integers("sums", sums, LOWEST, HIGHEST)
    bottom, top = output.lowest, output.highest
    zero = _zero_point(zero_point, bottom, top, values)
    low = bottom if low is None else integer("low", low, bottom, top)
    high = top if high is None else integer("high", high, low, top)
    for name, parameter in {**vars(rescale), "zero_point": zero}.items():
        check_shape(name, tuple(parameter.shape), tuple(values.shape))
    integers, inexact = _rescaled(values, rescale)
    moved = integers + zero
    result = moved.clamp(low, high)
    return Requantized(result.to(torch.int32), inexact, result != moved)


def _zero_point(value: Tensor | ArrayLike, low: int, high: int, sums: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        zero = checks.integers("zero_point", value, low, high)
        checks.same_device(sums=sums, zero_point=zero)
        return zero
    return torch.tensor(integer_array("zero_point", value, low, high), device=sums.device)


def _rescaled(sums: Tensor, rescale: Rescale) -> tuple[Tensor, Tensor]:
    """int64 integers before zero point and clipping, and where a non-zero bit was lost."""

    def on_device(parameter: NDArray) -> Tensor:
        return torch.tensor(parameter, device=sums.device)

    if isinstance(rescale, FloatRescale):
        return _float(sums, on_device(rescale.scale))
    if isinstance(rescale, FixedRescale):
        return _shifted(sums * on_device(rescale.multiplier), on_device(rescale.shift))
    return _shifted(sums, on_device(rescale.shift))


def _float(sums: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    wide = sums.to(torch.float32)
    product = wide * scale
    integers = product.round()
    exact = wide.to(torch.float64) * scale.to(torch.float64)
    inexact = wide.to(torch.float64) != sums.to(torch.float64)
    inexact = inexact | (product.to(torch.float64) != exact) | (integers != product)
    return integers.clamp(-BEYOND, BEYOND).to(torch.int64), inexact


def _shifted(values: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    half = torch.bitwise_right_shift(torch.bitwise_left_shift(1, shift), 1)
    result = torch.bitwise_right_shift(values + half, shift)
    return result, torch.bitwise_left_shift(result, shift) != values
