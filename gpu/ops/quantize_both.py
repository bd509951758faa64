"""A matrix quantised along both axes, each from the values themselves, as training needs it:
operator `mxdot::quantize_both`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...model.blocks import LARGEST_BLOCK
from ...model.errors import flag, integer
from ...model.formats import ElementFormat
from .. import checks, executors
from ..names import format_name, named_format
from ..operators import operator
from ..tensors.formats import code_dtype
from ..tensors.mx import MXTensor
from .quantize import Quantization, check_arguments, random_words
from .quantize import run as quantize_axis


@dataclass(frozen=True)
class Both:
    """A checked request: a matrix in blocks along its last axis (`rows`) and first (`columns`).

    transposed: whether the codes and scales of the columns are wanted transposed.
    """

    rows: Quantization
    columns: Quantization
    transposed: bool

    @property
    def device(self) -> torch.device:
        return self.rows.device


def quantize_both(
    x: Tensor,
    fmt: ElementFormat | str,
    *,
    block_size: int = 32,
    scale_rule: str = "floor",
    rounding: str = "nearest_even",
    nonfinite: str = "poison",
    rng: torch.Generator | tuple[Tensor, Tensor] | None = None,
    transposed: bool = False,
    executor: str | None = None,
) -> tuple[MXTensor, MXTensor]:
    """`quantize(x, ..., axis=1)` and `quantize(x, ..., axis=0)` of a matrix, read once by Triton.

    x: (M, K), both multiples of `block_size`. rng: for ``stochastic`` rounding, a torch.Generator,
    of which the rows draw first, or the words of the rows and those of the columns, in the shape of
    `x`. transposed: give the columns as the transpose (K, M), along its last axis, as `matmul`
    takes it. Everything else, and what is refused, is as in `quantize`.
    """
    flag("transposed", transposed)
    block_size = integer("block_size", block_size, 1, LARGEST_BLOCK)
    values = checks.floats("x", x)
    if values.ndim != 2:
        raise ValueError(f"x must have shape (M, K), not {tuple(values.shape)}")
    words: tuple[Any, ...] = rng if isinstance(rng, tuple) else (rng, rng)
    if len(words) != 2:
        raise ValueError(
            "rng must be a torch.Generator or the words of rows and columns, "
            f"not {len(words)} tensors"
        )
    for axis in (1, 0):
        rules = block_size, axis, scale_rule, rounding, nonfinite
        fmt = check_arguments(tuple(values.shape), fmt, *rules)
    row_words = column_words = None
    if rounding == "stochastic":
        row_words, column_words = (random_words(each, values) for each in words)
    rules = format_name(fmt), block_size, scale_rule, rounding, nonfinite
    parts = both(values, *rules, row_words, column_words, transposed, executor)
    codes, scales, column_codes, column_scales = parts
    axis = 1 if transposed else 0
    return (
        MXTensor.of_valid_codes(codes, scales, fmt, block_size, 1),
        MXTensor.of_valid_codes(column_codes, column_scales, fmt, block_size, axis),
    )


def _fake(x: Tensor, fmt: str, block_size: int, *others: Any) -> tuple[Tensor, ...]:
    *_, transposed, _ = others
    m, k = x.shape
    shapes = [(m, k), (m, k // block_size), (m, k), (m // block_size, k)]
    if transposed:
        shapes[2:] = [(k, m), (k, m // block_size)]
    dtypes = [code_dtype(named_format(fmt)), torch.uint8] * 2
    return tuple(
        x.new_empty(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)
    )


@operator("quantize_both", _fake)
def both(
    x: Tensor,
    fmt: str,
    block_size: int,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
    row_words: Tensor | None,
    column_words: Tensor | None,
    transposed: bool,
    executor: str | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes and scales of the rows, then of the columns; arguments are not checked."""
    rules = scale_rule, rounding, nonfinite
    rows, columns = (
        Quantization(x, named_format(fmt), block_size, axis, *rules, words)
        for axis, words in ((1, row_words), (0, column_words))
    )
    return executors.run(executors.BOTH, executor, Both(rows, columns, transposed))


def refusal(_: Both) -> None:
    """Plain PyTorch takes every request."""


def run(request: Both) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes and scales of the rows, then of the columns, by plain PyTorch."""
    codes, scales = quantize_axis(request.columns)
    if request.transposed:
        codes, scales = codes.t().contiguous(), scales.t().contiguous()
    return *quantize_axis(request.rows), codes, scales
