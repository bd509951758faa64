"""Charts of cost: area against accuracy and clock, areas of sections, and the roofline."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....model.units import DotConfig, MatmulConfig
from ....synth.roofline import BANDWIDTHS, SHAPES, Shape, roofline
from ....util.charts import Entry, Picture
from ....util.charts.layers import axis, bars, lines, names_axis, panel, points, texts, thinned
from ....util.charts.palette import (
    CIRCLE,
    GREY,
    MANY,
    SECTIONS,
    SECTIONS_CAPTION,
    SQUARE,
    SYMBOLS,
    family,
    format_colours,
    grouped,
)
from ..pareto import accumulator, front, peers, total
from ..rows import Row
from .common import (
    by_format,
    ceiling,
    colours_of,
    curves,
    decibels,
    distinct,
    each_unit,
    legend,
    mark,
    shown,
)

AREA_SQNR = (
    "Lines: the Pareto front, among all units with the format's error, and within each format of "
    "the accumulator alone; of units with equal lanes and stages."
)
SPREAD = 20
"""Ratio of areas from which the axis is logarithmic."""


def area_sqnr(rows: Sequence[Row]) -> Iterator[Picture]:
    """Area against accuracy: one picture per flow and data set.

    One panel shows all units with the format's error, the others each format's accumulators.
    """
    colours = colours_of(rows)
    for flow in distinct(rows, "flow"):
        for data in distinct(rows, "data"):
            some = [row for row in rows if (row.flow, row.data) == (flow, data) and row.area]
            some = [row for row in some if row.sqnr_total_db is not None]
            if some:
                panels = [_area_sqnr_panel("all, with the format's error", some, total, colours)]
                panels += [
                    _area_sqnr_panel(f"{name}, accumulator alone", members, accumulator, colours)
                    for name, members in by_format(some).items()
                ]
                title = f"Area and accuracy: {flow}, {data} data, length {some[0].length}"
                keys = legend(some, colours)
                yield Picture("area-sqnr", title, panels, AREA_SQNR, keys, flow, data, columns=2)


def _area_sqnr_panel(
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


CLOCKS = (
    "Curves: the fastest and smallest units of an accumulator, in fewer and in more stages. A unit "
    "whose loop has registers takes a block of one product only every few cycles (its interval)."
)
LEVELS = (
    "Curves: the shallowest and smallest units of an accumulator, in fewer and in more stages. "
    "Depth ranks units; it does not predict time."
)
HEIGHT = 330


def clock_area(rows: Sequence[Row]) -> Iterator[Picture]:
    """Area against clock or depth: one picture per flow with delays, one panel per format.

    A curve joins an accumulator's Pareto-optimal units, in any number of stages and products in
    flight. Where there are curves, colours separate accumulators, and formats without one are
    omitted.
    """
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
            caption = CLOCKS if timed else LEVELS
            yield Picture("clock-area", title, panels, caption, keys, flow, height=HEIGHT)


def _looks(rows: Sequence[Row]) -> dict[str, str]:
    """Colour of each accumulator with a curve."""
    units = Counter(map(_curve, rows))
    names = dict.fromkeys(name for (_, name, _), count in units.items() if count > 1)
    return {name: MANY[i % len(MANY)] for i, name in enumerate(names)}


def _keys(rows: Sequence[Row], looks: Mapping[str, str]) -> list[Entry]:
    kinds = {_curve(row)[1]: family(row.accumulator) for row in rows}
    entries = [Entry(name, colour, SYMBOLS[kinds[name]]) for name, colour in looks.items()]
    return entries + [Entry("without a curve", GREY, CIRCLE)] * (len(kinds) > len(looks))


def _axes(rows: Sequence[Row], timed: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Axes shared by every panel, so that formats compare."""
    _, right, top = _room(rows, timed)
    title = "clock (MHz)" if timed else "longest path (gates)"
    left = 0 if timed else min(_place(row, timed) for row in rows) * 0.8
    return axis(title, domain=[left, right]), axis(f"area ({rows[0].area_unit})", domain=[0, top])


def _room(rows: Sequence[Row], timed: bool) -> tuple[float, float, float]:
    """Width of a name, right end and upper end of panels of these rows."""
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
    best = [(row, at(row)) for row in fastest(rows)]
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
    """Key of a curve: everything except stages and products in flight."""
    return row.format, re.sub(r" interleave \d+", "", row.short_name), row.lanes


def fastest(rows: Sequence[Row]) -> list[Row]:
    """Pareto-optimal rows of each curve, by area and delay."""
    found: list[Row] = []
    least: dict[Any, float] = {}
    for row in sorted(rows, key=lambda row: (row.delay or 0.0, row.area or 0.0)):
        if (row.area or 0.0) < least.get(_curve(row), float("inf")):
            least[_curve(row)] = row.area or 0.0
            found.append(row)
    return found


BAR = 19


def sections(rows: Sequence[Row]) -> Iterator[Picture]:
    """Areas of sections: one picture per flow that keeps sections apart."""
    for flow in distinct(rows, "flow"):
        known = [row for row in each_unit([r for r in rows if r.flow == flow]) if row.sections]
        if known:
            of_formats = by_format(known)
            widest = max(sum(row.sections.values()) for row in known)
            panels = [_sections_panel(name, some, widest) for name, some in of_formats.items()]
            used = {name for row in known for name in grouped(row.sections)}
            keys = [Entry(n, colour, SQUARE) for n, (colour, _) in SECTIONS.items() if n in used]
            heights = [60 + BAR * len(some) for some in of_formats.values()]
            title = f"What the area is spent on: {flow}"
            yield Picture("sections", title, panels, SECTIONS_CAPTION, keys, flow, height=heights)


def _sections_panel(name: str, rows: Sequence[Row], widest: float) -> dict[str, Any]:
    several = len({(row.lanes, row.stages, row.target) for row in rows}) > 1
    ordered = sorted(rows, key=lambda row: row.area or 0)
    parts, ends, names = [], [], []
    for row in ordered:
        names.append(f"{row.short_name} {_variant(row)}".strip() if several else row.short_name)
        at = 0.0
        for group, area in grouped(row.sections).items():
            bar = mark(row, at, 0.0, {}) | {"y": names[-1], "x2": at + area}
            parts.append(bar | {"colour": SECTIONS[group][0], "text": group})
            at += area
        ends.append(mark(row, at, 0.0, {}) | {"y": names[-1], "text": f"{row.area or 0:,.0f}"})
    return panel(
        name,
        axis(f"area ({rows[0].area_unit})", domain=[0, widest * 1.2]),
        names_axis(names),
        bars(parts), texts(ends, dx=4),
    )  # fmt: skip


def _variant(row: Row) -> str:
    """Text that separates units of the same name."""
    known = (("x", row.lanes), ("s", row.stages), ("", row.target))
    return " ".join(f"{letter}{value}" for letter, value in known if value)


SIDE = 8
TITLE = f"Matrix units of {SIDE} x {SIDE} dot units"
ROOFLINE = (
    f"Products of two elements that a matrix unit of {SIDE} x {SIDE} of these dot units computes "
    "in a cycle, against those for each byte that its streams move. Solid: streams of full width; "
    "dotted: narrower ones, all streams together. Marks: products M x N x K, layers of a sentence "
    "encoder among them."
)


class Array(NamedTuple):
    """A matrix unit of one of the comparison's dot units."""

    name: str
    format: str
    config: MatmulConfig


def arrays(rows: Sequence[Row]) -> list[Array]:
    """One matrix unit per format, lanes and interval; units with integer results have none."""
    found: dict[tuple[str, int, int], Array] = {}
    for row in rows:
        if row.generated and not row.options and row.accumulator and row.format and row.lanes:
            dot = DotConfig(row.format, row.lanes, row.accumulator, row.stages)
            name = f"{row.format} x{row.lanes}"
            name += f", interval {dot.interval}" * (dot.interval > 1)
            array = Array(name, row.format, MatmulConfig(dot, SIDE, SIDE))
            found.setdefault((row.format, row.lanes, dot.interval), array)
    return list(found.values())


def rooflines(rows: Sequence[Row]) -> Iterator[Picture]:
    """Roofline of matrix units: one panel per unit; no picture without units."""
    found = arrays(rows)
    if found:
        colours = format_colours(row.format for row in rows)
        units = [(array.name, array.config, colours[array.format]) for array in found]
        yield roofline(
            units, _shapes(found), BANDWIDTHS, TITLE, ROOFLINE, [a.format for a in found]
        )


def _shapes(found: list[Array]) -> list[Shape]:
    """Shapes that consist of whole blocks in every unit."""
    return [
        shape for shape in SHAPES if all(shape[2] % array.config.dot.lanes == 0 for array in found)
    ]
