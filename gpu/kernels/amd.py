"""Rules of AMD, Arm and Intel: exact steps, trees without subnormal numbers, floored sums, chains.

A program computes a tile of dot products, step by step. Blocks are filled up with zeros to whole
steps, which changes no result. Products times the scale are exact in float64.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.accumulators import Accumulator
from ...model.accumulators.amd import ExactMachine, FlooredMachine, TreeMachine
from ...model.accumulators.chains import LEAST_KEPT, ChainMachine
from ...model.formats import FLOAT32, FLOAT64, ElementFormat, flushed
from ..tensors.formats import filled_up
from .arithmetic import (
    BIAS32,
    FRACTION32,
    INT32,
    LIMIT32,
    add_to_odd,
    exponent32,
    exponent64,
    is_finite,
    nearest_even,
    pair_and_c_to_odd,
    power64,
    sum_to_odd,
    truncate,
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
from .launch import Launch
from .operands import STRIP, in_strip, is_split, pack_of, padded_rows, tile_origin
from .operands import prepare as prepare_operand
from .running import add_block, held, nearest_in
from .terms import Walk, aligned_sum, largest, packs, scaled_term

if TYPE_CHECKING:
    from ..ops.matmul import Product

EXACT, TREE, FLOORED, CHAINS = range(4)  # kinds of a Rule
KERNELS: dict[type[Accumulator], int] = {
    ExactMachine: EXACT,
    TreeMachine: TREE,
    FlooredMachine: FLOORED,
    ChainMachine: CHAINS,
}
MOST_TERMS = 16  # of a step that is unrolled
SMALLEST = tl.constexpr(FLOAT32.smallest_normal)
KEPT = tl.constexpr(LEAST_KEPT)
LOWEST = tl.constexpr(2 * FLOAT32.lsb)  # the exponent of a sum without products: below every c
EMAX32 = tl.constexpr(FLOAT32.emax)
PRODUCT_BITS = tl.constexpr(2)  # a product is at most 2^2 of its unit digit


def refusal(rule: Accumulator, block_size: int) -> str | None:
    """Why the kernel cannot take blocks of this size; None when it can."""
    terms = _terms(rule, block_size)
    if isinstance(rule, ChainMachine):
        return None
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


class Rule(NamedTuple):
    """A machine as the kernel computes it, one constexpr.

    kind: EXACT, TREE, FLOORED or CHAINS. from_c: whether one chain starts from c. terms: per step.
    is_pair: see `_is_pair`. parts: of a step, each with a largest exponent of its own.
    fraction_bits, sum_bits: F and G of `floored:F:G`, else 0. mantissa_bits, emin: the running
    value's format. block: elements under one scale, filled up to whole steps. nan_bits: the NaN of
    results.
    """

    kind: int
    from_c: bool
    terms: int
    is_pair: bool
    parts: int
    fraction_bits: int
    sum_bits: int
    mantissa_bits: int
    emin: int
    block: int
    has_c: bool
    nan_bits: int


def _rule(product: "Product") -> tuple[Rule, int]:
    """The kernel's rule, and the integers that hold its sums."""
    rule, block = product.accumulator, product.block_size
    terms, bits, width = _terms(rule, block), (0, 0), INT32
    if isinstance(rule, FlooredMachine):
        bits = rule.fraction_bits, rule.sum_bits
        width = sum_width(_sum_bits(rule, terms))
    return Rule(
        KERNELS[type(rule)],
        isinstance(rule, ChainMachine) and rule.from_c,
        terms,
        _is_pair(terms, *product.formats),
        rule.parts,
        *bits,
        rule.running.mantissa_bits,
        rule.running.emin,
        triton.cdiv(block, terms) * terms,
        product.c is not None,
        rule.nan_bits,
    ), width


def _is_pair(terms: int, a: ElementFormat, b: ElementFormat) -> bool:
    """Whether two float64 hold any sum of `terms` products.

    The error of each addition is at most half of the sum's last digit; the sum of errors is exact.
    """
    digits = a.emax + b.emax + 2 - a.lsb - b.lsb  # of a product, over its unit digit
    growth = (terms - 1).bit_length()
    return terms <= 2 or digits + 2 * growth <= 2 * (FLOAT64.mantissa_bits + 1)


def prepare(product: "Product") -> Callable[..., Tensor]:
    """The work for products like this one (`emulate.prepare`)."""
    (m, n), where, machine = product.shape, product.device, product.accumulator
    block, split = product.block_size, is_split(*product.formats)
    rule, width = _rule(product)
    terms, parts, size = rule.terms, rule.parts, rule.block
    pack = pack_of(terms, terms // parts)
    # The parts of a step follow each other.
    places = np.concatenate([np.arange(i, terms, parts) for i in range(parts)])
    if rule.from_c:
        places = places[::-1].copy()
    order = places if parts > 1 or rule.from_c else None

    def filled(codes: Tensor) -> Tensor:
        return codes if size == block else filled_up(codes, block, size)

    def operand(codes: Tensor, scales: Tensor, fmt: ElementFormat) -> Callable[..., Any]:
        fmt = flushed(fmt) if machine.flushes else fmt
        like = codes.new_empty((codes.shape[0], scales.shape[1] * size))
        return prepare_operand(like, scales, fmt, pack, split, order)

    make_a = operand(product.a_codes, product.a_scales, product.a_format)
    make_b = operand(product.b_codes, product.b_scales, product.b_format)
    strides, blocks = (padded_rows(m), padded_rows(n)), product.a_scales.shape[1]
    walk = Walk(0, pack, 0, split, width, product.has_inf)
    grid, shape = programs(m, n, walk, narrow=False)
    launch = Launch(_multiply, grid, RULE=rule, **shape)

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
    beyond those before it, except zeros (Shewchuk, Discrete & Computational Geometry 18, 1997).
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

    IS_PAIR: whether two float64 hold the sum of the terms.
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
def _add_exactly(c, operands, s, RULE: tl.constexpr, WALK: tl.constexpr):
    """(c', special): RNE of c and the products of a step, added exactly."""
    PACK: tl.constexpr = WALK.pack
    TERMS: tl.constexpr = RULE.terms
    a_values, b_values = operands[0], operands[2]
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    terms = ()
    special = c * 0.0
    for k in tl.static_range(0, TERMS, PACK):
        step = packs(operands, k, WALK)
        for i in tl.static_range(PACK):
            term, own = scaled_term(step, i, s, A, B, WALK)
            special += own
            terms += (term,)
    exact = _sum_to_odd(terms, c.to(tl.float64), TERMS, RULE.is_pair)
    return nearest_in(exact, RULE.mantissa_bits, RULE.emin), special


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
def _add_tree(c, operands, s, RULE: tl.constexpr, WALK: tl.constexpr):
    """(c', special): RNE of c and the tree of a step."""
    PACK: tl.constexpr = WALK.pack
    TERMS: tl.constexpr = RULE.terms
    a_values, b_values = operands[0], operands[2]
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    level = ()
    special = c * 0.0
    unscaled = special.to(tl.int32)
    for k in tl.static_range(0, TERMS, PACK):
        step = packs(operands, k, WALK)
        for i in tl.static_range(PACK):
            term, own = scaled_term(step, i, unscaled, A, B, WALK)
            special += own
            level += (_flushed(term.to(tl.float32)),)
    block = _tree(level, 0, TERMS)
    known = tl.where(is_finite(block), block, 0.0)  # it may have overflowed
    added = add_block(c, known.to(tl.float64), s, FRACTION32, 1 - BIAS32)
    return _flushed(added), tl.where(is_finite(special), block - known, special)


# Floored sums -------------------------------------------------------------------------------------


@triton.jit
def _part(zero, operands, s, COUNT: tl.constexpr, RULE: tl.constexpr, WALK: tl.constexpr):
    """(units, exponent, special): COUNT products add to units x 2^(exponent - F), float64."""
    a_units, b_units = operands[1], operands[3]
    unit, none = largest(a_units, b_units, COUNT, zero, WALK)
    grid = RULE.fraction_bits - tl.where(none, 0, unit)
    high, low, special = aligned_sum(operands, COUNT, zero, grid, WALK, truncate)
    return sum_to_odd(high, low, WALK.width), tl.where(none, LOWEST, unit + s), special


@triton.jit
def _beyond_float32(zero, operands, s, RULE: tl.constexpr, WALK: tl.constexpr):
    """The infinity that products of 2^128 and more make, NaN for both signs; 0 without any."""
    PACK: tl.constexpr = WALK.pack
    a_values, b_values = operands[0], operands[2]
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    result = zero
    for k in tl.range(0, RULE.terms, PACK, loop_unroll_factor=WALK.unroll):
        step = packs(operands, k, WALK)
        for i in tl.static_range(PACK):
            term, _ = scaled_term(step, i, s, A, B, WALK)
            beyond = tl.where(term > 0, float("inf"), float("-inf"))
            result += tl.where(tl.abs(term) >= LIMIT32, beyond, 0.0).to(tl.float32)
    return result


@triton.jit
def _add_floored(c, operands, s, RULE: tl.constexpr, WALK: tl.constexpr):
    """(c', special): RNE of the sum of c and a step, cut downwards.

    With two parts, a step's elements lie in the order of the parts.
    """
    a_values, a_units, b_values, b_units = operands
    TERMS: tl.constexpr = RULE.terms
    F: tl.constexpr = RULE.fraction_bits
    G: tl.constexpr = RULE.sum_bits
    zero = c * 0.0
    count: tl.constexpr = (TERMS + RULE.parts - 1) // RULE.parts
    total, top, special = _part(zero, operands, s, count, RULE, WALK)
    if RULE.parts == 2:
        past = (TERMS + 1) // 2 * STRIP
        second = (a_values + past, a_units + past, b_values + past, b_units + past)
        other, other_top, own = _part(zero, second, s, TERMS // 2, RULE, WALK)
        special += own
        both = tl.maximum(top, other_top)
        total = tl.floor(total * power64(top - both)) + tl.floor(other * power64(other_top - both))
        top = both
    exponent = exponent32(c)
    joint = tl.maximum(top, exponent)
    cut = tl.floor(total * power64(top - joint + (G + 1 - F)))
    cut_c = tl.floor(c.to(tl.float64) * power64(F - joint))
    if RULE.parts == 2:
        cut_c = tl.where(exponent < top - F - 1, 0.0, cut_c)
    exact = (cut + cut_c * 2.0 ** (G + 1 - F)) * power64(joint - (G + 1))
    shift = G - tl.maximum(exponent64(exact), 1 - BIAS32)
    result = nearest_even(tl.floor(exact * power64(shift)) * power64(-shift))
    if tl.max(top) + PRODUCT_BITS > EMAX32:
        special += _beyond_float32(zero, operands, s, RULE, WALK)
    return result, special


# Chains -------------------------------------------------------------------------------------------


@triton.jit
def _joined(x, y, special):
    """float32 x + float64 y rounded once, without subnormal numbers. special: NaN or an infinity in
    place of y; infinities that x had or overflowed to count too.
    """
    plain = x + special
    finite = is_finite(plain)
    exact = add_to_odd(tl.where(finite, x, 0.0).to(tl.float64), y)
    result = tl.where(tl.abs(exact) < KEPT, 0.0, nearest_even(exact))
    return tl.where(finite, result, plain)


@triton.jit
def _add_chains(c, operands, s, RULE: tl.constexpr, WALK: tl.constexpr):
    """c', of any c. A chain from c takes the elements of a step in the order in which they lie."""
    PACK: tl.constexpr = WALK.pack
    a_values, b_values = operands[0], operands[2]
    A: tl.constexpr = a_values.dtype.element_ty
    B: tl.constexpr = b_values.dtype.element_ty
    even = tl.zeros_like(c)
    odd = tl.zeros_like(c)
    for k in tl.range(0, RULE.terms, PACK, loop_unroll_factor=WALK.unroll):
        step = packs(operands, k, WALK)
        for i in tl.static_range(PACK):
            term, own = scaled_term(step, i, s if RULE.from_c else s * 0, A, B, WALK)
            known = is_finite(own)
            y = tl.where(known, term, 0.0)
            special = tl.where(known, 0.0, own)
            if RULE.from_c:
                c = _joined(c, y, special)
            elif i % 2 == 0:
                even = _joined(even, y, special)
            else:
                odd = _joined(odd, y, special)
    if RULE.from_c:
        return c
    else:
        known = is_finite(odd)
        y = tl.where(known, odd, 0.0).to(tl.float64)
        partial = _joined(even, y, tl.where(known, 0.0, odd))
        known = is_finite(partial)
        y = tl.where(known, partial, 0.0).to(tl.float64) * power64(s)
        return _joined(c, y, tl.where(known, 0.0, partial))


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
    WALK: tl.constexpr,
):
    first_row, first_column = tile_origin(m, WALK.tile)
    row = first_row + tl.arange(0, WALK.tile)
    column = first_column + tl.arange(0, WALK.tile)
    length = blocks * RULE.block
    c = start_tile(
        a_nan, b_nan, c_start, row, column, m, n, a_stride, b_stride, length, RULE.has_c, WALK.tile
    )
    c = held(c, RULE.mantissa_bits, RULE.emin)
    if RULE.kind == 1 or RULE.kind == 3:
        c = _flushed(c)
    a_at = in_strip(first_row, length, WALK.pack)
    b_at = in_strip(first_column, length, WALK.pack)
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
        for _ in range(0, RULE.block, RULE.terms):
            operands = (a_values, a_units, b_values, b_units)
            known = tl.where(is_finite(c), c, 0.0)
            if RULE.kind == 3:
                c = _add_chains(c, operands, s, RULE, WALK)
            else:
                if RULE.kind == 0:
                    new, special = _add_exactly(known, operands, s, RULE, WALK)
                elif RULE.kind == 1:
                    new, special = _add_tree(known, operands, s, RULE, WALK)
                else:
                    new, special = _add_floored(known, operands, s, RULE, WALK)
                c = decided(c, new, special)
            a_values += RULE.terms * STRIP
            a_units += RULE.terms * STRIP
            b_values += RULE.terms * STRIP
            b_units += RULE.terms * STRIP
    store_tile(result, with_nan(c, RULE.nan_bits), row, column, m, n)
