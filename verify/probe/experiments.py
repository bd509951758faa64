"""The experiments: each asks one question of rows made for it. docs/probe.md draws them.

P is the exponent of a big product 2^P that another cancels, so that what is left of a small term
next to it shows how far the alignment reaches; u is the last place that the alignment keeps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.formats import FLOAT32
from .bench import HALF_ULP, Bench, Row, leading
from .findings import Findings
from .steps import order, rounds_between_steps, terms_by_sum, together

AFTER = ("RNE", "odd")
"""Roundings of a c that is added to a finished sum."""


@dataclass(frozen=True)
class Grid:
    """Measure where small terms are lost: see Findings."""

    kind: str
    fraction_bits: int | None
    lsb: int | None


def grid(bench: Bench) -> Grid:
    """{0: 2^P, 1: 2^(P-d), 2: -2^P} for every d: the largest d that is left, for two P."""
    kept = {}
    for top in {bench.top, bench.top - 4} & set(bench.clean):
        spans = range(top - bench.bottom + 1)
        rows: list[Row] = [{0: 2.0**top, 1: 2.0 ** (top - d), 2: -(2.0**top)} for d in spans]
        same = bench(rows) == [2.0 ** (top - d) for d in spans]
        kept[top] = max(np.flatnonzero(same), default=-1)  # a narrow register loses large ones too
    lost = {top: d for top, d in kept.items() if d < top - bench.bottom}
    first = int(kept[bench.top])
    if not lost:
        return Grid("none", first, None)
    places = {top - int(d) for top, d in lost.items()}
    if len(kept) == 1 and bench.unit.takes_c:
        places.add(c_range(bench)[0] or 0)
    if len(places) == 1 and (len(lost) == 2 or len(kept) == 1):
        return Grid("absolute", None, places.pop())
    return Grid("relative", first, None)


def cut(bench: Bench, place: int) -> str | None:
    """Terms of a fraction of u = 2^place with 2^P: what is left of them."""
    top = 2.0**bench.top
    names = {}
    for name, wanted in {
        "RZ": {0.5: 0, 0.75: 0, 1.5: 1, -0.5: 0, -0.75: 0, -1.5: -1},
        "RNE": {0.5: 0, 0.75: 1, 1.5: 2, -0.5: 0, -0.75: -1, -1.5: -2},
        "floor": {0.5: 0, 0.75: 0, 1.5: 1, -0.5: -1, -0.75: -1, -1.5: -2},
        "odd": {0.5: 1, 0.75: 1, 1.5: 1, -0.5: -1, -0.75: -1, -1.5: -1},
    }.items():
        asked = {f: w for f, w in wanted.items() if bench.has(f * 2.0**place)}
        rows: list[Row] = [{0: top, 1: f * 2.0**place, 2: -top} for f in asked]
        results = bench(rows) / 2.0**place
        names[name] = bool(asked) and bool((results == list(asked.values())).all())
    fitting = [name for name, holds in names.items() if holds]
    return fitting[0] if len(fitting) == 1 else None


def result_bits(bench: Bench, terms: int, fraction_bits: int) -> tuple[int, str | None]:
    """m x 2^P + 2^(P-d) in one step: the most bits from its leading to its last digit that stay.

    23 when nothing that the alignment keeps is lost; else with how it is rounded.
    """
    length = bench.unit.multiple * -(-terms // bench.unit.multiple)
    top, lost = bench.top, []
    for k in range(max(1, (terms // 2).bit_length())):
        bigs = dict.fromkeys(range(1 << k if terms > 1 else 1), 2.0**top)
        spans = range(1, min(fraction_bits, top - bench.bottom, FLOAT32.mantissa_bits - k) + 1)
        rows: list[Row] = [{**bigs, terms - 1: 2.0 ** (top - d)} for d in spans]
        if len(bigs) >= terms or not rows:
            continue
        results = bench(rows, length=length)
        whole = [2.0 ** (top + k) + 2.0 ** (top - d) for d in spans]
        lost += [k + d for d, x, w in zip(spans, results, whole, strict=True) if x != w]
    bits = min(lost, default=HALF_ULP) - 1
    return bits, _result_rounding(bench, terms, fraction_bits, bits, length)


def _result_rounding(
    bench: Bench, terms: int, fraction_bits: int, bits: int, length: int
) -> str | None:
    """Three quarters of the last place of the result, of both signs, and a quarter."""
    for k in range((terms // 4).bit_length()):
        half, quarter = (2.0 ** (bench.top + k - bits - i) for i in (1, 2))
        deepest = bits + 2 - k
        if deepest <= fraction_bits and bench.has(quarter) and (1 << k) + 2 <= terms:
            start: dict[int, float] = dict.fromkeys(range(1 << k), 2.0**bench.top)
            row = {**start, terms - 2: half, terms - 1: quarter}
            less = {**start, terms - 1: quarter}
            rows: list[Row] = [row, {place: -x for place, x in row.items()}, less]
            return _rounding_of(bench(rows, length=length), 2.0 ** (bench.top + k), 2 * half)
    return None


def _rounding_of(results: NDArray[np.float64], start: float, ulp: float) -> str | None:
    """Rounding of start + 3/4 ulp, of its negative, and of start + 1/4 ulp; start is even."""
    above = start + ulp
    names = {
        (start, -start, start): "RZ",
        (above, -above, start): "RNE",
        (above, -above, above): "odd",
    }
    return names.get((float(results[0]), float(results[1]), float(results[2])))


def c_joins(bench: Bench, fraction_bits: int) -> str | None:
    """c of u/2 with products that cancel, and many products of u/2 with c = 2^P."""
    top = bench.top
    half = 2.0 ** (top - fraction_bits - 1)
    left = bench([{0: 2.0**top, 1: -(2.0**top)}], [half])[0]
    count = min(bench.short, 4)
    small = half / 2 if bench.has(half / 2) else half
    many = bench([dict.fromkeys(range(count), small)], [2.0**top])[0]
    visible = count * small >= 2.0 ** (top - FLOAT32.mantissa_bits)
    if left == 0 and (many == 2.0**top or not visible):
        return "inside"
    return "after" if left == half else None


def c_rounding(bench: Bench, terms: int | None) -> str | None:
    """c plus three quarters of its last place, in one step, of both signs, and a quarter.

    Where the unit takes no c, a product of the first step stands for it.
    """
    quarter = 2.0 ** bench.clean[0]
    start = quarter * 2.0 ** (HALF_ULP + 1)
    if bench.unit.takes_c:
        rows: list[Row] = [dict.fromkeys(range(3), x) for x in (quarter, -quarter)]
        results = bench([*rows, {0: quarter}], [start, -start, start])
    elif terms is not None and bench.has(start) and terms + 3 <= bench.long:
        later = range(terms, terms + 3)
        rows = [{0: start * x, **dict.fromkeys(later, quarter * x)} for x in (1, -1)]
        rows.append({0: start, terms: quarter})
        results = bench(rows, length=bench.long)
    else:
        return None
    return _rounding_of(results, start, 4 * quarter)


def c_fraction_bits(bench: Bench) -> int:
    """c = 1 + 2^-r alone: the largest r up to which it passes."""
    wanted = [1 + 2.0**-r for r in range(1, HALF_ULP)]
    return leading(bench([{}] * len(wanted), wanted) == wanted)


def c_range(bench: Bench) -> tuple[int | None, int | None, str]:
    """c = -2^q alone: the smallest and largest q that pass, and what is beyond."""
    exponents = range(FLOAT32.lsb, FLOAT32.emax + 1)
    values = np.array([-(2.0**q) for q in exponents])
    results = bench([{}] * len(values), values.tolist())
    passed = [q for q, same in zip(exponents, results == values, strict=True) if same]
    if not passed:
        return None, None, "infinity"
    high = max(passed)
    if high == FLOAT32.emax:
        return min(passed), high, "infinity"
    beyond = results[exponents.index(high + 1)]
    kinds = {-(2.0**high): "saturate", 0.0: "wrap"}
    return min(passed), high, kinds.get(float(beyond), "infinity")


def promotion(bench: Bench, bits: int) -> int | None:
    """2^P first and 2^(P - bits - 1) at k: the first k at which it is not lost in the result.

    What is lost in the result of one step stays when it comes in a partial sum of its own.
    """
    small = 2.0 ** (bench.top - bits - 1)
    if bits >= FLOAT32.mantissa_bits or not bench.has(small):
        return None
    rows: list[Row] = [{0: 2.0**bench.top, k: small} for k in range(1, bench.long)]
    kept = bench(rows, length=bench.long) == 2.0**bench.top + small
    first = int(np.argmax(kept)) + 1
    return first if kept.any() and kept[first - 1 :].all() else None


def largest_from(bench: Bench, fraction_bits: int) -> str | None:
    """1.5 x 1.5 cancelled: how far below 1 a term is kept with it."""
    a, b = 1.5, 1.5
    depth = fraction_bits
    if not all(bench.has(2.0 ** (-depth + i)) for i in (0, 1)) or bench.top < 0:
        return None
    if not all((fmt.values == 1.5).any() for fmt in bench.unit.formats):
        return None
    rows: list[Row] = [{0: (a, b), 1: 2.0**-d, 2: (-a, b)} for d in (depth, depth - 1)]
    kept = bench(rows) == [2.0**-depth, 2.0 ** (1 - depth)]
    return {(True, True): "unit digit", (False, True): "leading digit"}.get(tuple(kept.tolist()))


def subnormals(bench: Bench, fraction_bits: int | None) -> str | None:
    """The largest subnormal power of two of a, times 2^e, cancelled; and it alone."""
    fmt_a, fmt_b = bench.unit.formats
    if fmt_a.is_integer or fraction_bits == 0:
        return None
    half = 2.0 ** (fmt_a.emin - 1)
    big_b = 2.0**fmt_b.emax
    lowest = fmt_a.smallest
    if not bench([{0: (half, big_b)}, {0: (lowest, big_b)}]).any():
        return "flushed"
    if fraction_bits is None:
        return None
    # The unit digit of half x big_b is twice its leading digit.
    leading = fmt_a.emin - 1 + fmt_b.emax
    small = [2.0 ** (leading - fraction_bits + i) for i in (0, 1)]
    if not all(map(bench.has, small)):
        return None
    rows: list[Row] = [{0: (half, big_b), 1: s, 2: (-half, big_b)} for s in small]
    kept = tuple((bench(rows) == small).tolist())
    return {(False, True): "unit digit", (True, True): "leading digit"}.get(kept)


def zero_counts(bench: Bench, fraction_bits: int) -> bool | None:
    """The largest power of two times 0, both ways, with a term that it would push off the grid."""
    fmt_a, fmt_b = bench.unit.formats
    exponent = max(fmt_a.emax + fmt_b.emin, fmt_a.emin + fmt_b.emax) - fraction_bits - 1
    lower = [e for e in bench.clean if e <= exponent]
    if not lower:
        return None
    small = 2.0 ** lower[-1]
    rows: list[Row] = [{0: (2.0**fmt_a.emax, 0.0), 2: small}, {0: (0.0, 2.0**fmt_b.emax), 2: small}]
    return bool((bench(rows) != small).any())


def specials(bench: Bench) -> tuple[int | None, int | None, int]:
    """Bits of NaN (an element's, else c's), of an infinity, and of a sum of -0."""
    unit, fmt = bench.unit, bench.unit.formats[0]
    a, b = (np.zeros((2, bench.short), fmt.dtype) for fmt in unit.formats)
    b[:] = np.flatnonzero(unit.formats[1].values == 1)[0]
    nan = inf = None
    for name in ("nan_code", "inf_code"):
        code = getattr(fmt, name)
        if code is not None:
            a[0, 0] = code
            bits = int(unit(a, b, None)[0])
        elif unit.takes_c:
            value = np.float32(np.nan if name == "nan_code" else np.inf)
            bits = int(bench.bits([{}], [float(value)])[0])
        else:
            continue
        if name == "nan_code":
            nan = bits
        else:
            inf = bits
    a[:] = fmt.negated(np.zeros(1, fmt.dtype))
    return nan, inf, int(unit(a, b, None)[0])


def find(bench: Bench) -> Findings:
    """All experiments, each on what those before it found."""
    where, has_c = grid(bench), bench.unit.takes_c
    depth = where.fraction_bits if where.kind == "relative" else None
    passes = c_fraction_bits(bench) if has_c else None
    low, high, beyond = c_range(bench) if has_c else (None, None, None)
    at_once = together(bench, passes)
    shape = how = joins = partial = terms = None
    if depth is not None:
        how = cut(bench, bench.top - depth)
        shape, terms = order(bench, depth)
        joins = c_joins(bench, depth) if has_c else None
    elif where.lsb is not None:
        how, terms = cut(bench, where.lsb), terms_by_sum(bench, where.lsb)
    if terms is None or terms >= bench.long:
        terms = at_once or terms
    bits = rounding = None
    if terms is not None and where.fraction_bits is not None:
        bits, rounding = result_bits(bench, terms, where.fraction_bits)
    around = c_rounding(bench, terms)
    if joins == "after" or (not has_c and bits == FLOAT32.mantissa_bits and around in AFTER):
        partial = at_once
    elif not has_c and bits is not None:
        partial = promotion(bench, bits)
    nan, inf, minus_zero = specials(bench)
    reach = depth if shape == "together" else None
    return Findings(
        grid=where.kind,
        fraction_bits=where.fraction_bits,
        lsb=where.lsb,
        cut=how,
        order=shape,
        terms=terms,
        largest_from=None if reach is None else largest_from(bench, reach),
        subnormals=subnormals(bench, reach),
        zero_counts=None if reach is None else zero_counts(bench, reach),
        result_bits=bits,
        result_rounding=rounding,
        c_joins=joins,
        c_rounding=around,
        c_fraction_bits=passes,
        c_lowest=low,
        c_highest=high,
        overflow=beyond,
        promote=partial,
        # To odd, what is lost and what is gained may be equal.
        rounds=None if passes is None else around == "odd" or rounds_between_steps(bench, passes),
        nan=nan,
        inf=inf,
        minus_zero=minus_zero,
    )
