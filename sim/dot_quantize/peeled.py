"""Dot products whose last digits decide, though a quantiser keeps only the first ones."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig
from ...model.formats import FLOAT32
from ..bench.operands import float_bits, split_scale
from ..dot.item import Batch, model_trace
from ..dot.stimulus import for_unit
from ..dot.target import Ints, Target

DIGITS = 4
"""Of a running value, taken away by one block: each by a product, a power of two."""

SMALL = (-24, 100)
"""Exponents of c in half of the blocks, from the least normal one on."""


def peeled(target: Target, rng: Generator, blocks: int, block: int) -> Batch:
    """`blocks` times `block` dot products that end with the last digits of a product beside c.

    The first block is c and one product, at any distance, often one at which rounding decides. The
    others take away the first digits of what that gives, down to the same place for all results
    that are quantised together. In half of the blocks all is small, down to subnormal, and often
    nothing stays. For units with scales of E8M0; of others not all of them go.
    """
    near = rng.choice([-25, -24, -23, -1, 0, 1, 23, 24, 25], blocks)
    below = np.where(rng.random(blocks) < 0.5, near, rng.integers(-30, 34, blocks))
    some = rng.integers(0, FLOAT32.significand_bits, blocks)
    left = np.where(rng.random(blocks) < 0.5, 1, some)
    exponent = rng.integers(-20, 21, blocks)
    small = rng.random(blocks) < 0.5
    exponent = np.where(small, FLOAT32.emin + rng.integers(*SMALL, blocks), exponent)
    left = np.where(small & (rng.random(blocks) < 0.5), 0, left)
    below, left, exponent = (np.repeat(each, block) for each in (below, left, exponent))
    n = blocks * block
    few = rng.integers(0, 16, n)
    fraction = np.where(rng.random(n) < 0.5, few, rng.integers(0, 2**FLOAT32.mantissa_bits, n))
    c = float_bits(rng.integers(0, 2, n), exponent, fraction)
    a, b = target.zeros(n, 1)
    of = rng.integers(*target.pairs.limits, n, endpoint=True)
    a[:, 0, 0], b[:, 0, 0] = target.pairs.draw(rng, of, rng.random(n) < 0.5, power=True)
    scales = split_scale(rng, (exponent - below - of)[:, None])
    first = for_unit(target.config, rng, target.batch(a, b, scales, c))
    rest = _taking(target, rng, _running(target.config, first).reshape(blocks, block), left)
    return _joined(first, for_unit(target.config, rng, rest))


def _running(config: DotConfig, first: Batch) -> NDArray[np.uint32]:
    """float32 bits of the running values after a block, before they are converted."""
    wide = DotConfig(**{**config.arguments, "out": FLOAT32.name})
    return model_trace(wide, first).result.view(np.uint32)


def _taking(target: Target, rng: Generator, bits: NDArray[np.uint32], left: Ints) -> Batch:
    """Blocks that take the first digits away from running values (blocks, block).

    left: how many digits of the largest of a row stay.
    """
    field = (bits >> FLOAT32.mantissa_bits & 0xFF).astype(np.int64)
    significand = (bits & (2**FLOAT32.mantissa_bits - 1)).astype(np.int64)
    significand += (field > 0).astype(np.int64) << FLOAT32.mantissa_bits
    significand[field == 0xFF] = 0
    last = np.maximum(field, 1) - FLOAT32.bias - FLOAT32.mantissa_bits
    stays = np.minimum(last.max(axis=1, keepdims=True) - last, FLOAT32.significand_bits)
    stays = np.minimum(stays.ravel() + left, FLOAT32.significand_bits)
    digits, last = significand.ravel() >> stays << stays, last.ravel()
    negative = bits.ravel() >> 31 == 0
    n, width = len(digits), min(DIGITS, target.lanes)
    count = -(-FLOAT32.significand_bits // width)
    a, b = target.zeros(n, count)
    lane = rng.random((n, target.lanes)).argsort(axis=1)
    base = sum(target.pairs.limits) // 2 - width // 2
    for place in range(FLOAT32.significand_bits):
        which, above = divmod(place, width)
        row = np.flatnonzero(digits >> place & 1)
        codes = target.pairs.draw(rng, np.full(len(row), base + above), negative[row], power=True)
        at = row, count - 1 - which, lane[row, above]
        a[at], b[at] = codes
    s = last[:, None] + width * np.arange(count)[::-1] - base
    return target.batch(a, b, split_scale(rng, s))


def _joined(first: Batch, rest: Batch) -> Batch:
    """Dot products of the blocks of both, from c of the first on."""
    names = ("a", "b", "scale_a", "scale_b")
    parts = {k: np.concatenate([getattr(first, k), getattr(rest, k)], axis=1) for k in names}
    side = {k: np.concatenate([first.side[k], rest.side[k]], axis=1) for k in first.side}
    return replace(first, **parts, side=side, sequence="peeled")
