"""Pareto-optimal rows in area and accuracy, and rows that are as good within the noise."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from .rows import Row

AREA_NOISE = 0.03
"""Renaming or reordering alone moves a synthesised area by about 2%: less than this is equal."""
SQNR_DIGITS = 1
"""Decimals of a dB to which SQNRs are compared."""

Measure = Callable[[Row], float | None]
FRONT, NEAR = "front", "near"


def total(row: Row) -> float | None:
    """SQNR of format and accumulator together."""
    return row.sqnr_total_db


def accumulator(row: Row) -> float | None:
    """SQNR of the accumulator alone."""
    return row.sqnr_accumulator_db


def peers(row: Row) -> Hashable:
    """Key of comparable rows: equal work per cycle, measured in the same way; at a clock in any
    number of stages."""
    stages = row.stages if row.clock_mhz is None else None
    return row.flow, row.target, row.lanes, stages, row.data


def noise(row: Row) -> float:
    """Half of the error bar of an area: at a clock as measured, else `AREA_NOISE`."""
    measured = row.area_error if row.clock_mhz is not None else None
    return AREA_NOISE * (row.area or 0.0) if measured is None else measured


def is_equal(one: Row, other: Row) -> bool:
    """True when the areas differ by less than their error bars."""
    assert one.area is not None
    assert other.area is not None
    if one.clock_mhz is None:
        smaller, larger = sorted((one.area, other.area))
        return larger * (1 - AREA_NOISE) <= smaller
    return abs(one.area - other.area) <= noise(one) + noise(other)


def front(rows: Sequence[Row], quality: Measure) -> list[Row]:
    """Pareto-optimal rows by area and `quality`, in ascending area.

    Failed rows, and rows without either value, are ignored.
    """
    chosen: list[Row] = []
    for area, negative, row in sorted(_measured(rows, quality), key=lambda item: item[:2]):
        last = (chosen[-1].area, _quality(chosen[-1], quality)) if chosen else None
        if last is None or -negative > (last[1] or 0) or (area, -negative) == last:
            chosen.append(row)
    return chosen


def _measured(rows: Sequence[Row], quality: Measure) -> list[tuple[float, float, Row]]:
    """Area, negated quality and row, for rows with both."""
    found = []
    for row in rows:
        value = _quality(row, quality)
        if row.status == "ok" and row.area is not None and value is not None:
            found.append((row.area, -value, row))
    return found


def _quality(row: Row, quality: Measure) -> float | None:
    value = quality(row)
    return None if value is None else round(value, SQNR_DIGITS)


def marked(rows: Sequence[Row]) -> list[Row]:
    """`rows` with their columns `pareto_total` and `pareto_format` set."""
    overall = _marks(rows, peers, total)
    own = _marks(rows, lambda row: (peers(row), row.format), accumulator)
    return [
        replace(row, pareto_total=overall.get(i), pareto_format=own.get(i))
        for i, row in enumerate(rows)
    ]


def _marks(
    rows: Sequence[Row], group: Callable[[Row], Hashable], quality: Measure
) -> dict[int, str]:
    """Marks of rows by index; unmarked rows are missing."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[group(row)].append(i)
    marks: dict[int, str] = {}
    for indices in groups.values():
        best = front([rows[i] for i in indices], quality)
        for i in indices:
            if any(rows[i] is row for row in best):
                marks[i] = FRONT
            elif best and _near(rows[i], best, quality):
                marks[i] = NEAR
    return marks


def _near(row: Row, best: Sequence[Row], quality: Measure) -> bool:
    """True when no equally good row of the front is smaller by more than the noise."""
    value = _quality(row, quality)
    if row.status != "ok" or row.area is None or value is None:
        return False
    rivals = [r for r in best if (_quality(r, quality) or 0) >= value]
    return all(row.area <= (rival.area or 0) or is_equal(row, rival) for rival in rivals)
