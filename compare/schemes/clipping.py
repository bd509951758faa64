"""Error against clipping: what a limit below the largest magnitude does, and what calibrators find.

Limits are made from the even rows of activations and judged on the odd ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.schemes import CALIBRATORS, TENSOR, Limits, Scheme, calibrate, quantize
from ...model.schemes import scheme as find
from ...model.schemes.calibrate import has_integers
from ..accuracy.metrics import sqnr_db
from .data import Pair

DEFAULT_SCHEMES = ("int8_tensor", "int4_tensor")
FRACTIONS = tuple(10.0 ** (-i / 20) for i in range(41))  # of the largest magnitude: 1 to 0.01
PERCENTILES = ("100", "99.999", "99.99", "99.9", "99.5", "99", "98", "95", "90")
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Clipped:
    """The error of one scheme under limits.

    kind: ``clip`` at a fraction of the largest magnitude, ``percentile`` or ``calibrator``.
    setting: the fraction, the percentile, or the calibrator. fraction: where the limit lies, of the
    largest magnitude of the calibration rows. sqnr_db: of the rows that were not calibrated on.
    """

    scheme: str
    data: str
    kind: str
    setting: str
    fraction: float
    sqnr_db: float


def clip(pairs: Iterable[Pair], schemes: Sequence[Scheme | str] = DEFAULT_SCHEMES) -> list[Clipped]:
    """Every limit for the activations of every pair, for schemes with one scale for the tensor.

    Raises ValueError for other schemes.
    """
    found = [find(each) for each in schemes]
    for scheme in found:
        if scheme.levels[0].granularity != TENSOR:
            raise ValueError(
                f"calibrate must name schemes with an outermost scale per tensor, not {scheme}"
            )
    return [row for pair in pairs for scheme in found for row in _curves(scheme, pair)]


def _curves(scheme: Scheme, pair: Pair) -> list[Clipped]:
    known, new = pair.a[0::2], pair.a[1::2]
    extremes = calibrate([known], scheme)
    largest = _largest(extremes)
    if largest == 0 or not len(new):
        raise ValueError(f"data must have two rows, and values other than 0, not {pair.name}")

    def row(kind: str, setting: str, limits: Limits) -> Clipped:
        error = quantize(new, scheme, limits=limits).dequantize().astype(np.float64) - new
        fraction = _largest(limits) / largest
        return Clipped(
            scheme.name, pair.name, kind, setting, fraction, sqnr_db(new.astype(np.float64), error)
        )

    rows = []
    for fraction in FRACTIONS:
        limit = np.float32(fraction * largest)
        limits = Limits(np.maximum(extremes.low, -limit), np.minimum(extremes.high, limit))
        rows.append(row("clip", f"{fraction:.4g}", limits))
    for percentile in PERCENTILES:
        limits = calibrate([known], scheme, f"percentile:{percentile}")
        rows.append(row("percentile", percentile, limits))
    batches = np.array_split(known, min(4, len(known)))
    names = [name for name in CALIBRATORS if _takes(name, scheme)]
    rows += [row("calibrator", name, calibrate(batches, scheme, name)) for name in names]
    return rows


def _takes(calibrator: str, scheme: Scheme) -> bool:
    """Percentiles have rows of their own; two calibrators are for integers."""
    return calibrator != "percentile" and (
        has_integers(scheme) or calibrator not in ("kl", "octav")
    )


def _largest(limits: Limits) -> float:
    return float(max(-limits.low.min(), limits.high.max()))
