"""Products of few rows of floats with the codes of a weight: operator `mxdot::few_rows_matmul`.

The codes go from memory to the multipliers; no matrix of values is written.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.formats import E4M3, E5M2, FLOAT32
from ...model.schemes import Scheme
from .. import executors
from ..names import named_scheme
from ..operators import operator
from ..tensors.mx import FLOAT8, MXTensor
from ..tensors.packed import PackedTensor, described, from_description
from ..tensors.scaled import ScaledTensor

Weights = MXTensor | ScaledTensor | PackedTensor
MOST_ROWS = 16
SHORT = 4  # significant bits of a scale: with the 4 of an FP8 element bfloat16 has them
FLOATS = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class FewRows:
    """A checked request: contiguous floats (M, K) and the codes of a weight (N, K)."""

    x: Tensor
    scales: Tensor | None
    weights: Weights
    out_dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        return self.x.device


def few_rows_matmul(
    x: Tensor,
    weights: Weights,
    scales: Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
    executor: str | None = None,
) -> Tensor:
    """The (M, N) products of the rows of `x` (M, K) and a weight (N, K), in `out_dtype`, by default
    the dtype of `x`.

    x: bfloat16 or float16; or FP8, exact in bfloat16, with `scales`: float32, one for each row or
    one for all, which multiply the sums. Products are summed in float32 in an order of the
    executor's own, and results are rounded once. executor:

    ``triton``  up to 16 rows. A weight is a float32 product of code and scale, rounded to the type
                of `x` (bfloat16 for FP8) where there are two rows or more; scales of whole rows
                multiply the sums.
    ``torch``   the values of the weight, rounded to the type of `x`, and the library's product.

    ValueError for shapes that do not fit, and where an executor cannot.
    """
    (m, length), want = x.shape, weights.shape[1]
    if length != want:
        raise ValueError(f"x must have {want} columns, as the weights, not {length}")
    if scales is not None and scales.numel() not in (1, m):
        raise ValueError(f"scales must be 1 or {m}, not {scales.numel()}")
    parts, *about = described(weights)
    # A slice of a weight has codes and scales with gaps.
    parts = [part.contiguous() for part in parts]
    out = x.dtype if out_dtype is None else out_dtype
    whole = None if scales is None else scales.contiguous()
    return _few_rows(x, whole, parts, *about, [*weights.shape], out, executor)


def takes(x: Tensor, weights: Any) -> bool:
    """Whether `x` has few rows of a 16-bit float, and `weights` are codes, on a CUDA device."""
    return isinstance(weights, Weights) and x.dtype in FLOATS and is_few(x)


def is_few(x: Tensor) -> bool:
    """Whether a matrix has few rows, on a CUDA device."""
    return 0 < x.shape[0] <= MOST_ROWS and x.shape[1] > 0 and x.device.type == "cuda"


def takes_rows(a: Any, b: Any) -> bool:
    """Whether `rows_matmul` multiplies: few rows of FP8 codes, each under one scale."""
    if not (isinstance(a, ScaledTensor) and isinstance(b, Weights) and is_few(a)):
        return False
    return is_of_rows(named_scheme(a.scheme_name)) and has_short_scales(b)


def has_short_scales(weights: Weights) -> bool:
    """Whether bfloat16 has the values of a weight, scales of whole rows left out."""
    _, kind, name, *_ = described(weights)
    if kind == MXTensor.__name__:
        return True
    inner, length = named_scheme(name).levels[-1], weights.shape[1]
    width = inner.granularity.columns
    return width in (None, length) or inner.format.significand_bits <= SHORT


def is_of_rows(scheme: Scheme) -> bool:
    """Whether a scheme has FP8 elements and one float32 scale for each row or for all."""
    (element, *_), (level, *_) = scheme.elements, scheme.levels
    # Counted, for not every torch.compile traces `not` of a tuple.
    one = len(scheme.elements) == len(scheme.levels) == 1 and not scheme.zero_point
    whole = level.granularity.columns is None and level.granularity.rows in (1, None)
    return one and whole and level.format == FLOAT32 and element in (E4M3, E5M2)


def rows_matmul(a: ScaledTensor, b: Weights, out_dtype: torch.dtype) -> Tensor:
    """The (M, N) products of FP8 rows (M, K) and a weight (N, K), float32 sums scaled once."""
    element = named_scheme(a.scheme_name).elements[0]
    codes, scales = a.parts()  # torch.compile traces no property
    return few_rows_matmul(codes.view(FLOAT8[element]), b, scales, out_dtype=out_dtype)


def _fake(x: Tensor, *others: Any) -> Tensor:
    *_, shape, out_dtype, _ = others
    return x.new_empty((x.shape[0], shape[0]), dtype=out_dtype)


@operator("few_rows_matmul", _fake)
def _few_rows(
    x: Tensor,
    scales: Tensor | None,
    parts: list[Tensor],
    kind: str,
    name: str,
    sizes: list[int],
    packed: bool,
    shape: list[int],
    out_dtype: torch.dtype,
    executor: str | None,
) -> Tensor:
    weights = from_description(parts, kind, name, sizes, packed, shape)
    return executors.run(
        executors.FEW_ROWS, executor, FewRows(x.contiguous(), scales, weights, out_dtype)
    )


def refusal(_: FewRows) -> None:
    """Plain PyTorch takes every request."""


def run(request: FewRows) -> Tensor:
    """The product (M, N) by plain PyTorch."""
    x = request.x
    with torch.autocast(x.device.type, enabled=False):  # which has dtypes of its own
        if request.scales is None and request.out_dtype == x.dtype:
            return x @ request.weights.dequantize(x.dtype).t()
        sums = x.float() @ request.weights.dequantize().t()
        sums = sums if request.scales is None else sums * request.scales.reshape(-1, 1)
        return sums.to(request.out_dtype)
