"""What a clock costs: units by their clock, or by their depth, and their area, a panel a format.

A curve joins the units of one accumulator, in whatever stages and with however many products in
flight, that no other one of it beats in both. Where there are curves, colours tell accumulators
apart and not formats, and a format without any has no panel.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....util.charts import Entry, Picture
from ....util.charts.layers import axis, lines, panel, points, texts, thinned
from ....util.charts.palette import CIRCLE, GREY, MANY, SYMBOLS, family
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
HEIGHT = 330


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each flow that tells a delay."""
    colours = colours_of(rows)
    for flow in distinct(rows, "flow"):
        known = [r for r in each_unit([r for r in rows if r.flow == flow]) if r.delay and r.area]
        if known:
            timed = any(row.delay_ps for row in known)
            looks, formats = _looks(known), by_format(known)
            if looks:
                formats = {name: some for name, some in formats.items() if _looks(some)}
            shown = [row for some in formats.values() for row in some]
            x, y = _axes(shown, timed)
            panels = [
                panel(name, x, y, *_layers(some, shown, timed, colours, looks))
                for name, some in formats.items()
            ]
            title = f"{'Clock' if timed else 'Depth'} and area: {flow}"
            keys = _keys(shown, looks) if looks else legend(shown, colours)
            caption = CAPTION if timed else LEVELS
            yield Picture("clock-area", title, panels, caption, keys, flow, height=HEIGHT)


def _looks(rows: Sequence[Row]) -> dict[str, str]:
    """A colour for each accumulator that has a curve."""
    units = Counter(map(_curve, rows))
    names = dict.fromkeys(name for (_, name, _), count in units.items() if count > 1)
    return {name: MANY[i % len(MANY)] for i, name in enumerate(names)}


def _keys(rows: Sequence[Row], looks: Mapping[str, str]) -> list[Entry]:
    kinds = {_curve(row)[1]: family(row.accumulator) for row in rows}
    entries = [Entry(name, colour, SYMBOLS[kinds[name]]) for name, colour in looks.items()]
    return entries + [Entry("without a curve", GREY, CIRCLE)] * (len(kinds) > len(looks))


def _axes(rows: Sequence[Row], timed: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same for every panel, so that formats compare."""
    _, right, top = _room(rows, timed)
    title = "clock (MHz)" if timed else "longest path (gates)"
    left = 0 if timed else min(_place(row, timed) for row in rows) * 0.8
    return axis(title, domain=[left, right]), axis(f"area ({rows[0].area_unit})", domain=[0, top])


def _room(rows: Sequence[Row], timed: bool) -> tuple[float, float, float]:
    """(width of a name, right end, upper end) of panels of these rows."""
    furthest = max(_place(row, timed) for row in rows)
    return furthest * 0.3, furthest * 1.2, max(row.area or 0.0 for row in rows) * 1.08


def _place(row: Row, timed: bool) -> float:
    delay = row.delay or 0.0
    return 1e6 / delay if timed else delay


def _layers(
    rows: Sequence[Row],
    all_rows: Sequence[Row],
    timed: bool,
    colours: dict[str, str],
    looks: Mapping[str, str],
) -> list[dict[str, Any]]:
    def at(row: Row) -> dict[str, Any]:
        text = _curve(row)[1]
        value = mark(row, _place(row, timed), row.area or 0.0, colours) | {"text": text}
        return value | ({"colour": looks.get(text, GREY)} if looks else {})

    # Marks of curves lie above the others.
    marks = [at(row) for row in sorted(rows, key=lambda row: _curve(row)[1] in looks)]
    best = [(row, at(row)) for row in front(rows)]
    # A curve is named where it ends.
    named = [m for _, m in best if m["text"] in looks or not looks]
    last = {m["text"]: m for m in sorted(named, key=lambda m: m["x"] if timed else -m["x"])}
    width, _, top = _room(all_rows, timed)
    return [
        lines(curves(best, _curve), width=1.4),
        points(marks, 55),
        texts(thinned(list(last.values()), width, top / 26)),
    ]


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
