"""What a clock costs: units by their clock, or by their depth, and their area, a panel a format.

A curve joins the units of one accumulator, in whatever stages and with however many products in
flight, that no other one of it beats in both.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...charts import Picture
from ...charts.layers import axis, lines, panel, points, texts, thinned
from ..rows import Row
from .common import by_format, colours_of, curves, distinct, each_unit, legend, mark

CAPTION = (
    "Curves: the fastest and smallest units of an accumulator, in fewer and in more stages. A unit "
    "whose loop has registers takes a block of one product only every few cycles (its interval)."
)
LEVELS = (
    "Curves: the shallowest and smallest units of an accumulator, in fewer and in more stages. "
    "Depth ranks units; it does not predict time."
)


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each flow that tells a delay."""
    colours = colours_of(rows)
    for flow in distinct(rows, "flow"):
        known = [r for r in each_unit([r for r in rows if r.flow == flow]) if r.delay and r.area]
        if known:
            timed = any(row.delay_ps for row in known)
            panels = [_panel(name, some, timed, colours) for name, some in by_format(known).items()]
            title = f"{'Clock' if timed else 'Depth'} and area: {flow}"
            keys = legend(known, colours)
            caption = CAPTION if timed else LEVELS
            yield Picture("clock-area", title, panels, caption, keys, flow)


def _panel(name: str, rows: Sequence[Row], timed: bool, colours: dict[str, str]) -> dict[str, Any]:
    def at(row: Row) -> dict[str, Any]:
        delay = row.delay or 0.0
        text = {"text": _curve(row)[1]}
        return mark(row, 1e6 / delay if timed else delay, row.area or 0.0, colours) | text

    marks = [at(row) for row in rows]
    best = front(rows)
    ends = curves([(row, at(row)) for row in best], _curve)
    xs, highest = [m["x"] for m in marks], max(m["y"] for m in marks)
    room = (max(xs) - min(xs) or max(xs)) * 0.1
    # A curve is named where it ends.
    last = {m["text"]: m for m in sorted(map(at, best), key=lambda m: m["x"] if timed else -m["x"])}
    return panel(
        name,
        axis(
            "clock (MHz)" if timed else "longest path (gates)",
            domain=[max(0, min(xs) - room), max(xs) + 2 * room],
        ),
        axis(f"area ({rows[0].area_unit})", domain=[0, highest * 1.08]),
        lines(ends, width=1.4),
        points(marks, 55),
        texts(thinned(list(last.values()), 4 * room, highest / 18)),
    )


def _curve(row: Row) -> tuple[str | None, str, int | None]:
    """What the units of one curve have in common: all but stages and products in flight."""
    return row.format, re.sub(r" interleave \d+", "", row.short_name), row.lanes


def front(rows: Sequence[Row]) -> list[Row]:
    """Those that no other one of their curve beats in area or delay without losing in the other."""
    found: list[Row] = []
    least: dict[Any, float] = {}
    for row in sorted(rows, key=lambda row: (row.delay or 0.0, row.area or 0.0)):
        if (row.area or 0.0) < least.get(_curve(row), float("inf")):
            least[_curve(row)] = row.area or 0.0
            found.append(row)
    return found
