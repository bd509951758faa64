"""Exact sums of short groups under their own scales, aligned to those scales: `mxf4nvf4`.

Elements are E2M1: a group's sum is a small integer in units of its lowest digit. Several aligned
sums and c fit the integers that float64 holds.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.accumulators.group_sums import GroupSums
from ...model.products import Pair
from .arithmetic import INT32, exponent32, is_finite, power64, toward_zero, truncate
from .emulate import start_tile, store_tile
from .operands import STRIP, in_strip, operand, pack_of, tile_origin
from .terms import Walk, largest_magnitude, sum_terms

if TYPE_CHECKING:
    from ..ops.matmul import Product

TILE = 32  # rows and columns of a program
UNROLL = 4  # terms whose loads are under way at once


class Rule(NamedTuple):
    """Group sums as the kernel computes them, one constexpr.

    fraction_bits: of the grid below the largest scale. lsb: exponent of a product's last digit.
    terms: per group. together: groups that are aligned at once. least: exponent of the grid.
    """

    fraction_bits: int
    lsb: int
    terms: int
    together: int
    least: int
    has_c: bool


def refusal(rule: GroupSums, block_size: int) -> str | None:
    """Why the kernel cannot take blocks of this size; None when it can."""
    if len(set(rule.step_sizes(block_size))) > 1:
        return f"blocks must be whole groups of {rule.terms} elements, not {block_size} elements"
    return None


def run(product: "Product") -> Tensor:
    """Dot products of the rows of `a` (M, K) and `b` (N, K): float32 (M, N)."""
    rule, (m, n) = product.accumulator, product.shape
    assert isinstance(rule, GroupSums)
    terms = rule.step_terms(product.block_size)
    groups, pack = product.block_size // terms, pack_of(terms)
    # Each group with a scale of its own, that of its block.
    a_scales, b_scales = (
        scales.repeat_interleave(groups, dim=1) for scales in (product.a_scales, product.b_scales)
    )
    a = operand(product.a_codes, a_scales, product.a_format, pack)
    b = operand(product.b_codes, b_scales, product.b_format, pack)
    result = torch.empty((m, n), dtype=torch.float32, device=product.device)
    _sum_groups[(triton.cdiv(m, TILE) * triton.cdiv(n, TILE),)](
        *a.without_units,
        *b.without_units,
        result if product.c is None else product.c,
        result,
        m,
        n,
        a.nan.shape[1],
        b.nan.shape[1],
        a_scales.shape[1],
        RULE=Rule(
            rule.fraction_bits,
            Pair(*product.formats).lsb,
            terms,
            triton.cdiv(rule.together, terms),
            rule.least,
            product.c is not None,
        ),
        WALK=Walk(TILE, pack, UNROLL, split=False, width=INT32, has_inf=False),
    )
    return result


@triton.jit
def _scale(a_scales, b_scales):
    """The exponents of a group's scales added, int32 (TILE, TILE)."""
    return tl.load(a_scales)[:, None] + tl.load(b_scales)[None, :]


@triton.jit
def _sum_groups(
    a_values,
    a_scales,
    a_nan,
    b_values,
    b_scales,
    b_nan,
    c_start,
    result,
    m,
    n,
    a_stride,
    b_stride,
    groups,
    RULE: tl.constexpr,
    WALK: tl.constexpr,
):
    F: tl.constexpr = RULE.fraction_bits
    LSB: tl.constexpr = RULE.lsb
    TERMS: tl.constexpr = RULE.terms
    TILE: tl.constexpr = WALK.tile
    first_row, first_column = tile_origin(m, TILE)
    row = first_row + tl.arange(0, TILE)
    column = first_column + tl.arange(0, TILE)
    length = groups * TERMS
    c = start_tile(
        a_nan, b_nan, c_start, row, column, m, n, a_stride, b_stride, length, RULE.has_c, TILE
    )
    a_values += in_strip(first_row, length, WALK.pack)
    b_values += in_strip(first_column, length, WALK.pack)
    a_scales += row
    b_scales += column
    for first in range(0, groups, RULE.together):
        count = tl.minimum(RULE.together, groups - first)
        known = tl.where(is_finite(c), c, 0.0)
        zero = known * 0.0
        largest = tl.where(known == 0, RULE.least, tl.maximum(exponent32(known), RULE.least))
        a_at, b_at = a_scales, b_scales
        a_group, b_group = a_values, b_values
        for _ in range(count):
            counts = largest_magnitude(a_group, b_group, TERMS, zero, WALK) != 0
            largest = tl.maximum(largest, tl.where(counts, _scale(a_at, b_at), RULE.least))
            a_at += a_stride
            b_at += b_stride
            a_group += TERMS * STRIP
            b_group += TERMS * STRIP
        total = (known.to(tl.float64) * power64(F - largest)).to(tl.int64)
        for _ in range(count):
            _, units, _ = sum_terms(a_values, b_values, TERMS, zero, 2.0**-LSB, WALK, truncate)
            shift = _scale(a_scales, b_scales) - largest + (F + LSB)
            total += (units.to(tl.float64) * power64(shift)).to(tl.int64)
            a_values += TERMS * STRIP
            b_values += TERMS * STRIP
            a_scales += a_stride
            b_scales += b_stride
        new = toward_zero(total.to(tl.float64) * power64(largest - F), 0)
        c = tl.where(is_finite(c), new, c)
    store_tile(result, c, row, column, m, n)
