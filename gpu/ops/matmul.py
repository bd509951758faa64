"""Matrix products of MXTensors, bit for bit as `mxdot.model.matmul`: operator `mxdot::matmul`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ...model.accumulators import Accumulator, check_known, is_foreign, warn_of_operands
from ...model.accumulators import accumulator as as_accumulator
from ...model.formats import BFLOAT16, FLOAT16, FLOAT32, ElementFormat, FloatFormat
from .. import checks, executors
from ..call_cache import Prepared, kind, once
from ..names import accumulator_name, named_accumulator, named_format
from ..operators import operator
from ..tensors.mx import MXTensor

PREPARED = Prepared()
OUTPUTS = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}


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
        return self.a_codes.device

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        return self.a_codes.shape[0], self.b_codes.shape[0]

    @property
    def formats(self) -> tuple[ElementFormat, ElementFormat]:
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
    name = check_operands(a, b, accumulator)
    if out_dtype not in tuple(OUTPUTS):  # a list has no hash
        known = ", ".join(map(checks.dtype_name, OUTPUTS))
        raise ValueError(f"out_dtype must be one of {known}, not {checks.shown(out_dtype)}")
    start = None if c is None else running_value(c, a.codes, (a.shape[0], b.shape[0]))
    parts = a.codes, b.codes, a.scales, b.scales
    formats = a.format_name, b.format_name
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
    _warn_of_operands(accumulator, a_format, b_format)
    kinds = kind(a_codes), kind(b_codes), kind(a_scales), kind(b_scales), c is None or kind(c)
    formats = a_format, b_format
    rules = *formats, block_size, accumulator, out_dtype, executor

    def make() -> Callable[..., Tensor]:
        return _prepare(a_codes, b_codes, a_scales, b_scales, *rules[:-2], c, *rules[-2:])

    return PREPARED((*kinds, *rules), make)(a_codes, b_codes, a_scales, b_scales, c)


def _prepare(
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
) -> Callable[..., Tensor]:
    """Work for operands like these."""
    rule = named_accumulator(accumulator)
    settings = named_format(a_format), named_format(b_format), block_size, rule
    parts = a_codes, b_codes, a_scales, b_scales

    def product(parts: tuple[Tensor, ...], c: Tensor | None) -> Product:
        return Product(*(part.contiguous() for part in parts), *settings, c)

    def anew(*parts: Tensor, c: Tensor | None) -> Tensor:
        result = executors.run(executors.MATMUL, executor, product(parts, c))
        bits = torch.where(result.isnan(), rule.nan_bits, result.view(torch.int32))
        return bits.view(torch.float32)

    dense = all(part.is_contiguous() for part in parts)
    # The tensor cores look at the scales first.
    kept = dense and executor != "silicon"
    prepared = executors.prepare(executors.MATMUL, executor, product(parts, c)) if kept else None

    def work(*tensors: Any) -> Tensor:
        *parts, c = tensors
        result = anew(*parts, c=c) if prepared is None else prepared(*parts, c)
        return convert(result, OUTPUTS[out_dtype], out_dtype)

    return work


def check_operands(a: MXTensor, b: MXTensor, value: Accumulator | str) -> str:
    """The text of the accumulator, if it takes `a` and `b`; TypeError or ValueError if not."""
    check_pair(a, b)
    return _check_rule(value, a.format_name, b.format_name, a.block_size, b.block_size)


@once
def _check_rule(
    value: Accumulator | str, a_format: str, b_format: str, a_block: int, b_block: int
) -> str:
    rule = check_known(as_accumulator(value))
    if a_block != b_block:
        raise ValueError(f"block_size of a and b must be equal, not {a_block} and {b_block}")
    rule.check_formats(named_format(a_format), named_format(b_format))
    return accumulator_name(rule)


def _warn_of_operands(accumulator: str, a_format: str, b_format: str) -> None:
    """Warn as the model does, inside the operator, because a compiler knows no warnings."""
    if _is_foreign(accumulator, a_format, b_format):
        pair = named_format(a_format), named_format(b_format)
        warn_of_operands(named_accumulator(accumulator), [pair])


@cache
def _is_foreign(accumulator: str, a_format: str, b_format: str) -> bool:
    rule = named_accumulator(accumulator)
    return is_foreign(rule, named_format(a_format), named_format(b_format))


def running_value(c: Tensor, a: Tensor, shape: tuple[int, int]) -> Tensor:
    """`c`, on the device of `a`, broadcast to `shape`; -0 counts as +0."""
    values = checks.floats("c", c).to(torch.float32)
    checks.same_device(a=a, c=values)
    try:
        values = values.expand(shape)
    except RuntimeError:
        raise ValueError(f"c must broadcast to shape {shape}, not {tuple(c.shape)}") from None
    return torch.where(values == 0, 0.0, values).contiguous()


def check_pair(a: Tensor, b: Tensor, *others: type[Tensor]) -> None:
    """TypeError or ValueError unless a (M, K) and b (N, K) are MXTensors blocked along K.

    others: further kinds of operands that the product takes.
    """
    kinds = (MXTensor, *others)
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, kinds):
            known = " or a ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} must be an {known}, not {type(operand).__name__}")
        if isinstance(operand, MXTensor) and operand.axis not in (-1, operand.ndim - 1):
            raise ValueError(f"axis of {name} must be the last axis, not {operand.axis}")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ValueError(f"a and b must have shapes (M, K) and (N, K), not {shapes}")
    checks.same_device(a=a, b=b)


def convert(x: Tensor, out: FloatFormat, dtype: torch.dtype) -> Tensor:
    """RNE of float32 `x` to `dtype`, which `out` describes, as the model's `outputs.convert`:
    subnormals kept, a zero +0, a NaN quiet and with its leading bits."""
    if out == FLOAT32:
        return x
    narrow = (x.to(dtype) + 0.0).view(torch.int16)  # a zero is +0
    fraction = x.view(torch.int32) & (2**FLOAT32.mantissa_bits - 1)
    leading = torch.bitwise_right_shift(fraction, FLOAT32.mantissa_bits - out.mantissa_bits)
    assert out.nan_code is not None
    return torch.where(x.isnan(), (out.nan_code | leading).to(torch.int16), narrow).view(dtype)
