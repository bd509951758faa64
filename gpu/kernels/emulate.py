"""Emulation of the accumulators on ordinary arithmetic units, any block size.

A program computes a tile of dot products. Per step it goes over the terms twice: for the largest
unit digit (a power of two, found as a float32 maximum), and for the sum of the terms as integers on
the grid that follows. A product of two elements, and its scaling by a power of two, is exact in
float32; the conversion to an integer truncates it as the contract says. Products of BF16 and TF32
leave float32's exponents: there significands are multiplied, and exponents added.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.accumulators import (
    Accumulator,
    Aligned,
    BFloat16,
    BulkNormalized,
    Exact,
    Float16,
    Float32,
    Fused,
    Int32,
    Preset,
)
from ...model.formats import ElementFormat
from ...model.products import NO_EXPONENT, Pair
from ..tensors.formats import FLOAT32_FRACTION
from .arithmetic import INT32, INT64, PAIR, is_finite, truncate, truncate_to_odd
from .launch import Launch
from .operands import STRIP, in_strip, is_split, pack_of, padded_rows, tile_origin
from .operands import prepare as prepare_operand
from .running import add_aligned, add_block, add_exact, fuse, grid_exponent, held, promote
from .terms import Walk, aligned_sum, largest, sum_terms, tree

if TYPE_CHECKING:
    from ..ops.matmul import Product

EXACT, ALIGNED, FUSED, FLOAT32 = range(4)  # kinds of a Rule


class Kernel(NamedTuple):
    """Kind of a Rule, and the Triton function that makes integers of aligned terms."""

    kind: int
    cut: Any = truncate


KERNELS: dict[type[Accumulator], Kernel] = {
    Exact: Kernel(EXACT),
    Int32: Kernel(EXACT),
    Aligned: Kernel(ALIGNED),
    BulkNormalized: Kernel(ALIGNED, truncate_to_odd),
    Fused: Kernel(FUSED),
    Preset: Kernel(FUSED),
    Float32: Kernel(FLOAT32),
    Float16: Kernel(FLOAT32),
    BFloat16: Kernel(FLOAT32),
}
WIDEST_SUM = 78  # bits of a pair
INT32_BITS = 32
LARGE_TILE, SMALL_TILE = 32, 8  # rows and columns of a program
# Narrow sums have few registers per thread: a multiprocessor then has six programs, though some
# values spill.
NARROW_SHAPE = {"num_warps": 4, "maxnreg": 80}
WIDE_SHAPE = {"num_warps": 8}
FEW_SHAPE = {"num_warps": 1}
FEW_TILES = 256  # fewer large tiles leave a multiprocessor with one program or two
# Terms whose loads are under way at once; 32 of few programs would take thrice the compiler's time.
FEW_UNROLLED, UNROLLED = 16, 4
LONGEST_TREE = 128  # terms of a `float32` tree, which is unrolled


def refusal(rule: Accumulator, a: ElementFormat, b: ElementFormat, block_size: int) -> str | None:
    """Why these kernels cannot emulate `rule`; None when they can."""
    sizes = rule.step_sizes(block_size)
    other = next((size for size in sizes[:-1] if size != sizes[0]), None)
    if other is not None:
        return (
            f"steps of blocks of {block_size} elements except the last must be of one size, "
            f"not of {sizes[0]} and {other}"
        )
    if KERNELS[type(rule)].kind == FLOAT32 and block_size > LONGEST_TREE:
        return f"float32 takes blocks of at most {LONGEST_TREE} elements, not {block_size}"
    return too_wide(_sum_bits(rule, a, b, sizes[0]))


class Rule(NamedTuple):
    """An accumulator as the kernel computes it, one constexpr.

    kind: EXACT, ALIGNED, FUSED or FLOAT32. fraction_bits: of the grid below the largest unit digit,
    or of an exact sum. terms: per step. dropped: last fraction bits of float32 that RZ leaves out;
    nearest: RNE instead; odd: to odd. mantissa_bits, emin: the running value's format. promote:
    elements after which a partial sum joins the sum, 0 for never. least: exponent of the grid.
    block: elements under one scale. nan_bits: the float32 NaN of results.
    """

    kind: int
    fraction_bits: int
    terms: int
    dropped: int
    nearest: bool
    odd: bool
    mantissa_bits: int
    emin: int
    promote: int
    least: int
    block: int
    has_c: bool
    nan_bits: int


def _sum_bits(rule: Accumulator, a: ElementFormat, b: ElementFormat, terms: int) -> int:
    """Bits of the sums of a step, with c where it is fused."""
    return _term_bits(rule, a, b) + math.ceil(math.log2(terms + rule.is_fused))


def _term_bits(rule: Accumulator, a: ElementFormat, b: ElementFormat) -> int:
    if rule.sums_exactly:
        return Pair(a, b).bits
    return 0 if rule.alignment_bits is None else rule.alignment_bits + 2


def _width(rule: Accumulator, a: ElementFormat, b: ElementFormat, terms: int) -> int:
    """The integers that hold the sums of a step."""
    bits = _term_bits(rule, a, b) + math.ceil(math.log2(terms))
    # A product of aligned elements is less than 4 units, except that of two integers, (-2)^2.
    may_be_4 = rule.rounds_up or (a.is_integer and b.is_integer)
    below = rule.alignment_bits is not None and not may_be_4
    return INT32 if below and bits < INT32_BITS else sum_width(_sum_bits(rule, a, b, terms))


def _rule(product: "Product") -> Rule:
    rule, exact = product.accumulator, product.accumulator.sums_exactly
    fused = rule if isinstance(rule, Fused) else None
    least = None if fused is None else fused.least_exponent
    return Rule(
        kind=KERNELS[type(rule)].kind,
        fraction_bits=-Pair(*product.formats).lsb if exact else rule.alignment_bits or 0,
        terms=rule.step_sizes(product.block_size)[0],
        dropped=FLOAT32_FRACTION - rule.step_fraction_bits,
        nearest=fused is not None and fused.rounds_to_nearest,
        odd=isinstance(rule, BulkNormalized),
        mantissa_bits=rule.running.mantissa_bits,
        emin=rule.running.emin,
        promote=rule.promotes_every or 0,
        least=NO_EXPONENT if least is None else least,
        block=product.block_size,
        has_c=product.c is not None,
        nan_bits=rule.nan_bits,
    )


def too_wide(sum_bits: int) -> str | None:
    """Why block sums of magnitude up to 2^sum_bits cannot be taken; None when they can."""
    if sum_bits > WIDEST_SUM:
        return f"block sums must fit {WIDEST_SUM} bits, not {sum_bits}"
    return None


def sum_width(bits: int) -> int:
    """The WIDTH that holds sums of magnitude up to 2^bits."""
    return INT32 if bits <= 30 else INT64 if bits <= 62 else PAIR


def programs(m: int, n: int, walk: Walk, narrow: bool) -> tuple[tuple[int], dict[str, Any]]:
    """The grid of programs for (m, n) dot products, and its constants and options.

    walk: without tile and unroll, which are filled in. narrow: whether sums take 32 bits.
    """
    few = triton.cdiv(m, LARGE_TILE) * triton.cdiv(n, LARGE_TILE) < FEW_TILES
    # Few large programs become many small ones, because a program waits for its loads.
    tile = SMALL_TILE if few else LARGE_TILE
    options = FEW_SHAPE if few else NARROW_SHAPE if narrow else WIDE_SHAPE
    unroll = max(1, (FEW_UNROLLED if few else UNROLLED) // walk.pack)
    grid = (triton.cdiv(m, tile) * triton.cdiv(n, tile),)
    return grid, {"WALK": walk._replace(tile=tile, unroll=unroll), **options}


def prepare(product: "Product") -> Callable[..., Tensor]:
    """The work for products like this one, given codes of a and b, their scales, and c: the
    float32 (M, N) products of rows, with the rule's NaN."""
    (m, n), where, rule = product.shape, product.device, _rule(product)
    split = is_split(*product.formats)
    width = _width(product.accumulator, *product.formats, rule.terms)
    pack = pack_of(product.block_size, rule.terms)
    layout = pack, split, product.accumulator.order(product.block_size)
    make_a = prepare_operand(product.a_codes, product.a_scales, product.a_format, *layout)
    make_b = prepare_operand(product.b_codes, product.b_scales, product.b_format, *layout)
    strides, blocks = (padded_rows(m), padded_rows(n)), product.a_scales.shape[1]
    walk = Walk(0, pack, 0, split, width, product.has_inf)
    grid, shape = programs(m, n, walk, width == INT32)
    cut = KERNELS[type(product.accumulator)].cut
    launch = Launch(_emulate, grid, RULE=rule, CUT=cut, **shape)

    def work(
        a_codes: Tensor, b_codes: Tensor, a_scales: Tensor, b_scales: Tensor, c: Tensor | None
    ) -> Tensor:
        a, b = make_a(a_codes, a_scales), make_b(b_codes, b_scales)
        result = torch.empty((m, n), dtype=torch.float32, device=where)
        start = result if c is None else c
        launch(*a.parts, *b.parts, start, result, m, n, *strides, blocks)
        return result

    return work


@triton.jit
def start_tile(
    a_nan,
    b_nan,
    c,
    row,
    column,
    m,
    n,
    a_stride,
    b_stride,
    length,
    HAS_C: tl.constexpr,
    TILE: tl.constexpr,
):
    """The tile's running values: c or +0, NaN where a row of the operands holds a NaN."""
    if HAS_C:
        at = row.to(tl.int64)[:, None] * n + column[None, :]
        value = tl.load(c + at, mask=(row < m)[:, None] & (column < n)[None, :], other=0.0)
        value = tl.where(value == 0, 0.0, value)
    else:
        value = tl.zeros((TILE, TILE), tl.float32)
    a_found, b_found = tl.zeros((TILE,), tl.int8), tl.zeros((TILE,), tl.int8)
    for _ in tl.range(0, tl.cdiv(length, STRIP), loop_unroll_factor=8):
        a_found |= tl.load(a_nan + row)
        b_found |= tl.load(b_nan + column)
        a_nan += a_stride
        b_nan += b_stride
    nan = (a_found[:, None] | b_found[None, :]) != 0
    return tl.where(nan, float("nan"), value)


@triton.jit
def decided(c, new, special):
    """`new` where c and the terms are finite; else what a special c and infinite terms give."""
    plain = is_finite(c) & is_finite(special)
    return tl.where(plain, new, tl.where(is_finite(special), c, c + special))


@triton.jit
def with_nan(c, NAN_BITS: tl.constexpr):
    """float32 `c` with the rule's NaN."""
    return tl.where(c != c, NAN_BITS, c.to(tl.int32, bitcast=True)).to(tl.float32, bitcast=True)


@triton.jit
def store_tile(result, values, row, column, m, n):
    """Store a tile of results (m, n)."""
    at = row.to(tl.int64)[:, None] * n + column[None, :]
    tl.store(result + at, values, mask=(row < m)[:, None] & (column < n)[None, :])


@triton.jit
def _step(c, s, operands, count, RULE: tl.constexpr, WALK: tl.constexpr, CUT: tl.constexpr):
    """c' of one step; infinite terms, or a special c, decide where there are any."""
    a_values, a_units, b_values, b_units = operands
    F: tl.constexpr = RULE.fraction_bits
    known = tl.where(is_finite(c), c, 0.0)
    zero = known * 0.0  # laid out over threads as c is, which constants would not be
    if RULE.kind == 3:
        special = tree(a_values, b_values, RULE.block, 64, WALK)
        block = tl.where(is_finite(special), special, 0.0).to(tl.float64)
        new = add_block(known, block, s, RULE.mantissa_bits, RULE.emin)
    elif RULE.kind == 0:
        high, low, special = sum_terms(a_values, b_values, count, zero, 2.0**F, WALK, CUT)
        new = add_exact(known, high, low, s - F, WALK.width)
    else:
        unit, none = largest(a_units, b_units, count, zero, WALK)
        exponent = grid_exponent(unit, none, known, s, RULE)
        grid = F - exponent + (s if RULE.kind == 2 else 0)
        high, low, special = aligned_sum(operands, count, zero, grid, WALK, CUT)
        if RULE.kind == 1:
            new = add_aligned(known, high, low, exponent, s, RULE, WALK)
        else:
            new = fuse(known, high, low, exponent, RULE, WALK)
    return decided(c, new, special)


@triton.jit
def _emulate(
    a_values,
    a_units,
    a_scales,
    a_nan,
    b_values,
    b_units,
    b_scales,
    b_nan,
    c_start,
    result,
    m,
    n,
    a_stride,
    b_stride,
    blocks,
    RULE: tl.constexpr,
    WALK: tl.constexpr,
    CUT: tl.constexpr,
):
    TILE: tl.constexpr = WALK.tile
    BLOCK: tl.constexpr = RULE.block
    TERMS: tl.constexpr = RULE.terms
    first_row, first_column = tile_origin(m, TILE)
    row = first_row + tl.arange(0, TILE)
    column = first_column + tl.arange(0, TILE)
    length = blocks * BLOCK
    c = start_tile(
        a_nan, b_nan, c_start, row, column, m, n, a_stride, b_stride, length, RULE.has_c, TILE
    )
    c = held(c, RULE.mantissa_bits, RULE.emin)
    a_at = in_strip(first_row, length, WALK.pack)
    b_at = in_strip(first_column, length, WALK.pack)
    a_values += a_at
    a_units += a_at
    a_scales += row
    b_values += b_at
    b_units += b_at
    b_scales += column
    promoted = c  # with promotion, `c` is the partial sum
    taken = 0
    if RULE.promote > 0:
        c = tl.zeros((TILE, TILE), tl.float32)
    for block in range(blocks):
        s = tl.load(a_scales)[:, None] + tl.load(b_scales)[None, :]
        a_scales += a_stride
        b_scales += b_stride
        for start in range(0, BLOCK, TERMS):
            count = TERMS if BLOCK % TERMS == 0 else tl.minimum(TERMS, BLOCK - start)
            c = _step(c, s, (a_values, a_units, b_values, b_units), count, RULE, WALK, CUT)
            a_values += count * STRIP
            a_units += count * STRIP
            b_values += count * STRIP
            b_units += count * STRIP
            if RULE.promote > 0:
                taken += count
                if (taken >= RULE.promote) | ((block == blocks - 1) & (start + TERMS >= BLOCK)):
                    promoted = promote(promoted, c, RULE.mantissa_bits, RULE.emin)
                    c = tl.zeros((TILE, TILE), tl.float32)
                    taken = 0
    if RULE.promote > 0:
        c = promoted
    store_tile(result, with_nan(c, RULE.nan_bits), row, column, m, n)
