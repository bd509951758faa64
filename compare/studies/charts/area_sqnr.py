"""Area and accuracy: of all units with the format's error, and of each format's accumulators."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....util.charts import Picture
from ....util.charts.layers import axis, lines, panel, points, texts, thinned
from ....util.charts.palette import GREY
from ..pareto import accumulator, front, peers, total
from ..rows import Row
from .common import by_format, ceiling, colours_of, decibels, distinct, legend, mark, shown

CAPTION = (
    "Lines: the Pareto front, among all units with the format's error, and within each format of "
    "the accumulator alone; of units with equal lanes and stages."
)
SPREAD = 20
"""Ratio of areas from which on their axis is logarithmic."""


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each flow and data set."""
    colours = colours_of(rows)
    for flow in distinct(rows, "flow"):
        for data in distinct(rows, "data"):
            some = [row for row in rows if (row.flow, row.data) == (flow, data) and row.area]
            some = [row for row in some if row.sqnr_total_db is not None]
            if some:
                panels = [_panel("all, with the format's error", some, total, colours)]
                panels += [
                    _panel(f"{name}, accumulator alone", members, accumulator, colours)
                    for name, members in by_format(some).items()
                ]
                title = f"Area and accuracy: {flow}, {data} data, length {some[0].length}"
                keys = legend(some, colours)
                yield Picture("area-sqnr", title, panels, CAPTION, keys, flow, data, columns=2)


def _panel(
    title: str, rows: Sequence[Row], quality: Callable[[Row], float | None], colours: dict[str, str]
) -> dict[str, Any]:
    known = [row for row in rows if quality(row) is not None]
    qualities = [quality(row) for row in known]
    domain, exact = decibels(qualities)
    top = ceiling(qualities)

    def at(row: Row) -> dict[str, Any]:
        return mark(row, row.area or 0.0, shown(quality(row), top), colours)

    groups: dict[Any, list[Row]] = {}
    for row in known:
        groups.setdefault(peers(row), []).append(row)
    best = [front(members, quality) for members in groups.values()]
    steps = [
        at(row) | {"line": str(i)} | ({"colour": GREY} if quality is total else {})
        for i, members in enumerate(best)
        for row in members
    ]
    areas = [row.area or 0.0 for row in known]
    wide = max(areas) > SPREAD * min(areas)
    names = thinned([at(row) for members in best for row in members],
                    max(areas) * 0.3, (domain[1] - domain[0]) / 16)  # fmt: skip
    # A name stands on the side where there is room.
    left = [name for name in names if name["x"] > 0.6 * max(areas)]
    right = [name for name in names if name not in left]
    unit = known[0].area_unit
    x = axis(
        f"area ({unit})",
        log=10 if wide else None,
        domain=[min(areas) / 1.3, max(areas) * 1.3] if wide else [0, max(areas) * 1.06],
    )
    return panel(
        title, x, axis("SQNR (dB)", domain=domain),
        *exact, lines(steps, step=True), points([at(row) for row in known]),
        texts(right, dy=7), texts(left, align="right", dx=-7, dy=-7),
    )  # fmt: skip
