"""Calibrators: limits for the outermost scales from a calibration set (docs/numerics.md, 6).

A calibrator makes the limits of every group from `Sample`s, one per batch. To add a calibrator, add
a row to CALIBRATORS.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, cast, known_none, namespace
from ..errors import choice
from ..formats import IntegerFormat
from ..rounding import F64, nearest_even
from .codes import squared_error
from .quantize import Limits, check_takes_limits, quantize
from .scheme import Scheme
from .table import scheme as find

CANDIDATES = 100  # limits that the search for the least squared error tries
AVERAGING = 0.01  # weight of a new batch
BINS = 2048  # of a histogram
ITERATIONS = 100  # at most; OCTAV reaches its fixed point in about ten


@dataclass(frozen=True)
class Sample:
    """A batch of finite values; `groups` has one row of values per outermost group.

    shape: shape of the outermost scales.
    """

    array: NDArray[np.float32]
    axis: int
    groups: F64
    shape: tuple[int, ...]


Bounds = tuple[F64, F64]


def calibrate(
    batches: Iterable[ArrayLike], scheme: Scheme | str, method: str = "amax", *, axis: int = -1
) -> Limits:
    """Limits for `quantize(x, scheme, axis=axis, limits=...)` from arrays like x.

    batches: one array or more, finite, all with equally many groups of the outermost level.
    method: ``amax``, ``percentile:P`` (P above 0, up to 100), ``average``, ``mse``, ``kl`` or
    ``octav``; ``kl`` and ``octav`` take integer elements only.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    scheme = find(scheme)
    check_takes_limits(scheme)
    name, _, parameter = method.partition(":") if isinstance(method, str) else (method, "", "")
    choice("method", name, CALIBRATORS)
    if parameter and name != "percentile":
        raise ValueError(f"method {name} must have no parameter, not {parameter!r}")
    if name in ("kl", "octav") and not has_integers(scheme):
        elements = ", ".join(map(str, scheme.elements))
        raise ValueError(f"method {name} must be used with integer elements, not {elements}")
    fraction = _percentage(parameter) if name == "percentile" else Fraction(1)
    samples = _samples(batches, scheme, axis)
    low, high = CALIBRATORS[name](samples, scheme, fraction)
    shape = samples[0].shape
    return Limits(nearest_even(low).reshape(shape), nearest_even(high).reshape(shape))


def has_integers(scheme: Scheme) -> bool:
    """Whether all elements of `scheme` are integers, and not elements of MX."""
    (element, *others) = scheme.elements
    return not others and element.is_integer and not element.is_mx


def _percentage(text: str) -> Fraction:
    try:
        value = Fraction(text) / 100
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not 0 < value <= 1:
        raise ValueError(f"P of method percentile:P must be above 0, up to 100, not {text!r}")
    return value


def _samples(batches: Iterable[ArrayLike], scheme: Scheme, axis: int) -> list[Sample]:
    samples: list[Sample] = []
    for i, batch in enumerate(batches):
        coded = quantize(batch, scheme, axis=axis)  # checks the batch and finds its groups
        array = np.asarray(batch, dtype=np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"batches must be finite, not batch {i}")
        shape = coded.scales[0].shape
        if samples and shape != samples[0].shape:
            raise ValueError(
                f"batches must have outermost scales of one shape, not {samples[0].shape} and "
                f"{shape}"
            )
        samples.append(Sample(array, axis, _grouped(array.astype(np.float64), axis, shape), shape))
    if not samples:
        raise ValueError("batches must hold at least one array, not none")
    return samples


def _grouped(array: F64, axis: int, shape: tuple[int, ...]) -> F64:
    """Values (groups, values) of the groups whose scales have `shape`, in the scales' order.

    A group's values come row by row; rows run along `axis`.
    """
    count = prod(shape)
    index = np.arange(count).reshape(shape)
    for i, (length, groups) in enumerate(zip(array.shape, shape, strict=True)):
        index = np.repeat(index, length // groups, axis=i)
    order = np.argsort(np.moveaxis(index, axis, -1), axis=None, kind="stable")
    return np.moveaxis(array, axis, -1).reshape(-1)[order].reshape(count, -1)


def _joined(samples: Sequence[Sample]) -> F64:
    return np.concatenate([sample.groups for sample in samples], axis=1)


def _extremes(values: F64) -> Bounds:
    """Least and greatest values of each row and zero."""
    return np.minimum(values.min(axis=1), 0.0), np.maximum(values.max(axis=1), 0.0)


def _clipped(values: F64, threshold: F64) -> Bounds:
    low, high = _extremes(values)
    return np.maximum(low, -threshold), np.minimum(high, threshold)


def amax(samples: Sequence[Sample], scheme: Scheme, fraction: Fraction) -> Bounds:
    """The extremes of all batches."""
    return _extremes(_joined(samples))


def percentile(samples: Sequence[Sample], scheme: Scheme, fraction: Fraction) -> Bounds:
    """The least magnitude that at least `fraction` of all magnitudes do not exceed."""
    values = _joined(samples)
    magnitudes = np.sort(np.abs(values), axis=1)
    rank = -(-fraction.numerator * magnitudes.shape[1] // fraction.denominator)
    return _clipped(values, magnitudes[:, rank - 1])


def average(samples: Sequence[Sample], scheme: Scheme, fraction: Fraction) -> Bounds:
    """The extremes of each batch, averaged: m + 0.01 (new - m) from the first batch on."""
    low, high = _extremes(samples[0].groups)
    for sample in samples[1:]:
        new_low, new_high = _extremes(sample.groups)
        low = low + AVERAGING * (new_low - low)
        high = high + AVERAGING * (new_high - high)
    return low, high


def mse(samples: Sequence[Sample], scheme: Scheme, fraction: Fraction) -> Bounds:
    """The extremes times 1, 0.99, ... or 0.01 with the least squared error; the first of equals."""
    low, high = _extremes(_joined(samples))
    best = np.full(low.shape, np.inf)
    best_low, best_high = low, high
    for i in range(CANDIDATES, 0, -1):
        tried = [nearest_even(side * (i / CANDIDATES)) for side in (low, high)]
        error = sum(_error(sample, scheme, *tried) for sample in samples)
        better = error < best
        best = np.where(better, error, best)
        best_low = np.where(better, tried[0], best_low)
        best_high = np.where(better, tried[1], best_high)
    return best_low, best_high


def _error(sample: Sample, scheme: Scheme, low: NDArray, high: NDArray) -> F64:
    """Squared error of each group of a batch that is quantised with limits."""
    limits = Limits(low.reshape(sample.shape), high.reshape(sample.shape))
    coded = quantize(sample.array, scheme, axis=sample.axis, limits=limits)
    values = _grouped(coded.dequantize().astype(np.float64), sample.axis, sample.shape)
    return squared_error(sample.groups, values, (1, values.shape[1]))[:, 0]


def octav(samples: Sequence[Sample], scheme: Scheme, fraction: Fraction) -> Bounds:
    """The OCTAV clipping threshold."""
    values = _joined(samples)
    return _clipped(values, thresholds(values, scheme.elements[0].bits))


def kl(samples: Sequence[Sample], scheme: Scheme, fraction: Fraction) -> Bounds:
    """The threshold with the least Kullback-Leibler divergence between histograms.

    Migacz, 8-bit Inference with TensorRT, GTC 2017.
    """
    values = _joined(samples)
    element = scheme.elements[0]
    assert isinstance(element, IntegerFormat)
    levels = (element.highest - element.lowest) // 2 + 1
    thresholds = [_kl(np.abs(row), levels) for row in values]
    return _clipped(values, np.array(thresholds))


def _kl(magnitudes: F64, levels: int) -> float:
    """End of the best clipping, among BINS ends up to the largest magnitude."""
    largest = float(magnitudes.max())
    if largest == 0:
        return 0.0
    bins = np.minimum((magnitudes / largest * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS).astype(np.float64)
    total = counts.sum()
    best, best_end = np.inf, BINS
    for end in range(BINS, levels - 1, -1):
        reference = counts[:end].copy()
        reference[-1] += counts[end:].sum()
        divergence = _divergence(reference, counts[:end], levels, total)
        if divergence < best:
            best, best_end = divergence, end
    return largest * best_end / BINS


def _divergence(reference: F64, counts: F64, levels: int, total: float) -> float:
    """KL divergence of a clipped histogram from one whose `levels` cells share counts evenly."""
    cell = np.arange(counts.size) * levels // counts.size
    filled = counts > 0
    sums = np.bincount(cell, weights=counts, minlength=levels)
    sizes = np.bincount(cell, weights=filled, minlength=levels)
    coarse = np.where(filled, (sums / np.maximum(sizes, 1))[cell], 0.0)
    if ((reference > 0) & (coarse == 0)).any():
        return np.inf
    used = reference > 0
    p, q = reference[used] / total, coarse[used] / coarse.sum()
    return float((p * np.log(p / q)).sum())


def thresholds(values: Array, bits: int, iterations: int = ITERATIONS) -> Array:
    """OCTAV's threshold of least expected squared error for each row of `values`, float64.

    values: (groups, elements), an array or a tensor. bits: width of an integer element. Zeros do
    not count; a row of zeros has the threshold 0. A fixed-point iteration starts from the mean
    magnitude (Sakr et al., Optimal Clipping and Magnitude-aware Differentiation, arXiv:2206.06501).
    """
    xp = namespace(values)
    noise = 4.0**-bits / 3
    magnitudes = xp.abs(cast(values, "float64"))
    count = (magnitudes > 0).sum(-1)
    threshold = magnitudes.sum(-1) / xp.where(count == 0, 1, count)
    for _ in range(iterations):
        above = magnitudes > threshold[:, None]
        beyond = above.sum(-1)
        kept = noise * cast(count - beyond, "float64") + cast(beyond, "float64")
        following = (magnitudes * above).sum(-1) / xp.where(beyond == 0, 1.0, kept)
        moved = (beyond > 0) & (following != threshold)
        if known_none(moved):
            break
        threshold = xp.where(moved, following, threshold)
    return threshold


CALIBRATORS: dict[str, Callable[[Sequence[Sample], Scheme, Fraction], Bounds]] = {
    "amax": amax,
    "percentile": percentile,
    "average": average,
    "mse": mse,
    "kl": kl,
    "octav": octav,
}
