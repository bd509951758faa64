"""Delay and area: the same unit at other pipeline depths or delay targets, a panel a format."""

from collections.abc import Iterator, Sequence
from typing import Any

from ...charts import Picture
from ...charts.layers import axis, lines, panel, points, texts, thinned
from ..rows import Row
from .common import by_format, colours_of, curves, distinct, each_unit, legend, mark

CAPTION = "Lines join the same unit at other pipeline depths or delay targets."
LEVELS = " Depth ranks units; it does not predict time."


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each flow that tells a delay."""
    colours = colours_of(rows)
    for flow in distinct(rows, "flow"):
        known = [r for r in each_unit([r for r in rows if r.flow == flow]) if r.delay and r.area]
        if known:
            timed = any(row.delay_ps for row in known)
            panels = [_panel(name, some, timed, colours) for name, some in by_format(known).items()]
            caption = CAPTION + ("" if timed else LEVELS)
            keys = legend(known, colours)
            yield Picture("delay-area", f"Delay and area: {flow}", panels, caption, keys, flow)


def _panel(name: str, rows: Sequence[Row], timed: bool, colours: dict[str, str]) -> dict[str, Any]:
    marks = [mark(row, row.delay or 0.0, row.area or 0.0, colours) for row in rows]
    pairs = list(zip(rows, marks, strict=True))
    ends = curves(pairs, lambda row: (row.format, row.short_name, row.lanes))
    xs, highest = [m["x"] for m in marks], max(m["y"] for m in marks)
    room = (max(xs) - min(xs) or max(xs)) * 0.1
    # A curve is named where it begins.
    first = list({m["text"]: m for m in sorted(marks, key=lambda m: -m["x"])}.values())
    unit = "ps" if timed else "gates"
    return panel(
        name,
        axis(f"longest path ({unit})", domain=[max(0, min(xs) - room), max(xs) + 2 * room]),
        axis(f"area ({rows[0].area_unit})", domain=[0, highest * 1.08]),
        lines(ends, width=1),
        points(marks, 55),
        texts(thinned(first, 4 * room, highest / 18)),
    )
