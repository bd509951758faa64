"""The rules of AMD's matrix cores: exact steps, trees without subnormal numbers, floored sums.

A program computes a tile of dot products, step by step. Blocks are filled up with zeros to whole
steps, which changes no result. Products times the scale are exact in float64.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.accumulators import Accumulator
from ...model.accumulators.amd import ExactMachine, FlooredMachine, TreeMachine
from ...model.formats import FLOAT32, FLOAT64, ElementFormat, flushed
from ..tensors.formats import filled_up
from .arithmetic import (
    BIAS32,
    FRACTION32,
    INT32,
    add_to_odd,
    is_finite,
    nearest_even,
    pair_and_c_to_odd,
    two_sum,
)
from .emulate import (
    decided,
    programs,
    start_tile,
    store_tile,
    sum_width,
    too_wide,
    with_nan,
)
from .floored import add_floored
from .launch import Launch
from .operands import STRIP, in_strip, is_split, pack_of, padded_rows, tile_origin
from .operands import prepare as prepare_operand
from .running import add_block
from .terms import packs, scaled_term

if TYPE_CHECKING:
    from ..ops.matmul import Product

EXACT, TREE, FLOORED = range(3)  # the values of the constexpr RULE
KERNELS: dict[type[Accumulator], int] = {
    ExactMachine: EXACT,
    TreeMachine: TREE,
    FlooredMachine: FLOORED,
}
MOST_TERMS = 16  # of a step that is unrolled
SMALLEST = tl.constexpr(FLOAT32.smallest_normal)


def refusal(rule: Accumulator, block_size: int) -> str | None:
    """Why the kernel cannot take blocks of this size; None when it can."""
    terms = _terms(rule, block_size)
    if not isinstance(rule, FlooredMachine):
        if terms > MOST_TERMS:
            return f"steps of {rule} must have at most {MOST_TERMS} terms, not {terms}"
        return None
    return too_wide(_sum_bits(rule, terms))


def _terms(rule: Accumulator, block_size: int) -> int:
    """Elements of a step, with the zeros that fill it up: a power of two."""
    return triton.next_power_of_2(rule.step_terms(block_size))


def _sum_bits(rule: FlooredMachine, terms: int) -> int:
    """Bits of the sum of a step's aligned products, of one part."""
    return rule.fraction_bits + 2 + (triton.cdiv(terms, rule.parts) - 1).bit_length()


def _settings(rule: Accumulator, block_size: int) -> dict[str, Any]:
    """The kernel's constants for a rule."""
    settings = {"RULE": KERNELS[type(rule)], "TERMS": _terms(rule, block_size)}
    if isinstance(rule, FlooredMachine):
        width = sum_width(_sum_bits(rule, settings["TERMS"]))
        return settings | {"F": rule.fraction_bits, "G": rule.sum_bits, "WIDTH": width}
    return settings | {"F": 0, "G": 0, "WIDTH": INT32}


def _is_pair(terms: int, a: ElementFormat, b: ElementFormat) -> bool:
    """Whether two float64 hold any sum of so many products: what `two_sum` leaves of each addition
    is at most half of the last digit of the sum, and of those rests the sum is exact."""
    digits = a.emax + b.emax + 2 - a.lsb - b.lsb  # of a product, over its unit digit
    growth = (terms - 1).bit_length()
    return terms <= 2 or digits + 2 * growth <= 2 * (FLOAT64.mantissa_bits + 1)


def prepare(product: "Product") -> Callable[..., Tensor]:
    """As that of `emulate`."""
    (m, n), where, rule = product.shape, product.device, product.accumulator
    block, split = product.block_size, is_split(*product.formats)
    settings = _settings(rule, block)
    settings["IS_PAIR"] = _is_pair(settings["TERMS"], *product.formats)
    terms, parts = settings["TERMS"], rule.parts
    size = triton.cdiv(block, terms) * terms
    pack = pack_of(terms, terms // parts)
    # The parts of a step one behind the other.
    places = np.concatenate([np.arange(i, terms, parts) for i in range(parts)])
    order = places if parts > 1 else None

    def filled(codes: Tensor) -> Tensor:
        return codes if size == block else filled_up(codes, block, size)

    def operand(codes: Tensor, scales: Tensor, fmt: ElementFormat) -> Callable[..., Any]:
        fmt = flushed(fmt) if rule.flushes else fmt
        like = codes.new_empty((codes.shape[0], scales.shape[1] * size))
        return prepare_operand(like, scales, fmt, pack, split, order)

    make_a = operand(product.a_codes, product.a_scales, product.a_format)
    make_b = operand(product.b_codes, product.b_scales, product.b_format)
    strides, blocks = (padded_rows(m), padded_rows(n)), product.a_scales.shape[1]
    grid, shape = programs(m, n, pack, narrow=False)
    launch = Launch(
        _multiply,
        grid,
        PARTS=parts,
        BLOCK=size,
        HAS_C=product.c is not None,
        HAS_INF=product.has_inf,
        NAN_BITS=rule.nan_bits,
        SPLIT=split,
        PACK=pack,
        **shape,
        **settings,
    )

    def work(
        a_codes: Tensor, b_codes: Tensor, a_scales: Tensor, b_scales: Tensor, c: Tensor | None
    ) -> Tensor:
        a, b = make_a(filled(a_codes), a_scales), make_b(filled(b_codes), b_scales)
        result = torch.empty((m, n), dtype=torch.float32, device=where)
        start = result if c is None else c
        launch(*a.parts, *b.parts, start, result, m, n, *strides, blocks)
        return result

    return work


# Exact steps --------------------------------------------------------------------------------------


@triton.jit
def _grown(digits, term, COUNT: tl.constexpr):
    """A tuple of COUNT float64 plus one more, whose sum is exact: no two share a digit, and each is
    beyond those before it, but for zeros (Shewchuk, Discrete & Computational Geometry 18, 1997).
    """
    result = ()
    for i in tl.static_range(COUNT):
        term, digit = two_sum(term, digits[i])
        result += (digit,)
    result += (term,)
    return result


@triton.jit
def _sum_to_odd(terms, c, COUNT: tl.constexpr, IS_PAIR: tl.constexpr):
    """The sum of a tuple of COUNT float64 and c rounded once, to odd.

    IS_PAIR: two float64 hold the sum of the terms (see `_is_pair`).
    """
    if IS_PAIR:
        total = terms[0]
        rest = total * 0.0
        for i in tl.static_range(1, COUNT):
            total, error = two_sum(total, terms[i])
            rest = error if i == 1 else rest + error
        if COUNT > 2:
            total, rest = two_sum(total, rest)
        return pair_and_c_to_odd(total, rest, c)
    else:
        digits = (c,)
        for i in tl.static_range(COUNT):
            digits = _grown(digits, terms[i], i + 1)
        # Each rounding to odd leaves a later, coarser one what it would have been.
        total = digits[0]
        for i in tl.static_range(COUNT):
            total = add_to_odd(total, digits[i + 1])
        return total


@triton.jit
def _add_exactly(
    c,
    a_values,
    a_units,
    b_values,
    b_units,
    s,
    TERMS: tl.constexpr,
    IS_PAIR: tl.constexpr,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    TILE: tl.constexpr,
):
    """(c', special): RNE of c and the products of a step, added exactly."""
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    terms = ()
    special = c * 0.0
    for k in tl.static_range(0, TERMS, PACK):
        a, a_unit, b, b_unit = packs(a_values, a_units, b_values, b_units, k, SPLIT, PACK, TILE)
        for i in tl.static_range(PACK):
            term, found = scaled_term(a, a_unit, b, b_unit, i, s, A, B, SPLIT)
            special += found
            terms += (term,)
    return nearest_even(_sum_to_odd(terms, c.to(tl.float64), TERMS, IS_PAIR)), special


# Trees --------------------------------------------------------------------------------------------


@triton.jit
def _flushed(x):
    """float32 `x`, a subnormal number as a zero."""
    return tl.where(tl.abs(x) < SMALLEST, 0.0, x)


@triton.jit
def _tree(level, FIRST: tl.constexpr, COUNT: tl.constexpr):
    """The sum of COUNT float32 of a tuple, a power of two of them, in adjacent pairs."""
    if COUNT == 1:
        return level[FIRST]
    else:
        left = _tree(level, FIRST, COUNT // 2)
        return _flushed(left + _tree(level, FIRST + COUNT // 2, COUNT // 2))


@triton.jit
def _add_tree(
    c,
    a_values,
    a_units,
    b_values,
    b_units,
    s,
    TERMS: tl.constexpr,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    TILE: tl.constexpr,
):
    """(c', special): RNE of c and the tree of a step."""
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    level = ()
    special = c * 0.0
    for k in tl.static_range(0, TERMS, PACK):
        a, a_unit, b, b_unit = packs(a_values, a_units, b_values, b_units, k, SPLIT, PACK, TILE)
        for i in tl.static_range(PACK):
            term, found = scaled_term(a, a_unit, b, b_unit, i, s * 0, A, B, SPLIT)
            special += found
            level += (_flushed(term.to(tl.float32)),)
    block = _tree(level, 0, TERMS)
    known = tl.where(is_finite(block), block, 0.0)  # it may have overflowed
    added = add_block(c, known.to(tl.float64), s, FRACTION32, 1 - BIAS32)
    return tl.where(is_finite(block), _flushed(added), block), special


# The kernel ---------------------------------------------------------------------------------------


@triton.jit
def _multiply(
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
    TERMS: tl.constexpr,
    IS_PAIR: tl.constexpr,
    PARTS: tl.constexpr,
    F: tl.constexpr,
    G: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_C: tl.constexpr,
    HAS_INF: tl.constexpr,
    NAN_BITS: tl.constexpr,
    SPLIT: tl.constexpr,
    PACK: tl.constexpr,
    UNROLL: tl.constexpr,
    TILE: tl.constexpr,
):
    first_row, first_column = tile_origin(m, TILE)
    row = first_row + tl.arange(0, TILE)
    column = first_column + tl.arange(0, TILE)
    length = blocks * BLOCK
    c = start_tile(
        a_nan, b_nan, c_start, row, column, m, n, a_stride, b_stride, length, HAS_C, TILE
    )
    if RULE == 1:
        c = _flushed(c)
    a_at = in_strip(first_row, length, PACK)
    b_at = in_strip(first_column, length, PACK)
    a_values += a_at
    a_units += a_at
    a_scales += row
    b_values += b_at
    b_units += b_at
    b_scales += column
    for _ in range(blocks):
        s = tl.load(a_scales)[:, None] + tl.load(b_scales)[None, :]
        a_scales += a_stride
        b_scales += b_stride
        for _ in range(0, BLOCK, TERMS):
            known = tl.where(is_finite(c), c, 0.0)
            if RULE == 0:
                new, special = _add_exactly(
                    known,
                    a_values,
                    a_units,
                    b_values,
                    b_units,
                    s,
                    TERMS,
                    IS_PAIR,
                    SPLIT,
                    PACK,
                    TILE,
                )
            elif RULE == 1:
                new, special = _add_tree(
                    known, a_values, a_units, b_values, b_units, s, TERMS, SPLIT, PACK, TILE
                )
            else:
                new, special = add_floored(
                    known,
                    a_values,
                    a_units,
                    b_values,
                    b_units,
                    s,
                    TERMS,
                    PARTS,
                    F,
                    G,
                    WIDTH,
                    HAS_INF,
                    SPLIT,
                    PACK,
                    UNROLL,
                    TILE,
                )
            c = decided(c, new, special)
            a_values += TERMS * STRIP
            a_units += TERMS * STRIP
            b_values += TERMS * STRIP
            b_units += TERMS * STRIP
    store_tile(result, with_nan(c, NAN_BITS), row, column, m, n)
