"""Matrix products of MXTensors, bit for bit as `mxdot.model.matmul`: operator `mxdot::matmul`."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.accumulators import Accumulator, check_known
from ...model.accumulators import accumulator as as_accumulator
from ...model.formats import ElementFormat
from .. import checks, executors
from ..names import accumulator_name, named_accumulator, named_format
from ..operators import operator
from ..tensors.mx import MXTensor
from .operands import check_pair
from .outputs import OUTPUTS, convert


@dataclass(frozen=True)
class Product:
    """A checked request: (M, N) dot products of rows of `a` and rows of `b`.

    a_codes (M, K), b_codes (N, K): contiguous, in blocks of `block_size`; a_scales (M, K /
    block_size), b_scales likewise. c: float32 (M, N), contiguous, without -0; None for +0.
    An executor returns float32 (M, N), a zero as +0; `matmul` sets the bits of a NaN.
    """

    a_codes: Tensor
    b_codes: Tensor
    a_scales: Tensor
    b_scales: Tensor
    a_format: ElementFormat
    b_format: ElementFormat
    block_size: int
    accumulator: Accumulator
    c: Tensor | None

    @property
    def device(self) -> torch.device:
        """Where all tensors are."""
        return self.a_codes.device

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        return self.a_codes.shape[0], self.b_codes.shape[0]

    @property
    def formats(self) -> tuple[ElementFormat, ElementFormat]:
        """Of a and of b."""
        return self.a_format, self.b_format

    @property
    def has_inf(self) -> bool:
        """Whether an element may be infinite."""
        return any(fmt.inf_code is not None for fmt in self.formats)


def matmul(
    a: MXTensor,
    b: MXTensor,
    accumulator: Accumulator | str,
    c: Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.float32,
    executor: str | None = None,
) -> Tensor:
    """The (M, N) dot products of the rows of `a` (M, K) and `b` (N, K).

    a, b: MXTensors of one block size on one device, blocked along the last axis; their element
    formats may differ. accumulator: an object of mxdot.model or its text. c: running values,
    floats that are float32, broadcastable to (M, N); +0 when None. out_dtype: float32, or bfloat16
    or float16 by one more RNE. executor: ``torch``, ``triton`` or ``silicon``; None takes Triton on
    CUDA where it can, else PyTorch. Every executor gives the same bits.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    rule = check_operands(a, b, accumulator)
    if out_dtype not in OUTPUTS:
        known = ", ".join(map(checks.dtype_name, OUTPUTS))
        raise ValueError(f"out_dtype must be one of {known}, not {checks.shown(out_dtype)}")
    start = None if c is None else running_value(c, a.codes, (a.shape[0], b.shape[0]))
    parts = a.codes, b.codes, a.scales, b.scales
    formats = a.format_name, b.format_name
    name = accumulator_name(rule)
    return _matmul(*parts, *formats, a.block_size, name, start, out_dtype, executor)


def _fake(a_codes: Tensor, b_codes: Tensor, *others: Any) -> Tensor:
    out_dtype = others[-2]
    return a_codes.new_empty((a_codes.shape[0], b_codes.shape[0]), dtype=out_dtype)


@operator("matmul", _fake)
def _matmul(
    a_codes: Tensor,
    b_codes: Tensor,
    a_scales: Tensor,
    b_scales: Tensor,
    a_format: str,
    b_format: str,
    block_size: int,
    accumulator: str,
    c: Tensor | None,
    out_dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    rule = named_accumulator(accumulator)
    parts = (part.contiguous() for part in (a_codes, b_codes, a_scales, b_scales))
    formats = named_format(a_format), named_format(b_format)
    product = Product(*parts, *formats, block_size, rule, c)
    result = executors.run(executors.MATMUL, executor, product)
    bits = torch.where(result.isnan(), rule.nan_bits, result.view(torch.int32))
    return convert(bits.view(torch.float32), OUTPUTS[out_dtype], out_dtype)


def check_operands(a: MXTensor, b: MXTensor, value: Accumulator | str) -> Accumulator:
    """The accumulator of `value`, if it takes `a` and `b`; TypeError or ValueError if not."""
    rule = check_known(as_accumulator(value))
    check_pair(a, b)
    if a.block_size != b.block_size:
        raise ValueError(
            f"block_size of a and b must be equal, not {a.block_size} and {b.block_size}"
        )
    rule.check_formats(named_format(a.format_name), named_format(b.format_name))
    return rule


def running_value(c: Tensor, a: Tensor, shape: tuple[int, int]) -> Tensor:
    """`c`, on the device of `a`, broadcast to `shape`; -0 counts as +0."""
    values = checks.floats("c", c).to(torch.float32)
    checks.same_device(a=a, c=values)
    try:
        values = values.expand(shape)
    except RuntimeError:
        raise ValueError(f"c must broadcast to shape {shape}, not {tuple(c.shape)}") from None
    return torch.where(values == 0, 0.0, values).contiguous()
