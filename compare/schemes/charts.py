"""Charts of schemes: their error against bits and area, and what clipping does."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...util.charts import Entry, Picture
from ...util.charts.layers import DECIBELS_PER_BIT, axis, lines, panel, points, texts, thinned
from ...util.charts.palette import (
    CIRCLE,
    CROSS,
    DIAMOND,
    FORMATS,
    GREY,
    LINE,
    PLUS,
    SLATE,
    SQUARE,
    STAR,
    TRIANGLE,
)
from .comparison import SchemeRow
from .comparison import on_front as best_rows
from .measure import Clipped, Measured, on_front

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, _ = FORMATS
FAMILIES = {  # colour and symbol
    "MX": (BLUE, CIRCLE),
    "float, float scale": (VERMILION, SQUARE),
    "integer, float scale": (GREEN, TRIANGLE),
    "MSFP": (ORANGE, DIAMOND),
    "micro-exponents": (PURPLE, PLUS),
    "two levels": (SLATE, STAR),
    "code book": (SKY, CROSS),
}
CALIBRATORS = {"amax": CIRCLE, "average": SQUARE, "mse": STAR, "kl": TRIANGLE, "octav": DIAMOND}
CEILING = 160.0  # dB; where a product without error is drawn
SIZES = 40, 260  # of a mark without area, and what the largest area adds
CAPTION = (
    "Marks are as large as the unit's area a lane, with float scales outside of it; the smallest "
    "have no unit. Line: none of as few bits, or as little area, has a better SQNR. Dotted: "
    "6.02 dB per bit."
)
Places = Mapping[str, tuple[float, float]]


def schemes(rows: Sequence[Measured]) -> Picture:
    """SQNR of products against bits per element, a panel for each pair of matrices."""
    panels = []
    for name in dict.fromkeys(row.data for row in rows):
        some = [row for row in rows if row.data == name and row.bits is not None]
        places = {r.scheme: (r.bits or 0.0, _shown(r.sqnr_product_db)) for r in some}
        marks = [_mark(row.family, places[row.scheme]) for row in some]
        front = {scheme: places[scheme] for scheme in places if scheme in on_front(some)}
        panels.append(_against(name, "bits per element", "SQNR (dB)", marks, front, slope=True))
    legend = _families(row.family for row in rows)
    return Picture("schemes", "SQNR of products against bits per element", panels, legend=legend)


def comparison(rows: Sequence[SchemeRow]) -> Picture:
    """SQNR of layers' products against bits, marks as large as the area, and against area."""
    known = [row for row in rows if row.sqnr_db is not None]
    with_area = [row for row in known if row.area_per_lane is not None]
    largest = max((row.area_per_lane or 0.0 for row in with_area), default=1.0)
    panels = [_of_rows(known, "bits", "bits per element, mean of both operands", largest)]
    panels[0]["title"] = "by bits per element"
    if with_area:
        unit = with_area[0].area_unit
        label = f"area of the unit a lane ({unit})"
        panels.append(_of_rows(with_area, "area_per_lane", label, largest))
        panels[1]["title"] = "by area of the unit"
    title = "Schemes on layers: error, bits and area"
    legend = _families(row.family for row in known)
    return Picture("schemes", title, panels, CAPTION, legend, height=300)


def _of_rows(rows: Sequence[SchemeRow], cost: str, label: str, largest: float) -> dict[str, Any]:
    places = {row.scheme: (getattr(row, cost) or 0.0, _shown(row.sqnr_db)) for row in rows}
    marks = []
    for row in rows:
        size = SIZES[0] + SIZES[1] * (row.area_per_lane or 0.0) / largest
        marks.append(_mark(row.family, places[row.scheme]) | {"size": size})
    best = best_rows(rows, cost)
    front = {name: place for name, place in places.items() if name in best}
    name = "SQNR of layers' products, mean (dB)"
    return _against("", label, name, marks, front, slope=cost == "bits")


def _shown(sqnr_db: float | None) -> float:
    return max(min(sqnr_db or 0.0, CEILING), -CEILING)


def _mark(family: str, place: tuple[float, float]) -> dict[str, Any]:
    colour, shape = FAMILIES[family]
    return {"x": place[0], "y": place[1], "colour": colour, "shape": shape}


def _against(
    title: str, x: str, y: str, marks: Sequence[dict[str, Any]], front: Places, *, slope: bool
) -> dict[str, Any]:
    """Marks, a line through the best, their names, and a dotted one of 6.02 dB per bit."""
    xs, ys = ([mark[name] for mark in marks] or [0.0] for name in "xy")
    room = (max(xs) - min(xs) or 1) * 0.16
    domain = [min(*ys, 0), max(*ys, 1) * 1.08]
    at = sorted(front.values())
    steps = [{"x": x, "y": y, "line": "", "colour": GREY} for x, y in at]
    grade = []
    if slope and at:
        (first, low), (last, _) = at[0], at[-1]
        ends = (first, low), (last, low + (last - first) * DECIBELS_PER_BIT)
        grade = [{"x": x, "y": y, "line": "", "colour": GREY} for x, y in ends]
        domain[1] = max(domain[1], ends[1][1])
    names = [{"x": x, "y": y, "text": name} for name, (x, y) in front.items()]
    return panel(
        title,
        axis(x, domain=[max(0, min(xs) - 2 * room), max(xs) + room]),
        axis(y, domain=domain),
        lines(grade, dash=(2, 3), width=1),
        lines(steps, step=True, width=1),
        points(marks, 55),
        texts(thinned(names, math.inf, (domain[1] - domain[0]) / 22), align="right", dx=-6, dy=-6),
    )


def _families(present: Any) -> list[Entry]:
    known = set(present)
    return [Entry(name, *look) for name, look in FAMILIES.items() if name in known]


def _curve(row: Clipped, colour: str) -> dict[str, Any]:
    return {"x": row.fraction, "y": _shown(row.sqnr_db), "line": row.data, "colour": colour}


def clipping(rows: Sequence[Clipped]) -> Picture:
    """SQNR against the limit (with the calibrators' choices) and against the percentile."""
    data = list(dict.fromkeys(row.data for row in rows))
    colours = {name: FORMATS[i % len(FORMATS)] for i, name in enumerate(data)}

    def at(kind: str) -> list[tuple[Clipped, dict[str, Any]]]:
        return [(row, _curve(row, colours[row.data])) for row in rows if row.kind == kind]

    calibrated = [value | {"shape": CALIBRATORS[r.setting]} for r, value in at("calibrator")]
    settings = list(dict.fromkeys(row.setting for row in rows if row.kind == "percentile"))
    by_rank = [
        value | {"x": settings.index(r.setting), "shape": CIRCLE} for r, value in at("percentile")
    ]
    clipped = [value for _, value in at("clip")]
    values = [value["y"] for value in [*clipped, *calibrated, *by_rank]]
    y = axis("SQNR of new rows (dB)", domain=[min(0.0, *values), max(values) * 1.06])
    limit = axis("limit / largest magnitude of the calibration rows", log=10, domain=[0.01, 1.1])
    rank = axis(
        "percentile of magnitudes",
        domain=[-0.3, len(settings) - 0.7],
        ticks=range(len(settings)),
        labels=f"{settings}[datum.value]",
    )
    legend = [Entry(name, colour, LINE) for name, colour in colours.items()]
    legend += [Entry(name, SLATE, shape) for name, shape in CALIBRATORS.items()]
    panels = [
        panel("by limit", limit, y, lines(clipped), points(calibrated)),
        panel("by percentile", rank, y, lines(by_rank), points(by_rank, 30)),
    ]
    name = f"clipping-{rows[0].scheme}"
    return Picture(name, f"Error and clipping: {rows[0].scheme}", panels, legend=legend, height=300)
