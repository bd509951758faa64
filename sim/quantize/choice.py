"""What blocks exercise in a quantiser that chooses their formats."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...model import E8M0, QuantizeConfig
from .item import Batch, QuantizeResults, largest_magnitudes, predict, values, words_of

CHOSEN = ("first", "later")
ALIKE = ("tie", "no error", "zeros")
BESIDE = "beside infinity"


def goals(config: QuantizeConfig) -> dict[str, Sequence[object]]:
    """The bins of the choice: the first format or a later one; several best ones, with errors or
    none, or without values; and a choice where values without an error pass.

    Fewer digits than a mantissa has hide its errors, and what is not chosen then is not a goal.
    """
    if config.select is None:
        return {}
    found = [CHOSEN[0], *ALIKE[1:]]
    if config.select > max(fmt.mantissa_bits for fmt in config.formats):
        found += [CHOSEN[1], ALIKE[0], *[BESIDE] * (config.nonfinite == "element")]
    return {"choice": found}


def hits(
    config: QuantizeConfig, batch: Batch, outcome: QuantizeResults, tried: Sequence[QuantizeResults]
) -> dict[str, list[set[object]]]:
    """The bins of each block; none of one that is poisoned. tried: of `tried`."""
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


def tried(config: QuantizeConfig, batch: Batch, outcome: QuantizeResults) -> list[QuantizeResults]:
    """What each format makes of the blocks, poisoned as `outcome` is."""
    words = replace(batch, words=words_of(config, batch))
    poisoned = outcome.scale == E8M0.nan_code
    found = []
    for one in config.alternatives:
        made = predict(QuantizeConfig(**{**one.arguments, "random": "stream"}), words)
        codes = np.where(poisoned[:, None], 0, made.codes)
        scale = np.where(poisoned, outcome.scale, made.scale)
        found.append(replace(made, codes=codes, scale=scale))
    return found


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
    found = []
    for fmt, made in zip(config.formats, tried, strict=True):
        scale = np.ldexp(1.0, made.scale.astype(np.int64) - E8M0.bias)[:, None]
        element = np.where(finite, np.abs(fmt.values[made.codes]), 0.0)
        found.append(((magnitude // step - element * scale // step) ** 2).sum(axis=1))
    return np.array(found)


def _finite(config: QuantizeConfig, batch: Batch) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.isfinite(values(config, batch.bits).astype(np.float64))
