"""The rule of `fixed:W:L` on ordinary arithmetic units: a register of W bits in units of 2^L.

A register of up to 61 bits whose block sums fit int64 stays in int64. Any other lies in memory as
32-bit limbs, lowest first: each program has the limbs of its own tile, which the cache holds.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.accumulators import FixedRegister
from ...model.formats import ElementFormat
from ...model.products import Pair
from .arithmetic import (
    FRACTION32,
    HIDDEN32,
    INFINITY32,
    INT64,
    PAIR,
    exponent32,
    integer_to_odd,
    is_finite,
    nearest_even,
    pair_magnitude,
    power64,
    truncate,
)
from .emulate import start_tile, store_tile, sum_width, too_wide
from .operands import STRIP, in_strip, operand, pack_of, tile_origin
from .terms import Walk, sum_terms

if TYPE_CHECKING:
    from ..ops.matmul import Product

INT64_WIDTH = 61  # register and addend then add in int64 without overflow
LARGEST_SCALE = 256  # the sum of two scales' exponents is below this
SCRATCH = 2**28  # limbs at once: 1 GiB
UNROLL = 4  # terms whose loads are under way at once


class Register(NamedTuple):
    """A register as the kernels compute it, one constexpr.

    width, lsb: W and L of `fixed:W:L`. product_lsb: exponent of a product's last digit. block:
    elements under one scale. in_limbs: whether the register lies in memory.
    """

    width: int
    lsb: int
    wraps: bool
    product_lsb: int
    block: int
    has_c: bool
    in_limbs: bool


def _sum_bits(a: ElementFormat, b: ElementFormat, block_size: int) -> int:
    return Pair(a, b).bits + math.ceil(math.log2(block_size))


def refusal(_: FixedRegister, a: ElementFormat, b: ElementFormat, block_size: int) -> str | None:
    """Why these kernels cannot take products in blocks of `block_size`; None when they can."""
    return too_wide(_sum_bits(a, b, block_size))


def run(product: "Product") -> Tensor:
    """Dot products of the rows of `a` (M, K) and `b` (N, K): float32 (M, N)."""
    rule = product.accumulator.register
    assert rule is not None
    m, n = product.shape
    sum_bits, tile = _sum_bits(*product.formats, product.block_size), 32
    lsb = Pair(*product.formats).lsb
    pack = pack_of(product.block_size)
    b = operand(product.b_codes, product.b_scales, product.b_format, pack)
    result = torch.empty((m, n), dtype=torch.float32, device=product.device)
    wide = rule.width > INT64_WIDTH or sum_width(sum_bits) == PAIR
    wraps = rule.overflow == "wrap"
    # A saturating register also needs room for the largest addend; a wrapping one may lose it.
    addend_bits = 0 if wraps else sum_bits + LARGEST_SCALE + max(0, lsb - rule.lsb, -rule.lsb)
    limbs = triton.cdiv(max(rule.width, addend_bits) + 2, 32) if wide else 0
    has_c = product.c is not None
    register = Register(rule.width, rule.lsb, wraps, lsb, product.block_size, has_c, wide)
    width = PAIR if wide else INT64
    walk = Walk(tile, pack, UNROLL // pack, False, width, product.has_inf)
    rows = m
    if wide:
        rows = max(tile, SCRATCH // (limbs * b.nan.shape[1]) // tile * tile)
    for first in range(0, m, rows):
        part = slice(first, first + rows)
        a = operand(product.a_codes[part], product.a_scales[part], product.a_format, pack)
        height, shape = result[part].shape[0], (a.nan.shape[1], b.nan.shape[1])
        scratch = torch.zeros((limbs, *shape), dtype=torch.int32, device=result.device)
        _register[(triton.cdiv(height, tile) * triton.cdiv(n, tile),)](
            *a.without_units,
            *b.without_units,
            result if product.c is None else product.c[part],
            result[part],
            scratch,
            height,
            n,
            *shape,
            product.a_scales.shape[1],
            limbs,
            REGISTER=register,
            WALK=walk,
        )
    return result


@triton.jit
def _significand(c):
    """The signed integer significand of a finite float32: c = significand x 2^(exponent - 23)."""
    bits = c.to(tl.int32, bitcast=True)
    fraction = bits & (HIDDEN32 - 1)
    normal = fraction | HIDDEN32
    significand = tl.where((bits & INFINITY32) == 0, fraction, normal).to(tl.int64)
    return tl.where(bits < 0, -significand, significand)


@triton.jit
def _to_float32(magnitude, exponent):
    """RNE of an int64 x 2^exponent; what lies beyond the limits is infinite or zero anyway."""
    limited = tl.minimum(tl.maximum(exponent, -400), 400)
    return nearest_even(integer_to_odd(magnitude) * power64(limited))


@triton.jit
def _add_int64(value, term, exponent, REGISTER: tl.constexpr):
    """The register after adding RZ(term x 2^exponent)."""
    W: tl.constexpr = REGISTER.width
    magnitude = tl.where(term < 0, -term, term)
    left = tl.minimum(tl.maximum(exponent, 0), 63).to(tl.int64)
    right = tl.minimum(tl.maximum(-exponent, 0), 63).to(tl.int64)
    units = (magnitude >> right) << left
    if REGISTER.wraps:
        units = tl.where(exponent > 63, 0, units)
        total = value + tl.where(term < 0, -units, units)
        return (total << (64 - W)) >> (64 - W)
    else:
        largest: tl.constexpr = 1 << 61
        units = tl.where(magnitude > (largest >> left), largest, units)
        total = value + tl.where(term < 0, -units, units)
        high: tl.constexpr = (1 << (W - 1)) - 1
        return tl.minimum(tl.maximum(total, -high - 1), high)


@triton.jit
def _window(w0, w1, w2, position):
    """32 bits of the magnitude of words w0 (lowest) to w2 from bit `position` on."""
    index, shift = position >> 5, (position & 31).to(tl.int64)
    lower = _word(w0, w1, w2, index)
    upper = _word(w0, w1, w2, index + 1)
    return (((upper << 32) | lower) >> shift) & 0xFFFFFFFF


@triton.jit
def _word(w0, w1, w2, index):
    zero = w0 * 0
    return tl.where(index == 0, w0, tl.where(index == 1, w1, tl.where(index == 2, w2, zero)))


@triton.jit
def _bits_from(bit, j):
    """Count of limb j's 32 bits that lie below `bit`."""
    return tl.minimum(tl.maximum(bit - 32 * j, 0), 32)


@triton.jit
def _add_limbs(limbs, limb_stride, limb_count, high, low, exponent, REGISTER: tl.constexpr):
    """Add RZ((high x 2^32 + low) x 2^exponent) to the register at `limbs`."""
    W: tl.constexpr = REGISTER.width
    negative, high, low = pair_magnitude(high, low)
    w1, w2 = high & 0xFFFFFFFF, high >> 32
    # A negative addend is added as its complement plus one.
    invert = tl.where(negative, 0xFFFFFFFF, 0).to(tl.int64)
    carry = negative.to(tl.int64)
    above_zero = carry >= 0  # whether all bits from W - 1 on are 0
    above_one = carry >= 0
    for j in range(limb_count):
        at = limbs + j * limb_stride
        addend = _window(low, w1, w2, 32 * j - exponent) ^ invert
        total = (tl.load(at).to(tl.int64) & 0xFFFFFFFF) + addend + carry
        tl.store(at, total.to(tl.int32))
        carry = total >> 32
        total = total & 0xFFFFFFFF
        kept = _bits_from(W - 1, j)
        ones = 0xFFFFFFFF >> kept.to(tl.int64)
        above_zero = above_zero & ((total >> kept) == 0)
        above_one = above_one & ((total >> kept) == ones)
        negative = total >= (1 << 31)  # in the end, the sign
    tl.debug_barrier()
    if not REGISTER.wraps:
        outside = (above_zero | above_one) == 0
        if tl.max(outside.to(tl.int32)) > 0:
            for j in range(limb_count):
                at = limbs + j * limb_stride
                largest = 0xFFFFFFFF >> (32 - _bits_from(W - 1, j)).to(tl.int64)
                limit = tl.where(negative, 0xFFFFFFFF - largest, largest)
                kept_limb = tl.load(at).to(tl.int64)
                tl.store(at, tl.where(outside, limit, kept_limb).to(tl.int32))
        tl.debug_barrier()


@triton.jit
def _round_limbs(limbs, limb_stride, REGISTER: tl.constexpr):
    """RNE of the register to float32; it is left as its magnitude."""
    W: tl.constexpr = REGISTER.width
    count: tl.constexpr = (W + 31) // 32
    top: tl.constexpr = (W - 1) % 32 + 1  # bits of the highest limb
    last = tl.load(limbs + (count - 1) * limb_stride).to(tl.int64)
    negative = ((last >> (top - 1)) & 1) != 0
    carry = negative.to(tl.int64)
    for j in range(count):
        at = limbs + j * limb_stride
        mask = 0xFFFFFFFF >> (32 - _bits_from(W, j)).to(tl.int64)
        limb = tl.load(at).to(tl.int64) & mask
        limb = tl.where(negative, limb ^ mask, limb) + carry
        carry = tl.where(limb > mask, 1, 0).to(tl.int64)
        tl.store(at, (limb & mask).to(tl.int32))
    tl.debug_barrier()
    leading = carry * 0
    exponent = leading.to(tl.int32)
    lost = leading
    for i in range(count):
        j = count - 1 - i
        limb = tl.load(limbs + j * limb_stride).to(tl.int64) & 0xFFFFFFFF
        takes = leading < (1 << 30)
        lost = lost | tl.where(takes, 0, limb)
        exponent = tl.where(takes, 32 * j, exponent)
        leading = tl.where(takes, (leading << 32) | limb, leading)
    leading = leading | (lost != 0).to(tl.int64)
    return _to_float32(tl.where(negative, -leading, leading), exponent + REGISTER.lsb)


@triton.jit
def _register(
    a_values,
    a_scales,
    a_nan,
    b_values,
    b_scales,
    b_nan,
    c_start,
    result,
    limbs,
    m,
    n,
    a_stride,
    b_stride,
    blocks,
    limb_count,
    REGISTER: tl.constexpr,
    WALK: tl.constexpr,
):
    L: tl.constexpr = REGISTER.lsb
    LSB: tl.constexpr = REGISTER.product_lsb
    BLOCK: tl.constexpr = REGISTER.block
    TILE: tl.constexpr = WALK.tile
    first_row, first_column = tile_origin(m, TILE)
    row = first_row + tl.arange(0, TILE)
    column = first_column + tl.arange(0, TILE)
    length = blocks * BLOCK
    c = start_tile(
        a_nan, b_nan, c_start, row, column, m, n, a_stride, b_stride, length, REGISTER.has_c, TILE
    )
    a_values += in_strip(first_row, length, WALK.pack)
    a_scales += row
    b_values += in_strip(first_column, length, WALK.pack)
    b_scales += column
    known = tl.where(is_finite(c), c, 0.0)
    special = c - known  # 0, or what c is: infinite or NaN
    value = tl.zeros((TILE, TILE), tl.int64)
    start = _significand(known)
    exponent = exponent32(known) - FRACTION32 - L
    if REGISTER.in_limbs:
        limbs += row.to(tl.int64)[:, None] * b_stride + column[None, :]
        limb_stride = a_stride.to(tl.int64) * b_stride
        _add_limbs(limbs, limb_stride, limb_count, value, start, exponent, REGISTER)
    else:
        limb_stride = 0
        value = _add_int64(value, start, exponent, REGISTER)
    for _ in range(blocks):
        s = tl.load(a_scales)[:, None] + tl.load(b_scales)[None, :]
        high, low, terms = sum_terms(
            a_values, b_values, BLOCK, known * 0.0, 2.0**-LSB, WALK, truncate
        )
        exponent = s + (LSB - L)
        if REGISTER.in_limbs:
            _add_limbs(limbs, limb_stride, limb_count, high, low, exponent, REGISTER)
        else:
            value = _add_int64(value, low, exponent, REGISTER)
        special += tl.where(is_finite(terms), 0.0, terms)
        a_scales += a_stride
        b_scales += b_stride
        a_values += BLOCK * STRIP
        b_values += BLOCK * STRIP
    if REGISTER.in_limbs:
        rounded = _round_limbs(limbs, limb_stride, REGISTER)
    else:
        rounded = _to_float32(value, tl.full((TILE, TILE), L, tl.int32))
    store_tile(result, tl.where(special == 0, rounded, special), row, column, m, n)
