"""Products of 8-bit integers in INT32, rescaled as they leave (W8A8), by the tensor cores: operator
`mxdot::int8_matmul`.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ...model.accumulators import accumulator
from ...model.blocks import LARGEST_BLOCK
from ...model.formats import FloatFormat, IntegerFormat
from ...model.schemes import Scheme
from ...model.schemes.array import Scaled
from ...model.schemes.grouping import expand
from ...model.schemes.integer import check_length, largest_length
from .. import checks, executors
from ..names import named_scheme
from ..operators import operator
from ..tensors.scaled import ScaledTensor, scaled_of
from .operand import check_pair
from .products import product_of

LONGEST = (2**31 - 1) // 2**14  # any codes whatever: 128 x 128 to a term
TOP = 0x80  # of a byte: what turns an unsigned integer into it less 128


@dataclass(frozen=True)
class Rows:
    """One operand (R, K): int8 codes, float32 scales (R,), int32 zero points (R,) or None."""

    codes: Tensor
    scales: Tensor
    zero_points: Tensor | None


@dataclass(frozen=True)
class Int8Request:
    """A checked request, for executors."""

    a: Scaled[Tensor]
    b: Scaled[Tensor]
    out_dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.a.codes.device


def int8_matmul(
    a: ScaledTensor,
    b: ScaledTensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    executor: str | None = None,
) -> Tensor:
    """`matmul(a, b, "int32")`, rounded to `out_dtype`: the (M, N) products of a (M, K), b (N, K).

    a, b: elements are 8-bit two's complement or unsigned integers, with zero points or without;
    one float scale for whole rows, be it one, several or all. The sums are exact, so that every
    executor has the same bits: S x sum in float32 (section 7 of docs/numerics.md), then one RNE to
    a narrower `out_dtype`.
    executor: ``torch`` or ``triton``, as in `mxdot.gpu.quantize`. ``torch`` refuses codes and zero
    points outside the elements' range, which `quantize` never makes; ``triton`` does not look, and
    takes codes for the integers that their bits are.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    check_pair(a, b)
    for name, operand in (("a", a), ("b", b)):
        _check_scheme(name, named_scheme(operand.scheme_name))
    checks.float_dtype("out_dtype", out_dtype)
    return _matmul(a.parts(), b.parts(), a.scheme_name, b.scheme_name, out_dtype, executor)


def _fake(
    a_parts: list[Tensor],
    b_parts: list[Tensor],
    a_scheme: str,
    b_scheme: str,
    out_dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    (a, *_), (b, *_) = a_parts, b_parts
    return a.new_empty((a.shape[0], b.shape[0]), dtype=out_dtype)


@operator("int8_matmul", _fake)
def _matmul(
    a_parts: list[Tensor],
    b_parts: list[Tensor],
    a_scheme: str,
    b_scheme: str,
    out_dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    """Also refuses lengths, for which a compiler need not follow what the schemes say of sums."""
    a, b = scaled_of(a_scheme, a_parts, 1), scaled_of(b_scheme, b_parts, 1)
    length = a.codes.shape[1]
    if length > _longest(a_scheme, b_scheme):
        check_length(a.scheme, b.scheme, length)
    if not (len(a.codes) and len(b.codes)):
        return a.codes.new_empty((len(a.codes), len(b.codes)), dtype=out_dtype)
    return executors.run(executors.INT8, executor, Int8Request(a, b, out_dtype))


@cache
def _longest(a_scheme: str, b_scheme: str) -> int:
    return largest_length(named_scheme(a_scheme), named_scheme(b_scheme))


def takes(a: Scheme, b: Scheme) -> bool:
    """Whether `int8_matmul` multiplies operands of these schemes."""
    try:
        _check_scheme("a", a)
        _check_scheme("b", b)
    except ValueError:
        return False
    return True


def _check_scheme(name: str, scheme: Scheme) -> None:
    """ValueError for a scheme whose sums take more than rows of bytes."""
    (element, *more), (level, *inner) = scheme.elements, scheme.levels
    plain = isinstance(element, IntegerFormat) and not (
        element.sign_magnitude or element.fraction_bits
    )
    if more or not plain or element.bits != 8:
        elements = ", ".join(map(str, scheme.elements))
        raise ValueError(f"elements of {name} must be 8-bit integers, not {elements} of {scheme}")
    if inner or not isinstance(level.format, FloatFormat) or level.granularity.columns is not None:
        levels = ", ".join(map(str, scheme.levels))
        raise ValueError(
            f"levels of {name} must be one float scale for whole rows, not {levels} of {scheme}"
        )


def rows_of(operand: Scaled[Tensor]) -> Rows:
    """The operand as signed bytes: unsigned integers and their zero points less 128."""
    (element,), (level,), (scales,) = (
        operand.scheme.elements,
        operand.scheme.levels,
        operand.scales,
    )
    height, _ = level.granularity.group(operand.matrix_shape)
    unsigned = isinstance(element, IntegerFormat) and element.lowest == 0
    codes = operand.codes ^ TOP if unsigned else operand.codes
    zeros = operand.zero_points
    if zeros is not None:
        zeros = _one_per_row(zeros - TOP if unsigned else zeros, height).to(torch.int32)
    scales = _one_per_row(scales, height).to(torch.float32)
    return Rows(codes.contiguous().view(torch.int8), scales, zeros)


def _one_per_row(groups: Tensor, height: int) -> Tensor:
    """(groups, 1) entries for `height` rows each, as (rows,)."""
    return expand(groups, (height, 1))[:, 0].contiguous()


def refusal(_: Int8Request) -> None:
    """Plain PyTorch takes every request."""


def run(request: Int8Request) -> Tensor:
    """The product by plain PyTorch."""
    a, b = request.a, request.b
    c = a.codes.new_zeros((len(a.codes), len(b.codes)), dtype=torch.float32)
    return product_of(a, b, accumulator("int32"), c, LARGEST_BLOCK).to(request.out_dtype)
