"""Triton functions that take the sum of a step's terms into c, the running value (section 5)."""

import triton
import triton.language as tl

from .arithmetic import (
    add_to_odd,
    exponent32,
    is_finite,
    nearest_even,
    power32,
    power64,
    sum3_to_odd,
    sum_as_two,
    sum_to_odd,
    toward_zero,
    truncate,
)


@triton.jit
def add_block(c, block, s):
    """RNE_fp32(c + 2^s x block) of finite float32 c and float64 block."""
    return nearest_even(add_to_odd(c.to(tl.float64), block * power64(s)))


@triton.jit
def add_exact(c, high, low, exponent, WIDTH: tl.constexpr):
    """RNE_fp32(c + 2^exponent x sum) of an integer sum."""
    upper, lower = sum_as_two(high, low, WIDTH)
    unit = power64(exponent)
    return nearest_even(sum3_to_odd(upper * unit, lower * unit, c.to(tl.float64)))


@triton.jit
def add_aligned(
    c, high, low, exponent, s, F: tl.constexpr, WIDTH: tl.constexpr, SPLIT: tl.constexpr
):
    """`aligned`: the sum on the grid 2^(exponent - F), rounded, is added to c."""
    total = sum_to_odd(high, low, WIDTH) * power64(exponent - F)
    block = toward_zero(total, 0)
    if SPLIT:  # which may overflow
        added = add_block(c, tl.where(is_finite(block), block, 0.0).to(tl.float64), s)
        return tl.where(is_finite(block), added, block)
    else:
        return add_block(c, block.to(tl.float64), s)


@triton.jit
def fuse(c, high, low, exponent, F: tl.constexpr, WIDTH: tl.constexpr, DROPPED: tl.constexpr):
    """`fused`: the sum and c on the grid 2^(exponent - F)."""
    if WIDTH == 0:  # c beside a sum of 32 bits: both are exact in float64
        # In two steps, for a subnormal c may rise far; beyond them it is zero, before or after.
        grid = tl.minimum(tl.maximum(F - exponent, -252), 252)
        half = grid >> 1
        aligned = c * power32(half) * power32(grid - half)
        total = low.to(tl.float64) + aligned.to(tl.int32).to(tl.float64)
    else:
        c_high, c_low = truncate(c.to(tl.float64) * power64(F - exponent), WIDTH)
        total = sum_to_odd(high + c_high, low + c_low, WIDTH)
    return toward_zero(total * power64(exponent - F), DROPPED)


@triton.jit
def grid_exponent(unit, none, c, s, RULE: tl.constexpr, LEAST: tl.constexpr):
    """The exponent that the grid hangs from: of the largest unit digit, or, in `fused`, with s and
    c, and at least LEAST. none: where no term has one."""
    if RULE == 1:
        return tl.where(none, 0, unit)
    else:
        # A zero c takes no part; where the products are zero too, any exponent will do.
        other = tl.where(none, exponent32(c), tl.maximum(unit + s, exponent32(c)))
        return tl.maximum(tl.where((c == 0) & ~none, unit + s, other), LEAST)
