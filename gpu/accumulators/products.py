"""The product of two matrices by the rules, a tile of the result at a time."""

from collections.abc import Callable, Iterator
from math import isqrt

import torch
from torch import Tensor

from ...model.accumulators import (
    Accumulator,
    Aligned,
    BFloat16,
    BulkNormalized,
    Exact,
    Fixed,
    Float16,
    Float32,
    Fused,
    Int32,
    Preset,
    by_kind,
    without_part,
)
from ...model.accumulators.amd import ExactMachine, FlooredMachine, TreeMachine
from ...model.accumulators.chains import ChainMachine
from ...model.accumulators.group_sums import GroupSums
from ..chunks import chunk_size
from ..ops.matmul import Product
from .fixed import run_fixed
from .rules import (
    run_aligned,
    run_bulk,
    run_chains,
    run_exact,
    run_float32,
    run_floored,
    run_fused,
    run_groups,
)
from .steps import BlockSteps

RULES: dict[type[Accumulator], Callable[..., Tensor]] = {
    Exact: run_exact,
    ExactMachine: run_exact,
    Aligned: run_aligned,
    BulkNormalized: run_bulk,
    Fused: run_fused,
    Preset: run_fused,
    Fixed: run_fixed,
    Float32: run_float32,
    Float16: run_float32,
    BFloat16: run_float32,
    TreeMachine: run_float32,
    Int32: run_exact,
    FlooredMachine: run_floored,
    ChainMachine: run_chains,
    GroupSums: run_groups,
}
TABLE = "RULES of gpu/accumulators/products.py"


def refusal(product: Product) -> str | None:
    """Why there is no rule for `product`; None when there is one."""
    return without_part(RULES, product.accumulator, TABLE)


def run(product: Product) -> Tensor:
    """The (M, N) float32 results."""
    rule, (m, n) = product.accumulator, product.shape
    terms = rule.step_terms(product.block_size)
    compute = by_kind(RULES, rule, TABLE)
    result = torch.zeros((m, n), dtype=torch.float32, device=product.device)
    if product.c is not None:
        result.copy_(product.c)
    for rows, columns in tiles(m, n, max(1, chunk_size(product.device) // terms)):
        steps = BlockSteps(product, rows, columns)
        result[rows, columns] = compute(rule, steps, result[rows, columns])
    return result


def tiles(m: int, n: int, area: int) -> Iterator[tuple[slice, slice]]:
    """Tiles of an (m, n) matrix, as square as they can be, of at most `area` elements."""
    width = min(n, max(isqrt(area), area // max(m, 1)))
    height = area // max(width, 1)
    for row in range(0, m if n else 0, height):
        for column in range(0, n, width):
            yield slice(row, row + height), slice(column, column + width)
