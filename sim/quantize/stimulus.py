"""Sequences: named sources of blocks for a quantiser, directed and random."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import ElementFormat, QuantizeConfig
from ...model.formats import E4M3, FLOAT32
from ...model.lfsr import WORD_BITS
from ...model.units.quantize_formats import magnitudes
from ...util.data.tensors import load_values
from ..bench.operands import E4M3_CLASSES, class_codes
from ..engine.job import UnitJob
from .carries import words_at_edges
from .item import Batch, largest_magnitudes
from .ranges import tied_scales

Bits = NDArray[np.int64]

FEWEST_SCALES = 5  # exponents of the largest value, or `every_value` is left out
FEWEST = 16  # blocks of a sequence for each format and scale rule
FEW_TIES = 32  # with fewer between E4M3 scales, a quarter of `boundaries` are ties
TRAFFIC = 30_000  # blocks in bulk mode that are not of `every_value`, at most
TENSOR_BLOCKS = 5000  # of real tensors, unless all are asked for
INFINITY = 0x7F800000
ENDS = (0, 1 << 31, 1, 0x007FFFFF, 0x00800000, INFINITY - 1, 0x3F800000, 0xBF800000, INFINITY,
        INFINITY | 1 << 31, INFINITY | 1 << 22, INFINITY | 1)  # fmt: skip
"""Bits of zeros, ends of subnormal and normal scales, one, and values that are no scale."""


@dataclass(frozen=True)
class Target:
    """A unit and one of its formats."""

    config: QuantizeConfig
    format: ElementFormat

    @property
    def fraction_bits(self) -> int:
        return self.config.source.mantissa_bits

    @property
    def ones(self) -> int:
        """The exponent field of NaN and infinities."""
        return 2**self.config.source.exponent_bits - 1

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.config.source.bits - 1)

    def floats(self, exponent: NDArray | int, fraction: NDArray | int) -> Bits:
        """Bits of positive values of these exponent fields (limited to finite ones)."""
        field = np.clip(np.asarray(exponent), 0, self.ones - 1)
        return field << self.fraction_bits | fraction & (1 << self.fraction_bits) - 1

    def nearest(self, values: NDArray[np.float64]) -> Bits:
        """Bits of the source's floats nearest to `values`."""
        word = np.uint16 if self.config.source.bits == 16 else np.uint32
        with np.errstate(over="ignore", under="ignore"):
            narrow = np.asarray(values).astype(np.float32).astype(self.config.source.dtype)
        return narrow.view(word).astype(np.int64)


def _fractions(target: Target, rng: Generator, shape: tuple[int, ...]) -> Bits:
    """Fractions with long runs of zeros and ones, or one digit: where ties and carries are."""
    width = target.fraction_bits
    fraction = rng.integers(0, 1 << width, shape)
    ones = (1 << rng.integers(0, width + 1, shape)) - 1
    kinds = [fraction, fraction & ~ones, fraction | ones, ~ones, ones, ones + 1, ones & 0]
    return np.choose(rng.integers(0, len(kinds), shape), kinds)


def _signs(target: Target, rng: Generator, bits: Bits) -> Bits:
    return bits | rng.integers(0, 2, bits.shape) * target.sign


def random_range(target: Target, rng: Generator, n: int) -> Bits:
    """Any largest value; the others up to 40 binades below it."""
    shape = (n, target.config.block)
    top = rng.integers(0, target.ones, (n, 1))
    below = rng.integers(0, 41, shape) * (rng.random(shape) < 0.8)
    zero = rng.random(shape) < 0.03
    bits = target.floats(top - below, _fractions(target, rng, shape))
    return _signs(target, rng, np.where(zero, 0, bits))


def normal(target: Target, rng: Generator, n: int) -> Bits:
    """Normal random numbers of any scale with some outliers, as in tensors."""
    shape = (n, target.config.block)
    scale = np.ldexp(1.0, rng.integers(-12, 13, (n, 1)))
    outlier = np.where(rng.random(shape) < 0.02, 30.0, 1.0)
    return target.nearest(rng.standard_normal(shape) * scale * outlier)


def every_value(target: Target, rng: Generator, n: int) -> Bits:
    """Every pattern of a value's upper 16 bits under as many scales as n blocks hold.

    An exponent of the largest value takes all patterns up to that exponent. NaN and infinities are
    in blocks of their own. The largest exponent and the smallest come first, the others in random
    order: all of them from `every_pair` blocks on, nothing below five. Lower bits are random.
    """
    exponents = np.append([target.ones - 1, 0], 1 + rng.permutation(target.ones - 2))
    sizes = np.cumsum([_size(target, exponent) for exponent in exponents])
    count = int(np.searchsorted(sizes, n, side="right"))
    if count < FEWEST_SCALES:
        return np.empty((0, target.config.block), np.int64)
    share = target.config.block - 1
    parts = []
    for exponent in exponents[:count]:
        for patterns in _patterns(target, exponent):
            rows = np.resize(rng.permutation(patterns), (_rows(patterns, share), share))
            largest = target.floats(exponent, _fractions(target, rng, (len(rows), 1)))
            parts.append((largest, rows))
    largest, rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    lower = target.config.source.bits - 16
    rest = rest << lower | rng.integers(0, 1 << lower, rest.shape)
    return rng.permuted(np.concatenate([largest, rest], axis=1), axis=1)


def _patterns(target: Target, exponent: int) -> list[Bits]:
    """The upper 16 bits of all values up to this exponent, and of NaN and infinities."""
    patterns = np.arange(1 << 16)
    field = patterns >> (target.fraction_bits + 16 - target.config.source.bits) & target.ones
    return [patterns[field <= exponent], patterns[field == target.ones]]


def _rows(patterns: Bits, share: int) -> int:
    return -(-len(patterns) // share)


def _size(target: Target, exponent: int) -> int:
    """Blocks of an exponent."""
    share = target.config.block - 1
    return sum(_rows(patterns, share) for patterns in _patterns(target, exponent))


def every_pair(config: QuantizeConfig) -> int:
    """Number of blocks in bulk mode for `every_value` to have every exponent of every format."""
    target = Target(config, config.formats[0])
    rows = sum(_size(target, exponent) for exponent in range(target.ones))
    return TRAFFIC + len(config.formats) * rows


def ties(target: Target, rng: Generator, n: int) -> Bits:
    """Midpoints of neighbouring elements, and values one digit away from them, under any scale."""
    fmt = target.format
    grid = fmt.values[: fmt.largest_code + 1]
    grid = np.append(grid, 2 * grid[-1] - grid[-2])  # the next one, were there one
    middles = (grid[:-1] + grid[1:]) / 2
    shape = (n, target.config.block)
    source = target.config.source
    top = 2 ** (source.exponent_bits - 1)
    exponent = rng.integers(source.emin - 10, top, (n, 1)) - fmt.emax
    picked = middles[rng.integers(0, len(middles), shape)]
    picked[:, 0] = rng.choice([middles[-1], grid[-2], 2.0**fmt.emax], n)
    bits = target.nearest(np.ldexp(picked, exponent))
    return _signs(target, rng, _one_digit_away(target, rng, bits))


def _one_digit_away(target: Target, rng: Generator, bits: Bits) -> Bits:
    """A third of the values as they are; the others more or less by one digit, mostly the last."""
    place = rng.integers(0, target.fraction_bits, bits.shape) * (rng.random(bits.shape) < 0.5)
    moved = bits + (rng.integers(-1, 2, bits.shape) << place)
    return np.clip(moved, 0, target.floats(target.ones, -1))


def limits(target: Target, rng: Generator, n: int) -> Bits:
    """Largest values at the rules' boundaries: the largest element, m + 1 ones, powers of two.

    The first block has the power of two that every rule scales by one.
    """
    fmt = target.format
    even = 2.0 - 2.0 ** -(fmt.mantissa_bits + 1)
    boundaries = np.array([1.0, fmt.largest_finite / 2.0**fmt.emax, even, 1.5])
    source = target.config.source
    exponent = rng.integers(source.emin - 3, 2 ** (source.exponent_bits - 1), n)
    largest = target.nearest(np.ldexp(rng.choice(boundaries, n), exponent))
    most = target.floats(target.ones, -1)
    largest = np.clip(largest + rng.integers(-1, 2, n), 1, most)
    largest[rng.random(n) < 0.05] = most
    largest[:1] = target.nearest(np.array([2.0**fmt.emax]))
    below = np.maximum(largest[:, None] >> target.fraction_bits, 1)
    below = below - rng.integers(1, 2 * fmt.emax - fmt.emin + 8, (n, target.config.block))
    bits = target.floats(below, _fractions(target, rng, below.shape))
    bits[np.arange(n), rng.integers(0, target.config.block, n)] = largest
    return _signs(target, rng, bits)


def extremes(target: Target, rng: Generator, n: int) -> Bits:
    """The source's largest value with its smallest, and with the element's smallest normal one.

    Rules differ by one in the exponent of the scale: two values stand for the latter.
    """
    fmt = target.format
    normal = fmt.values[class_codes(fmt)["smallest_normal"][0]]
    top = 2 ** (target.config.source.exponent_bits - 1) - 1
    exponent = top - fmt.emax + np.array([0, 1])
    ends = [target.floats(target.ones, -1), 1, *target.nearest(np.ldexp(normal, exponent))]
    bits = target.floats(rng.integers(0, target.ones, (n, target.config.block)), 0)
    bits[:, : len(ends)] = ends
    return _signs(target, rng, rng.permuted(bits, axis=1))


def subnormals(target: Target, rng: Generator, n: int) -> Bits:
    """Blocks at the lower end of the source: subnormal values, and E8M0's smallest scales.

    In every fourth block the largest value too is below the smallest of E8M0's scales.
    """
    shape = (n, target.config.block)
    binades = rng.integers(1, min(target.format.emax + 9, target.ones), (n, 1))
    binades[1::4] = 1
    bits = rng.integers(0, binades << target.fraction_bits, shape)
    bits = bits >> rng.integers(0, target.fraction_bits, shape)
    bits[1::4] >>= rng.integers(2, target.fraction_bits, (len(bits[1::4]), 1))
    return _signs(target, rng, bits)


def specials(target: Target, rng: Generator, n: int) -> Bits:
    """Zeros, NaN and infinities of both signs, alone, together, and in blocks of nothing else.

    A NaN has one bit of the fraction set, each in turn.
    """
    bits = normal(target, rng, n)
    infinity = target.ones << target.fraction_bits
    quiet = infinity | 1 << target.fraction_bits - 1
    for row in range(n):
        kinds = np.array([infinity, quiet, infinity | 1 << row % target.fraction_bits, 0])
        kinds = np.append(kinds, kinds | target.sign)
        chosen = rng.choice(kinds, rng.integers(1, 3))
        count = (1, 2, target.config.block)[row % 3] if row % 8 else 0
        lanes = rng.permutation(target.config.block)[:count]
        bits[row, lanes] = rng.choice(chosen, count)
        if row % 8 == 0:  # zeros of both signs
            bits[row] = rng.integers(0, 2, target.config.block) * target.sign
        if row % 8 == 5:  # one of each
            bits[row, rng.permutation(target.config.block)[:2]] = infinity, quiet
    return bits


def raw(target: Target, rng: Generator, n: int) -> Bits:
    """Any bits."""
    return rng.integers(0, 2 * target.sign, (n, target.config.block))


def common(target: Target, rng: Generator, n: int) -> Bits:
    """Values that all formats hold, under the scale of each; half of the blocks have one more
    value.

    This value is an element of any format, or in the middle of two: its error alone decides. In an
    eighth of the blocks all values are equal, and so are their errors where scales are not too
    small.
    """
    config = target.config
    grids = [np.array(magnitudes(fmt)) for fmt in config.formats]
    alike = reduce(np.intersect1d, grids)
    places = np.unique(np.concatenate([*grids, *((grid[1:] + grid[:-1]) / 2 for grid in grids)]))
    shape = (n, config.block)
    values = rng.choice(alike, shape)
    values[:, 0] = rng.choice(alike[alike >= 1], n)
    values[: n // 2, 1] = rng.choice(places, n // 2)
    equal = slice(n - n // 8, n)
    values[equal] = values[equal, :1]
    top = 2 ** (config.source.exponent_bits - 1)
    least = config.source.emin
    exponent = rng.integers(least, top, (n, 1))
    exponent[equal] = rng.integers(least - 4, least + 4, (n // 8, 1))
    return _signs(target, rng, rng.permuted(target.nearest(np.ldexp(values, exponent)), axis=1))


def carries(target: Target, rng: Generator, n: int) -> Bits:
    """Values whose last digits meet the digits of a random word, in blocks with a larger value."""
    fmt, config = target.format, target.config
    # Binades from the largest value to one whose last digit is the word's.
    reach = fmt.emax - fmt.emin + fmt.mantissa_bits + config.micro + WORD_BITS
    reach -= target.fraction_bits
    top = rng.integers(min(max(reach, 1), target.ones - 1), target.ones, (n, 1))
    shape = (n, config.block)
    below = np.where(rng.random(shape) < 0.5, reach, rng.integers(1, max(reach, 2), shape))
    fraction = rng.integers(0, 1 << target.fraction_bits, shape)
    bits = target.floats(top - below, fraction | rng.integers(0, 2, shape))
    bits[:, :1] = target.floats(top, _fractions(target, rng, (n, 1)))
    return _signs(target, rng, rng.permuted(bits, axis=1))


def outer_scales(magnitude: NDArray[np.float64], rng: Generator) -> NDArray[np.uint32]:
    """Bits of an outer scale for each block, by its largest magnitude.

    Most of them bring the block's own scale into or near the range of E4M3, with many digits and
    with few. The others are any bits and `ENDS`.
    """
    n = len(magnitude)
    near = np.maximum(magnitude, FLOAT32.smallest) * np.exp2(rng.uniform(-13, 13, n))
    few = np.ldexp(rng.integers(1, 16, n), np.frexp(near)[1] - 4)
    with np.errstate(over="ignore", under="ignore"):
        floats = [x.astype(np.float32).view(np.uint32) for x in (near, few)]
    patterns = rng.integers(0, 2**32, (2, n), dtype=np.uint32)
    kinds = [*floats, patterns[0] >> 9, patterns[1], rng.choice(np.array(ENDS, np.uint32), n)]
    return np.choose(rng.choice(len(kinds), n, p=[0.4, 0.4, 0.05, 0.05, 0.1]), kinds)


def boundaries(target: Target, rng: Generator, n: int) -> tuple[Bits, NDArray[np.uint32]]:
    """Elements, midpoints, eighths between them and neighbours, and scales of E4M3 alike.

    All are exact in the source, where the outer scale has few enough digits. Both scales of the
    first block are one.
    """
    config, fmt = target.config, target.format
    digits = max(config.source.significand_bits - 7 - fmt.significand_bits - 1, 1)
    outer = rng.integers(1, 2**digits, n).astype(np.float64)
    exponent = rng.integers(max(-150, config.source.lsb - 1), min(100, config.source.emax), n)
    outer = np.ldexp(outer, exponent - digits).astype(np.float32)
    outer = np.maximum(outer, np.float32(FLOAT32.smallest))
    least = rng.random(n) < 0.3
    codes = rng.integers(
        1 - least, np.where(least, E4M3_CLASSES["subnormal"][1] + 1, E4M3_CLASSES["nan"][0])
    )
    outer[:1], codes[:1] = 1, E4M3_CLASSES["one"][0]
    tied = tied_scales(config, fmt)
    few = slice(n - n // 4 if 0 < len(tied) < FEW_TIES else n, n)
    codes[few] = rng.choice(tied, len(codes[few])) if len(codes[few]) else 0
    scale, next_scale = E4M3.values[codes], E4M3.values[np.minimum(codes + 1, E4M3.largest_code)]
    grid = np.unique(np.abs(fmt.values[np.isfinite(fmt.values)]))
    shape = (n, config.block)
    place = rng.integers(0, len(grid), shape)
    between = _eighths(rng, shape) * np.diff(grid, append=2 * grid[-1])[place]
    values = (outer * scale)[:, None] * (grid[place] + between)
    # The largest magnitude makes this scale exactly, or lies between it and the next one.
    eighths = _eighths(rng, (n,))
    eighths[few] = 1 / 2
    most = scale + (next_scale - scale) * eighths
    most[:1] = scale[:1]
    values[:, 0] = outer * most * fmt.largest_finite
    limited = np.minimum(values, values[:, :1])
    is_limited = rng.random(n) < 0.9
    is_limited[:1] = True
    bits = target.nearest(np.where(is_limited[:, None], limited, values))
    bits = np.minimum(bits, target.floats(target.ones, -1))
    moved = np.where(rng.random(shape) < 0.5, bits, _one_digit_away(target, rng, bits))
    moved[:1] = bits[:1]
    return moved, outer.view(np.uint32)


def _eighths(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Multiples of 1/8 below 1, mostly 0 and 1/2."""
    return rng.choice(8, shape, p=[0.35, *[0.05] * 3, 0.35, *[0.05] * 3]) / 8


NEAR = 3
"""Most units of its remainder by which a quotient misses a boundary."""


def remainders(target: Target, rng: Generator, n: int) -> tuple[Bits, NDArray[np.uint32]]:
    """Quotients at a boundary, or a few units of a remainder away, under scales of all digits.

    The boundary is one of E4M3, for the scale of a block, or one of elements, in turn.
    """
    config, fmt = target.config, target.format
    of_scale = np.arange(n) % 2 == 0
    largest, _ = _odd(np.full(n, fmt.largest_finite))
    codes = rng.integers(E4M3_CLASSES["small"][0], E4M3_CLASSES["nan"][0], n)
    scale, scale_exponent = _odd(E4M3.values[codes])
    digits = np.where(of_scale, E4M3.significand_bits, fmt.significand_bits) + 1
    quotient = rng.integers(0, 1 << digits - 1) << 1 | 1
    outer, value = _near(target, rng, quotient * np.where(of_scale, largest, scale))
    length = np.frexp(quotient)[1]
    reach = min(config.source.emax, 100) - 10
    outer_exponent = rng.integers(-reach, reach, n) - np.frexp(value)[1]
    outer = np.ldexp(outer, outer_exponent).astype(np.float32)
    shape = (n, config.block)
    # Elements from a quarter of the least one on, by powers of two from one boundary.
    binade = rng.integers(fmt.emin - fmt.mantissa_bits - 2, fmt.emax + 1, shape)
    values = np.ldexp(
        value[:, None], (outer_exponent + scale_exponent - length)[:, None] + binade + 1
    )
    whole = outer * E4M3.values[codes] * fmt.largest_finite
    by_scale = np.ldexp(value, outer_exponent + rng.integers(-8, 7, n) - length + fmt.emax)
    values[of_scale] = by_scale[of_scale, None] * rng.random((of_scale.sum(), config.block))
    values[:, 0] = np.where(of_scale, by_scale, whole)
    bits = target.nearest(np.minimum(values, values[:, :1]))
    bits = np.minimum(bits, target.floats(target.ones, -1))
    return _signs(target, rng, bits), outer.view(np.uint32)


def _odd(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Odd integers, and exponents by which powers of two make the values of them."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, FLOAT32.significand_bits).astype(np.int64)
    odd = whole // (whole & -whole)
    return odd, exponent - np.frexp(odd)[1]


def _near(
    target: Target, rng: Generator, factor: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Integers of a float32's digits, and their products with odd factors, a few units away.

    A product ends in so many zeros that the source holds it, as far as there are digits.
    """
    width = FLOAT32.significand_bits
    zeros = width + np.frexp(factor)[1] - target.config.source.significand_bits
    ends = (1 << np.clip(zeros, 0, width - 1)) - 1
    inverse = factor & ends  # of three digits; each turn doubles them
    for _ in range(4):
        inverse = inverse * (2 - factor * inverse & ends) & ends
    few = rng.integers(-NEAR, NEAR + 1, len(factor))
    first = 1 << (width - 1) | rng.integers(0, 1 << (width - 1), len(factor)) & ~ends
    number = first | -few * inverse & ends
    return number, factor * number + few


def outer_ends(target: Target, rng: Generator, n: int) -> tuple[Bits, NDArray[np.uint32]]:
    """Values of any range under each of the outer scales of `ENDS` in turn."""
    n = max(n, len(ENDS))
    return random_range(target, rng, n), np.resize(np.array(ENDS, np.uint32), n)


SEQUENCES: dict[str, tuple[Callable[[Target, Generator, int], Bits], int]] = {
    "random_range": (random_range, 3),
    "normal": (normal, 3),
    "ties": (ties, 4),
    "limits": (limits, 4),
    "extremes": (extremes, 1),
    "subnormals": (subnormals, 2),
    "specials": (specials, 2),
    "raw": (raw, 1),
}
"""Sequences of `traffic` by name, with their shares."""
BOUNDARIES = "boundaries"
OUTER = {BOUNDARIES: (boundaries, 4), "remainders": (remainders, 3), "outer_ends": (outer_ends, 1)}
"""Sequences of units with an outer scale, which they make with the values."""
COMMON = "common"
"""Sequence of units that choose a format; its share is 2."""
CARRIES = "carries"
"""Sequence of units with random words from outside, many of which just carry; its share is 2."""


def _sequences(
    config: QuantizeConfig,
) -> dict[str, tuple[Callable[[Target, Generator, int], Any], int]]:
    sequences: dict[str, tuple[Callable[[Target, Generator, int], Any], int]] = dict(SEQUENCES)
    sequences |= OUTER if config.outer_bits else {}
    sequences |= {CARRIES: (carries, 2)} if config.word_bits else {}
    return sequences | ({COMMON: (common, 2)} if config.selector_bits else {})


def traffic(config: QuantizeConfig, rng: Generator, count: int) -> list[Batch]:
    """About `count` blocks: every format and scale rule, every sequence by its share."""
    sequences = _sequences(config)
    total = sum(share for _, share in sequences.values())
    total *= len(config.formats) * len(config.scale_rules)
    return [
        batch(config, rng, mode, rule, make(Target(config, fmt), rng, n), name)
        for mode, fmt in enumerate(config.formats)
        for rule in range(len(config.scale_rules))
        for name, (make, share) in sequences.items()
        for n in [max(count * share // total, FEWEST)]
    ]


def bulk_traffic(config: QuantizeConfig, rng: Generator, count: int) -> list[Batch]:
    """Up to 30,000 blocks of `traffic`, the rest of `every_value`, the scale rules in turn."""
    others = min(count, TRAFFIC)
    batches = traffic(config, rng, others)
    for mode, fmt in enumerate(config.formats):
        bits = every_value(Target(config, fmt), rng, (count - others) // len(config.formats))
        for rule in range(len(config.scale_rules)):
            rows = bits[rule :: len(config.scale_rules)]
            batches.append(batch(config, rng, mode, rule, rows, "every_value"))
    return batches


def batch(
    config: QuantizeConfig,
    rng: Generator,
    mode: int,
    rule: int,
    made: Bits | tuple[Bits, NDArray[np.uint32]],
    name: str,
) -> Batch:
    """Blocks of these bits, with random words and outer scales where the unit takes them.

    made: bits, or bits and outer scales. mode: index of the format that they were made for.
    """
    bits, outer = made if isinstance(made, tuple) else (made, None)
    words = np.zeros(bits.shape, np.uint32)
    if config.word_bits:
        ends = rng.choice(np.array([0, 1, 2**31, 2**32 - 1], np.uint32), bits.shape)
        words = rng.integers(0, 2**32, bits.shape, dtype=np.uint32)
        words = np.where(rng.random(bits.shape) < 0.3, ends, words)
    number = np.zeros(len(bits), np.int64)
    pattern = bits.astype(np.uint32)
    if outer is None:
        outer = np.zeros(len(bits), np.uint32)
        if config.outer_bits:
            outer = outer_scales(largest_magnitudes(config, pattern), rng)
    made_of = Batch(mode % config.modes, rule, pattern, words, number, outer, name)
    if name == CARRIES:
        one = replace(made_of, mode=0)
        words = words_at_edges(config.alternatives[mode], one, rng)
    return replace(made_of, words=words)


def tensor_traffic(job: UnitJob) -> list[Batch]:
    """The job's tensors in every format and scale rule; all of their blocks, or 5,000 at random.

    Values are rounded to the unit's source; a row's last block is filled with zeros.
    """
    if job.tensors is None:
        return []
    config, rng = job.config, job.rng("tensors")
    x = np.concatenate(load_values(job.tensors, job.tensor_names))
    x = np.pad(x, ((0, 0), (0, -x.shape[1] % config.block))).reshape(-1, config.block)
    choices = config.modes * len(config.scale_rules)
    if not job.all_tensors and len(x) * choices > TENSOR_BLOCKS:
        x = rng.choice(x, max(1, TENSOR_BLOCKS // choices), replace=False)
    bits = Target(config, config.formats[0]).nearest(x)
    return [
        batch(config, rng, mode, rule, bits, "tensors")
        for mode in range(config.modes)
        for rule in range(len(config.scale_rules))
    ]
