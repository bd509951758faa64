"""MX operands as E4M3 with one float32 scale to 128 elements, which Hopper's FP8 products take:
operator `mxdot::regroup`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...model.arrays import power
from ...model.formats import E4M3, E8M0, MX_FORMATS, ElementFormat
from .. import executors
from ..names import named_format
from ..operators import operator
from ..tensors.container import Container, along, whole_groups
from ..tensors.mx import FLOAT8, MXTensor

GROUP = 128  # elements that share a scale (torch.nn.functional.ScalingType.BlockWise1x128)
ROWS = 16  # rows are filled up to a multiple of this, as the product wants them
LEAST_SHIFT = -126  # where every finite element has long become zero


class Regrouped(Container):
    """An MX operand (R, K), regrouped for FP8 products; made by `regroup`.

    elements: float8_e4m3fn (R, K), R and K filled up with zeros to multiples of 16 and 128.
    scales: float32 (R, K / 128) of the filled up R and K, powers of two or NaN, columns contiguous.
    shape: (R, K) without the filling.
    """

    def __new__(cls, elements: Tensor, scales: Tensor, shape: Sequence[int]) -> "Regrouped":
        return cls.wrapper(shape, elements.device)

    def __init__(self, elements: Tensor, scales: Tensor, shape: Sequence[int]) -> None:
        # As the product wants it, wherever they come from.
        self.elements, self.scales = elements, scales.t().contiguous().t()

    def named_parts(self) -> dict[str, Tensor]:
        return {"elements": self.elements, "scales": self.scales}

    def facts(self) -> tuple[()]:
        return ()

    @classmethod
    def made_of(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "Regrouped":
        return cls(parts["elements"], parts["scales"], shape)

    def cut(self, dim: int, start: int, stop: int) -> "Regrouped":
        if dim:
            return super().cut(dim, start, stop)
        groups = whole_groups(0, start, stop, self.shape[0], ROWS)
        rows = slice(groups.start * ROWS, groups.stop * ROWS)
        parts = (along(part, 0, rows) for part in (self.elements, self.scales))
        return Regrouped(*parts, (stop - start, self.shape[1]))

    def dequantize(self) -> Tensor:
        """Values, element x scale: float32 (R, K)."""
        rows, length = self.shape
        scales = self.scales.repeat_interleave(GROUP, dim=1)
        return (self.elements.to(torch.float32) * scales)[:rows, :length]


@dataclass(frozen=True)
class Regrouping:
    """A checked request: contiguous codes (R, K) and the scales of their blocks."""

    codes: Tensor
    scales: Tensor
    format: ElementFormat
    block_size: int

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and elements of a row, filled up."""
        return padded(*self.codes.shape)


def padded(rows: int, length: int) -> tuple[int, int]:
    """Rows and elements of a row, filled up."""
    return (rows + ROWS - 1) // ROWS * ROWS, (length + GROUP - 1) // GROUP * GROUP


# The formats whose every element is a number of E4M3.
TAKEN = {
    name: fmt
    for name, fmt in MX_FORMATS.items()
    if fmt == E4M3 or set(fmt.values) <= set(E4M3.values)
}


def regroup(x: MXTensor, *, executor: str | None = None) -> Regrouped:
    """`x` with one scale to every 128 elements of a row, the largest of its blocks' scales.

    x: (R, K), blocked along the last axis, of E4M3 or a format whose elements are E4M3 numbers
    (`TAKEN`); the block size divides 128 or is a multiple of it. Elements of a block whose
    scale is 2^-d of the group's become 2^-d times as large. They stay exact down to 2^-6, the
    smallest normal number; below, they are rounded to nearest even in units of 2^-9: an error of at
    most 2^-10 where the group's scale is 1 and E4M3 reaches 448. A block with the NaN scale makes
    its group NaN.
    executor: ``torch`` or ``triton``, as in `quantize`.
    Raises TypeError or ValueError, naming what is wrong.
    """
    if not isinstance(x, MXTensor):
        raise TypeError(f"x must be an MXTensor, not {type(x).__name__}")
    if x.codes.ndim != 2 or x.axis not in (-1, 1):
        raise ValueError(
            f"x must have shape (R, K) and axis 1, not shape {tuple(x.shape)} and axis {x.axis}"
        )
    fmt = named_format(x.format_name)
    if TAKEN.get(fmt.name) != fmt:
        raise ValueError(f"format of x must be one of {', '.join(TAKEN)}, not {fmt}")
    if GROUP % x.block_size and x.block_size % GROUP:
        raise ValueError(
            f"block_size of x must divide {GROUP} or be a multiple of it, not {x.block_size}"
        )
    codes, scales = _regroup(x.codes, x.scales, x.format_name, x.block_size, executor)
    return Regrouped(codes.view(FLOAT8[E4M3]), scales.t(), x.shape)


def _fake(codes: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    rows, length = padded(*codes.shape)
    scales = codes.new_empty((length // GROUP, rows), dtype=torch.float32)
    return codes.new_empty((rows, length)), scales


@operator("regroup", _fake)
def _regroup(
    codes: Tensor, scales: Tensor, fmt: str, block_size: int, executor: str | None
) -> tuple[Tensor, Tensor]:
    """Codes (R, K) and float32 scales (K / 128, R), all filled up."""
    parts = codes.contiguous(), scales.contiguous()
    request = Regrouping(*parts, named_format(fmt), block_size)
    return executors.run(executors.REGROUP, executor, request)


def refusal(_: Regrouping) -> None:
    """Plain PyTorch takes every request."""


def run(request: Regrouping) -> tuple[Tensor, Tensor]:
    """Codes (R, K) and float32 scales (K / 128, R), all filled up, by plain PyTorch."""
    (rows, length), (m, k) = request.codes.shape, request.padded
    codes = pad(request.codes, (0, k - length, 0, m - rows))
    if request.block_size > GROUP:
        scales = request.scales.repeat_interleave(request.block_size // GROUP, dim=1)
        parts = 1
    else:
        scales, parts = request.scales, GROUP // request.block_size
    scales = pad(scales, (0, k // GROUP * parts - scales.shape[1], 0, m - rows))
    scales = scales.reshape(m, k // GROUP, parts)
    top = scales.amax(dim=2)
    down = (scales.to(torch.int32) - top[..., None].to(torch.int32)).clamp(min=LEAST_SHIFT)
    elements = request.format.exact(codes).reshape(m, k // GROUP, parts, GROUP // parts)
    values = (elements * power(down)[..., None]).reshape(m, k)
    new_scales = E8M0.exact(top).to(torch.float32)
    return E4M3.encode_unchecked(values), new_scales.t().contiguous()
