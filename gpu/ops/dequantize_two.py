"""The values of both operands of a product, of one launch: operator `mxdot::dequantize_two`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import executors
from ..call_cache import ALIGNMENT, Prepared, kind
from ..names import named_format
from ..operators import operator
from ..tensors.dequantize import Dequantization
from ..tensors.mx import MXTensor

PREPARED = Prepared()


@dataclass(frozen=True)
class Two:
    """A checked request: contiguous blocks of two operands on one device, and their shapes."""

    a: Dequantization
    b: Dequantization
    shapes: tuple[torch.Size, torch.Size]

    @property
    def device(self) -> torch.device:
        return self.a.device


def dequantize_two(a: MXTensor, b: MXTensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`a.dequantize(dtype)` and `b.dequantize(dtype)`, of matrices blocked along the last axis."""
    parts = a.codes, a.scales, b.codes, b.scales
    if not all(part.is_contiguous() for part in parts):
        return a.dequantize(dtype), b.dequantize(dtype)
    formats = a.format_name, a.block_size, b.format_name, b.block_size
    return _dequantize_two(*parts, *formats, dtype, None)


def _fake(
    a_codes: Tensor, a_scales: Tensor, b_codes: Tensor, b_scales: Tensor, *others: Any
) -> tuple[Tensor, Tensor]:
    dtype = others[-2]
    return tuple(x.new_empty(x.shape, dtype=dtype) for x in (a_codes, b_codes))


@operator("dequantize_two", _fake)
def _dequantize_two(
    a_codes: Tensor,
    a_scales: Tensor,
    b_codes: Tensor,
    b_scales: Tensor,
    a_format: str,
    a_block: int,
    b_format: str,
    b_block: int,
    dtype: torch.dtype,
    executor: str | None,
) -> tuple[Tensor, Tensor]:
    rules = a_format, a_block, b_format, b_block, dtype, executor

    def make() -> Callable[..., tuple[Tensor, Tensor]]:
        shapes = a_codes.shape, b_codes.shape
        a = Dequantization(*_blocks(a_codes, a_scales, a_block), named_format(a_format), dtype)
        b = Dequantization(*_blocks(b_codes, b_scales, b_block), named_format(b_format), dtype)
        return executors.prepare(executors.DEQUANTIZE_TWO, executor, Two(a, b, shapes))

    aligned = a_scales.data_ptr() % ALIGNMENT, b_scales.data_ptr() % ALIGNMENT
    key = *kind(a_codes), *kind(b_codes), aligned, rules
    return PREPARED(key, make)(a_codes, a_scales, b_codes, b_scales)


def _blocks(codes: Tensor, scales: Tensor, block: int) -> tuple[Tensor, Tensor]:
    return codes.view(-1, block), scales.view(-1)


def refusal(_: Two) -> None:
    """One after the other takes every request."""


def prepare(request: Two) -> Callable[..., tuple[Tensor, Tensor]]:
    """The work for requests like this one, given codes and scales of both: each by itself."""
    a, b = (
        (side.codes.shape[1], executors.prepare(executors.DEQUANTIZE, None, side))
        for side in (request.a, request.b)
    )
    shapes = request.shapes

    def work(
        a_codes: Tensor, a_scales: Tensor, b_codes: Tensor, b_scales: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = a[1](*_blocks(a_codes, a_scales, a[0]))
        y = b[1](*_blocks(b_codes, b_scales, b[0]))
        return x.view(shapes[0]), y.view(shapes[1])

    return work
