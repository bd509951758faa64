"""Stochastic rounding at its threshold: discarded digits and random words that just carry, or not.

A value rounds up where its discarded digits and its word, integers of 32 bits, add up to 2^32.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import E8M0, ElementFormat, QuantizeConfig
from ...model.lfsr import WORD_BITS
from ...model.units.quantize import PAIR
from .item import Batch, QuantizeResults, magnitudes, predict, values, words_of

CARRY = 2**WORD_BITS
EDGES = {"one below": -1, "at": 0, "one above": 1}
"""Discarded digits plus word, less `CARRY`."""
CLOSE = 0.8
"""Share of the values that are brought to an edge where they can be."""


def units(fmt: ElementFormat, ratio: NDArray) -> NDArray:
    """Values over their scales in units of the last place of their element."""
    exponent = np.where(ratio == 0, fmt.emin, np.frexp(ratio)[1] - 1)
    return np.ldexp(ratio, fmt.mantissa_bits - np.maximum(exponent, fmt.emin))


def discarded(in_units: NDArray) -> NDArray[np.int64]:
    """The first 32 digits below the last place."""
    return np.floor((in_units - np.floor(in_units)) * CARRY).astype(np.int64)


def powers(outcome: QuantizeResults, micro: bool) -> NDArray[np.float64]:
    """The power of two that each value is divided by, (n, block) or (n, 1)."""
    shared = outcome.scale.astype(np.int64)[:, None] - E8M0.bias
    if micro:
        shared = shared - np.repeat(outcome.micro, PAIR, axis=1)
    return np.ldexp(1.0, shared)


def edge(config: QuantizeConfig, batch: Batch, in_units: NDArray) -> NDArray[np.int64]:
    """Index into EDGES for each value; one more for others, and where nothing is discarded."""
    digits = discarded(in_units)
    place = digits + words_of(config, batch) - CARRY + 1
    return np.where((digits > 0) & (place >= 0) & (place < len(EDGES)), place, len(EDGES))


def words_at_edges(config: QuantizeConfig, batch: Batch, rng: Generator) -> NDArray[np.uint32]:
    """Random words that bring many of the values to an edge; the others keep theirs.

    config: a unit of one format.
    """
    outcome = predict(config, batch)
    ratio = magnitudes(config, batch.bits) / powers(outcome, config.micro)
    digits = discarded(units(config.formats[batch.mode], ratio))
    words = CARRY - digits + _moves(rng, digits.shape)
    chosen = (digits > 0) & (words < CARRY) & (rng.random(digits.shape) < CLOSE)
    return np.where(chosen, words, batch.words).astype(np.uint32)


def values_at_edges(config: QuantizeConfig, batch: Batch, rng: Generator) -> Batch:
    """The batch with many of the values brought to an edge, as far as their words allow.

    The words of shift registers are given. A value below the least element takes the digits that
    meet its word, where the source has enough digits. The largest values of a block stay.
    """
    outcome = predict(config, batch)
    formats = [config.formats[place] for place in outcome.mode] if config.select else None
    fmt = config.formats[batch.mode]
    places = [(one.emin - one.mantissa_bits) for one in formats or [fmt] * len(batch)]
    step = np.ldexp(powers(outcome, config.micro), np.array(places)[:, None])
    digits = CARRY - words_of(config, batch).astype(np.int64)
    digits = np.clip(digits + _moves(rng, digits.shape), 1, CARRY - 1)
    magnitude = magnitudes(config, batch.bits)
    wanted = np.ldexp(digits * step, -WORD_BITS)
    with np.errstate(over="ignore", under="ignore"):
        narrow = wanted.astype(np.float32).astype(config.source.dtype)
    largest = magnitude.max(axis=1, keepdims=True)
    chosen = (narrow.astype(np.float64) == wanted) & (np.maximum(magnitude, wanted) < largest)
    chosen &= rng.random(digits.shape) < CLOSE
    made = np.where(chosen, narrow, values(config, batch.bits))
    return replace(batch, bits=made.view(f"u{config.source.bits // 8}").astype(np.uint32))


def _moves(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
    return rng.choice([*EDGES.values()], shape)
