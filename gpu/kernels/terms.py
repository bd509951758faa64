"""The terms of a step: their largest unit digit, their sums as integers, their tree.

A tile of dot products at once; the rows of both operands lie side by side (operands.py). UNROLL:
the terms whose loads are under way at once.
"""

import triton
import triton.language as tl

from ...model.products import NO_EXPONENT
from .arithmetic import exponent32, power32, truncate
from .operands import STRIP

NONE = tl.constexpr(NO_EXPONENT)


@triton.jit
def _product(a_column, b_column, k):
    """The outer product of the tiles' row k, float32 (exact for values and for units)."""
    a = tl.load(a_column + k * STRIP).to(tl.float32)
    b = tl.load(b_column + k * STRIP).to(tl.float32)
    return a[:, None] * b[None, :]


@triton.jit
def _largest_power(a_units, b_units, count, UNROLL: tl.constexpr, TILE: tl.constexpr):
    """2^U of the largest unit digit of each dot product's terms, float32; 0 where all are zero."""
    power = tl.zeros((TILE, TILE), tl.float32)
    for k in tl.range(0, count, loop_unroll_factor=UNROLL):
        power = tl.maximum(power, _product(a_units, b_units, k))
    return power


@triton.jit
def _unit(a_column, b_column, k):
    """The outer sum of the exponents in the tiles' row k, int32."""
    a = tl.load(a_column + k * STRIP).to(tl.int32)
    b = tl.load(b_column + k * STRIP).to(tl.int32)
    return a[:, None] + b[None, :]


@triton.jit
def largest(
    a_units,
    b_units,
    count,
    SPLIT: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """(exponent, none): of the largest unit digit of each dot product's terms, int32, and whether
    all terms are zero."""
    if SPLIT:
        exponent = tl.full((TILE, TILE), 2 * NONE, tl.int32)
        for k in tl.range(0, count, loop_unroll_factor=UNROLL):
            exponent = tl.maximum(exponent, _unit(a_units, b_units, k))
        return exponent, exponent < NONE // 2
    else:
        power = _largest_power(a_units, b_units, count, UNROLL, TILE)
        return exponent32(power), power == 0


@triton.jit
def sum_split(
    a_values,
    a_units,
    b_values,
    b_units,
    count,
    grid,
    WIDTH: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """As `sum_terms`, of RZ(term x 2^grid) of split elements; `special` is finite but where a term
    is not."""
    dtype: tl.constexpr = tl.int32 if WIDTH == 0 else tl.int64
    low = tl.zeros((TILE, TILE), dtype)
    high = tl.zeros((TILE, TILE), dtype)
    special = tl.zeros((TILE, TILE), tl.float32)
    for k in tl.range(0, count, loop_unroll_factor=UNROLL):
        significand = _product(a_values, b_values, k)
        # Terms below 2^-126 of the grid are zero there, wherever exactly they are.
        exponent = tl.maximum(_unit(a_units, b_units, k) + grid, -126)
        upper, lower = truncate(significand * power32(exponent), WIDTH)
        low += lower
        if WIDTH == 2:
            high += upper
        special += significand
    return high, low, special


@triton.jit
def sum_terms(
    a_values,
    b_values,
    count,
    scale,
    WIDTH: tl.constexpr,
    HAS_INF: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """(high, low, special): the sum of RZ(term x scale), and the float32 sum of the terms, which
    says what infinite terms give (0 where there can be none)."""
    dtype: tl.constexpr = tl.int32 if WIDTH == 0 else tl.int64
    low = tl.zeros((TILE, TILE), dtype)
    high = tl.zeros((TILE, TILE), dtype)
    special = tl.zeros((TILE, TILE), tl.float32)
    for k in tl.range(0, count, loop_unroll_factor=UNROLL):
        term = _product(a_values, b_values, k)
        upper, lower = truncate(term * scale, WIDTH)
        low += lower
        if WIDTH == 2:
            high += upper
        if HAS_INF:
            special += term
    return high, low, special


@triton.jit
def tree(a_column, b_column, stride, COUNT: tl.constexpr, LEFT: tl.constexpr):
    """The float32 sum of COUNT terms in adjacent pairs, an odd one out passing up.

    stride: STRIP, which the compiler had better not know here: it then loads terms ahead.
    LEFT: a power of two, at least half of COUNT.
    """
    if COUNT == 1:
        return _product(a_column, b_column, 0)
    elif LEFT >= COUNT:
        return tree(a_column, b_column, stride, COUNT, LEFT // 2)
    else:
        left = tree(a_column, b_column, stride, LEFT, LEFT // 2)
        a_column += LEFT * stride
        b_column += LEFT * stride
        return left + tree(a_column, b_column, stride, COUNT - LEFT, LEFT // 2)
