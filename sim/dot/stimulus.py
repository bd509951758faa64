"""Sequences: named sources of dot products, random and directed (corners.py)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import E8M0, DotConfig
from ...model.formats import E4M3
from ...model.products import Pair
from ..bench.operands import (
    SCALE_CLASSES,
    class_codes,
    draw,
    finite_codes,
    float_bits,
    near_scales,
    random_c,
    weighted,
    wide_scales,
)
from . import corners
from .integer_stimulus import INTEGER_SEQUENCES
from .item import Batch
from .scales import for_unit
from .target import Ints, Target

Sequence = Callable[[Target, Generator, int], list[Batch]]
FEWEST = 16
"""Dot products of a sequence in each mode, at least."""


def _lengths(rng: Generator, n: int, lengths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Spread n products over numbers of blocks: (products, blocks) of each."""
    counts = rng.multinomial(n, [1 / len(lengths)] * len(lengths))
    return [(int(m), blocks) for m, blocks in zip(counts, lengths, strict=True) if m]


def random_classes(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Operands weighted by class, scales near one, one to five blocks."""
    batches = []
    for m, blocks in _lengths(rng, n, (1, 2, 3, 5)):
        shape = (m, blocks, target.lanes)
        a = weighted(rng, target.format_a, shape, special=0.01)
        b = weighted(rng, target.format_b, shape, special=0.01)
        scales = near_scales(rng, shape[:2]), near_scales(rng, shape[:2])
        batches.append(target.batch(a, b, scales, random_c(rng, m)))
    return batches


def wide_range(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Any finite codes under any scales, one to four blocks."""
    batches = []
    for m, blocks in _lengths(rng, n, (1, 2, 4)):
        shape = (m, blocks, target.lanes)
        a = draw(rng, finite_codes(target.format_a), shape)
        b = draw(rng, finite_codes(target.format_b), shape)
        scales = wide_scales(rng, shape[:2]), wide_scales(rng, shape[:2], nan=0.005)
        batches.append(target.batch(a, b, scales, random_c(rng, m)))
    return batches


MANY = 128  # exponents of products; of more, those near the largest are of more use than all
NEAREST, FIRST, STRIDE = 24, 2, 5  # distances from the largest, in turn: a few reach every bin
CANDIDATES = 32  # products to choose from


def _in_turn(count: Ints, span: int) -> tuple[Ints, Ints]:
    """A turn and a place for each number: all of `span` in turn, the farthest from its end first.

    Where the numbers are too few for that, or the places more than MANY, places alternate between
    some of all and one near the end.
    """
    most = int(count.max(initial=-1)) + 1
    if span <= min(MANY, most):
        return np.divmod(count, span)
    turn = count // 2
    far = turn * 4 * span // max(most, 1) % span
    near = (FIRST + turn * STRIDE) % min(NEAREST, span)
    return turn, np.where(count % 2, span - 1 - near, far)


def cancellation(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Blocks that cancel, wholly or except for one product at every possible depth in turn.

    Some of them are finite only because they cancel: their products are beyond the range.
    """
    if target.lanes == 2:
        return _two_that_cancel(target, rng, n)
    half = target.lanes // 2
    low, high = target.pairs.limits
    a, b = target.zeros(n, 1)
    a[:, 0, :half] = weighted(rng, target.format_a, (n, half), special=0.0)
    b[:, 0, :half] = weighted(rng, target.format_b, (n, half), special=0.0)
    # One product at the top, so that a tiny remainder means a deep cancellation.
    code_a, code_b = target.pairs.draw(rng, np.full(n, high), rng.random(n) < 0.5)
    a[:, 0, 0], b[:, 0, 0] = code_a, code_b
    if target.format_b.is_integer:  # the most negative value has no negative
        b[b == 2 ** (target.format_b.bits - 1)] += np.uint8(1)
    a[:, 0, half:] = a[:, 0, :half]
    b[:, 0, half:] = target.format_b.negated(b[:, 0, :half])
    remains = np.arange(n) % 4 != 0
    turn, place = _in_turn(np.cumsum(remains) - 1, high - low + 1)  # the deepest first
    exponent = low + place
    code_a, code_b = target.pairs.draw(rng, exponent, rng.random(n) < 0.5)
    for codes, code in ((a, code_a), (b, code_b)):
        codes[:, 0, half - 1] = codes[:, 0, -1] = 0
        codes[remains, 0, -1] = code[remains]
    order = rng.random((n, target.lanes)).argsort(axis=1)
    rows, lane = np.arange(n), (order == target.lanes - 1).argmax(axis=1)
    # Its neighbour, whose micro-exponent it shares, is the other zero.
    order[rows, (order == half - 1).argmax(axis=1)] = order[rows, lane ^ 1]
    order[rows, lane ^ 1] = half - 1
    order = order[:, None]
    a, b = np.take_along_axis(a, order, axis=2), np.take_along_axis(b, order, axis=2)
    c = np.where(rng.random(n) < 0.7, np.uint32(0), random_c(rng, n, special=0.0))
    scales = near_scales(rng, (n, 1)), near_scales(rng, (n, 1))
    row = np.flatnonzero(remains & (turn % 4 == 1))
    s = target.config.accumulator.running.emax - exponent[row] - turn[row] // 4 % 16
    scales[0][row, 0], scales[1][row, 0] = E8M0.encode(s // 2), E8M0.encode(s - s // 2)
    shifts = _shift_of(lane, remains & (turn % 2 == 0))
    return [target.batch(a, b, scales, c, micro=shifts)]


def _two_that_cancel(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Two products: one and its negative, or the nearest of many to the negative."""
    a, b = target.zeros(n, 1)
    a[:, 0, :] = weighted(rng, target.format_a, (n, 1), special=0.0)
    b[:, 0, 0] = weighted(rng, target.format_b, (n,), special=0.0)
    b[:, 0, 1] = target.format_b.negated(b[:, 0, 0])
    pair = Pair(target.format_a, target.format_b)
    product = pair.of(a[:, 0, :1], b[:, 0, :1]).values
    near_a = draw(rng, finite_codes(target.format_a), (n, CANDIDATES))
    with np.errstate(all="ignore"):
        needed = -product / target.format_a.values[near_a]
    near_b = target.format_b.encode(np.where(np.isfinite(needed), needed, 0.0))
    any_b = draw(rng, finite_codes(target.format_b), near_b.shape)
    near_b = np.where(product == 0, any_b, near_b)
    left = np.abs(product + pair.of(near_a, near_b).values)
    nearest = np.where(left > 0, left, np.inf).argmin(axis=1)
    remains = np.arange(n) % 4 != 0
    for side, near in ((a, near_a), (b, near_b)):
        side[remains, 0, 1] = near[np.arange(n), nearest][remains]
    c = np.where(rng.random(n) < 0.7, np.uint32(0), random_c(rng, n, special=0.0))
    return [target.batch(a, b, (near_scales(rng, (n, 1)), near_scales(rng, (n, 1))), c)]


def alignment(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Two products at every distance that the formats have, in turn from the farthest on."""
    low, high = target.pairs.limits
    a, b = target.zeros(n, 1)
    exponents = np.full(n, high), low + _in_turn(np.arange(n), high - low + 1)[1]
    lanes = rng.random((n, target.lanes)).argsort(axis=1)
    for exponent, lane in zip(exponents, lanes.T, strict=False):
        code_a, code_b = target.pairs.draw(rng, exponent, rng.random(n) < 0.5)
        a[np.arange(n), 0, lane], b[np.arange(n), 0, lane] = code_a, code_b
    scales = near_scales(rng, (n, 1)), near_scales(rng, (n, 1))
    return [target.batch(a, b, scales, micro=_shift_of(lanes[:, 1], rng.random(n) < 0.7))]


def _shift_of(lane: Ints, shifts: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Micro-exponents of a block in which one lane has them set, or in other rows none has."""
    bit = np.uint64(1) << (lane // 2).astype(np.uint64)
    return np.where(shifts, bit, np.uint64(0))[:, None]


LONG_CHAIN = 64


def chains(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Products of 8 blocks and, fewer, of 64 and more: rounding errors, drift, saturation."""
    batches = []
    for blocks, m in ((8, n // 8), (LONG_CHAIN, n // 64), (100, n // 256)):
        shape = (max(m, 1), blocks, target.lanes)
        a = draw(rng, finite_codes(target.format_a), shape)
        b = draw(rng, finite_codes(target.format_b), shape)
        scales = near_scales(rng, shape[:2], 3), near_scales(rng, shape[:2], 3)
        batches.append(target.batch(a, b, scales, random_c(rng, shape[0])))
    return batches


def specials(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Every pair of operand classes in turn in one lane, sometimes twice; every scale class."""
    classes_a, classes_b = class_codes(target.format_a), class_codes(target.format_b)
    combinations = [(x, y) for x in classes_a.values() for y in classes_b.values()]
    n = max(n, len(combinations))
    shape = (n, 1, target.lanes)
    a = draw(rng, finite_codes(target.format_a), shape)
    b = draw(rng, finite_codes(target.format_b), shape)
    order = rng.permutation(len(combinations))
    lanes = rng.random((n, target.lanes)).argsort(axis=1)
    rows = np.repeat(np.arange(n), 1 + np.arange(n) % 2)
    lane = lanes[rows, np.append(False, rows[1:] == rows[:-1]).astype(int)]
    sizes = np.array([[len(x), len(y)] for x, y in combinations])
    which = order[rows % len(combinations)]
    for side, (codes, index) in enumerate(
        zip((a, b), rng.integers(0, sizes[which]).T, strict=True)
    ):
        table = np.concatenate([pair[side] for pair in combinations])
        starts = np.cumsum(sizes[:, side]) - sizes[:, side]
        codes[rows, 0, lane] = table[starts[which] + index]
    scales = near_scales(rng, (n, 1)), near_scales(rng, (n, 1))
    # Every second product keeps finite scales, or a NaN would hide the special operands.
    limits = np.array(list(SCALE_CLASSES.values()))
    for side, codes in enumerate(scales):
        rows = np.arange(side, n, 4)
        first, last = limits[rows // 4 % len(limits)].T
        codes[rows, 0] = rng.integers(first, last + 1)
    return [target.batch(a, b, scales, random_c(rng, n, special=0.05))]


def raw(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Any bits."""
    shape = (n, 2, target.lanes)
    a, b = (
        rng.integers(0, 2**fmt.bits, shape, dtype=fmt.dtype.type)
        for fmt in (target.format_a, target.format_b)
    )
    scales = tuple(rng.integers(0, 256, shape[:2], dtype=np.uint8) for _ in range(2))
    c = rng.integers(0, 2**32, n, dtype=np.uint32)
    return [target.batch(a, b, (scales[0], scales[1]), c)]


def single_blocks(target: Target, rng: Generator, n: int) -> list[Batch]:
    """One block with a c of its own magnitude, as a tensor core is used."""
    shape = (n, 1, target.lanes)
    a = weighted(rng, target.format_a, shape, special=0.0)
    b = weighted(rng, target.format_b, shape, special=0.0)
    _, high = target.pairs.limits
    exponent = rng.integers(-20, 12, n) + high
    c = float_bits(rng.integers(0, 2, n), exponent, rng.integers(0, 2**23, n))
    return [target.batch(a, b, (near_scales(rng, (n, 1), 3), near_scales(rng, (n, 1), 3)), c)]


SEQUENCES: dict[str, tuple[Sequence, int]] = {
    "distance": (corners.distance, 3),
    "lost": (corners.lost, 3),
    "steps": (corners.steps, 2),
    "sticky": (corners.sticky, 3),
    "grid": (corners.grid, 2),
    "lone": (corners.lone, 3),
    "limits": (corners.limits, 2),
    "fullest": (corners.fullest, 2),
    "carried": (corners.carried, 1),
    "fading": (corners.fading, 2),
    "beyond": (corners.beyond, 1),
    "below": (corners.below, 3),
    "remnants": (corners.remnants, 3),
    "conversion": (corners.conversion, 1),
    "late_ties": (corners.late_ties, 1),
    "c_classes": (corners.c_classes, 1),
    "cancelled_c": (corners.cancelled_c, 2),
    "facts": (corners.facts, 1),
    "random_classes": (random_classes, 3),
    "wide_range": (wide_range, 3),
    "cancellation": (cancellation, 3),
    "alignment": (alignment, 2),
    "chains": (chains, 2),
    "specials": (specials, 3),
    "raw": (raw, 1),
    "single_blocks": (single_blocks, 3),
}
"""Every sequence by name, with its share of the traffic."""


SHORT_RANGE: dict[str, tuple[Sequence, int]] = {
    "subnormal_c": (corners.subnormal_c, 1),
    "short_scales": (corners.short_scales, 1),
    "least_products": (corners.least_products, 1),
}
"""More sequences, for units whose scales have few exponents."""


def traffic(config: DotConfig, rng: Generator, count: int) -> list[Batch]:
    """About `count` dot products: every mode, every sequence by its share."""
    sequences = INTEGER_SEQUENCES if config.has_integers else SEQUENCES
    if config.scales == E4M3.name:
        sequences = sequences | SHORT_RANGE
    total = sum(share for _, share in sequences.values()) * len(config.formats)
    return [
        replace(for_unit(config, rng, batch), sequence=name)
        for mode in range(len(config.formats))
        for name, (make, share) in sequences.items()
        for batch in make(Target(config, mode), rng, max(count * share // total, FEWEST))
    ]
