"""Experiments on steps: which terms meet before which, and how many at once.

P, u and rows as in experiments.py.
"""

import numpy as np
from numpy.typing import NDArray

from .bench import HALF_ULP, Bench, Row, leading

LONGEST_ORDER = 128  # elements after which an order of places repeats at the latest
LARGEST_GROUP = 64  # places among which the first step is looked for


def lost_places(bench: Bench, other: int, small: float) -> list[int]:
    """Places k where 2^P at 0 and -2^P at `other` make a step lose `small`; 0 and `other` too."""
    top = 2.0**bench.top
    places = [k for k in range(bench.long) if k not in (0, other)]
    rows: list[Row] = [{0: top, other: -top, k: small} for k in places]
    results = bench(rows, length=bench.long)
    return sorted([0, other, *(k for k, x in zip(places, results, strict=True) if x != small)])


def order(bench: Bench, fraction_bits: int) -> tuple[str | None, int | None]:
    """Order in which terms meet, from terms that a pair that cancels makes a step lose."""
    small = 2.0 ** min(bench.clean[0], bench.top - fraction_bits - 1)
    group = lost_places(bench, 1, small)
    if len(group) > 2:
        whole = group == list(range(len(group)))
        return ("together", len(group)) if whole else (None, None)
    if lost_places(bench, 2, small) == [0, 1, 2]:
        return "in turn", 1
    terms, other = 1, 2
    while other < bench.long and lost_places(bench, other, small) == list(range(2 * other)):
        terms, other = other, 2 * other
    return ("pairs", terms) if terms > 1 else (None, None)


def places_of_steps(bench: Bench) -> list[int] | None:
    """Places in the order in which steps take them, when steps do not take what lies together.

    None when the places cannot be cut into steps of one size, or when neighbours are taken.
    """
    multiple = bench.unit.multiple
    everywhere = list(range(multiple * -(-LONGEST_ORDER // multiple)))
    first = _reach(bench, 0, everywhere)
    group = np.flatnonzero(first == first.min()).tolist()
    if not 2 < len(group) <= LARGEST_GROUP:
        return None
    # Steps before that of place 0 look like a part of it: start from one that is in none of them.
    start = min(group, key=lambda place: _reach(bench, place, group).min())
    reach = _reach(bench, start, everywhere)
    steps, sizes = np.unique(reach, return_counts=True)
    order = np.argsort(reach, kind="stable").tolist()
    return order if len(steps) > 1 and len(set(sizes)) == 1 and order != everywhere else None


def _reach(bench: Bench, start: int, places: list[int]) -> NDArray[np.int64]:
    """Count of places lost with 2^P at `start` and -2^P at each of them.

    All are lost up to the step of the later of the two.
    """
    small, top = 2.0**bench.bottom, 2.0**bench.top
    others = [k for k in places if k != start]
    rows: list[Row] = [{start: top, k: -top, j: small} for k in others for j in others if j != k]
    length = bench.unit.multiple * (1 + max(*places, start) // bench.unit.multiple)
    lost = (bench(rows, length=length) != small).reshape(len(others), -1).sum(axis=1)
    return np.insert(lost, places.index(start), lost.min())


def terms_by_sum(bench: Bench, place: int) -> int | None:
    """`absolute`: two terms of u/2 are kept where they meet before they are cut."""
    half = 2.0 ** (place - 1)
    if not bench.has(half):
        return None
    rows: list[Row] = [{0: half, j: half} for j in range(1, bench.long)]
    return 1 + leading(bench(rows, length=bench.long) == 2 * half)


def together(bench: Bench, c_bits: int | None) -> int | None:
    """Elements whose sum is added at once to what is there.

    With c: three terms of the last place of a c of all ones, c = 2^(Q+1) - t. The sum is
    2^(Q+1) + 2t, which is kept if the three meet first; two of them alone lose one to rounding.
    Without: two halves of the last place of the sum so far. None when all meet, or none do.
    """
    if c_bits is not None:
        term = 2.0 ** bench.clean[0]
        start = 2 * term * 2.0**c_bits - term
        rows: list[Row] = [{0: term, 1: term, j: term} for j in range(2, bench.long)]
        kept = bench(rows, [start] * len(rows), bench.long) == start + 3 * term
        return None if kept.all() or not kept[0] else 2 + leading(kept)
    half, middle = 2.0 ** bench.clean[0], bench.long // 2
    start = half * 2.0**HALF_ULP
    if not bench.has(start):
        return None
    rows = [{0: start, middle: half, j: half} for j in range(middle + 1, bench.long)]
    kept = bench(rows, length=bench.long) == start + 2 * half
    return None if kept.all() or not kept[0] else 1 + leading(kept)


def rounds_between_steps(bench: Bench, c_bits: int) -> bool:
    """Whether the three terms of `together`, far apart, lose something."""
    term = 2.0 ** bench.clean[0]
    start = 2 * term * 2.0**c_bits - term
    row = {0: term, 1: term, bench.long - 1: term}
    return bool(bench([row], [start], bench.long)[0] != start + 3 * term)
