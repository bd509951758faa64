"""Features of dot products with float results: relations of a block's products and c."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig, ElementFormat
from ...model.outputs import convert
from ...model.pipeline.widths import Widths
from ...model.products import NO_EXPONENT, Pair, unit_exponents
from ...model.steps import MICRO_DIGITS
from ..bench.operands import Bins, Hits
from .item import Batch, micro_bits
from .scales import are_nan, exponents

DEPTHS = {"none": 0, "1 to 3 bits": 1, "4 to 7 bits": 4, "8 to 15 bits": 8, "16 or more bits": 16}
DISTANCES = {"0": 0, "1 to 7": 1, "8 to 15": 8, "16 to 31": 16, "32 or more": 32}
FAR = 25  # digits between c and the block at which one does not reach the other


def range_of(starts: Mapping[str, int], value: float) -> str:
    """The name of the range that holds `value`; starts: of ranges in order, by name."""
    return [name for name, start in starts.items() if value >= start][-1]


def _shifts(config: DotConfig, batch: Batch) -> NDArray[np.int64]:
    """Digits by which micro-exponents shift each product, (n, blocks, lanes)."""
    total = np.zeros(batch.a.shape, np.int64)
    for name in ("micro_a", "micro_b") if config.micro else ():
        bits = np.repeat(micro_bits(config, batch, name), 2, axis=-1)
        total += bits.reshape(batch.a.shape)
    return total


def _products(config: DotConfig, batch: Batch) -> NDArray[np.float64]:
    """The products' values, (n, blocks, lanes); NaN for special terms."""
    products = Pair(*config.formats[batch.mode]).of(batch.a, batch.b)
    return np.ldexp(products.values, -_shifts(config, batch))


def depths(config: DotConfig, batch: Batch) -> Hits:
    """Bits by which the largest product of each block exceeds the block's sum."""
    products = np.nan_to_num(_products(config, batch), nan=0.0)
    largest, total = np.abs(products).max(axis=2), np.abs(products.sum(axis=2))
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = np.log2(largest) - np.log2(total)
    return [
        {
            "total" if t == 0 else range_of(DEPTHS, max(float(d), 0.0))
            for d, t, most in zip(*row, strict=True)
            if most > 0
        }
        for row in zip(depth, total, largest, strict=True)
    ]


def distances(config: DotConfig, batch: Batch) -> Hits:
    """Distance of unit exponents between a block's largest and smallest product."""
    products = Pair(*config.formats[batch.mode]).of(batch.a, batch.b)
    units = products.unit_exponents.astype(np.int64) - _shifts(config, batch)
    nonzero = products.significands != 0
    largest = np.where(nonzero, units, -(2**20)).max(axis=2)
    smallest = np.where(nonzero, units, 2**20).min(axis=2)
    return [
        {range_of(DISTANCES, high - low) for high, low in zip(*row, strict=True) if high >= low}
        for row in zip(largest.tolist(), smallest.tolist(), strict=True)
    ]


def c_distances(config: DotConfig, batch: Batch) -> Hits:
    """Place of c relative to the first scale block's sum, where both are finite and not zero."""
    products = _products(config, batch)[:, 0, : config.scale_block]
    block = np.frexp(np.nan_to_num(products, nan=0.0).sum(axis=1))[1].astype(np.int64)
    scale = exponents(config, batch)[:, 0, 0]
    c = batch.c.view(np.float32)
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(c) & (c != 0) & np.isfinite(products.sum(axis=1))
        usable &= products.sum(axis=1) != 0
        wide = np.where(usable, c, 1).astype(np.float64)
    distance = np.frexp(wide)[1] - (block + scale)
    names = np.select(
        [distance >= FAR, distance <= -FAR],
        ["far above the block", "far below the block"],
        "within reach",
    )
    return [{str(name)} if ok else set() for name, ok in zip(names, usable, strict=True)]


def _c_joins(config: DotConfig) -> bool:
    """True when the caller's c takes part in the alignment of the first block."""
    return config.load_c and config.accumulator.promotes_every is None


def leader_bins(config: DotConfig) -> Bins:
    """Bins of `leaders` that a unit can reach.

    Where groups meet, their scales count, whatever they scale: a subnormal c must beat them.
    """
    rule = config.accumulator
    low = 2 * config.scale_format.emin  # of scales; products may be smaller
    if not rule.sums_groups:
        low += min(sum(map(least_unit, pair)) for pair in config.formats)
    below = [_below_alone(config)] if low < rule.running.emin else []
    subnormal = ["a subnormal c"] if below or not rule.sums_groups else []
    beside_c = ["c", *subnormal, "products beside c"] if _c_joins(config) else []
    return ["products alone", *below, *beside_c]


def kept_digit(config: DotConfig, a: ElementFormat, b: ElementFormat, below: int = 0) -> int:
    """Exponent of the least digit of a product that alignment keeps, under scales of one.

    below: digits of the scales below that exponent.
    """
    lsb, bits = Pair(a, b).lsb - below, config.accumulator.alignment_bits
    return lsb if bits is None else max(lsb, least_unit(a) + least_unit(b) - bits)


def least_unit(fmt: ElementFormat) -> int:
    """The smallest exponent that aligns an element; integers have only one."""
    units = unit_exponents(fmt)
    return int(units[units != NO_EXPONENT].min())


def _below_alone(config: DotConfig) -> str:
    return f"products below 2^{config.accumulator.running.emin} alone"


def leaders(config: DotConfig, batch: Batch) -> Hits:
    """The term with the largest exponent in the first alignment, where all terms are finite."""
    widths, running = Widths(config), config.accumulator.running
    lanes = np.array(widths.order[: config.lanes // widths.steps])  # of the first step
    pair = Pair(*config.formats[batch.mode])
    products = pair.of(batch.a[:, 0, lanes], batch.b[:, 0, lanes])
    scale = exponents(config, batch)[:, 0][:, lanes // config.scale_block]
    nan = are_nan(config, batch)[:, 0][:, lanes // config.scale_block].any(axis=1)
    own = products.unit_exponents.astype(np.int64) - _shifts(config, batch)[:, 0, lanes]
    units = (scale if config.accumulator.sums_groups else own + scale).max(axis=1)
    c = np.zeros(len(batch), np.float32)
    if _c_joins(config):
        c = convert(batch.c.view(np.float32), running).astype(np.float32)
    finite = np.isfinite(c) & ~np.isnan(products.values).any(axis=1)
    finite &= ~nan
    exponent = np.maximum(np.frexp(np.where(finite, c, 1).astype(np.float64))[1] - 1, running.emin)
    below = units < running.emin
    names = np.select(
        [c == 0, units > exponent, np.abs(c) < running.smallest_normal],
        [
            np.where(below, _below_alone(config), "products alone"),
            "products beside c",
            "a subnormal c",
        ],
        "c",
    )
    has_distance = finite & ((units > NO_EXPONENT // 2) | (c != 0))
    return [{str(name)} if ok else set() for name, ok in zip(names, has_distance, strict=True)]


def depth_bins(config: DotConfig) -> Bins:
    """Depths up to the ratio of the largest product that has a negative and the least product.

    Two products, one less the other, leave at least one digit of both.
    """
    pairs = [Pair(*pair) for pair in config.formats]
    reach = max(float(np.log2(-pair.least)) - pair.lsb for pair in pairs)
    reach += MICRO_DIGITS * config.micro
    if config.lanes == 2:
        largest = [[int(fmt.triples.significand.max()) for fmt in pair] for pair in config.formats]
        reach = min(reach, max(float(np.log2(x * y + 1)) for x, y in largest))
    return [name for name, start in DEPTHS.items() if start < reach] + ["total"]


def distance_bins(config: DotConfig) -> Bins:
    """Distances up to the distance between the largest and the least unit exponent of products."""
    spans = []
    for pair in config.formats:
        units = [unit_exponents(fmt)[unit_exponents(fmt) != NO_EXPONENT] for fmt in pair]
        span = sum(int(side.max()) - int(side.min()) for side in units)
        spans.append(span + MICRO_DIGITS * config.micro)
    return [name for name, start in DISTANCES.items() if start <= max(spans)]
