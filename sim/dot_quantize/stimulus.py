"""Blocks of dot products: those of the dot unit's sequences, and the quantiser's values as c."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import DotQuantizeConfig
from ..bench.operands import draw, finite_codes, near_scales, split_scale
from ..dot import item as dot
from ..dot import stimulus as dot_stimulus
from ..dot.range_ends import end_scales
from ..dot.target import Target
from ..dot.tensors import tensor_traffic
from ..engine.job import UnitJob
from ..quantize import item as quantize
from ..quantize import stimulus as quantize_stimulus
from .item import Batch
from .peeled import peeled

VALUE_BLOCKS = 500
"""The fewest blocks of the quantiser's sequences: some bins take one in a hundred."""
PEELED_SHARE, PEELED_BLOCKS = 16, 16
"""One dot product in so many is of `peeled`, which take seven blocks each; the fewest blocks."""

STEP = 37
"""Scales between those that two sequences of values begin with."""


def traffic(job: UnitJob, purpose: str, count: int, tensor_blocks: int | None) -> Batch:
    """About `count` dot products in blocks, from random numbers for this purpose.

    Two thirds are of the dot unit's sequences, each block of one of them, and one third of the
    quantiser's. Besides those of which the last digits decide, and those of real tensors, of about
    `tensor_blocks` blocks (None: all).
    """
    config: DotQuantizeConfig = job.config
    rng, block = job.rng(purpose), config.quantizer.block
    products = dot_stimulus.traffic(config.dot, rng, count * 2 // 3)
    products += tensor_traffic(replace(job, config=config.dot), tensor_blocks)
    orders = _by_sequence(rng, products, block)
    if config.dot.load_c:
        blocks = max(count // (3 * block), VALUE_BLOCKS)
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
    """Blocks of one sequence each, in random order; what is over makes mixed ones.

    A sequence shorter than a block fills one by itself, over and over; the last of the mixed ones
    is filled up with any dot products.
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
    """Dot products of nothing but zeros, whose c are these values; the modes take turns.

    Every second block is under scales around either end of the range, each in turn.
    """
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = quantize.values(config.quantizer, values.bits).astype(np.float32)
    c = wide.view(np.uint32).ravel()
    target = Target(config.dot, turn % len(config.dot.formats))
    a, b = target.zeros(len(c), 1)
    a = draw(rng, finite_codes(target.format_a), a.shape)
    block = np.arange(len(c)) // config.quantizer.block
    ends = end_scales(target)
    far = split_scale(rng, ends[(block // 2 + turn * STEP) % len(ends), None])
    near = near_scales(rng, (len(c), 1)), near_scales(rng, (len(c), 1))
    odd = (block % 2 == 1)[:, None]
    scales = np.where(odd, far[0], near[0]), np.where(odd, far[1], near[1])
    batch = target.batch(a, b, scales, c, values.sequence)
    return dot_stimulus.for_unit(config.dot, rng, batch)
