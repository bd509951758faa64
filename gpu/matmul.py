"""Matrix products of MXTensors, bit for bit as `mxdot.model.matmul`."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.accumulators import Accumulator, check_known
from ..model.accumulators import accumulator as as_accumulator
from ..model.formats import ElementFormat
from . import checks, executors
from .eager import eager
from .outputs import OUTPUTS, convert
from .tensor import MXTensor


@dataclass(frozen=True)
class Product:
    """A checked request: (M, N) dot products of rows of `a` and rows of `b`.

    a_codes (M, K), b_codes (N, K): uint8, contiguous, in blocks of `block_size`; a_scales (M, K /
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


@eager
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
    product = Product(
        a.codes.contiguous(),
        b.codes.contiguous(),
        a.scales.contiguous(),
        b.scales.contiguous(),
        a.format,
        b.format,
        a.block_size,
        rule,
        None if c is None else running_value(c, a.codes, (a.shape[0], b.shape[0])),
    )
    result = executors.choose(executors.MATMUL, executor, product)(product)
    bits = torch.where(result.isnan(), rule.nan_bits, result.view(torch.int32))
    return convert(bits.view(torch.float32), OUTPUTS[out_dtype], out_dtype)


def check_operands(a: MXTensor, b: MXTensor, value: Accumulator | str) -> Accumulator:
    """The accumulator of `value`, if it takes `a` and `b`; TypeError or ValueError if not."""
    rule = check_known(as_accumulator(value))
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, MXTensor):
            raise TypeError(f"{name} must be an MXTensor, not {type(operand).__name__}")
        if operand.axis not in (-1, operand.codes.ndim - 1):
            raise ValueError(f"axis of {name} must be the last axis, not {operand.axis}")
    if a.codes.ndim != 2 or b.codes.ndim != 2 or a.shape[1] != b.shape[1]:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ValueError(f"a and b must have shapes (M, K) and (N, K), not {shapes}")
    if a.block_size != b.block_size:
        raise ValueError(
            f"block_size of a and b must be equal, not {a.block_size} and {b.block_size}"
        )
    checks.same_device(a=a.codes, b=b.codes)
    rule.check_formats(a.format, b.format)
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
