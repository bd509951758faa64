"""Triton functions of `floored:F:G`: the sum of a step's products and c, cut downwards, then added.

A step's elements lie in PARTS parts, one behind the other, each with a largest exponent of its own.
"""

import triton
import triton.language as tl

from ...model.formats import FLOAT32
from .arithmetic import LIMIT32, exponent32, nearest_even, power64, sum_to_odd
from .operands import STRIP
from .terms import aligned_sum, largest, packs, scaled_term

LOWEST = tl.constexpr(2 * FLOAT32.lsb)  # the exponent of a sum without products: below every c
EMAX32 = tl.constexpr(FLOAT32.emax)
PRODUCT_BITS = tl.constexpr(2)  # a product is at most 2^2 of its unit digit


@triton.jit
def _part(
    zero,
    a_values,
    a_units,
    b_values,
    b_units,
    s,
    COUNT: tl.constexpr,
    F: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_INF: tl.constexpr,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """(units, exponent, special): COUNT products add to units x 2^(exponent - F), float64."""
    unit, none = largest(a_units, b_units, COUNT, zero, SPLIT, PACK, UNROLL, TILE)
    high, low, special = aligned_sum(
        a_values,
        a_units,
        b_values,
        b_units,
        COUNT,
        zero,
        F - tl.where(none, 0, unit),
        WIDTH,
        HAS_INF,
        SPLIT,
        PACK,
        UNROLL,
        TILE,
    )
    return sum_to_odd(high, low, WIDTH), tl.where(none, LOWEST, unit + s), special


@triton.jit
def _beyond_float32(
    zero,
    a_values,
    a_units,
    b_values,
    b_units,
    s,
    TERMS: tl.constexpr,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """What products of 2^128 and more make: an infinity, NaN of both signs; 0 without any."""
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    result = zero
    for k in tl.range(0, TERMS, PACK, loop_unroll_factor=UNROLL):
        a, a_unit, b, b_unit = packs(a_values, a_units, b_values, b_units, k, SPLIT, PACK, TILE)
        for i in tl.static_range(PACK):
            term, _ = scaled_term(a, a_unit, b, b_unit, i, s, A, B, SPLIT)
            beyond = tl.where(term > 0, float("inf"), float("-inf"))
            result += tl.where(tl.abs(term) >= LIMIT32, beyond, 0.0).to(tl.float32)
    return result


@triton.jit
def add_floored(
    c,
    a_values,
    a_units,
    b_values,
    b_units,
    s,
    TERMS: tl.constexpr,
    PARTS: tl.constexpr,
    F: tl.constexpr,
    G: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_INF: tl.constexpr,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """(c', special): RNE of c and the sum of a step, each cut downwards."""
    zero = c * 0.0
    total, top, special = _part(
        zero,
        a_values,
        a_units,
        b_values,
        b_units,
        s,
        (TERMS + PARTS - 1) // PARTS,
        F,
        WIDTH,
        HAS_INF,
        SPLIT,
        PACK,
        UNROLL,
        TILE,
    )
    if PARTS == 2:
        past = (TERMS + 1) // 2 * STRIP
        other, other_top, found = _part(
            zero,
            a_values + past,
            a_units + past,
            b_values + past,
            b_units + past,
            s,
            TERMS // 2,
            F,
            WIDTH,
            HAS_INF,
            SPLIT,
            PACK,
            UNROLL,
            TILE,
        )
        special += found
        both = tl.maximum(top, other_top)
        total = tl.floor(total * power64(top - both)) + tl.floor(other * power64(other_top - both))
        top = both
    exponent = exponent32(c)
    beside = tl.maximum(top, exponent)
    cut = tl.floor(total * power64(top - beside + (G - F)))
    cut_c = tl.floor(c.to(tl.float64) * power64(F - beside))
    if PARTS == 2:
        cut_c = tl.where(exponent < top - F - 1, 0.0, cut_c)
    result = nearest_even((cut + cut_c * 2.0 ** (G - F)) * power64(beside - G))
    if tl.max(top) + PRODUCT_BITS > EMAX32:
        beyond = _beyond_float32(
            zero, a_values, a_units, b_values, b_units, s, TERMS, SPLIT, PACK, UNROLL, TILE
        )
        result = tl.where(beyond == 0, result, beyond)
    return result, special
