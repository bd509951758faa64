"""Sequences for units whose scales have few exponents, as those of E4M3 have."""

from dataclasses import replace
from itertools import product as combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model.formats import E4M3, FLOAT32
from ...model.outputs import result_float
from ..bench.operands import (
    E4M3_CLASSES,
    Codes,
    draw,
    finite_codes,
    float_bits,
    near_scales,
    random_c,
)
from .block_features import kept_digit, least_unit
from .item import Batch
from .placing import put, signs
from .target import Target

LEAST_SCALES = (1, 2, 4, 8)
"""Codes of E4M3: each power of two from the smallest scale to the smallest normal one."""


def subnormal_c(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Only a subnormal c of any size: blocks under scales of a short range never are that small."""
    a, b = target.signed_zeros(rng, n, 1)
    fraction = rng.integers(1, 2**23, n) >> rng.integers(0, 23, n)
    c = float_bits(rng.integers(0, 2, n), np.full(n, FLOAT32.emin - 1), fraction)
    return [target.batch(a, b, (near_scales(rng, (n, 1)), near_scales(rng, (n, 1))), c)]


def short_scales(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Finite codes, one scale block of which is under every pair of classes of E4M3 scales in turn,
    the others under any but NaN."""
    limits = np.array(list(E4M3_CLASSES.values()))
    n = max(n, len(limits) ** 2)
    a, b = (
        draw(rng, finite_codes(fmt), (n, 1, target.lanes))
        for fmt in (target.format_a, target.format_b)
    )
    rows, each = np.arange(n), target.config.scale_blocks
    chosen = rng.integers(0, each, n)
    scales = []
    for turn in (rows // len(limits), rows):
        first, last = limits[turn % len(limits)].T
        codes = rng.integers(0, E4M3.nan_code, (n, each), np.uint8)
        codes[rows, chosen] = rng.integers(first, last + 1)
        scales.append(codes)
    return [_under(target, a, b, scales, random_c(rng, n))]


def least_products(target: Target, rng: Generator, n: int) -> list[Batch]:
    """One product alone under the least E4M3 scales: the smallest, the smallest that alignment
    keeps, and those around the least normal and subnormal results."""
    config, fmt_a, fmt_b = target.config, target.format_a, target.format_b
    formats = {config.accumulator.running, result_float(config.out) or FLOAT32}
    ends = sorted(end + by for fmt in formats for end in (fmt.emin, fmt.lsb) for by in (-1, 0))
    pairs = [*combinations(LEAST_SCALES, repeat=2)]
    least, turns = LEAST_SCALES[-1], 2 * len(pairs)
    n = max(n, turns + len(ends))
    row = np.arange(n)
    codes = np.array([*pairs, *pairs, *[(least, least)] * (n - turns)], np.uint8)
    low, _ = target.pairs.limits
    around = np.array(ends)[row % len(ends)] - 2 * E4M3.emin
    a, b = target.zeros(n, 1)
    lane = rng.integers(0, target.lanes, n)
    put(target, rng, a, b, 0, lane, np.where(row < turns, low, around), signs(rng, n))
    kept = slice(len(pairs), turns)
    digit = kept_digit(config, fmt_a, fmt_b)
    of_a = min(digit - fmt_b.lsb, least_unit(fmt_a))  # elements that align as the smallest do
    a[row[kept], 0, lane[kept]] = fmt_a.encode(np.ldexp(1.0, of_a))
    b[row[kept], 0, lane[kept]] = fmt_b.encode(np.ldexp(1.0, digit - of_a))
    scales = [np.repeat(side[:, None], config.scale_blocks, axis=1) for side in codes.T]
    return [_under(target, a, b, scales)]


def _under(
    target: Target, a: Codes, b: Codes, scales: list[Codes], c: NDArray[np.uint32] | None = None
) -> Batch:
    """One block each under scales (n, scale blocks) of the unit's format."""
    one = target.config.scale_blocks == 1
    scale_a, scale_b = (codes if one else codes[:, None] for codes in scales)
    return replace(target.batch(a, b, (scale_a, scale_b), c), has_unit_scales=True)
