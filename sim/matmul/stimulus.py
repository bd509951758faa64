"""Products to multiply: every shape that the unit treats differently, operands of every class."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import product as combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import E8M0, DotConfig, ElementFormat, MXArray
from ...model.formats import E4M3, FLOAT32
from ...model.units.matmul.config import MatmulConfig, Tiles
from ...util.data.tensors import Rows
from ..bench.operands import (
    E4M3_CLASSES,
    Codes,
    float_bits,
    near_scales,
    random_c,
    scale_class,
    weighted,
    wide_scales,
)
from ..dot.target import LEAST, Target, last_kept, lost_digit, negated_nearby
from ..dot.tensors import quantized
from .item import Product, predict

TILES = ((1, 1), (1, 3), (3, 1), (2, 2))
"""Tiles down and across, of every unit."""
LONG_TILES = ((3, 1), (2, 2), (1, 3), (1, 1), (1, 1))
"""Tiles of the longer products, where not every length can have every one of TILES."""

Shape = tuple[tuple[int, int], int]
"""Tiles down and across, blocks of K."""

CYCLES = 20_000
"""Cycles of all products, at full speed; under stalls they take several times as many."""
LONGEST = 20_000
"""Cycles of a product cycle by cycle, at full speed."""
CYCLES_PER_RESULT = 10
"""Cycles per result of all products, where very many results are wanted."""
JOB, LONG_JOB = 1000, 4000
"""Cycles of a job among faults, and of one that counts far, or whose operands still come while
results leave."""
BEGIN_AND_END = 24
"""Cycles of a job for software and registers on the way, apart from its steps and travel."""
MANY = 256
"""Tiles, or blocks, of a job that is long in one of its dimensions."""

KINDS = ("near", "wide", "special", "zero", "ones", "peeled", "stairs", "lost", "left")
OPERANDS = {kind: 0.01 * (kind == "special") for kind in KINDS}
"""Kinds of operands, and the weight of infinities and NaN in them; zeros raise no flag."""
ONES = "ones"
"""Sums are 1, then 1 - 2^-24, whose 24 digits are ones, to which little is added."""
ONES_BLOCKS = (0, -24, 33, 32, -33, 24)
"""A block is worth 2^-n; below 0 it is subtracted, 2^n of it."""
PEELED = "peeled"
"""Blocks come, and leave again after the next, smaller one: each time the first digits of all
results cancel, down to any digit."""
STAIRS = "stairs"
"""Blocks go up and down by `STEP` exponents at most: carries pass through the digits of a sum."""
STEP = 28
FALL = 13
"""Most exponents by which scales of a side fall from one block of `PEELED` to the next."""
LEVEL, LEVEL_STEP, LEVEL_COLUMNS = "level", 8, 4
"""Products at one level: exponents from one level to the next, and the fewest columns."""
LEVEL_BELOW, LEVEL_FALL = (0, 27), 40
"""Exponents of two of their blocks below the level, and of a third one at most."""
LOST = "lost"
"""Two blocks give a sum of two digits, of which one falls off the grid of a third."""
LEFT = "left"
"""A third block takes the first of two digits away: the second is left, at any distance, far below
the last digit of products."""
RANGE = 276
"""Exponents from the largest float32 to the least."""
NAN_SCALES = 0.02
"""The share of scales that are NaN among specials."""


def tile_shapes(config: MatmulConfig) -> tuple[tuple[int, int], ...]:
    """Tiles down and across that a unit treats differently.

    Where tiles take turns: a row of the largest group, and rows of one tile more, of two groups. If
    no tile leaves, they fill up their buffers and the dot units' queues.
    """
    most = config.dot.interleave
    rows = -(-(most + config.dot.latency) // most) + 1
    turns = ((1, most), (rows, most + 1)) if most > 1 else ()
    return tuple(dict.fromkeys((*TILES, *turns)))


def block_counts(config: MatmulConfig) -> tuple[int, ...]:
    """Numbers of blocks of K: one, around the depth of the buffers, several chunks."""
    depth = config.depth
    return tuple(dict.fromkeys((1, 2, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1)))


def beats(config: MatmulConfig, tiles: Tiles, side: str) -> int:
    """Beats of a job's packet."""
    return -(-config.bytes_of(side, tiles) // config.stream_bytes(side))


def least_cycles(config: MatmulConfig, tiles: Tiles) -> int:
    """Cycles that a job takes at least: for its steps, or for the beats of its slowest stream."""
    streams = (beats(config, tiles, side) for side in (*config.inputs, "c"))
    return max(tiles.steps + config.waits(tiles), *streams)


def most_cycles(config: MatmulConfig, product: Product) -> int:
    """Cycles that a job takes at most when no end of a stream pauses.

    They are those of its slowest part: its steps, a beat of a stream per cycle, a row of a tile per
    cycle, and one more per tile of initial values. Then its first operands and last results travel.
    """
    tiles = product.tiles(config)
    sides = [*product.packets(config), "c"]
    rows = tiles.m_tiles * tiles.n_tiles * (config.rows + (product.d is not None))
    slowest = max(
        tiles.steps + config.waits(tiles), rows, *(beats(config, tiles, s) for s in sides)
    )
    one = sum(beats(config, Tiles(1, 1, 1), side) for side in sides)
    return slowest + one + config.latency + 2 * config.rows + BEGIN_AND_END


def shapes(config: MatmulConfig) -> list[Shape]:
    """The products that there must be.

    Every shape of tiles with every number of blocks. Where that takes too long (deep buffers,
    narrow streams), each of the larger numbers has one shape, if one tile is not too long.
    """
    counts, tile_counts = block_counts(config), tile_shapes(config)
    every = [*combinations(tile_counts, counts)]
    if total_cycles(config, every) <= CYCLES:
        return every
    few, many = counts[:2], counts[2:]
    needed = [*combinations(tile_counts, few)]
    for tiles, blocks in zip(LONG_TILES, many, strict=True):
        choices = [(tiles, blocks), (TILES[0], blocks)]
        needed += [one for one in choices if total_cycles(config, [one]) <= LONGEST][:1]
    return needed


def total_cycles(config: MatmulConfig, shapes: list[Shape]) -> int:
    """Cycles that the products of these shapes take at least."""
    return sum(least_cycles(config, Tiles(*tiles, blocks)) for tiles, blocks in shapes)


def short_blocks(config: MatmulConfig, tiles: tuple[int, int]) -> int:
    """Blocks of K: as many as the depth, or fewer in a short job."""
    return _blocks(config.depth, JOB, lambda k: least_cycles(config, Tiles(*tiles, k)))


def long_blocks(config: MatmulConfig, tiles: tuple[int, int]) -> int:
    """More blocks of K than the buffers hold, or as many as come in `LONG_JOB` cycles."""
    return _blocks(
        2 * config.depth + 1,
        LONG_JOB,
        lambda k: max(beats(config, Tiles(*tiles, k), side) for side in ("a", "b")),
    )


def _blocks(most: int, cycles: int, taken: Callable[[int], int]) -> int:
    return max(1, bisect_right(range(1, most + 1), cycles, key=taken))


def short_counts(config: MatmulConfig) -> list[int]:
    """The `block_counts` whose jobs of any shape of tiles are not too long."""
    counts = block_counts(config)
    last = _blocks(counts[-1], LONG_JOB, lambda k: least_cycles(config, Tiles(2, 2, k)))
    return [count for count in counts if count <= last]


def job_held_back(config: MatmulConfig) -> tuple[str, tuple[int, int], int] | None:
    """A job whose steps wait for the dot unit alone, once the stream that held it back goes on.

    (that stream, tiles down and across, blocks of K). By then the buffers have the other operands.
    None for a unit that never waits, or only if stalls happen to fill its buffers.
    """
    dot, depth, tiles = config.dot, config.depth, config.dot.interleave + 1
    # Registers before the loop take steps in, too.
    least = dot.latency - dot.interval + 2
    if dot.interval == 1:
        return None
    if all(2 * config.unit_bytes(s) <= dot.interval * config.stream_bytes(s) for s in "ab"):
        return "a", (1, 1), 2 * (dot.latency + 1)
    if config.initial_c and 2 * depth >= least:
        return "d", (1, 1), 2 * depth
    if config.keep_b and depth >= least:  # the second row takes B from the buffer
        return "b", (2, 1), depth
    if config.group == dot.interleave and 2 * depth // tiles >= least:
        return "a", (1, tiles), min(2 * depth // tiles, depth)  # its last group takes A from there
    return None


def many_along(config: MatmulConfig, axis: int) -> Tiles:
    """One tile of one block with MANY more along an axis.

    Where that takes longer than LONG_JOB there are fewer, at least one.
    """
    most = MANY
    while most > 1 and least_cycles(config, _along(axis, most)) > LONG_JOB:
        most //= 2
    return _along(axis, most)


def _along(axis: int, count: int) -> Tiles:
    """One tile of one block, with `count` more along one of the three axes."""
    return Tiles(*(1 + count * (axis == place) for place in range(3)))


def products(config: MatmulConfig, rng: Generator, results: int) -> Iterator[Product]:
    """Products of `results` results or of enough cycles: every shape and mode, then at random.

    Special ones follow until there were E4M3 scales of every class, in a unit that has them. Sides
    fill their tiles in every other product and leave them ragged in the others.
    """
    needed, modes = shapes(config), len(config.dot.formats)
    needed += [(TILES[0], 1)] * (modes - len(needed))
    kinds = list(OPERANDS)
    first = rng.permutation(len(kinds))
    left = max(CYCLES, CYCLES_PER_RESULT * results)
    done = number = 0
    unseen: set[object] = {*combinations("ab", E4M3_CLASSES)} if has_e4m3_scales(config) else set()
    while (is_asked := number < len(needed) or (done < results and left > 0)) or unseen:
        tiles, blocks = needed[number if number < len(needed) else rng.integers(len(needed))]
        sides = [
            count * each - (0 if number % 2 or each == 1 else int(rng.integers(1, each)))
            for count, each in zip(tiles, (config.rows, config.columns), strict=True)
        ]
        kind = kinds[first[number] if number < len(kinds) else rng.integers(len(kinds))]
        kind = kind if is_asked else "special"
        made = random_product(config, rng, number % modes, sides[0], sides[1], blocks, kind)
        yield made
        if unseen:
            unseen -= scale_bins(made)
        done += sides[0] * sides[1]
        left -= least_cycles(config, Tiles(*tiles, blocks))
        number += 1


def has_e4m3_scales(config: MatmulConfig) -> bool:
    """True when scales are E4M3."""
    return config.dot.scales == E4M3.name


def scale_bins(product: Product) -> set[object]:
    """(side, class) of all scales, which are E4M3."""
    names = list(E4M3_CLASSES)
    scales = {"a": product.a.scales, "b": product.b.scales}
    return {
        (side, names[place])
        for side, codes in scales.items()
        for place in np.unique(scale_class(codes, E4M3_CLASSES))
    }


def random_product(
    config: MatmulConfig, rng: Generator, mode: int, m: int, n: int, blocks: int, kind: str = "near"
) -> Product:
    """C (m, n) of `blocks` blocks of K, of a kind of OPERANDS; most with a D where the unit takes
    one."""
    if kind == PEELED:
        return _peeled(config, rng, mode, m, n, blocks)
    dot, (format_a, format_b) = config.dot, config.dot.formats[mode]
    if kind == STAIRS:
        a, b = _stairs(config, rng, mode, (m, n), blocks)
    elif kind == LOST:
        a, b = _lost(config, rng, mode, (m, n), blocks)
    elif kind == LEFT:
        a, b = _left(config, rng, mode, (m, n), blocks)
    elif kind == ONES:
        a, b = _ones(dot, format_a, m, blocks, 1.0), _ones(dot, format_b, n, blocks, -1.0)
    else:
        a = _operand(rng, dot, format_a, m, blocks, kind)
        b = _operand(rng, dot, format_b, n, blocks, kind)
    d = None
    if config.initial_c and kind not in ("zero", ONES, LOST, LEFT) and rng.random() < 2 / 3:
        special = 0.1 if kind == "special" else 0.0
        d = random_c(rng, m * n, special).view(np.float32).reshape(m, n)
    return Product(kind, mode, a, b, d)


def _operand(
    rng: Generator, dot: DotConfig, fmt: ElementFormat, rows: int, blocks: int, kind: str
) -> MXArray:
    codes = weighted(rng, fmt, (rows, blocks * dot.lanes), OPERANDS[kind])
    codes = np.zeros_like(codes) if kind == "zero" else codes
    draw = _e4m3_scales if dot.scales == E4M3.name else _e8m0_scales
    scales = draw(rng, (rows, blocks * dot.scale_blocks), kind)
    return MXArray(codes, scales, fmt, dot.scale_block)


def _stairs(
    config: MatmulConfig, rng: Generator, mode: int, rows: tuple[int, int], blocks: int
) -> list[MXArray]:
    """Operands of `STAIRS`."""
    dot, sides = config.dot, []
    for fmt, count, step in zip(dot.formats[mode], rows, (STEP, 1), strict=True):
        codes = weighted(rng, fmt, (count, blocks * dot.lanes), OPERANDS[STAIRS])
        level = rng.integers(-step, step + 1, (count, blocks)).cumsum(axis=1)
        exponents = np.clip(level, *E8M0.exponent_range)
        sides.append(_under_powers(dot, fmt, codes, exponents))
    return sides


def _under_powers(
    dot: DotConfig, fmt: ElementFormat, codes: Codes, exponents: NDArray[np.int64]
) -> MXArray:
    """Elements of which each block is under one power of two, of these exponents (rows, blocks)."""
    scales = np.repeat(_power_scales(dot, exponents), dot.scale_blocks, axis=1)
    return MXArray(codes, scales, fmt, dot.scale_block)


def _single(
    dot: DotConfig,
    fmt: ElementFormat,
    blocks: int,
    lane: NDArray[np.int64],
    values: NDArray[np.float64],
    exponents: NDArray[np.int64],
) -> MXArray:
    """One element in each of the first blocks, in its lane, and no other: values and exponents of
    scales are (rows, first blocks)."""
    rows, used = len(values), min(blocks, len(lane))
    elements, of = np.zeros((rows, blocks, dot.lanes)), np.zeros((rows, blocks), np.int64)
    elements[:, np.arange(used), lane[:used]] = values[:, :used]
    of[:, :used] = exponents[:, :used]
    return _under_powers(dot, fmt, fmt.encode(elements.reshape(rows, -1)), of)


def _lost(
    config: MatmulConfig, rng: Generator, mode: int, rows: tuple[int, int], blocks: int
) -> list[MXArray]:
    """Operands of `LOST`: blocks have one element that is not 0, those after the third none.

    Where the sum's first digit is half a unit of the result, the one that is lost breaks the tie.
    E4M3 scales, which are few, have other exponents.
    """
    dot, (fmt_a, fmt_b) = config.dot, config.dot.formats[mode]
    target = Target(dot, mode)
    last_a, last_b = (
        rng.integers(fmt.lsb, min(fmt.emax, fmt.lsb + LEAST), count, endpoint=True)
        for fmt, count in ((fmt_a, rows[0]), (fmt_b, 1))
    )
    gap, below_grid = lost_digit(target, rng, rows[0])
    third = below_grid - gap - last_a - last_b - last_kept(target, rng, last_a + last_b)
    running = dot.accumulator.running
    first = np.clip(-(third + last_a + last_b) // 2, running.emin, running.emax)
    of_a = np.stack([first, first - gap, first + third], axis=1)
    of_b = rng.integers(0, [1, 4, 3], (rows[1], 3)) * np.array([1, -1, 1])
    lane, sides = rng.integers(0, dot.lanes, 3), []
    for fmt, last, given in ((fmt_a, last_a, of_a), (fmt_b, last_b, of_b)):
        signs = np.stack(
            [rng.choice([-1.0, 1.0], len(given)) for _ in range(min(blocks, 3))], axis=1
        )
        values = np.ldexp(signs, np.stack([0 * last, 0 * last, last], axis=1)[:, : signs.shape[1]])
        sides.append(_single(dot, fmt, blocks, lane, values, given))
    return sides


def _left(
    config: MatmulConfig, rng: Generator, mode: int, rows: tuple[int, int], blocks: int
) -> list[MXArray]:
    """Operands of `LEFT`: blocks have one product, the smallest, those after the third none.

    In half of the rows what is left is about the least normal value. The columns are alike.
    """
    dot, running = config.dot, config.dot.accumulator.running
    below = running.mantissa_bits - np.where(
        rng.random(rows[0]) < 0.5,
        rng.integers(0, 4, rows[0]),
        rng.integers(0, running.mantissa_bits, rows[0]),
    )
    least = running.emin + below + rng.integers(-4, 5, rows[0])
    least -= sum(fmt.lsb for fmt in dot.formats[mode])
    first = np.where(rng.random(rows[0]) < 0.5, least, rng.integers(-20, 21, rows[0]))
    of_a = np.stack([first, first - below, first], axis=1)
    signs, lane = rng.choice([-1.0, 1.0], (rows[0], 3)), rng.integers(0, dot.lanes, 3)
    signs[:, 2] = -signs[:, 0]
    fmt_a, fmt_b = dot.formats[mode]
    alike = np.zeros((rows[1], 3), np.int64)
    return [
        _single(dot, fmt_a, blocks, lane, np.ldexp(signs, fmt_a.lsb), of_a),
        _single(dot, fmt_b, blocks, lane, np.ldexp(1.0, fmt_b.lsb + alike), alike),
    ]


def level_products(config: MatmulConfig, rng: Generator) -> Iterator[Product]:
    """Small products, the results of each of a few exponents: all of them from below the least
    normal one to the largest, so that flags of a job tell of them. The modes take turns.

    Rows take two times `LEVEL_STEP` exponents in turn. Blocks and D lie up to `LEVEL_FALL` below
    them, one block where sums are inexact. There are none where results are integers.
    """
    dot = config.dot
    if dot.has_integers:
        return
    m, n = max(2 * LEVEL_STEP, config.rows), max(LEVEL_COLUMNS, config.columns)
    row = np.arange(m)[:, None] % (2 * LEVEL_STEP)
    levels = range(FLOAT32.emin - FLOAT32.mantissa_bits, FLOAT32.emax, LEVEL_STEP)
    for number, level in enumerate(levels):
        mode = number % len(dot.formats)
        fmt_a, fmt_b = dot.formats[mode]
        exponent = level - int(np.log2(fmt_a.largest_finite * fmt_b.largest_finite))
        below = rng.permutation(np.append(LEVEL_BELOW, rng.integers(0, LEVEL_FALL + 1)))
        of_a = exponent // 2 + row - below
        of_b = np.full((n, len(below)), exponent - exponent // 2)
        a, b = (
            _under_powers(dot, fmt, weighted(rng, fmt, (len(of), len(below) * dot.lanes), 0.0), of)
            for fmt, of in ((fmt_a, of_a), (fmt_b, of_b))
        )
        d = None
        if config.initial_c:
            sign, fraction = rng.integers(0, 2, (m, n)), rng.integers(0, 2**23, (m, n))
            of_d = level + row - rng.integers(0, LEVEL_FALL + 1, (m, n))
            d = float_bits(sign, of_d, fraction).view(np.float32)
        yield Product(LEVEL, mode, a, b, d)


def _ones(dot: DotConfig, fmt: ElementFormat, rows: int, blocks: int, sign: float) -> MXArray:
    """One element of a block is 1.0, or `sign` where the block is subtracted; the others are 0."""
    worth = np.array([ONES_BLOCKS[k % len(ONES_BLOCKS)] for k in range(blocks)])
    elements = np.zeros((rows, blocks, dot.lanes))
    elements[:, :, 0] = np.where(worth < 0, sign, 1.0)
    exponents = -((np.abs(worth) + (sign < 0)) // 2)
    if dot.scales == E4M3.name:
        codes = E4M3.encode(np.ldexp(1.0, exponents + E4M3.emax))
    else:
        codes = E8M0.encode(exponents)
    scales = np.tile(np.repeat(codes, dot.scale_blocks), (rows, 1))
    return MXArray(fmt.encode(elements.reshape(rows, -1)), scales, fmt, dot.scale_block)


def _peeled(
    config: MatmulConfig, rng: Generator, mode: int, m: int, n: int, blocks: int
) -> Product:
    """A product of `PEELED`. A D is the first block negated, up to a few units of a last place."""
    dot, formats = config.dot, config.dot.formats[mode]
    has_d = config.initial_c and rng.random() < 2 / 3
    # Blocks 0, 1, -0, 2, -1, and so on; a D takes block 0 away itself.
    turns = [(0, 1)]
    for number in range(1, blocks):
        turns += [(number, 1), *([(number - 1, -1)] if number > has_d else [])]
    order, sign = np.array(turns[:blocks]).T
    terms = int(order.max()) + 1
    largest = dot.lanes * formats[0].largest_finite * formats[1].largest_finite
    top = (FLOAT32.emax - int(np.ceil(np.log2(largest)))) // 2
    sides = []
    for rows, fmt in ((m, formats[0]), (n, formats[1])):
        codes = weighted(rng, fmt, (rows * terms, dot.lanes), 0.0).reshape(rows, terms, -1)
        fall = rng.integers(0, FALL + 1, (rows, terms))
        ends = rng.choice([0, RANGE // 2], rows)
        fall[:, 0] += np.where(rng.random(rows) < 0.5, ends, rng.integers(0, RANGE // 2, rows))
        exponents = top - fall.cumsum(axis=1)
        scales = np.repeat(_power_scales(dot, exponents)[:, order], dot.scale_blocks, axis=1)
        sides.append((codes[:, order], scales))
    (codes_a, scales_a), (codes_b, scales_b) = sides
    codes_b = np.where(sign[:, None] < 0, formats[1].negated(codes_b), codes_b)
    a, b = (
        MXArray(codes.reshape(len(codes), -1), scales, fmt, dot.scale_block)
        for codes, scales, fmt in zip(
            (codes_a, codes_b), (scales_a, scales_b), formats, strict=True
        )
    )
    d = _negated_first(config, rng, mode, a, b) if has_d else None
    return Product(PEELED, mode, a, b, d)


def _power_scales(dot: DotConfig, exponents: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Codes of powers of two. E8M0's end at its least one; few fit E4M3, which begins again."""
    if dot.scales == E4M3.name:
        span = E4M3.emax - E4M3.lsb + 1
        return E4M3.encode(np.ldexp(1.0, E4M3.lsb + exponents % span))
    return E8M0.encode(np.maximum(exponents, E8M0.exponent_range[0]))


def _negated_first(
    config: MatmulConfig, rng: Generator, mode: int, a: MXArray, b: MXArray
) -> NDArray[np.float32]:
    """Initial values that take away the first block of K, up to a few units of a last place."""
    dot = config.dot
    first_a, first_b = (
        MXArray(
            side.codes[:, : dot.lanes], side.scales[:, : dot.scale_blocks], side.format,
            dot.scale_block,
        )
        for side in (a, b)
    )  # fmt: skip
    c = predict(config, Product(PEELED, mode, first_a, first_b)).result.astype(np.float32)
    bits = negated_nearby(rng, c.ravel(), dot.accumulator.running.mantissa_bits)
    return bits.view(np.float32).reshape(c.shape)


def _e8m0_scales(rng: Generator, shape: tuple[int, ...], kind: str) -> NDArray[np.uint8]:
    if kind == "near":
        return near_scales(rng, shape)
    return wide_scales(rng, shape, _nan_share(kind))


def _e4m3_scales(rng: Generator, shape: tuple[int, ...], kind: str) -> NDArray[np.uint8]:
    """Scales from 2^-2 to 2^2, or any scales, often ends of a class.

    Among specials at least one is NaN.
    """
    if kind == "near":
        one, _ = E4M3_CLASSES["one"]
        return rng.integers(one - 16, one + 17, shape, dtype=np.uint8)
    *finite, (nan, _) = E4M3_CLASSES.values()
    ends = np.unique(finite).astype(np.uint8)
    any_of = rng.integers(0, nan, shape, dtype=np.uint8)
    scales = np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), any_of)
    is_nan = rng.random(shape) < _nan_share(kind)
    if kind == "special" and not is_nan.any():
        is_nan.flat[rng.integers(is_nan.size)] = True
    return np.where(is_nan, np.uint8(nan), scales)


def _nan_share(kind: str) -> float:
    return NAN_SCALES if kind == "special" else 0.0


def real_product(
    config: MatmulConfig, mode: int, activations: Rows, weight: Rows, scale_rule: str = "floor"
) -> Product:
    """The linear layer activations (M, K) x weight (N, K)^T in the formats of a mode.

    scale_rule: of E8M0 scales.
    """
    operands = []
    for x, fmt in zip((activations, weight), config.dot.formats[mode], strict=True):
        made = quantized(config.dot, x, fmt, scale_rule)
        codes, scales = (part.reshape(len(x), -1) for part in made)
        operands.append(MXArray(codes, scales, fmt, config.dot.scale_block))
    return Product("real", mode, *operands)
