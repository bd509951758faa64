"""The executor ``triton`` of `mxdot.gpu.quantize_both`."""

from typing import TYPE_CHECKING

from torch import Tensor

from .encode import Rules
from .quantize_columns import quantize_both

if TYPE_CHECKING:
    from ..ops.quantize_both import Both


def refusal(request: "Both") -> str | None:
    """Why the kernel cannot take `request`; None when it can."""
    return Rules.of(request.rows).refusal(request.device)


def run(request: "Both") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes and scales of the rows, then of the columns."""
    rows, columns = request.rows, request.columns
    rules, (m, k) = Rules.of(rows), rows.x.shape
    codes, scales, column_codes, column_scales = quantize_both(
        rows.x.contiguous(), rules, rows.words, columns.words, transposed=request.transposed
    )
    shape, scale_shape = (m, k), (m // rules.block_size, k)
    if request.transposed:
        shape, scale_shape = (k, m), (k, m // rules.block_size)
    return (
        codes.view(m, k),
        scales.view(m, k // rules.block_size),
        column_codes.view(shape),
        column_scales.view(scale_shape),
    )
