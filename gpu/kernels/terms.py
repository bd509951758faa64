"""The terms of a step: their largest unit digit, their sums as integers, their tree.

A tile of dot products at once; the rows of both operands lie side by side, PACK terms of each
together, which one load takes (operands.py). Counts of terms are multiples of PACK. UNROLL: the
loads that are under way at once.
"""

import triton
import triton.language as tl

from ...model.products import NO_EXPONENT
from .arithmetic import exponent32, power32, truncate
from .operands import STRIP

NONE = tl.constexpr(NO_EXPONENT)


@triton.jit
def _pack(column, k, PACK: tl.constexpr):
    """Terms k to k + PACK of each row, as one word of 16 bits each."""
    word: tl.constexpr = tl.int16 if PACK == 1 else tl.int32 if PACK == 2 else tl.int64
    return tl.load((column + k * STRIP).to(tl.pointer_type(word)))


@triton.jit
def _term(packs, i: tl.constexpr, DTYPE: tl.constexpr):
    """Term i of a pack, which is of DTYPE: float32, or int32."""
    words = (packs >> (32 * (i // 2))).to(tl.int32)
    if DTYPE == tl.bfloat16:  # one operation, where a cast takes two
        bits = words << 16 if i % 2 == 0 else words & -65536
        return bits.to(tl.float32, bitcast=True)
    bits = words >> (16 * (i % 2))
    if DTYPE == tl.int16:
        return bits.to(tl.int16).to(tl.int32)
    return bits.to(tl.int16).to(DTYPE, bitcast=True).to(tl.float32)


@triton.jit
def _product(a_packs, b_packs, i: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """The outer product of the packs' term i, float32 (exact for values and for units)."""
    return _term(a_packs, i, A)[:, None] * _term(b_packs, i, B)[None, :]


@triton.jit
def _largest_power(
    a_units, b_units, count, zero, PACK: tl.constexpr, UNROLL: tl.constexpr
):
    """2^U of the largest unit digit of each dot product's terms, float32; 0 where all are zero."""
    dtype: tl.constexpr = a_units.dtype.element_ty
    power = zero
    for k in tl.range(0, count, PACK, loop_unroll_factor=UNROLL):
        a, b = _pack(a_units, k, PACK), _pack(b_units, k, PACK)
        for i in tl.static_range(PACK):
            power = tl.maximum(power, _product(a, b, i, dtype, dtype))
    return power


@triton.jit
def _unit(a_packs, b_packs, i: tl.constexpr):
    """The outer sum of the packs' exponents i, int32."""
    return _term(a_packs, i, tl.int16)[:, None] + _term(b_packs, i, tl.int16)[None, :]


@triton.jit
def largest(
    a_units,
    b_units,
    count,
    zero,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """(exponent, none): of the largest unit digit of each dot product's terms, int32, and whether
    all terms are zero."""
    if SPLIT:
        exponent = zero.to(tl.int32) + 2 * NONE
        for k in tl.range(0, count, PACK, loop_unroll_factor=UNROLL):
            a, b = _pack(a_units, k, PACK), _pack(b_units, k, PACK)
            for i in tl.static_range(PACK):
                exponent = tl.maximum(exponent, _unit(a, b, i))
        return exponent, exponent < NONE // 2
    else:
        power = _largest_power(a_units, b_units, count, zero, PACK, UNROLL)
        return exponent32(power), power == 0


@triton.jit
def sum_split(
    a_values,
    a_units,
    b_values,
    b_units,
    count,
    zero,
    grid,
    WIDTH: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """As `sum_terms`, of RZ(term x 2^grid) of split elements; `special` is finite but where a term
    is not."""
    dtype: tl.constexpr = tl.int32 if WIDTH == 0 else tl.int64
    low = zero.to(dtype)
    high = zero.to(dtype)
    special = zero
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    for k in tl.range(0, count, PACK, loop_unroll_factor=UNROLL):
        a, b = _pack(a_values, k, PACK), _pack(b_values, k, PACK)
        a_unit, b_unit = _pack(a_units, k, PACK), _pack(b_units, k, PACK)
        for i in tl.static_range(PACK):
            significand = _product(a, b, i, A, B)
            # Terms below 2^-126 of the grid are zero there, wherever exactly they are.
            exponent = tl.maximum(_unit(a_unit, b_unit, i) + grid, -126)
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
    zero,
    scale,
    WIDTH: tl.constexpr,
    HAS_INF: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """(high, low, special): the sum of RZ(term x scale), and the float32 sum of the terms, which
    says what infinite terms give (0 where there can be none)."""
    dtype: tl.constexpr = tl.int32 if WIDTH == 0 else tl.int64
    low = zero.to(dtype)
    high = zero.to(dtype)
    special = zero
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    for k in tl.range(0, count, PACK, loop_unroll_factor=UNROLL):
        a, b = _pack(a_values, k, PACK), _pack(b_values, k, PACK)
        for i in tl.static_range(PACK):
            term = _product(a, b, i, A, B)
            upper, lower = truncate(term * scale, WIDTH)
            low += lower
            if WIDTH == 2:
                high += upper
            if HAS_INF:
                special += term
    return high, low, special


@triton.jit
def tree(a_column, b_column, COUNT: tl.constexpr, LEFT: tl.constexpr, PACK: tl.constexpr):
    """The float32 sum of COUNT terms in adjacent pairs, an odd one out passing up.

    LEFT: a power of two, at least half of COUNT.
    """
    if COUNT <= PACK:
        a, b = _pack(a_column, 0, PACK), _pack(b_column, 0, PACK)
        A: tl.constexpr = a_column.dtype.element_ty
        B: tl.constexpr = b_column.dtype.element_ty
        return _tree_of_pack(a, b, 0, PACK, A, B)
    elif LEFT >= COUNT:
        return tree(a_column, b_column, COUNT, LEFT // 2, PACK)
    else:
        left = tree(a_column, b_column, LEFT, LEFT // 2, PACK)
        a_column += LEFT * STRIP
        b_column += LEFT * STRIP
        return left + tree(a_column, b_column, COUNT - LEFT, LEFT // 2, PACK)


@triton.jit
def _tree_of_pack(
    a_packs, b_packs, FIRST: tl.constexpr, COUNT: tl.constexpr, A: tl.constexpr, B: tl.constexpr
):
    """The sum of a pack's COUNT terms from FIRST on, a power of two of them."""
    if COUNT == 1:
        return _product(a_packs, b_packs, FIRST, A, B)
    else:
        left = _tree_of_pack(a_packs, b_packs, FIRST, COUNT // 2, A, B)
        return left + _tree_of_pack(a_packs, b_packs, FIRST + COUNT // 2, COUNT // 2, A, B)
