"""The terms of a step: their largest unit digit, their sums as integers, their tree.

Functions work on a tile of dot products. The rows of both operands lie side by side, and one load
takes a pack of terms per row (operands.py). Counts of terms are multiples of the pack.

CUT: a Triton function like `truncate`, from a float32 to the integer (high, low) of a WIDTH.

operands: the pointers (a_values, a_units, b_values, b_units) of a step. zero: a float32 tile of
zeros, laid out over threads as the running values are.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from ...model.formats import FLOAT16, FLOAT32, FLOAT64
from ...model.products import NO_EXPONENT
from .arithmetic import exponent32, power32, power64
from .operands import STRIP

NONE = tl.constexpr(NO_EXPONENT)
# Of float16 in the upper half of a word, three places down: the sign and its fields.
HALF_FIELDS = tl.constexpr(-0x70002000)
HALF_FACTOR = tl.constexpr(2.0 ** (FLOAT32.bias - FLOAT16.bias))
LARGEST_HALF = tl.constexpr(FLOAT16.largest_finite)
LEAST_POWER = tl.constexpr(FLOAT64.emin)


class Walk(NamedTuple):
    """Way of a kernel to read and sum terms, one constexpr.

    tile: rows and columns of a program. pack: terms per load. unroll: loads under way at once.
    split: whether elements are significands with exponents (`operands.is_split`). width: INT32,
    INT64 or PAIR, for integer sums. has_inf: whether an element may be infinite.
    """

    tile: int
    pack: int
    unroll: int
    split: bool
    width: int
    has_inf: bool


@triton.jit
def _pack(first, k, WALK: tl.constexpr):
    """Terms from k on of each row, 16 bits each, as one word; term 0 of row 0 is at `first`."""
    word: tl.constexpr = tl.int16 if WALK.pack == 1 else tl.int32 if WALK.pack == 2 else tl.int64
    at = first + k * STRIP + tl.arange(0, WALK.tile) * WALK.pack
    return tl.load(at.to(tl.pointer_type(word)))


@triton.jit
def _term(packs, i: tl.constexpr, dtype: tl.constexpr):
    """Term i of a pack of a dtype, as float32 or int32.

    By its bits: casts from 16 bits make the compiler exchange terms between threads.
    """
    words = (packs >> (32 * (i // 2))).to(tl.int32)
    bits = words << 16 if i % 2 == 0 else words & -65536
    if dtype == tl.bfloat16:
        return bits.to(tl.float32, bitcast=True)
    elif dtype == tl.int16:
        return bits >> 16
    else:  # float16: sign and fields where float32 has them, then its bias
        fields = (bits >> 3) & HALF_FIELDS
        value = fields.to(tl.float32, bitcast=True) * HALF_FACTOR
        return tl.where(tl.abs(value) > LARGEST_HALF, value * float("inf"), value)


@triton.jit
def _product(a_packs, b_packs, i: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """The outer product of the packs' term i, float32 (exact for values and for units)."""
    return _term(a_packs, i, A)[:, None] * _term(b_packs, i, B)[None, :]


@triton.jit
def _largest_power(a_units, b_units, count, zero, WALK: tl.constexpr):
    """2^U of the largest unit digit of each dot product's terms, float32; 0 where all are zero."""
    PACK: tl.constexpr = WALK.pack
    dtype: tl.constexpr = a_units.dtype.element_ty
    power = zero
    for k in tl.range(0, count, PACK, loop_unroll_factor=WALK.unroll):
        a, b = _pack(a_units, k, WALK), _pack(b_units, k, WALK)
        for i in tl.static_range(PACK):
            power = tl.maximum(power, _product(a, b, i, dtype, dtype))
    return power


@triton.jit
def largest_magnitude(a_values, b_values, count, zero, WALK: tl.constexpr):
    """The largest magnitude of each dot product's terms, float32; 0 where all are zero."""
    PACK: tl.constexpr = WALK.pack
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    size = zero
    for k in tl.range(0, count, PACK, loop_unroll_factor=WALK.unroll):
        a, b = _pack(a_values, k, WALK), _pack(b_values, k, WALK)
        for i in tl.static_range(PACK):
            size = tl.maximum(size, tl.abs(_product(a, b, i, A, B)))
    return size


@triton.jit
def _unit(a_packs, b_packs, i: tl.constexpr):
    """The outer sum of the packs' exponents i, int32."""
    return _term(a_packs, i, tl.int16)[:, None] + _term(b_packs, i, tl.int16)[None, :]


@triton.jit
def largest(a_units, b_units, count, zero, WALK: tl.constexpr):
    """(exponent, none): the int32 exponent of the largest unit digit among each dot product's
    terms, and whether all terms are zero."""
    PACK: tl.constexpr = WALK.pack
    if WALK.split:
        exponent = zero.to(tl.int32) + 2 * NONE
        for k in tl.range(0, count, PACK, loop_unroll_factor=WALK.unroll):
            a, b = _pack(a_units, k, WALK), _pack(b_units, k, WALK)
            for i in tl.static_range(PACK):
                exponent = tl.maximum(exponent, _unit(a, b, i))
        return exponent, exponent < NONE // 2
    else:
        power = _largest_power(a_units, b_units, count, zero, WALK)
        return exponent32(power), power == 0


@triton.jit
def _sum_split(operands, count, zero, grid, WALK: tl.constexpr, CUT: tl.constexpr):
    """`sum_terms` of CUT(term x 2^grid) of split elements; `special` is finite where all terms
    are."""
    PACK: tl.constexpr = WALK.pack
    a_values, a_units, b_values, b_units = operands
    dtype: tl.constexpr = tl.int32 if WALK.width == 0 else tl.int64
    low = zero.to(dtype)
    high = zero.to(dtype)
    special = zero
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    for k in tl.range(0, count, PACK, loop_unroll_factor=WALK.unroll):
        a, b = _pack(a_values, k, WALK), _pack(b_values, k, WALK)
        a_unit, b_unit = _pack(a_units, k, WALK), _pack(b_units, k, WALK)
        for i in tl.static_range(PACK):
            significand = _product(a, b, i, A, B)
            # Terms below 2^-126 of the grid are zero there, wherever exactly they are.
            exponent = tl.maximum(_unit(a_unit, b_unit, i) + grid, -126)
            upper, lower = CUT(significand * power32(exponent), WALK.width)
            low += lower
            if WALK.width == 2:
                high += upper
            special += significand
    return high, low, special


@triton.jit
def sum_terms(a_values, b_values, count, zero, scale, WALK: tl.constexpr, CUT: tl.constexpr):
    """(high, low, special): the sum of CUT(term x scale), and the float32 sum of the terms, which
    says what infinite terms give (0 where there can be none)."""
    PACK: tl.constexpr = WALK.pack
    dtype: tl.constexpr = tl.int32 if WALK.width == 0 else tl.int64
    low = zero.to(dtype)
    high = zero.to(dtype)
    special = zero
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    for k in tl.range(0, count, PACK, loop_unroll_factor=WALK.unroll):
        a, b = _pack(a_values, k, WALK), _pack(b_values, k, WALK)
        for i in tl.static_range(PACK):
            term = _product(a, b, i, A, B)
            upper, lower = CUT(term * scale, WALK.width)
            low += lower
            if WALK.width == 2:
                high += upper
            if WALK.has_inf:
                special += term
    return high, low, special


@triton.jit
def aligned_sum(operands, count, zero, grid, WALK: tl.constexpr, CUT: tl.constexpr):
    """(high, low, special) as in `sum_terms`, of CUT(term x 2^grid), for elements split or not."""
    if WALK.split:
        return _sum_split(operands, count, zero, grid, WALK, CUT)
    else:
        a_values, b_values = operands[0], operands[2]
        # Beyond these limits every term is far below the grid, or zero.
        scale = power32(tl.minimum(tl.maximum(grid, -126), 126))
        return sum_terms(a_values, b_values, count, zero, scale, WALK, CUT)


@triton.jit
def packs(operands, k, WALK: tl.constexpr):
    """The packs from term k on, for `scaled_term`."""
    a_values, a_units, b_values, b_units = operands
    a, b = _pack(a_values, k, WALK), _pack(b_values, k, WALK)
    if WALK.split:
        return a, _pack(a_units, k, WALK), b, _pack(b_units, k, WALK)
    else:
        return a, a, b, b


@triton.jit
def scaled_term(terms, i: tl.constexpr, s, A: tl.constexpr, B: tl.constexpr, WALK: tl.constexpr):
    """(term, special): 2^s x term i of `packs`, float64, exact; and a float32 that is finite where
    the term is, and else the same infinity, or NaN."""
    a, a_unit, b, b_unit = terms
    value = _product(a, b, i, A, B)
    exponent = s
    if WALK.split:  # the exponent of a zero is below all powers
        exponent = tl.maximum(_unit(a_unit, b_unit, i) + s, LEAST_POWER)
    return value.to(tl.float64) * power64(exponent), value


@triton.jit
def tree(a_first, b_first, COUNT: tl.constexpr, LEFT: tl.constexpr, WALK: tl.constexpr):
    """The float32 sum of COUNT terms in adjacent pairs, an odd one out passing up.

    LEFT: a power of two, at least half of COUNT.
    """
    if WALK.pack >= COUNT:
        a, b = _pack(a_first, 0, WALK), _pack(b_first, 0, WALK)
        A: tl.constexpr = a_first.dtype.element_ty
        B: tl.constexpr = b_first.dtype.element_ty
        return _tree_of_pack(a, b, 0, WALK.pack, A, B)
    elif LEFT >= COUNT:
        return tree(a_first, b_first, COUNT, LEFT // 2, WALK)
    else:
        left = tree(a_first, b_first, LEFT, LEFT // 2, WALK)
        a_first += LEFT * STRIP
        b_first += LEFT * STRIP
        return left + tree(a_first, b_first, COUNT - LEFT, LEFT // 2, WALK)


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
