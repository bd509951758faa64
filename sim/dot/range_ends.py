"""Directed sequences under scales around both ends of the range of running values."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from ..bench.operands import float_bits, split_scale
from .item import Batch
from .placing import LEAST, fractions, lanes, nearly_negated, signs
from .scales import with_scales
from .target import Ints, Target

BEYOND = (-40, 60)  # of the scales, from the largest exponent of a running value on


def beyond(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Blocks of two products that cancel, or of none, under scales that take others out of the
    range, each in turn with either: of a c near its end, or a little above, every digit stays."""
    a, b = target.signed_zeros(rng, n, 1)
    low, high = target.pairs.limits
    lane, (turn, above) = lanes(rng, target, n, 2), np.divmod(np.arange(n), BEYOND[1] - BEYOND[0])
    row = np.flatnonzero((turn + above) % 2)
    code_a, code_b = target.pairs.draw(rng, rng.integers(low, high + 1, n), signs(rng, n))
    for place, code in ((0, code_b), (1, target.format_b.negated(code_b))):
        a[row, 0, lane[row, place]], b[row, 0, lane[row, place]] = code_a[row], code[row]
    emax = target.config.accumulator.running.emax
    exponent = emax - np.where(rng.random(n) < 0.5, 0, rng.integers(0, 48, n))
    c = float_bits(rng.integers(0, 2, n), exponent, fractions(rng, n))
    s = emax + BEYOND[0] + above
    return [target.batch(a, b, split_scale(rng, s[:, None]), c)]


BELOW = (-32, 64)
"""Of the last digit of the smallest products, from the least normal running value on."""


def below(target: Target, rng: Generator, n: int) -> list[Batch]:
    """Under scales around the least normal result, each in turn: nothing but a c of that size, or
    a product of which c leaves some last digits."""
    a, b = target.signed_zeros(rng, n, 1)
    running = target.config.accumulator.running
    low, high = target.pairs.limits
    scales = split_scale(rng, np.resize(_scales_below(target), n)[:, None])
    fraction = fractions(rng, n) >> rng.integers(0, running.mantissa_bits, n)
    exponent = running.emin + np.where(rng.random(n) < 0.7, -1, rng.integers(0, 4, n))
    small = float_bits(rng.integers(0, 2, n), exponent, fraction)
    row = np.flatnonzero(rng.random(n) < 0.6)
    lane = lanes(rng, target, n, 1)[:, 0]
    of = np.minimum(low + rng.integers(0, LEAST, n), high)
    code_a, code_b = target.pairs.draw(rng, of, signs(rng, n))
    a[row, 0, lane[row]], b[row, 0, lane[row]] = code_a[row], code_b[row]
    batch = with_scales(target.config, rng, target.batch(a, b, scales))
    c = small.copy()
    c[row] = nearly_negated(target, rng, batch)[row]
    return [replace(batch, c=c) if target.config.load_c else batch]


def _scales_below(target: Target) -> Ints:
    low, _ = target.pairs.limits
    return target.config.accumulator.running.emin - low + np.arange(*BELOW)


def end_scales(target: Target) -> Ints:
    """Exponents of the scales of `below` and `beyond`."""
    above = target.config.accumulator.running.emax + np.arange(*BEYOND)
    return np.append(_scales_below(target), above)
