"""Triton functions that take the sum of a step's terms into c, the running value (section 5).

FRACTION, EMIN: fraction bits and least exponent of its format; here it is held as a float32.
RULE: an `emulate.Rule`.
"""

import triton
import triton.language as tl

from .arithmetic import (
    BIAS32,
    FRACTION32,
    add_to_odd,
    exponent32,
    is_finite,
    narrowed,
    nearest_even,
    odd,
    power32,
    power64,
    sum3_to_odd,
    sum_as_two,
    sum_to_odd,
    toward_zero,
    truncate,
)


@triton.jit
def nearest_in(x, FRACTION: tl.constexpr, EMIN: tl.constexpr):
    """RNE of a finite float64 to the running value's format."""
    if FRACTION == FRACTION32:
        return nearest_even(x)
    else:
        return narrowed(x, FRACTION, EMIN, True)


@triton.jit
def held(c, FRACTION: tl.constexpr, EMIN: tl.constexpr):
    """RNE of a float32 to the running value's format; infinities and NaN pass."""
    if FRACTION == FRACTION32:
        return c
    else:
        return tl.where(is_finite(c), narrowed(c.to(tl.float64), FRACTION, EMIN, True), c)


@triton.jit
def promote(c, partial, FRACTION: tl.constexpr, EMIN: tl.constexpr):
    """c + partial by RNE. A narrow float's sum may pass through float32: with twice the digits and
    two more, the second rounding gives what one would (Figueroa, SIGNUM Newsletter 30(3), 1995).
    """
    return held(c + partial, FRACTION, EMIN)


@triton.jit
def add_block(c, block, s, FRACTION: tl.constexpr, EMIN: tl.constexpr):
    """RNE(c + 2^s x block) of finite float32 c and float64 block."""
    return nearest_in(add_to_odd(c.to(tl.float64), block * power64(s)), FRACTION, EMIN)


@triton.jit
def add_block_to_odd(c, block, s):
    """c + 2^s x block of finite float32 c and float64 block, rounded to odd."""
    return odd(add_to_odd(c.to(tl.float64), block * power64(s)))


@triton.jit
def add_exact(c, high, low, exponent, WIDTH: tl.constexpr):
    """RNE_fp32(c + 2^exponent x sum) of an integer sum."""
    upper, lower = sum_as_two(high, low, WIDTH)
    unit = power64(exponent)
    return nearest_even(sum3_to_odd(upper * unit, lower * unit, c.to(tl.float64)))


@triton.jit
def add_aligned(c, high, low, exponent, s, RULE: tl.constexpr, WALK: tl.constexpr):
    """`aligned`: the sum on the grid 2^(exponent - F), rounded, is added to c."""
    total = sum_to_odd(high, low, WALK.width) * power64(exponent - RULE.fraction_bits)
    block = odd(total) if RULE.odd else toward_zero(total, 0)
    if WALK.split:  # which may overflow
        known = tl.where(is_finite(block), block, 0.0)
        added = _add_rounded(c, known.to(tl.float64), s, RULE, WALK)
        return tl.where(is_finite(block), added, block)
    else:
        return _add_rounded(c, block.to(tl.float64), s, RULE, WALK)


@triton.jit
def _add_rounded(c, block, s, RULE: tl.constexpr, WALK: tl.constexpr):
    if RULE.odd:
        return add_block_to_odd(c, block, s)
    else:
        return add_block(c, block, s, RULE.mantissa_bits, RULE.emin)


@triton.jit
def fuse(c, high, low, exponent, RULE: tl.constexpr, WALK: tl.constexpr):
    """`fused`: the sum and c on the grid 2^(exponent - F), rounded as RULE says."""
    F: tl.constexpr = RULE.fraction_bits
    FRACTION: tl.constexpr = RULE.mantissa_bits
    EMIN: tl.constexpr = RULE.emin
    if WALK.width == 0:  # c and a sum of 32 bits: both are exact in float64
        # In two steps, for a subnormal c may rise far; beyond them it is zero, before or after.
        grid = tl.minimum(tl.maximum(F - exponent, -252), 252)
        half = grid >> 1
        aligned = c * power32(half) * power32(grid - half)
        total = low.to(tl.float64) + aligned.to(tl.int32).to(tl.float64)
    else:
        c_high, c_low = truncate(c.to(tl.float64) * power64(F - exponent), WALK.width)
        total = sum_to_odd(high + c_high, low + c_low, WALK.width)
    exact = total * power64(exponent - F)
    if RULE.nearest:
        return nearest_in(exact, FRACTION, EMIN)
    elif EMIN == 1 - BIAS32:  # of bfloat16 too, which is a float32 without its last bits
        return toward_zero(exact, RULE.dropped)
    else:
        return narrowed(exact, FRACTION, EMIN, False)


@triton.jit
def grid_exponent(unit, none, c, s, RULE: tl.constexpr):
    """The exponent that the grid hangs from: the largest unit digit's, or, in `fused`, with s and
    c, and at least the rule's least. none: where no term has one."""
    if RULE.kind == 1:
        return tl.where(none, 0, unit)
    else:
        # A zero c takes no part; where the products are zero too, any exponent will do.
        c_exponent = exponent32(c)
        if RULE.emin > 1 - BIAS32:
            c_exponent = tl.maximum(c_exponent, RULE.emin)
        other = tl.where(none, c_exponent, tl.maximum(unit + s, c_exponent))
        return tl.maximum(tl.where((c == 0) & ~none, unit + s, other), RULE.least)
