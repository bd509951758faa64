"""Blocks of dot products: the dot unit's sequences, and the quantiser's values as c."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotConfig, DotQuantizeConfig
from ...model.formats import FLOAT32
from ..bench.operands import draw, finite_codes, float_bits, near_scales, split_scale
from ..dot import item as dot
from ..dot import stimulus as dot_stimulus
from ..dot.corners import end_scales
from ..dot.scales import for_unit
from ..dot.target import Ints, Target
from ..dot.tensors import tensor_traffic
from ..engine.job import UnitJob
from ..quantize import item as quantize
from ..quantize import stimulus as quantize_stimulus
from ..quantize.carries import values_at_edges
from .item import Batch, result_blocks

VALUE_BLOCKS = 500
"""The fewest blocks of the quantiser's sequences: some bins take one in a hundred."""
VALUES_SHARE, VALUES_SHARE_OF_WORDS = 3, 1
"""Share of dot products of the quantiser's sequences, and with random words: few words have digits
that fit a result, to bring it to the threshold."""
PEELED_SHARE, PEELED_BLOCKS = 4, 16
"""Share of dot products of `peeled` in each mode, seven blocks each, and its fewest blocks."""

THROUGH_C = "through c"
"""Sequence of dot products of zeros whose c is a value for the quantiser."""

STEP = 37
"""Steps between the scales with which two sequences of values begin."""

DIGITS = 4
"""Digits of a running value that one block takes away, each by a product, a power of two."""

SMALL = (-24, 100)
"""Exponents of c in half of the blocks, from the least normal one on."""


def traffic(job: UnitJob, purpose: str, count: int, tensor_blocks: int | None) -> Batch:
    """About `count` dot products in blocks, from random numbers for this purpose.

    Two thirds are of the dot unit's sequences, each block of one sequence; one third is of the
    quantiser's, and three times as many with random words. Dot products of `peeled` and of real
    tensors come on top, the latter of about `tensor_blocks` blocks (None: all).
    """
    config: DotQuantizeConfig = job.config
    rng, block = job.rng(purpose), config.quantizer.block
    products = dot_stimulus.traffic(config.dot, rng, count * 2 // 3)
    products += tensor_traffic(replace(job, config=config.dot), tensor_blocks)
    orders = _by_sequence(rng, products, block)
    if config.dot.load_c:
        has_words = config.quantizer.rounding == "stochastic"
        share = VALUES_SHARE_OF_WORDS if has_words else VALUES_SHARE
        blocks = max(count // (share * block), VALUE_BLOCKS)
        values = quantize_stimulus.traffic(config.quantizer, rng, blocks)
        size = sum(map(len, products))
        products += [_through_c(config, rng, batch, i) for i, batch in enumerate(values)]
        peels = max(count // (PEELED_SHARE * block), PEELED_BLOCKS)
        modes = range(len(config.dot.formats))
        products += [peeled(Target(config.dot, mode), rng, peels, block) for mode in modes]
        orders.append(np.arange(size, sum(map(len, products))).reshape(-1, block))
    order = np.concatenate(orders)
    return Batch(products, order, np.zeros(len(order), np.int64))


def _by_sequence(
    rng: Generator, products: Sequence[dot.Batch], block: int
) -> list[NDArray[np.int64]]:
    """Blocks of one sequence each, in random order; the rest makes mixed ones.

    A sequence shorter than a block fills one by itself, over and over. The last mixed block is
    filled up with any dot products.
    """
    groups: dict[str, list[NDArray]] = {}
    start = 0
    for batch in products:
        groups.setdefault(batch.sequence, []).append(np.arange(start, start + len(batch)))
        start += len(batch)
    orders, rest = [], []
    for parts in groups.values():
        members = rng.permutation(np.concatenate(parts))
        members = np.resize(members, max(block, len(members)))
        whole = len(members) // block * block
        orders.append(members[:whole].reshape(-1, block))
        rest.append(members[whole:])
    rest = rng.permutation(np.concatenate(rest))
    filler = rng.integers(0, start, -len(rest) % block)
    return [*orders, np.append(rest, filler).reshape(-1, block)]


def _through_c(
    config: DotQuantizeConfig, rng: Generator, values: quantize.Batch, turn: int
) -> dot.Batch:
    """Dot products of zeros with these values as c; the modes take turns.

    Every second block is under scales around either end of the range, each in turn.
    """
    c = _widened(config, values.bits).ravel()
    target = Target(config.dot, turn % len(config.dot.formats))
    a, b = target.zeros(len(c), 1)
    a = draw(rng, finite_codes(target.format_a), a.shape)
    block = np.arange(len(c)) // config.quantizer.block
    ends = end_scales(target)
    far = split_scale(rng, ends[(block // 2 + turn * STEP) % len(ends), None])
    near = near_scales(rng, (len(c), 1)), near_scales(rng, (len(c), 1))
    odd = (block % 2 == 1)[:, None]
    scales = np.where(odd, far[0], near[0]), np.where(odd, far[1], near[1])
    batch = target.batch(a, b, scales, c, THROUGH_C)
    return for_unit(config.dot, rng, batch)


def _widened(config: DotQuantizeConfig, bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """float32 bits of the dot unit's results."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        return quantize.values(config.quantizer, bits).astype(np.float32).view(np.uint32)


def results_at_edges(config: DotQuantizeConfig, batch: Batch, rng: Generator) -> Batch:
    """The batch with many results brought to the threshold of their random words, by their c."""
    products, start = [], 0
    for part in batch.products:
        first = batch.order[:, 0]
        chosen = (start <= first) & (first < start + len(part))
        if part.sequence == THROUGH_C and chosen.any():
            rows = batch.order[chosen] - start
            results = dot.predict(config.dot, part).result[rows]
            blocks = result_blocks(results, batch.number[chosen])
            aimed = values_at_edges(config.quantizer, blocks, rng).bits
            moved, c = aimed != results, part.c.copy()
            c[rows[moved]] = _widened(config, aimed[moved])
            part = replace(part, c=c)
        products.append(part)
        start += len(part)
    return replace(batch, products=products)


def peeled(target: Target, rng: Generator, blocks: int, block: int) -> dot.Batch:
    """`blocks` times `block` dot products that end with the last digits of a product and c.

    The first block of each is c and one product, at any distance, often one at which rounding
    decides. For half of the results that are quantised together this product is half a unit of c's
    last place, c mostly even, and most often a smaller second product breaks the tie. The other
    blocks take away the first digits of that sum, down to the same place for all of them. In half
    of them all is small, down to subnormal, and often nothing stays. E8M0 scales can take all these
    digits away; others leave some.
    """
    near = rng.choice([-25, -24, -23, -1, 0, 1, 23, 24, 25], blocks)
    below = np.where(rng.random(blocks) < 0.5, near, rng.integers(-30, 34, blocks))
    ties = rng.random(blocks) < 0.5
    below = np.where(ties, FLOAT32.significand_bits, below)
    any_digits = rng.integers(0, FLOAT32.significand_bits, blocks)
    left = np.where(rng.random(blocks) < 0.5, 1, any_digits)
    exponent = rng.integers(-20, 21, blocks)
    small = rng.random(blocks) < 0.5
    exponent = np.where(small, FLOAT32.emin + rng.integers(*SMALL, blocks), exponent)
    left = np.where(small & (rng.random(blocks) < 0.5), 0, left)
    below, left, exponent = (np.repeat(each, block) for each in (below, left, exponent))
    ties = np.repeat(ties, block)
    n = blocks * block
    few = rng.integers(0, 16, n)
    fraction = np.where(rng.random(n) < 0.5, few, rng.integers(0, 2**FLOAT32.mantissa_bits, n))
    mostly = ties & (rng.random(n) < 0.75)
    sign = rng.integers(0, 2, n)
    c = float_bits(sign, exponent, np.where(mostly, fraction & ~1, fraction))
    a, b = target.zeros(n, 1)
    low, high = target.pairs.limits
    of = rng.integers(np.where(ties, min(low + 1, high), low), high, n, endpoint=True)
    negative = np.where(mostly, sign == 1, rng.random(n) < 0.5)
    a[:, 0, 0], b[:, 0, 0] = target.pairs.draw(rng, of, negative, power=True)
    row = np.flatnonzero(ties)
    second = rng.integers(low, np.maximum(of[row], low + 1))
    a[row, 0, -1], b[row, 0, -1] = target.pairs.draw(rng, second, negative[row])
    scales = split_scale(rng, (exponent - below - of)[:, None])
    first = for_unit(target.config, rng, target.batch(a, b, scales, c))
    rest = _taking(target, rng, _running(target.config, first).reshape(blocks, block), left)
    return _joined(first, for_unit(target.config, rng, rest))


def _running(config: DotConfig, first: dot.Batch) -> NDArray[np.uint32]:
    """float32 bits of the running values after a block, before they are converted."""
    wide = DotConfig(**{**config.arguments, "out": FLOAT32.name})
    return dot.model_trace(wide, first).result.view(np.uint32)


def _taking(target: Target, rng: Generator, bits: NDArray[np.uint32], left: Ints) -> dot.Batch:
    """Blocks that take the first digits away from running values (blocks, block).

    left: digits of the largest of a row that stay.
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


def _joined(first: dot.Batch, rest: dot.Batch) -> dot.Batch:
    """Dot products of the blocks of both, from c of the first on."""
    names = ("a", "b", "scale_a", "scale_b")
    parts = {k: np.concatenate([getattr(first, k), getattr(rest, k)], axis=1) for k in names}
    side = {k: np.concatenate([first.side[k], rest.side[k]], axis=1) for k in first.side}
    return replace(first, **parts, side=side, sequence="peeled")
