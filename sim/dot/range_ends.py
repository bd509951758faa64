"""Directed sequences at the ends of ranges: of running values, and of E4M3 scales."""

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
    split_scale,
)
from .block_features import kept_digit, least_unit
from .item import Batch
from .scales import with_scales
from .target import LEAST, Ints, Target, fractions, lanes, nearly_negated, put, signs

BEYOND = (-40, 60)  # of the scales, from the largest exponent of a running value on


def beyond(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Blocks under scales that take products out of the range, each scale in turn.

    They hold two products that cancel, or none: every digit stays of a c near the end of the range,
    or a little above.
    """
    a, b = target.signed_zeros(rng, n, 1)
    low, high = target.pairs.limits
    lane, (turn, above) = lanes(rng, target, n, 2), np.divmod(np.arange(n), BEYOND[1] - BEYOND[0])
    row = np.flatnonzero((turn + above) % 2)
    code_a, code_b = target.pairs.draw(rng, rng.integers(low, high + 1, n), signs(rng, n))
    for place, code in ((0, code_b), (1, target.format_b.negated(code_b))):
        a[row, 0, lane[row, place]], b[row, 0, lane[row, place]] = code_a[row], code[row]
    emax = target.config.accumulator.running.emax
    exponent = emax - np.where(rng.random(n) < 0.5, 0, rng.integers(0, 48, n))
    c = float_bits(rng.integers(0, 2, n), exponent, fractions(rng, n))
    s = emax + BEYOND[0] + above
    return [target.batch(a, b, split_scale(rng, s[:, None]), c)]


BELOW = (-32, 64)
"""Exponents of the last digit of the smallest products, from the least normal running value on."""


def below(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Blocks under scales around the least normal result, each in turn.

    They hold only a c of that size, or a product of which c leaves some last digits.
    """
    a, b = target.signed_zeros(rng, n, 1)
    running = target.config.accumulator.running
    low, high = target.pairs.limits
    scales = split_scale(rng, np.resize(_scales_below(target), n)[:, None])
    few = rng.integers(1, 2**FLOAT32.mantissa_bits, n) >> rng.integers(0, running.mantissa_bits, n)
    fraction = np.where(rng.random(n) < 0.5, fractions(rng, n), few)
    exponent = running.emin + np.where(rng.random(n) < 0.7, -1, rng.integers(0, 4, n))
    small = float_bits(rng.integers(0, 2, n), exponent, fraction)
    row = np.flatnonzero(rng.random(n) < 0.6)
    lane = lanes(rng, target, n, 1)[:, 0]
    of = np.minimum(low + rng.integers(0, LEAST, n), high)
    code_a, code_b = target.pairs.draw(rng, of, signs(rng, n))
    a[row, 0, lane[row]], b[row, 0, lane[row]] = code_a[row], code_b[row]
    batch = with_scales(target.config, rng, target.batch(a, b, scales))
    c = small.copy()
    c[row] = nearly_negated(target, rng, batch)[row]
    return [replace(batch, c=c) if target.config.load_c else batch]


LEFT = (-2, 3)
"""Exponents of what `remnants` leave, from the least normal running value on."""


def remnants(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Two of the largest products that cancel, and one at each kept digit in turn, near the least
    normal result.

    In most rows c takes that one away as well, except a unit or two of its last place.
    """
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    lane = 2 * (rng.random((n, target.lanes // 2)).argsort(axis=1))
    rows = np.arange(n)
    if target.lanes > 2:
        code_a, code_b = target.pairs.draw(rng, high - (rng.random(n) < 0.2), signs(rng, n))
        if target.format_b.is_integer:  # the most negative value has no negative
            code_b[code_b == 2 ** (target.format_b.bits - 1)] += np.uint8(1)
        for place, code in ((0, code_b), (1, target.format_b.negated(code_b))):
            a[rows, 0, lane[:, 0] + place], b[rows, 0, lane[:, 0] + place] = code_a, code
    last = max(low, high - target.grid_bits - 1)
    turn, place = np.divmod(rows, high - last + 1)
    exponent = last + place
    put(target, rng, a, b, 0, lane[:, -1], exponent, signs(rng, n))
    running = target.config.accumulator.running
    with_c = (rng.random(n) < 0.8) & target.config.load_c
    s = running.emin + LEFT[0] + turn % (LEFT[1] - LEFT[0]) - exponent
    s += np.where(with_c, running.mantissa_bits, 0)
    micro = np.zeros((n, 1), np.uint64)
    batch = target.batch(a, b, split_scale(rng, s[:, None]), micro=micro)
    batch = with_scales(target.config, rng, batch)
    c = nearly_negated(target, rng, batch, last=True)
    return [replace(batch, c=np.where(with_c, c, np.uint32(0)))]


def _scales_below(target: Target) -> Ints:
    low, _ = target.pairs.limits
    return target.config.accumulator.running.emin - low + np.arange(*BELOW)


def end_scales(target: Target) -> Ints:
    """Exponents of the scales of `below` and `beyond`."""
    above = target.config.accumulator.running.emax + np.arange(*BEYOND)
    return np.append(_scales_below(target), above)


LEAST_SCALES = (1, 2, 4, 8)
"""Codes of E4M3: each power of two from the smallest scale to the smallest normal one."""


def subnormal_c(target: Target, rng: Generator, n: int) -> list[Batch]:
    """A subnormal c of any size alone, which no block under scales of a short range reaches."""
    a, b = target.signed_zeros(rng, n, 1)
    fraction = rng.integers(1, 2**23, n) >> rng.integers(0, 23, n)
    c = float_bits(rng.integers(0, 2, n), np.full(n, FLOAT32.emin - 1), fraction)
    return [target.batch(a, b, (near_scales(rng, (n, 1)), near_scales(rng, (n, 1))), c)]


def short_scales(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Finite codes, one scale block of which is under every pair of classes of E4M3 scales in turn.

    The others are under any scale except NaN.
    """
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
    """One product alone under the least E4M3 scales.

    It is the smallest, the smallest that alignment keeps, or near the least normal and subnormal
    results.
    """
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
    """One block per row under scales (n, scale blocks) of the unit's format."""
    one = target.config.scale_blocks == 1
    scale_a, scale_b = (codes if one else codes[:, None] for codes in scales)
    return replace(target.batch(a, b, (scale_a, scale_b), c), has_unit_scales=True)
