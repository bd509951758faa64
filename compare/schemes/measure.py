"""Errors of each scheme in tensors and products, next to its bits; and errors of clipping.

Clipping limits come from the even rows of activations and are judged on the odd rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...model import Accumulator, accumulator
from ...model.accumulators import any_operands
from ...model.schemes import (
    CALIBRATORS,
    SCHEMES,
    TENSOR,
    Limits,
    PowerFormat,
    Scheme,
    calibrate,
    matmul,
    quantize,
    storage,
)
from ...model.schemes import scheme as find
from ...model.schemes.calibrate import has_integers
from ..accuracy.metrics import finite, sqnr_db
from .data import Pair


@dataclass(frozen=True)
class Measured:
    """One scheme for both operands of one pair of matrices.

    bits: per element of `a`, everything counted. sqnr_a_db, sqnr_b_db: of the dequantised operands.
    sqnr_product_db: of all products of rows in float64 against the originals, without accumulator.
    sqnr_unit_db: the same with products by the accumulator. Infinite without error. None, with a
    `reason`, where the scheme does not take the matrices, or the accumulator not the scheme.
    """

    scheme: str
    family: str
    data: str
    bits: float | None = None
    sqnr_a_db: float | None = None
    sqnr_b_db: float | None = None
    sqnr_product_db: float | None = None
    accumulator: str = ""
    sqnr_unit_db: float | None = None
    reason: str = ""


def measure(
    pairs: Iterable[Pair],
    schemes: Sequence[Scheme | str] = tuple(SCHEMES),
    rule: Accumulator | str | None = None,
) -> list[Measured]:
    """Measure every scheme on every pair, pair by pair, with one accumulator or none.

    ValueError lists the known names of schemes or accumulators.
    """
    found = [find(each) for each in schemes]
    rule = None if rule is None else accumulator(rule)
    return [_one(scheme, pair, rule) for pair in pairs for scheme in found]


def _one(scheme: Scheme, pair: Pair, rule: Accumulator | None) -> Measured:
    row = Measured(scheme.name, family(scheme), pair.name)
    try:
        bits = storage(scheme, *pair.a.shape).bits_per_element
        coded = quantize(pair.a, scheme), quantize(pair.b, scheme)
    except ValueError as error:  # a group does not divide the matrix
        return replace(row, reason=str(error))
    a, b = pair.a.astype(np.float64), pair.b.astype(np.float64)
    product = a @ b.T
    own_a, own_b = (each.dequantize().astype(np.float64) for each in coded)
    row = replace(
        row,
        bits=float(bits),
        sqnr_a_db=sqnr_db(a, own_a - a),
        sqnr_b_db=sqnr_db(b, own_b - b),
        sqnr_product_db=sqnr_db(product, own_a @ own_b.T - product),
    )
    if rule is None:
        return row
    row = replace(row, accumulator=str(rule))
    try:
        with any_operands():
            results = finite(matmul(*coded, rule).astype(np.float64))
    except ValueError as error:  # elements or a length that the accumulator refuses
        return replace(row, reason=str(error))
    return replace(row, sqnr_unit_db=sqnr_db(product, results - product))


def family(scheme: Scheme) -> str:
    """Kind of a scheme, for colours."""
    element, level = scheme.elements[0], scheme.levels[-1]
    powers = isinstance(level.format, PowerFormat)
    if len(scheme.elements) > 1:
        return "code book"
    if len(scheme.levels) > 1:
        return "micro-exponents" if powers else "two levels"
    if powers:
        return "MX" if element.is_mx else "MSFP"
    return "integer, float scale" if element.is_integer else "float, float scale"


def on_front(rows: Sequence[Measured]) -> set[str]:
    """Names of Pareto-optimal schemes, by bits and SQNR of products; rows are of one pair."""
    measured = [row for row in rows if row.bits is not None and row.sqnr_product_db is not None]
    front: set[str] = set()
    best = -np.inf
    for row in sorted(measured, key=lambda row: (row.bits, -(row.sqnr_product_db or 0))):
        assert row.sqnr_product_db is not None
        if row.sqnr_product_db > best:
            best = row.sqnr_product_db
            front.add(row.scheme)
    return front


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
    """Measure every limit for the activations of every pair, for schemes with one scale per tensor.

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
    """True for calibrators of this scheme; percentiles have rows of their own."""
    return calibrator != "percentile" and (
        has_integers(scheme) or calibrator not in ("kl", "octav")
    )


def _largest(limits: Limits) -> float:
    return float(max(-limits.low.min(), limits.high.max()))
