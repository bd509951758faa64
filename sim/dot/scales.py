"""Scales of a unit's blocks, in its own format and for each scale block, and micro-exponents."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import E8M0, DotConfig
from ...model.formats import E4M3
from ...model.steps.codes import scale_table
from ..bench.operands import E4M3_CLASSES, SCALE_CLASSES
from .item import Batch

Codes = NDArray[np.uint8]


def scale_classes(config: DotConfig) -> dict[str, tuple[int, int]]:
    """Classes of the unit's scale codes, with the first and the last code of each."""
    return SCALE_CLASSES if config.scales == E8M0.name else E4M3_CLASSES


def by_block(config: DotConfig, codes: Codes) -> Codes:
    """Scale codes of a batch as (n, blocks, scale blocks)."""
    return codes.reshape(*codes.shape[:2], config.scale_blocks)


def exponents(config: DotConfig, batch: Batch) -> NDArray[np.int64]:
    """s of every scale block, (n, blocks, scale blocks); meaningless under a NaN."""
    table = scale_table(config.scale_format).exponents
    return table[by_block(config, batch.scale_a)] + table[by_block(config, batch.scale_b)]


def are_nan(config: DotConfig, batch: Batch) -> NDArray[np.bool_]:
    """True for scale blocks with a NaN scale, (n, blocks, scale blocks)."""
    nan = np.isnan(scale_table(config.scale_format).significands)
    return nan[by_block(config, batch.scale_a)] | nan[by_block(config, batch.scale_b)]


def for_unit(config: DotConfig, rng: Generator, batch: Batch) -> Batch:
    """`batch` with scales and micro-exponents as the unit takes them."""
    return with_micro(config, rng, with_scales(config, rng, batch))


def with_micro(config: DotConfig, rng: Generator, batch: Batch) -> Batch:
    """`batch` with micro-exponents where the unit takes them and the sequence has set none.

    Half of the rows have none set.
    """
    if not config.micro or batch.side:
        return batch
    shape = batch.a.shape[:2]
    has_micro = rng.random((len(batch), 1)) < 0.5
    most = 2 ** (config.lanes // 2) - 1
    side = {
        name: np.where(
            has_micro, rng.integers(0, most, shape, np.uint64, endpoint=True), np.uint64(0)
        )
        for name in ("micro_a", "micro_b")
    }
    return replace(batch, side=side)


def with_scales(config: DotConfig, rng: Generator, batch: Batch) -> Batch:
    """`batch` with scales as the unit takes them, where a sequence made E8M0's for whole beats.

    In half of the rows scale blocks of a beat have like scales, else scales of their own. Half of
    the rows of E4M3 have powers of two.
    """
    if config.has_integers or batch.has_unit_scales:
        return batch
    a, b = batch.scale_a, batch.scale_b
    if config.scale_blocks > 1:
        a, b = _spread(config, rng, a), _spread(config, rng, b)
    if config.scales == E4M3.name:
        a, b = _as_e4m3(rng, a, b)
    return replace(batch, scale_a=a, scale_b=b, has_unit_scales=True)


def _spread(config: DotConfig, rng: Generator, codes: Codes) -> Codes:
    """(n, blocks) to (n, blocks, scale blocks)."""
    shape = (*codes.shape, config.scale_blocks)
    row = rng.random((len(codes), 1, 1))
    far, near = rng.integers(-20, 21, shape), rng.integers(-3, 4, shape)
    moved = np.where(row < 0.5, 0, np.where(row < 0.8, near, far))
    own = np.clip(codes[..., None].astype(np.int64) + moved, 0, E8M0.nan_code - 1)
    # A NaN is one scale's.
    nan = (codes == E8M0.nan_code)[..., None]
    chosen = rng.integers(0, config.scale_blocks, (*codes.shape, 1))
    is_nan = nan & (np.arange(config.scale_blocks) == chosen)
    return np.where(is_nan, E8M0.nan_code, np.where(nan, E8M0.bias, own)).astype(np.uint8)


def _as_e4m3(rng: Generator, a: Codes, b: Codes) -> tuple[Codes, Codes]:
    """Scales of about the same product, within what two E4M3 scales can; ends become ends."""
    low, high = E4M3.emin, E4M3.emax
    s = np.clip(a.astype(np.int64) + b - 2 * E8M0.bias, 2 * low, 2 * high)
    first = rng.integers(np.maximum(s - high, low), np.minimum(s - low, high) + 1)
    power = rng.random((len(a), *[1] * (a.ndim - 1))) < 0.5
    made = []
    for given, exponent in ((a, first), (b, s - first)):
        fraction = np.where(power, 0, rng.integers(0, 8, a.shape))
        codes = np.minimum((exponent + E4M3.bias) * 8 + fraction, E4M3.largest_code)
        small = np.where(rng.random(a.shape) < 0.5, 0, rng.integers(1, 8, a.shape))
        for end, code in ((0, small), (E8M0.nan_code - 1, E4M3.largest_code), (E8M0.bias, 56)):
            chosen = (given == end) & (rng.random(a.shape) < 0.7)
            codes = np.where(chosen, code, codes)
        made.append(np.where(given == E8M0.nan_code, 127, codes).astype(np.uint8))
    return made[0], made[1]
