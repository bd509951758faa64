"""Outer scales of a quantiser's blocks: sequences of them, and what they are, for coverage."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model.formats import E4M3, FLOAT32
from ..bench.operands import E4M3_CLASSES

if TYPE_CHECKING:
    from .stimulus import Bits, Target

OUTER_CLASSES = ("zero", "negative", "subnormal", "normal", "largest", "inf", "nan")
INFINITY = 0x7F800000
ENDS = (0, 1 << 31, 1, 0x007FFFFF, 0x00800000, INFINITY - 1, 0x3F800000, 0xBF800000, INFINITY,
        INFINITY | 1 << 31, INFINITY | 1 << 22, INFINITY | 1)  # fmt: skip
"""Bits of zeros, of the ends of subnormal and normal scales, of one and of what is no scale."""


def outer_classes(bits: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Index into OUTER_CLASSES of float32 bits."""
    magnitude = bits & 0x7FFFFFFF
    conditions = [
        magnitude > INFINITY,
        magnitude == INFINITY,
        magnitude == 0,
        bits != magnitude,
        magnitude < 1 << FLOAT32.mantissa_bits,
        magnitude == INFINITY - 1,
    ]
    names = ("nan", "inf", "zero", "negative", "subnormal", "largest")
    return np.select(conditions, [OUTER_CLASSES.index(n) for n in names], 3)


def outer_scales(magnitude: NDArray[np.float64], rng: Generator) -> NDArray[np.uint32]:
    """Bits of a scale for each block, of its largest magnitude: most of them such that the block's
    own is in or about the range of E4M3, with many digits and with few, and any bits and `ENDS`."""
    n = len(magnitude)
    near = np.maximum(magnitude, FLOAT32.smallest) * np.exp2(rng.uniform(-13, 13, n))
    few = np.ldexp(rng.integers(1, 16, n), np.frexp(near)[1] - 4)
    with np.errstate(over="ignore", under="ignore"):
        floats = [x.astype(np.float32).view(np.uint32) for x in (near, few)]
    some = rng.integers(0, 2**32, (2, n), dtype=np.uint32)
    kinds = [*floats, some[0] >> 9, some[1], rng.choice(np.array(ENDS, np.uint32), n)]
    return np.choose(rng.choice(len(kinds), n, p=[0.4, 0.4, 0.05, 0.05, 0.1]), kinds)


def boundaries(target: "Target", rng: Generator, n: int) -> "tuple[Bits, NDArray[np.uint32]]":
    """Elements, their midpoints and the values beside them, where a scale of E4M3 changes too.

    All are exact in the source, where the outer scale has so few digits that they can be. Both
    scales of the first block are one.
    """
    config, fmt = target.config, target.format
    digits = max(config.source.significand_bits - 4 - fmt.significand_bits - 1, 1)
    outer = rng.integers(1, 2**digits, n).astype(np.float64)
    exponent = rng.integers(max(-150, config.source.lsb - 1), min(100, config.source.emax), n)
    outer = np.ldexp(outer, exponent - digits).astype(np.float32)
    outer = np.maximum(outer, np.float32(FLOAT32.smallest))
    codes = rng.integers(1, E4M3.nan_code, n)
    outer[:1], codes[:1] = 1, E4M3_CLASSES["one"][0]
    scale, next_scale = E4M3.values[codes], E4M3.values[np.minimum(codes + 1, E4M3.largest_code)]
    grid = np.unique(np.abs(fmt.values[np.isfinite(fmt.values)]))
    places = np.concatenate([grid, (grid[1:] + grid[:-1]) / 2, [2 * grid[-1]]])
    shape = (n, config.block)
    values = (outer * scale)[:, None] * rng.choice(places, shape)
    # The largest magnitude makes this scale exactly, or lies between it and the next one.
    most = np.where(rng.random(n) < 0.5, scale, (scale + next_scale) / 2)
    most[:1] = scale[:1]
    values[:, 0] = outer * most * fmt.largest_finite
    limited = np.minimum(values, values[:, :1])
    is_limited = rng.random(n) < 0.9
    is_limited[:1] = True
    bits = target.nearest(np.where(is_limited[:, None], limited, values))
    bits = np.minimum(bits, target.floats(target.ones, -1))
    moved = bits + rng.integers(-1, 2, shape) * (rng.random(shape) < 0.5)
    return np.clip(moved, 0, target.floats(target.ones, -1)), outer.view(np.uint32)
