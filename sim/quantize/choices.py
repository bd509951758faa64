"""The choice among formats of a quantiser with `select`, for functional coverage."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...model import E8M0, ElementFormat, QuantizeConfig
from ...model.units.quantize_formats import magnitudes
from .item import Batch, QuantizeResults, largest_magnitudes, predict, values, words_of
from .ranges import ENDS, range_bins, stays_below

CHOSEN = ("first", "later")
ALIKE = ("tie", "no error", "zeros")
BESIDE = "beside infinity"


def choice_goals(config: QuantizeConfig) -> dict[str, Sequence[object]]:
    """Goals of a quantiser that chooses formats: the first or a later one, ties, blocks without
    errors.

    Ties are several best formats, with errors or without. `BESIDE` is a choice where values without
    an error pass. Fewer digits than a mantissa has hide its errors: other choices are then no goal.
    """
    if config.select is None:
        return {}
    bins = [CHOSEN[0], *ALIKE[1:]]
    if config.select > max(fmt.mantissa_bits for fmt in config.formats):
        bins.append(ALIKE[0])
        first, *others = (_visible(config, fmt) for fmt in config.formats)
        if any(_can_be_better(config, other, first) for other in others):
            bins.append(CHOSEN[1])
        if config.nonfinite == "element" and any(
            not np.array_equal(other["own"], first["own"]) for other in others
        ):
            bins.append(BESIDE)
    return {"choice": bins}


def _visible(config: QuantizeConfig, fmt: ElementFormat) -> dict[str, NDArray[np.float64]]:
    """Magnitudes of a format in units of the errors' last digit, in ascending order.

    own: under the scale of a block's largest value. smallest: under E8M0's smallest, where the
    source has values so small, as far as it has digits. Rounding to nearest shows quarters, as
    values halfway between two magnitudes do.
    """
    assert config.select is not None
    parts = 1.0 if config.rounding == "toward_zero" else 4.0
    digits = config.select + (set(config.scale_rules) != {"floor"})
    values = np.array(magnitudes(fmt))
    own = values[values <= (1.0 if stays_below(config, fmt) else 2.0)]
    visible = {"own": np.unique(np.floor(np.ldexp(own, digits) * parts) / parts)}
    if ENDS[0] in range_bins(config, *config.formats):
        small = np.ldexp(values, fmt.emax)
        small = small[small <= 2.0 ** min(other.emax for other in config.formats)]
        parts = min(parts, 2.0 ** (E8M0.emin - config.source.lsb - config.select))
        small = np.floor(np.ldexp(small, config.select) * parts) / parts
        visible["smallest"] = np.unique(small)
    return visible


def _can_be_better(
    config: QuantizeConfig, other: dict[str, NDArray], first: dict[str, NDArray]
) -> bool:
    """True where a format has smaller errors than the first one for some values.

    It has a magnitude that the first lacks; or lacks one that is up to a digit from its neighbour
    in the first: what it has instead may have the value's digits.
    """
    for scale, grid in first.items():
        if np.setdiff1d(other[scale], grid).size:
            return True
        mixed = scale == "own" and set(config.scale_rules) not in ({"floor"}, {"twice"})
        near = np.diff(grid) <= 1 + mixed  # one digit for the smaller of a rule's two scales
        ends = np.union1d(grid[:-1][near], grid[1:][near])
        if config.rounding != "toward_zero" and np.setdiff1d(ends, other[scale]).size:
            return True
    return False


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
