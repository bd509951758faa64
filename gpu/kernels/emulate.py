"""Emulation of the accumulators on ordinary arithmetic units, any block size.

A program computes a tile of dot products. Per step it goes over the terms twice: for the largest
unit digit (a power of two, found as a float32 maximum), and for the sum of the terms as integers on
the grid that follows. A product of two elements, and its scaling by a power of two, is exact in
float32; the conversion to an integer truncates it as the contract says. Products of BF16 and TF32
leave float32's exponents: there significands are multiplied, and exponents added.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.accumulators import (
    Accumulator,
    Aligned,
    BFloat16,
    Exact,
    Float16,
    Float32,
    Fused,
    Int32,
    Preset,
)
from ...model.formats import ElementFormat
from ...model.products import NO_EXPONENT, Pair
from ..tensors.floats import FLOAT32_FRACTION
from .arithmetic import INT32, INT64, PAIR, is_finite
from .launch import Launch
from .operands import STRIP, in_strip, is_split, pack_of, padded_rows, tile_origin
from .operands import prepare as prepare_operand
from .running import add_aligned, add_block, add_exact, fuse, grid_exponent, held, promote
from .terms import aligned_sum, largest, sum_terms, tree

if TYPE_CHECKING:
    from ..ops.matmul import Product

EXACT, ALIGNED, FUSED, FLOAT32 = range(4)  # the values of the constexpr RULE
KERNELS: dict[type[Accumulator], int] = {
    Exact: EXACT,
    Int32: EXACT,
    Aligned: ALIGNED,
    Fused: FUSED,
    Preset: FUSED,
    Float32: FLOAT32,
    Float16: FLOAT32,
    BFloat16: FLOAT32,
}
WIDEST_SUM = 78  # bits of a pair
INT32_BITS = 32
# Rows and columns of a program, its warps, and registers of a thread: of narrow sums so few that a
# multiprocessor has six programs, though some values spill.
LARGE_TILE = 32
NARROW_SHAPE = {"TILE": LARGE_TILE, "num_warps": 4, "maxnreg": 80}
WIDE_SHAPE = {"TILE": LARGE_TILE, "num_warps": 8}
FEW_SHAPE = {"TILE": 8, "num_warps": 1}
FEW_TILES = 256  # of a product that leaves multiprocessors with one program or two
# Terms whose loads are under way at once; twice as many of few take thrice the compiler's time.
FEW_UNROLLED, UNROLLED = 16, 4
LONGEST_TREE = 128  # terms of a `float32` tree, which is unrolled


def refusal(rule: Accumulator, a: ElementFormat, b: ElementFormat, block_size: int) -> str | None:
    """Why these kernels cannot emulate `rule`; None when they can."""
    sizes = rule.step_sizes(block_size)
    other = next((size for size in sizes[:-1] if size != sizes[0]), None)
    if other is not None:
        return (
            f"steps of blocks of {block_size} elements but for the last must be of one size, "
            f"not of {sizes[0]} and {other}"
        )
    settings, sum_bits = _settings(rule, a, b, block_size)
    if settings["RULE"] == FLOAT32 and block_size > LONGEST_TREE:
        return f"float32 takes blocks of at most {LONGEST_TREE} elements, not {block_size}"
    return too_wide(sum_bits)


def _settings(
    rule: Accumulator, a: ElementFormat, b: ElementFormat, block_size: int
) -> tuple[dict[str, Any], int]:
    """The kernel's constants for a rule, and the bits of its sums."""
    terms, fraction_bits = rule.step_sizes(block_size)[0], rule.alignment_bits or 0
    fused = isinstance(rule, Fused)
    least = rule.least_exponent if fused else None
    term_bits = 0 if rule.alignment_bits is None else fraction_bits + 2
    if rule.sums_exactly:
        pair = Pair(a, b)
        fraction_bits, term_bits = -pair.lsb, pair.bits
    bits_of_terms = term_bits + math.ceil(math.log2(terms))
    sum_bits = term_bits + math.ceil(math.log2(terms + rule.is_fused))
    # A product of aligned elements is less than 4 units, but that of two integers, (-2)^2.
    below = rule.alignment_bits is not None and not (a.is_integer and b.is_integer)
    width = INT32 if below and bits_of_terms < INT32_BITS else sum_width(sum_bits)
    settings = {
        "RULE": KERNELS[type(rule)],
        "F": fraction_bits,
        "TERMS": terms,
        "DROPPED": FLOAT32_FRACTION - rule.step_fraction_bits,
        "NEAREST": fused and rule.rounds_to_nearest,
        "FRACTION": rule.running.mantissa_bits,
        "EMIN": rule.running.emin,
        "PROMOTE": rule.promotes_every or 0,
        "SPLIT": is_split(a, b),
        "LEAST": NO_EXPONENT if least is None else least,
        "WIDTH": width,
    }
    return settings, sum_bits


def too_wide(sum_bits: int) -> str | None:
    """Why block sums of magnitude up to 2^sum_bits cannot be taken; None when they can."""
    if sum_bits > WIDEST_SUM:
        return f"block sums must fit {WIDEST_SUM} bits, not {sum_bits}"
    return None


def sum_width(bits: int) -> int:
    """The WIDTH that holds sums of magnitude up to 2^bits."""
    return INT32 if bits <= 30 else INT64 if bits <= 62 else PAIR


def programs(m: int, n: int, pack: int, narrow: bool) -> tuple[tuple[int], dict[str, Any]]:
    """The grid of programs for (m, n) dot products, and TILE, UNROLL and the options of each.

    narrow: whether sums take 32 bits."""
    few = triton.cdiv(m, LARGE_TILE) * triton.cdiv(n, LARGE_TILE) < FEW_TILES
    # Small programs and many, where there would be few, for a program waits for its loads.
    shape = FEW_SHAPE if few else NARROW_SHAPE if narrow else WIDE_SHAPE
    tile, unrolled = shape["TILE"], FEW_UNROLLED if few else UNROLLED
    grid = (triton.cdiv(m, tile) * triton.cdiv(n, tile),)
    return grid, {"UNROLL": max(1, unrolled // pack), **shape}


def prepare(product: "Product") -> Callable[..., Tensor]:
    """The work for products like this one, given codes of a and b, their scales, and c: the
    float32 (M, N) products of rows, with the rule's NaN."""
    (m, n), where = product.shape, product.device
    settings, _ = _settings(product.accumulator, *product.formats, product.block_size)
    split = settings["SPLIT"]
    pack = pack_of(product.block_size, settings["TERMS"])
    layout = pack, split, product.accumulator.order(product.block_size)
    make_a = prepare_operand(product.a_codes, product.a_scales, product.a_format, *layout)
    make_b = prepare_operand(product.b_codes, product.b_scales, product.b_format, *layout)
    strides, blocks = (padded_rows(m), padded_rows(n)), product.a_scales.shape[1]
    grid, shape = programs(m, n, pack, settings["WIDTH"] == INT32)
    launch = Launch(
        _emulate,
        grid,
        BLOCK=product.block_size,
        HAS_C=product.c is not None,
        HAS_INF=product.has_inf,
        NAN_BITS=product.accumulator.nan_bits,
        PACK=pack,
        **shape,
        **settings,
    )

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
def _step(
    c,
    s,
    a_values,
    a_units,
    b_values,
    b_units,
    count,
    RULE: tl.constexpr,
    F: tl.constexpr,
    DROPPED: tl.constexpr,
    NEAREST: tl.constexpr,
    FRACTION: tl.constexpr,
    EMIN: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_INF: tl.constexpr,
    SPLIT: tl.constexpr,
    LEAST: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    """c' of one step; infinite terms, or a special c, decide where there are any."""
    known = tl.where(is_finite(c), c, 0.0)
    zero = known * 0.0  # laid out over threads as c is, which constants would not be
    if RULE == 3:
        special = tree(a_values, b_values, BLOCK, 64, PACK, TILE)
        block = tl.where(is_finite(special), special, 0.0).to(tl.float64)
        new = add_block(known, block, s, FRACTION, EMIN)
    elif RULE == 0:
        high, low, special = sum_terms(
            a_values, b_values, count, zero, 2.0**F, WIDTH, HAS_INF, PACK, UNROLL, TILE
        )
        new = add_exact(known, high, low, s - F, WIDTH)
    else:
        unit, none = largest(a_units, b_units, count, zero, SPLIT, PACK, UNROLL, TILE)
        exponent = grid_exponent(unit, none, known, s, RULE, LEAST, EMIN)
        grid = F - exponent + (s if RULE == 2 else 0)
        high, low, special = aligned_sum(
            a_values,
            a_units,
            b_values,
            b_units,
            count,
            zero,
            grid,
            WIDTH,
            HAS_INF,
            SPLIT,
            PACK,
            UNROLL,
            TILE,
        )
        if RULE == 1:
            new = add_aligned(known, high, low, exponent, s, F, WIDTH, SPLIT, FRACTION, EMIN)
        else:
            new = fuse(known, high, low, exponent, F, WIDTH, DROPPED, NEAREST, FRACTION, EMIN)
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
    F: tl.constexpr,
    TERMS: tl.constexpr,
    DROPPED: tl.constexpr,
    NEAREST: tl.constexpr,
    FRACTION: tl.constexpr,
    EMIN: tl.constexpr,
    PROMOTE: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_C: tl.constexpr,
    HAS_INF: tl.constexpr,
    SPLIT: tl.constexpr,
    LEAST: tl.constexpr,
    NAN_BITS: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    first_row, first_column = tile_origin(m, TILE)
    row = first_row + tl.arange(0, TILE)
    column = first_column + tl.arange(0, TILE)
    c = start_tile(
        a_nan, b_nan, c_start, row, column, m, n, a_stride, b_stride, blocks * BLOCK, HAS_C, TILE
    )
    c = held(c, FRACTION, EMIN)
    a_at = in_strip(first_row, blocks * BLOCK, PACK)
    b_at = in_strip(first_column, blocks * BLOCK, PACK)
    a_values += a_at
    a_units += a_at
    a_scales += row
    b_values += b_at
    b_units += b_at
    b_scales += column
    promoted = c  # with PROMOTE, `c` is the partial sum
    taken = 0
    if PROMOTE > 0:
        c = tl.zeros((TILE, TILE), tl.float32)
    for block in range(blocks):
        s = tl.load(a_scales)[:, None] + tl.load(b_scales)[None, :]
        a_scales += a_stride
        b_scales += b_stride
        for start in range(0, BLOCK, TERMS):
            count = TERMS if BLOCK % TERMS == 0 else tl.minimum(TERMS, BLOCK - start)
            c = _step(
                c,
                s,
                a_values,
                a_units,
                b_values,
                b_units,
                count,
                RULE,
                F,
                DROPPED,
                NEAREST,
                FRACTION,
                EMIN,
                BLOCK,
                WIDTH,
                HAS_INF,
                SPLIT,
                LEAST,
                PACK,
                UNROLL,
                TILE,
            )
            a_values += count * STRIP
            a_units += count * STRIP
            b_values += count * STRIP
            b_units += count * STRIP
            if PROMOTE > 0:
                taken += count
                if (taken >= PROMOTE) | ((block == blocks - 1) & (start + TERMS >= BLOCK)):
                    promoted = promote(promoted, c, FRACTION, EMIN)
                    c = tl.zeros((TILE, TILE), tl.float32)
                    taken = 0
    if PROMOTE > 0:
        c = promoted
    store_tile(result, with_nan(c, NAN_BITS), row, column, m, n)
