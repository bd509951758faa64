"""Errors of an accumulator in dot products of given data, by length, next to their bounds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...model import Accumulator, ElementFormat, MXArray, dot, format_pairs, quantize, unscaled
from ...model import accumulator as as_accumulator
from ...model.accumulators import any_operands
from ...model.arrays import chunks
from ...model.errors import integer
from ...model.formats import E8M0
from ...util.data.sets import DataSet, data_set
from ...util.data.tensors import Rows
from ...util.data.weights import HeldRows
from .bounds import Terms, bound, can_overflow, can_saturate, has_bound, terms_of
from .metrics import F32, F64, LEAST, ErrorMetrics, ExactSums, errors, exact_sums, finite, sqnr_db

SCALED_BITS = 8
"""Elements of at most this many bits are scaled; wider ones have exponents of their own."""


def in_blocks(x: ArrayLike, fmt: ElementFormat, block_size: int, scale_rule: str) -> MXArray:
    """Quantise `x` in blocks padded with zeros; elements of more than 8 bits get scales of 1."""
    if fmt.bits > SCALED_BITS:
        return unscaled(x, fmt, block_size=block_size, pad=True)
    return quantize(x, fmt, block_size=block_size, pad=True, scale_rule=scale_rule)


Pair = tuple[ElementFormat, ElementFormat]
Bound = Callable[..., F64]
LENGTHS = tuple(2**i for i in range(5, 15))  # 32 to 16384
COUNT = 128
SQNR = ("sqnr_accumulator_db", "sqnr_format_db", "sqnr_total_db")
CHUNK = 2**17  # products handled at once: their temporaries stay in the cache


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one accumulator on `count` dot products of one length.

    accumulator, formats, data, length, lanes (the block size), seed, count, scale_rule: settings.
    Three pairs of results are compared:

    - `sqnr_accumulator_db`, `max_relative`, `mean_relative`, `ulp_max`, `ulp_mean`, `bias`: the
      accumulator's results with the exact products of the quantised operands, rounded once to
      float32. This is the accumulator's own error; SQNR is infinite when they are equal.
    - the same with `_total`: its results with the float64 products of the original operands. This
      is the error of format and accumulator together.
    - `sqnr_format_db`: the exact products of the quantised operands with the products of the
      originals. This is the format's error, the ceiling of `sqnr_total_db`.

    `metrics.ErrorMetrics` defines the measures. exact_fraction: share of results equal to the
    correctly rounded exact product. overflow: number of results that are not finite; each counts as
    float32's largest number in errors. saturated: number of registers that left their range.

    observed, bound: the largest error and the largest a priori bound, both against the unrounded
    exact product and relative to the sum of the terms' absolute values. Saturated and overflowed
    results have no bound and are left out. bound_ratio: largest quotient of an error and its own
    bound. bound_ok: no error exceeds its bound, and nothing overflowed or saturated that could not.
    All four are None without a bound (`scheme_units.evaluate_unit`).
    """

    accumulator: str
    formats: str
    data: str
    length: int
    lanes: int
    seed: int
    count: int
    scale_rule: str
    sqnr_accumulator_db: float
    sqnr_format_db: float
    sqnr_total_db: float
    max_relative: float
    mean_relative: float
    ulp_max: float
    ulp_mean: float
    bias: float
    max_relative_total: float
    mean_relative_total: float
    ulp_max_total: float
    ulp_mean_total: float
    bias_total: float
    exact_fraction: float
    overflow: int
    saturated: int
    observed: float | None = None
    bound: float | None = None
    bound_ratio: float | None = None
    bound_ok: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; an infinite SQNR (no error at all) is None, JSON has no infinity."""
        return {k: None if v == math.inf else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; TypeError for missing or unknown names."""
        read: dict[str, Any] = {
            k: math.inf if v is None and k in SQNR else v for k, v in values.items()
        }
        return cls(**read)


@dataclass(frozen=True)
class Operands:
    """Quantised operands and the references of their dot products."""

    a: MXArray
    b: MXArray
    exact: ExactSums
    original: F64


def evaluate(
    rule: Accumulator | str,
    pair: str | Pair,
    data: str = "normal",
    lengths: Sequence[int] = LENGTHS,
    *,
    lanes: int = 32,
    seed: int = 0,
    count: int = COUNT,
    scale_rule: str = "floor",
    error_bound: Bound = bound,
) -> list[Accuracy]:
    """Evaluate `rule` on `count` dot products of `data` of each length.

    pair: formats of both operands, as text ("e4m3", "e5m2xe4m3") or a tuple. data: see `data_set`.
    lanes: the block size, 1 to 65536; other lengths than its multiples are padded with zeros. One
    seed draws the same data for every rule and pair. error_bound: see `bound`.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    rule = as_accumulator(rule)
    formats = one_pair(pair)
    rule.check_formats(*formats)
    integer("lanes", lanes, 1, 2**16)
    integer("seed", seed, 0)
    integer("count", count, 1, 2**20)
    for length in lengths:
        integer("length", length, 1, 2**24)
    source = data_set(data)
    results = []
    for length in lengths:
        operands = prepare(formats, source, length, lanes, seed, count, scale_rule)
        measured = measure(rule, operands, error_bound)
        settings = (str(rule), pair_name(formats), data, length, lanes, seed, count, scale_rule)
        results.append(Accuracy(*settings, **measured))
    return results


def one_pair(pair: str | Pair) -> Pair:
    """Formats of both operands, from text or a tuple; ValueError unless it is one pair."""
    pairs = format_pairs(pair if isinstance(pair, str) else [pair])
    if len(pairs) != 1:
        raise ValueError(f"pair must be one pair of formats, not {pair!r}")
    return pairs[0]


def pair_name(pair: Pair) -> str:
    """Text that `one_pair` reads."""
    return "x".join(dict.fromkeys(f.name for f in pair))


@lru_cache(maxsize=2 * len(LENGTHS))
def prepare(
    pair: Pair, data: DataSet, length: int, lanes: int, seed: int, count: int, scale_rule: str
) -> Operands:
    """Operands of `evaluate`, cached: every accumulator is measured on the same."""
    rng = np.random.default_rng([seed, data.stream, length])
    drawn = data.operands(rng, count, length, lanes)
    (a, x), (b, y) = (
        _operand(rows, fmt, lanes, scale_rule) for rows, fmt in zip(drawn, pair, strict=True)
    )
    original = np.einsum("ij,ij->i", x.astype(np.float64), y.astype(np.float64))
    high, low = [], []
    for rows in chunks(count, (2 * CHUNK, length)):
        sums = exact_sums(_terms(a, b, rows).values.reshape(rows.stop - rows.start, -1))
        high.append(sums.high)
        low.append(sums.low)
    return Operands(a, b, ExactSums(np.concatenate(high), np.concatenate(low)), original)


def _operand(
    rows: Rows, fmt: ElementFormat, lanes: int, scale_rule: str
) -> tuple[MXArray, NDArray[np.float32]]:
    """An operand, and the values that it stands for.

    Weights of a checkpoint keep codes and scales where blocks of `fmt` take both, and then stand
    for themselves; else their values are quantised.
    """
    if isinstance(rows, HeldRows):
        held = rows.under(fmt, E8M0.name, lanes, lanes)
        if held is not None:
            made = MXArray(*held, fmt, lanes)
            return made, made.dequantize()[:, : rows.shape[1]]
        rows = rows.values
    return in_blocks(rows, fmt, lanes, scale_rule), rows


def measure(rule: Accumulator, operands: Operands, error_bound: Bound = bound) -> dict[str, Any]:
    """Measured fields of `Accuracy` for the dot products of `operands`, c starting at +0."""
    result, saturated = run(rule, operands.a, operands.b)
    measured = compared(result, saturated, operands.exact, operands.original)
    if not has_bound(rule):
        return measured | dict.fromkeys(("observed", "bound", "bound_ratio", "bound_ok"))
    return measured | _check(rule, operands, result, saturated, error_bound)


def compared(
    result: F32, saturated: NDArray[np.bool_], exact: ExactSums, original: F64
) -> dict[str, Any]:
    """Fields of `Accuracy` computed from results, saturated registers and references."""
    values = finite(result.astype(np.float64))
    nearest = finite(exact.nearest_float32().astype(np.float64))
    own, total = errors(values, nearest), errors(values, original)
    return {
        "sqnr_accumulator_db": own.sqnr_db,
        "sqnr_total_db": total.sqnr_db,
        "sqnr_format_db": sqnr_db(original, exact.high - original),
        **{name: getattr(own, name) for name in _MEASURES},
        **{f"{name}_total": getattr(total, name) for name in _MEASURES},
        "exact_fraction": float(np.mean(result == exact.nearest_float32())),
        "overflow": int((~np.isfinite(result)).sum()),
        "saturated": int(saturated.sum()),
    }


_MEASURES = tuple(f.name for f in fields(ErrorMetrics) if f.name != "sqnr_db")


def _check(
    rule: Accumulator,
    operands: Operands,
    result: F32,
    saturated: NDArray[np.bool_],
    error_bound: Bound,
) -> dict[str, Any]:
    """Compare results with their bounds."""
    error = np.abs(operands.exact.error_of(result))
    bounded = np.isfinite(result) & ~saturated
    limit, scale = np.empty(len(result)), np.empty(len(result))
    sound = True
    count, length = operands.a.shape
    for rows in chunks(count, (2 * CHUNK, length)):
        terms = _terms(operands.a, operands.b, rows)
        limit[rows], scale[rows] = error_bound(rule, terms), terms.totals
        sound &= bool((can_overflow(rule, limit[rows], terms) | np.isfinite(result[rows])).all())
        if rule.register is not None:
            sound &= bool((can_saturate(rule.register, terms) | ~saturated[rows]).all())
    shown = bounded & (scale > 0)
    return {
        "observed": _largest(error[shown] / scale[shown]),
        "bound": _largest(limit[shown] / scale[shown]),
        "bound_ratio": _largest(error[bounded] / np.maximum(limit[bounded], LEAST / 2)),
        "bound_ok": sound and bool((error[bounded] <= limit[bounded]).all()),
    }


def _largest(values: F64) -> float:
    return float(values.max(initial=0.0))


@any_operands()
def run(rule: Accumulator, a: MXArray, b: MXArray) -> tuple[F32, NDArray[np.bool_]]:
    """Results and saturated flags of dot products of rows of `a` and `b`, c starting at +0.

    Long dot products run in stretches of blocks that hand on c: the model then works on many rows
    at once. A fixed register cannot be handed on as float32 and takes all blocks at once.
    """
    n, length = a.shape
    if rule.register is not None:
        trace = dot(a, b, rule, trace=True, stages=False)
        return trace.result, trace.flags.saturated
    c = np.zeros(n, np.float32)
    stretch = _stretch(rule, a.block_size, length, CHUNK // n)
    for start in range(0, length, stretch):
        part = slice(start, start + stretch)
        c = dot(_columns(a, part), _columns(b, part), rule, c)
    return c, np.zeros(n, np.bool_)


def _stretch(rule: Accumulator, block: int, length: int, wanted: int) -> int:
    """About `wanted` elements: whole blocks, and whole partial sums where they are promoted."""
    whole = rule.promotes_every or block
    if whole % block:
        return length  # partial sums need not end where blocks do
    return max(1, wanted // whole) * whole


def _columns(x: MXArray, part: slice) -> MXArray:
    size = x.block_size
    scales = x.scales[:, part.start // size : part.stop // size]
    return MXArray(x.codes[:, part], scales, x.format, size)


def _terms(a: MXArray, b: MXArray, rows: slice) -> Terms:
    a, b = (MXArray(x.codes[rows], x.scales[rows], x.format, x.block_size) for x in (a, b))
    return terms_of(a, b)
