"""Requantisation of tensors of INT32 sums, as `mxdot.model.requantize` (docs/numerics.md, 8):
operator `mxdot::requantize`.
"""

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ...model.errors import integer, integer_array
from ...model.formats import INT8_FULL, IntegerFormat
from ...model.requantize import (
    HIGHEST,
    LOWEST,
    RULES,
    Requantized,
    Rescale,
    check_rescale,
    clipping_range,
    integer_format,
    requantized,
)
from .. import checks
from ..operators import operator


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


def requantize_traced(
    sums: Tensor,
    rescale: Rescale,
    output: IntegerFormat | str = INT8_FULL,
    *,
    zero_point: Tensor | ArrayLike = 0,
    low: int | None = None,
    high: int | None = None,
) -> Requantized:
    """`requantize`, and tensors that mark results that were rounded or clipped."""
    check_rescale(rescale)
    output = integer_format(output)
    low, high = clipping_range(output, low, high)
    values = checks.tensor("sums", sums)
    if isinstance(zero_point, Tensor):
        zero = checks.tensor("zero_point", zero_point)
        checks.same_device(sums=values, zero_point=zero)
    elif isinstance(zero_point, int):
        number = integer("zero_point", zero_point, output.lowest, output.highest)
        zero = torch.tensor(number, device=values.device)
    else:
        array = integer_array("zero_point", zero_point, output.lowest, output.highest)
        zero = torch.tensor(array, device=values.device)
    parameters = [torch.as_tensor(each, device=values.device) for each in vars(rescale).values()]
    limits = output.lowest, output.highest, low, high
    return Requantized(*_requantize(values, type(rescale).__name__, parameters, zero, list(limits)))


def _fake(sums: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    flag = torch.empty_like(sums, dtype=torch.bool)
    return torch.empty_like(sums, dtype=torch.int32), flag, torch.empty_like(flag)


@operator("requantize", _fake)
def _requantize(
    sums: Tensor, rule: str, parameters: list[Tensor], zero_point: Tensor, limits: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """limits: the lowest and highest zero point, then the clipping range."""
    bottom, top, low, high = limits
    values = checks.integers("sums", sums, LOWEST, HIGHEST)
    zero = checks.integers("zero_point", zero_point, bottom, top)
    kind = RULES[rule]
    names = dict(zip(kind.__dataclass_fields__, parameters, strict=True))
    return tuple(requantized(values, kind, names, zero, low, high))
