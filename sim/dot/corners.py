"""Directed sequences: operands placed exactly where rounding, truncation and overflow happen.

Each draws its free parameters at random, so that a few hundred products hit every case and a bulk
run hits every combination.
"""

from dataclasses import replace
from itertools import product as combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model.formats import E4M3, FLOAT16, FLOAT32
from ...model.outputs import result_float
from ..bench.operands import (
    E4M3_CLASSES,
    SPECIAL_C,
    Codes,
    draw,
    finite_codes,
    float_bits,
    near_scales,
    one_digit,
    random_c,
    split_scale,
    weighted,
)
from .block_features import kept_digit, least_unit
from .fixed_features import LARGEST_BLOCKS, LARGEST_SCALE
from .item import Batch
from .scales import for_unit
from .target import (
    LEAST,
    Ints,
    Target,
    fractions,
    lanes,
    last_kept,
    lost_digit,
    nearly_negated,
    put,
    signs,
)


def distance(target: Target, rng: Generator, n: int) -> list[Batch]:
    """One product at every distance from c, either sign: alignment, ties, sticky, borrows.

    At 24 digits below c a power of two is half a unit in c's last place; a second, tiny product
    of either sign then decides the tie.
    """
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    running = target.config.accumulator.running
    emin, emax, reach = running.emin, running.emax, min(60, running.emax + 3)
    ends = np.array([0, emax, emax - 1, emin, emin + 1, emin - 1])
    exponent = np.where(
        rng.random(n) < 0.6, rng.integers(-reach, reach + 1, n), ends[rng.integers(0, len(ends), n)]
    )
    c = float_bits(rng.integers(0, 2, n), exponent, fractions(rng, n))
    lane = lanes(rng, target, n, 2)
    product = rng.integers(low, high + 1, n)
    put(target, rng, a, b, 0, lane[:, 0], product, signs(rng, n), power=True)
    replaced = rng.random(n) < 0.5
    other_a, other_b = target.zeros(n, 1)
    put(target, rng, other_a, other_b, 0, lane[:, 0], product, signs(rng, n))
    a[replaced], b[replaced] = other_a[replaced], other_b[replaced]
    tiny = rng.random(n) < 0.4
    least = np.full(n, low)
    extra_a, extra_b = a.copy(), b.copy()
    put(target, rng, extra_a, extra_b, 0, lane[:, 1], least, signs(rng, n))
    a[tiny], b[tiny] = extra_a[tiny], extra_b[tiny]
    below = rng.integers(-30, 34, n)
    scales = split_scale(rng, (exponent - below - product)[:, None])
    return [target.batch(a, b, scales, c)]


NEAR, FAR = np.arange(-80, 81), np.add.outer((128, 256), np.arange(12)).ravel()
"""Distances between a product and c: all near ones, and those just past a power of two, where a
shifter that drops the highest digit of the distance shifts too little."""


def lost(target: Target, rng: Generator, n: int) -> list[Batch]:
    """One product, and a c of two digits of which only the last falls off the grid, at any place.

    The result differs only if the unit forgets that digit. In half of the rows c has one digit, at
    each near or far distance in turn.
    """
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    gap, below_grid = lost_digit(target, rng, n)
    fraction = 1 << FLOAT32.mantissa_bits - gap
    fraction[1::2] = 0
    product = rng.integers(low, high + 1, n)
    product[::2] = np.where(rng.random(len(product[::2])) < 0.5, low, product[::2])
    put(target, rng, a, b, 0, lanes(rng, target, n, 1)[:, 0], product, signs(rng, n), power=True)
    has_micro = rng.random(n) < 0.5
    micro = np.where(has_micro, np.uint64(2 ** (target.lanes // 2) - 1), np.uint64(0))
    product -= 2 * (has_micro & target.config.micro)
    c_below = below_grid - gap - last_kept(target, rng, product)
    for first, distances in ((1, NEAR), (3, np.append(FAR, -FAR))):
        c_below[first::4] = np.resize(distances, len(c_below[first::4]))
    running = target.config.accumulator.running
    exponent = np.clip(-(c_below // 2) + rng.integers(-8, 9, n), running.emin, running.emax)
    c = float_bits(rng.integers(0, 2, n), exponent, fraction)
    scales = split_scale(rng, (exponent + c_below - product)[:, None])
    return [target.batch(a, b, scales, c, micro=micro[:, None])]


def steps(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Chained blocks whose single products go up and down by up to 30 digits."""
    blocks = 3
    a, b = target.zeros(n, blocks)
    level = np.cumsum(rng.integers(-30, 31, (n, blocks)), axis=1)
    for block in range(blocks):
        lane = lanes(rng, target, n, 1)[:, 0]
        put(target, rng, a, b, block, lane, rng.integers(-4, 5, n), signs(rng, n))
    return [target.batch(a, b, split_scale(rng, level))]


def sticky(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Two large products that nearly cancel, with small ones that fall off the grid.

    Negative sums that lose bits on a right shift need the two's-complement correction: a classical
    late bug. For a fixed register the scale puts the sum across its last digit.
    """
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    lane = lanes(rng, target, n, target.lanes)
    large = rng.integers((low + high) // 2, high + 1, n)
    sign = signs(rng, n)
    put(target, rng, a, b, 0, lane[:, 0], large, sign)
    put(target, rng, a, b, 0, lane[:, 1], large - rng.integers(0, 2, n), ~sign)
    for i in range(2, min(target.lanes, 6)):
        small = large - rng.integers(0, high - low + 1, n)
        put(target, rng, a, b, 0, lane[:, i], small, rng.random(n) < 0.8)
    rule = target.config.accumulator.register
    s = rng.integers(-12, 13, n) if rule is None else rule.lsb - large + rng.integers(-4, 30, n)
    c = float_bits(rng.integers(0, 2, n), large + s + rng.integers(-30, 4, n), fractions(rng, n))
    c = np.where(rng.random(n) < 0.5, np.uint32(0), c)
    return [target.batch(a, b, split_scale(rng, s[:, None]), c)]


def grid(target: Target, rng: Generator, n: int) -> list[Batch]:
    """One large power of two and terms at the last digits that the alignment keeps or drops.

    In half of the rows the large value is c instead, which a fused step aligns as well. Half of the
    other rows have one term alone. Mostly only one of its digits is dropped, at any place in its
    significand: only the flag inexact tells.
    """
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    lane = lanes(rng, target, n, target.lanes)
    large = np.full(n, high) - rng.integers(0, 3, n)
    from_c = (rng.random(n) < 0.5) & target.config.load_c
    small_lanes = rng.integers(1, target.lanes, n)
    same_sign = rng.random(n) < 0.7
    for i in range(1, target.lanes):
        small = large - target.grid_bits + rng.integers(-3, 3, n)
        # A term on the side of c need not be small itself: the scale moves the block.
        small = np.where(from_c, rng.integers(low, high + 1, n), small)
        with_a, with_b = a.copy(), b.copy()
        negative = np.where(same_sign, False, signs(rng, n))
        put(target, rng, with_a, with_b, 0, lane[:, i], small, negative)
        used = i <= small_lanes
        a[used], b[used] = with_a[used], with_b[used]
    alone = ~from_c & (rng.random(n) < 0.5)
    with_a, with_b = target.zeros(n, 1)
    last = large - target.grid_bits - np.where(rng.random(n) < 0.7, 1, rng.integers(-1, 4, n))
    rows = np.arange(n)
    codes = target.pairs.ending(rng, last, signs(rng, n))
    with_a[rows, 0, lane[:, 1]], with_b[rows, 0, lane[:, 1]] = codes
    a[alone], b[alone] = with_a[alone], with_b[alone]
    with_a, with_b = a.copy(), b.copy()
    put(target, rng, with_a, with_b, 0, lane[:, 0], large, signs(rng, n), power=True)
    a[~from_c], b[~from_c] = with_a[~from_c], with_b[~from_c]
    s = rng.integers(-3, 4, n)
    exponent = high + s + target.grid_bits - rng.integers(-3, 30, n)
    c = float_bits(rng.integers(0, 2, n), exponent, fractions(rng, n))
    c = np.where(from_c, c, np.uint32(0))
    return [target.batch(a, b, split_scale(rng, s[:, None]), c)]


def lone(target: Target, rng: Generator, n: int) -> list[Batch]:
    """A large power of two, and one term of which the alignment drops the last digit or none.

    The digit is at any place in the term's significand. The large value is a product or c, in turn,
    then one that another product or c takes away: only the term stays.
    """
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    lane, rows, negative = lanes(rng, target, n, min(target.lanes, 3)), np.arange(n), signs(rng, n)
    with_c = (rows % 2 == 1) & target.config.load_c
    cancels = (rows % 4 > 1) & (with_c | (target.lanes > 2))
    large = high - rng.integers(0, 3, n)
    dropped = rng.choice([0, 1, -1, 2], n, p=[0.4, 0.4, 0.1, 0.1])
    last = large - target.grid_bits - dropped
    last = np.where(with_c & ~cancels, rng.integers(low, high + 1, n), last)
    codes = target.pairs.ending(rng, last, signs(rng, n))
    a[rows, 0, lane[:, 1]], b[rows, 0, lane[:, 1]] = codes
    for place, chosen, sign in (
        (0, ~with_c | cancels, negative),
        (-1, ~with_c & cancels, ~negative),
    ):
        with_a, with_b = a.copy(), b.copy()
        put(target, rng, with_a, with_b, 0, lane[:, place], large, sign, power=True)
        a[chosen], b[chosen] = with_a[chosen], with_b[chosen]
    s = rng.integers(-3, 4, n)
    values = target.format_a.values[codes[0]] * target.format_b.values[codes[1]]
    exponent = s + np.where(cancels, large, _last_digit(values) + target.grid_bits + dropped)
    kept = FLOAT32.mantissa_bits - min(target.grid_bits, FLOAT32.mantissa_bits)
    fraction = np.where(cancels, 0, fractions(rng, n) >> kept << kept)
    c = float_bits((~negative).astype(np.int64), exponent, fraction)
    return [target.batch(a, b, split_scale(rng, s[:, None]), np.where(with_c, c, np.uint32(0)))]


def _last_digit(values: NDArray[np.float64]) -> Ints:
    """Exponents of the last digits of finite values; any of zeros."""
    fraction, exponent = np.frexp(values)
    digits = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    return exponent - 54 + np.frexp((digits & -digits).astype(np.float64))[1]


def range_limits(target: Target) -> list[int]:
    """Exponents at which results overflow, saturate or become subnormal."""
    rule = target.config.accumulator.register
    limits = [FLOAT32.emax + 1, FLOAT32.emin, FLOAT32.lsb]
    if rule is not None:
        limits = [rule.width - 1 + rule.lsb, rule.lsb]
    running, out = target.config.accumulator.running, target.config.out
    narrow = [running] if running != FLOAT32 else []
    if out is FLOAT16 and running is not FLOAT16:
        narrow.append(FLOAT16)
    return [*limits, *(end for fmt in narrow for end in (fmt.emax + 1, fmt.emin, fmt.lsb))]


WITHIN_SCALES = 200  # exponents by which the scales of a block surely move a product


def limits(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Sums at both ends of the range of the output, or of the register, pushed over either end."""
    blocks = 2
    a, b = target.zeros(n, blocks)
    _, high = target.pairs.limits
    ends = np.array(range_limits(target))
    end = ends[rng.integers(0, len(ends), n)]
    sign = signs(rng, n)
    top = np.minimum(high, end + WITHIN_SCALES)
    for block in range(blocks):
        for i in range(target.lanes):
            turn = rng.random(n) < 0.1
            put(target, rng, a, b, block, i, top - rng.integers(0, 3, n), sign ^ turn)
    tree = (target.lanes - 1).bit_length()
    s = (end - top)[:, None] - tree + rng.integers(-4, 5, (n, blocks))
    c_sign = (sign ^ (rng.random(n) < 0.2)).astype(np.int64)
    c = float_bits(c_sign, end - rng.integers(-1, 3, n), fractions(rng, n))
    c = np.where(rng.random(n) < 0.3, np.uint32(0), c)
    return [target.batch(a, b, split_scale(rng, s), c), _largest(target, rng)]


def _largest(target: Target, rng: Generator) -> Batch:
    """Only the largest products, of either sign, under the largest scales.

    Only these leave, or reach, some registers. Scales after the first block are smaller by up to
    three digits, so that a narrow register that wraps comes to rest anywhere.
    """
    negative, below = np.divmod(np.arange(8), 4)
    a, b = target.zeros(8, LARGEST_BLOCKS)
    for row, sign in enumerate(negative):
        a[row], b[row] = target.pairs.largest(bool(sign))
    s = np.full((8, LARGEST_BLOCKS), LARGEST_SCALE)
    s[:, 1:] -= below[:, None]
    return target.batch(a, b, split_scale(rng, s), micro=np.zeros(s.shape, np.uint64))


FADING = (-28, 60)  # places from the least normal result on, of the first digit of a sum


def fullest(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Sums that fill the word: every product and c as large as they get above one unit digit.

    c is at times a digit smaller or larger, or a little less.
    """
    sides, units = [], np.zeros(n, np.int64)
    for fmt in (target.format_a, target.format_b):
        fraction, exponent = np.frexp(np.abs(np.where(np.isfinite(fmt.values), fmt.values, 0.0)))
        codes = np.flatnonzero((fraction == fraction.max()) & (fmt.values > 0))
        code = rng.choice(codes, n)
        units += exponent[code] - 1
        sides.append(np.repeat(code, target.lanes).reshape(n, 1, -1).astype(fmt.dtype))
    negative, s = signs(rng, n), rng.integers(-3, 4, n)
    sides[1][negative] = target.format_b.negated(sides[1][negative])
    exponent = units + s + np.array([0, 0, 0, 1, -1])[rng.integers(0, 5, n)]
    less = rng.integers(0, 1 << 20, n) * (rng.random(n) < 0.5)
    c = float_bits(negative.astype(np.int64), exponent, 0x7FFFFF - less)
    return [target.batch(sides[0], sides[1], split_scale(rng, s[:, None]), c)]


MEETING, NEAR_MOST = 3, 4
"""Last digits of c at one of which a sum of `carried` begins; exponents from c to the largest."""


def carried(target: Target, rng: Generator, n: int) -> list[Batch]:
    """The largest sums, with their first digit at one of the last digits of c. The digits above are
    all ones or all zeros, so that a carry or a borrow goes through all of them.

    Where the alignment cuts products, each has its first digit there. Results are in the range.
    """
    a, b = target.zeros(n, 1)
    _, high = target.pairs.limits
    negative, borrows = signs(rng, n), rng.random(n) < 0.5
    for i in range(target.lanes):
        put(target, rng, a, b, 0, i, high - (rng.random(n) < 0.2), negative)
    products = np.abs(target.format_a.values[a] * target.format_b.values[b])[:, 0]
    rule, register = target.config.accumulator, target.config.accumulator.register
    meets = products.min(axis=1) if rule.is_fused else products.sum(axis=1)
    first = np.frexp(meets)[1] - 1
    digits = min(rule.running.mantissa_bits, rule.step_fraction_bits, FLOAT32.mantissa_bits)
    digits = min(digits, target.grid_bits) if rule.is_fused else digits
    last = rng.integers(0, 2**MEETING, n)
    fraction = np.where(borrows, last, 2**digits - 1 - last) << FLOAT32.mantissa_bits - digits
    most = min(rule.running.emax, (result_float(target.config.out) or FLOAT32).emax)
    most = most if register is None else min(most, register.width - 2 + register.lsb)
    s = np.minimum(0, most - NEAR_MOST - first - digits)
    s += rng.integers(-3, NEAR_MOST, n)
    exponent = first + s + digits - rng.integers(0, MEETING, n)
    c = float_bits((negative ^ borrows).astype(np.int64), exponent, fraction)
    return [target.batch(a, b, split_scale(rng, s[:, None]), c)]


def fading(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Sums around the least normal result, with their first digits at every place in turn.

    They are alone or with a c of about their magnitude; half of them consist of large products.
    """
    a, b = target.zeros(n, 1)
    _, high = target.pairs.limits
    lane, full = lanes(rng, target, n, target.lanes), rng.random(n) < 0.5
    used = np.where(full, target.lanes, rng.integers(1, target.lanes + 1, n))
    negative = signs(rng, n)
    for i in range(target.lanes):
        with_a, with_b = a.copy(), b.copy()
        turn = ~full & (rng.random(n) < 0.2)
        exponent = high - np.where(full, 0, rng.integers(0, 4, n))
        put(target, rng, with_a, with_b, 0, lane[:, i], exponent, negative ^ turn)
        a[i < used], b[i < used] = with_a[i < used], with_b[i < used]
    place = FLOAT32.emin + np.arange(n) % (FADING[1] - FADING[0]) + FADING[0]
    c = float_bits(rng.integers(0, 2, n), place - rng.integers(-3, 30, n), fractions(rng, n))
    c = np.where(rng.random(n) < 0.5, np.uint32(0), c)
    return [target.batch(a, b, split_scale(rng, (place - high)[:, None]), c)]


def conversion(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Only c, with fractions around the halfway points of narrower results: one digit decides."""
    a, b = target.signed_zeros(rng, n, 1)
    fraction_bits = np.array([7, 10, 13, 23])[rng.integers(0, 4, n)]
    discarded = 23 - fraction_bits
    half = np.where(discarded > 0, 1 << np.maximum(discarded - 1, 0), 0)
    place = np.where(rng.random(n) < 0.5, 0, rng.integers(0, np.maximum(discarded - 1, 1)))
    fraction = (rng.integers(0, 2**23, n) >> discarded << discarded) + half
    fraction += rng.integers(-1, 2, n) << place
    near = np.array([-127, -126, -25, -24, -15, -14, 15, 16, 127])[rng.integers(0, 9, n)]
    exponent = np.where(rng.random(n) < 0.5, near, rng.integers(-30, 31, n))
    c = float_bits(rng.integers(0, 2, n), exponent, fraction)
    return [target.batch(a, b, (near_scales(rng, (n, 1)), near_scales(rng, (n, 1))), c)]


TINY = (1, 15)
"""Binades of a c below half a unit of the result: the running value holds both."""


def late_ties(target: Target, rng: Generator, n: int) -> list[Batch]:
    """A tiny c that a block of zeros hands on, then the middle of two results: c decides.

    Half a unit comes first, then the rest. Half of the units are the least one, and half of these
    have a c of one unit of the running value.
    """
    a, b = target.signed_zeros(rng, n, 3)
    out = result_float(target.config.out) or FLOAT32
    running = target.config.accumulator.running
    low, high = target.pairs.limits
    is_least = rng.random(n) < 0.5
    half = np.where(is_least, out.lsb - 1, rng.integers(out.lsb, out.emax - out.mantissa_bits, n))
    above = np.where(is_least, rng.integers(1, out.mantissa_bits + 1, n), out.mantissa_bits + 1)
    negative = signs(rng, n)
    product = rng.integers(low, high + 1, (n, 2))
    for block, is_used in ((1, np.full(n, True)), (2, rng.random(n) < 0.8)):
        with_a, with_b = a.copy(), b.copy()
        lane = lanes(rng, target, n, 1)[:, 0]
        put(target, rng, with_a, with_b, block, lane, product[:, block - 1], negative, power=True)
        a[is_used], b[is_used] = with_a[is_used], with_b[is_used]
    places = np.stack([half, half, half + above], axis=1)
    places[:, 1:] -= product
    below = np.where(
        is_least & (rng.random(n) < 0.5), half - running.lsb, rng.integers(*TINY, n, endpoint=True)
    )
    c = np.ldexp(np.where(signs(rng, n), -1.0, 1.0), half - below).astype(np.float32)
    return [target.batch(a, b, split_scale(rng, places), c.view(np.uint32))]


def c_classes(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Every special c in turn, with zeros of either sign, one product, or random elements.

    The first of each has no random elements. The one digit of a NaN or subnormal c is at each place
    in turn.
    """
    a, b = target.signed_zeros(rng, n, 1)
    one = rng.random(n) < 0.3
    with_a, with_b = a.copy(), b.copy()
    put(target, rng, with_a, with_b, 0, 0, rng.integers(-4, 5, n), signs(rng, n))
    a[one], b[one] = with_a[one], with_b[one]
    turn = np.arange(n) // len(SPECIAL_C)
    replaced = (turn > 0) & (rng.random(n) < 0.3)
    a[replaced] = weighted(rng, target.format_a, a.shape, 0.5)[replaced]
    b[replaced] = weighted(rng, target.format_b, b.shape, 0.5)[replaced]
    c = one_digit(SPECIAL_C[np.arange(n) % len(SPECIAL_C)], turn % FLOAT32.mantissa_bits)
    return [target.batch(a, b, (near_scales(rng, (n, 1)), near_scales(rng, (n, 1))), c)]


def cancelled_c(target: Target, rng: Generator, n: int) -> list[Batch]:
    """A c that is the negated block result, or a few units away from it.

    Units are those of the last place, or in every second row of each place in turn. A quarter of
    the blocks have one of the smallest products alone: digits of c are then left far below those of
    sums.
    """
    shape = (n, 1, target.lanes)
    a = draw(rng, finite_codes(target.format_a), shape)
    b = draw(rng, finite_codes(target.format_b), shape)
    least_a, least_b = target.zeros(n, 1)
    low, _ = target.pairs.limits
    lane = lanes(rng, target, n, 1)[:, 0]
    put(target, rng, least_a, least_b, 0, lane, low + rng.integers(0, LEAST, n), signs(rng, n))
    alone = np.arange(n) // 2 % 4 == 0
    a[alone], b[alone] = least_a[alone], least_b[alone]
    scales = near_scales(rng, (n, 1)), near_scales(rng, (n, 1))
    batch = for_unit(target.config, rng, target.batch(a, b, scales))
    c = nearly_negated(target, rng, batch)
    return [replace(batch, c=c) if target.config.load_c else batch]


def facts(target: Target, rng: Generator, n: int) -> list[Batch]:
    """The measured facts of the contract: 2^16 and 2^3, or lanes - 1 times 7, 8, -7."""
    pairs = target.pairs
    large = [pairs.find(65536.0), pairs.find(-65536.0)]
    cases = [(8.0, 1), (7.0, target.lanes - 1), (8.0, target.lanes - 1), (-7.0, target.lanes - 1)]
    small = [pairs.find(value) for value, _ in cases]
    if None in large or None in small:
        return []
    a, b = target.zeros(n, 1)
    for row in range(n):
        which = row % (2 * len(cases))
        lane = rng.permutation(target.lanes)
        used = lane[1 : 1 + cases[which // 2][1]]
        a[row, 0, lane[0]], b[row, 0, lane[0]] = large[which % 2] or (0, 0)
        a[row, 0, used], b[row, 0, used] = small[which // 2] or (0, 0)
    unit = np.full((n, 1), 127, np.uint8)
    return [target.batch(a, b, (unit, unit))]


# Ends of ranges: of running values, and of E4M3 scales --------------------------------------------

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
    batch = for_unit(target.config, rng, target.batch(a, b, scales))
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
    batch = for_unit(target.config, rng, batch)
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
