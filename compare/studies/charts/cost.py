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
from ....util.charts.picture import HEIGHT as SHORT
from ..pareto import accumulator, front, peers, total
from ..rows import Row
from .common import (
    Decibels,
    by_format,
    colours_of,
    curves,
    distinct,
    each_unit,
    fitted,
    legend,
    mark,
)
from .labels import BESIDE_STEPS, Axis, labels

AREA_SQNR = (
    "SQNR with the format's error in the first panel, of the accumulator alone in the others."
)
FRONT_LINES = " Lines: the Pareto front of units with equal lanes and stages."
SOME_NAMES = " Names: units on the front; the details of a point name the others."
MOST_NAMES = 40
"""Points of a panel up to which all have names."""
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
                caption = AREA_SQNR + FRONT_LINES * any(map(_has_lines, panels))
                caption += SOME_NAMES * (len(some) > MOST_NAMES)
                yield Picture("area-sqnr", title, panels, caption, keys, flow, data, columns=2)


def _has_lines(view: dict[str, Any]) -> bool:
    """Whether a panel has a line through points."""
    return any(layer["mark"]["type"] == "line" for layer in view["layer"])


def _area_sqnr_panel(
    title: str, rows: Sequence[Row], quality: Callable[[Row], float | None], colours: dict[str, str]
) -> dict[str, Any]:
    known = [row for row in rows if quality(row) is not None]
    qualities = [quality(row) for row in known]
    scale = Decibels(qualities)

    def at(row: Row) -> dict[str, Any]:
        return mark(row, row.area or 0.0, scale.at(quality(row)), colours)

    groups: dict[Any, list[Row]] = {}
    for row in known:
        groups.setdefault(peers(row), []).append(row)
    best = [front(members, quality) for members in groups.values()]
    steps = [
        at(row) | {"line": str(i)} | ({"colour": GREY} if quality is total else {})
        for i, members in enumerate(best)
        for row in members
        if len(members) > 1
    ]
    areas = [row.area or 0.0 for row in known]
    wide = max(areas) > SPREAD * min(areas)
    domain = (min(areas) / 1.2, max(areas) * 1.2) if wide else fitted(areas)
    named = known if len(known) <= MOST_NAMES else [row for members in best for row in members]
    names = labels(
        [at(row) for row in named],
        Axis(domain[0], domain[1], wide),
        Axis(*scale.domain),
        SHORT,
        places=BESIDE_STEPS,
        words=scale.words,
    )
    x = axis(f"area ({known[0].area_unit})", log=10 if wide else None, domain=domain)
    return panel(
        title, x, axis("SQNR (dB)", domain=scale.domain),
        *scale.layers, *[lines(steps, step=True)] * bool(steps),
        points([at(row) for row in known]), *names,
    )  # fmt: skip


CLOCKS = (
    "Curves: the fastest and smallest units of an accumulator, in fewer and in more stages. A unit "
    "whose loop has registers takes a block of one product only every few cycles (its interval)."
)
LEVELS = "Curves: the shallowest and smallest units of an accumulator, in fewer and in more stages."
RANKS = "Depth ranks units; it does not predict time."
POINTS = "A point per unit, at its own clock."
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
            curved = any(map(_has_lines, panels))
            caption = (CLOCKS if curved else POINTS) if timed else RANKS
            if curved and not timed:
                caption = f"{LEVELS} {RANKS}"
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
    across, up = _domains(rows, timed)
    title = "clock (MHz)" if timed else "longest path (gates)"
    return axis(title, domain=across), axis(f"area ({rows[0].area_unit})", domain=up)


def _domains(rows: Sequence[Row], timed: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of the axes of these rows, with room for the name of a curve on the right."""
    low, high = fitted(_place(row, timed) for row in rows)
    up = fitted((row.area or 0.0 for row in rows), margin=0.06)
    return (low, high + (high - low) * 0.15), up


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
    across, up = _domains(all_rows, timed)
    if not looks:
        named = labels(marks, Axis(*across), Axis(*up), HEIGHT)
    else:  # a curve is named where it ends, and in the legend
        ends = [m for _, m in best if m["text"] in looks]
        last = {m["text"]: m for m in sorted(ends, key=lambda m: m["x"] if timed else -m["x"])}
        gaps = (across[1] - across[0]) * 0.3, (up[1] - up[0]) / 26
        named = [texts(thinned(list(last.values()), *gaps))]
    joined = curves(best, _curve)
    return [*[lines(joined, width=1.4)] * bool(joined), points(marks, 55), *named]


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
