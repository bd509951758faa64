"""The choice among formats of a quantiser with `select`, for functional coverage."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...model import E8M0, QuantizeConfig
from ...model.units.quantize_formats import magnitudes
from .item import Batch, QuantizeResults, largest_magnitudes, predict, values, words_of
from .ranges import ENDS, range_bins
from .stimulus import Target, batch

CHOSEN = ("first", "later")
ALIKE = ("tie", "no error", "zeros")
BESIDE = "beside infinity"
TRIALS = 6000
TRIED_BELOW = 8  # binades below E8M0's smallest scale


def choice_goals(config: QuantizeConfig) -> dict[str, Sequence[object]]:
    """Goals of a quantiser that chooses formats: those that blocks of `trials` reach.

    The first or a later format; ties, which are several best formats, with errors or without;
    zeros. `BESIDE` is a choice by values beside which others have no error as they pass.
    """
    return {} if config.select is None else {"choice": sorted(_reached(config), key=str)}


@cache
def _reached(config: QuantizeConfig) -> frozenset[object]:
    reached: set[object] = {ALIKE[2]}
    for made in trials(config):
        outcome = predict(config, made)
        tried = by_each_format(config, made, outcome)
        reached = reached.union(*choice_hits(config, made, outcome, tried)["choice"])
    return frozenset(reached)


def trials(config: QuantizeConfig) -> list[Batch]:
    """Blocks of two values, for each scale rule: elements of any format, the middles between them,
    and their neighbours; half of them near E8M0's smallest scale where the source has such values.

    Where infinities pass, half of the blocks have one. None for a unit that chooses no format.
    """
    if config.select is None:
        return []
    target, rng = Target(config, config.formats[0]), np.random.default_rng(0)
    points = np.unique(np.concatenate([magnitudes(fmt) for fmt in config.formats]))
    points = np.concatenate([points[1:], (points[1:] + points[:-1]) / 2])
    exponent = np.zeros((TRIALS, 2))
    if ENDS[0] in range_bins(config, *config.formats):
        top = E8M0.emin + max(fmt.emax for fmt in config.formats) + 2
        low = max(config.source.lsb, E8M0.emin - TRIED_BELOW)
        exponent[1::2] = rng.integers(low, top, (TRIALS // 2, 1))
    chosen = rng.choice(points, (TRIALS, 2))
    chosen[:, 0] = rng.choice(points[points >= 1 / 2], TRIALS)
    exponent[:, 1] -= rng.integers(0, 3, TRIALS)
    bits = np.zeros((TRIALS, config.block), np.int64)
    bits[:, :2] = target.nearest(np.ldexp(chosen, exponent.astype(int)))
    bits[:, :2] = np.maximum(bits[:, :2] + rng.integers(-1, 2, (TRIALS, 2)), 0)
    if config.nonfinite == "element":
        bits[TRIALS // 2 :, 2] = target.ones << target.fraction_bits
    return [batch(config, rng, 0, rule, bits, "trials") for rule in range(len(config.scale_rules))]


def choice_hits(
    config: QuantizeConfig, batch: Batch, outcome: QuantizeResults, tried: Sequence[QuantizeResults]
) -> dict[str, list[set[object]]]:
    """Hits of each block; none of a poisoned block. tried: as `by_each_format` makes it."""
    error = errors(config, batch, tried)
    several = (error == error.min(axis=0)).sum(axis=0) > 1
    zeros = largest_magnitudes(config, batch.bits) == 0
    bins = {
        CHOSEN[0]: outcome.mode == 0,
        CHOSEN[1]: outcome.mode > 0,
        ALIKE[0]: several & (error.min(axis=0) > 0),
        ALIKE[1]: several & (error.min(axis=0) == 0) & ~zeros,
        ALIKE[2]: zeros,
        BESIDE: (error.max(axis=0) > error.min(axis=0)) & ~_finite(config, batch).all(axis=1),
    }
    rows = np.stack([*bins.values()], axis=1) & (outcome.scale != E8M0.nan_code)[:, None]
    names = [*bins]
    return {"choice": [{names[i] for i in np.flatnonzero(row)} for row in rows]}


def by_each_format(
    config: QuantizeConfig, batch: Batch, outcome: QuantizeResults
) -> list[QuantizeResults]:
    """Results of the blocks in each format, poisoned as `outcome` is."""
    words = replace(batch, words=words_of(config, batch))
    poisoned = outcome.scale == E8M0.nan_code
    outcomes = []
    for one in config.alternatives:
        made = predict(QuantizeConfig(**{**one.arguments, "random": "stream"}), words)
        codes = np.where(poisoned[:, None], 0, made.codes)
        scale = np.where(poisoned, outcome.scale, made.scale)
        outcomes.append(replace(made, codes=codes, scale=scale))
    return outcomes


def errors(
    config: QuantizeConfig, batch: Batch, tried: Sequence[QuantizeResults]
) -> NDArray[np.float64]:
    """The sum of squared errors of each format and block, (formats, n), exact."""
    finite = _finite(config, batch)
    with np.errstate(invalid="ignore"):  # signalling NaN
        magnitude = np.abs(values(config, batch.bits).astype(np.float64))
    magnitude = np.where(finite, magnitude, 0.0)
    exponent = np.maximum(np.frexp(magnitude.max(axis=1))[1] - 1, E8M0.emin)
    assert config.select is not None
    step = np.ldexp(1.0, exponent - config.select)[:, None]
    errors = []
    for fmt, made in zip(config.formats, tried, strict=True):
        scale = np.ldexp(1.0, made.scale.astype(np.int64) - E8M0.bias)[:, None]
        element = np.where(finite, np.abs(fmt.values[made.codes]), 0.0)
        errors.append(((magnitude // step - element * scale // step) ** 2).sum(axis=1))
    return np.array(errors)


def _finite(config: QuantizeConfig, batch: Batch) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.isfinite(values(config, batch.bits).astype(np.float64))
