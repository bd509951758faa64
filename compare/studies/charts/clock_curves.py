"""Area and energy of the smallest units against the clock, a curve per accumulator."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....util.charts import Entry, Picture
from ....util.charts.layers import axis, lines, panel, points, texts, thinned
from ....util.charts.palette import MANY, SYMBOLS, family
from ..rows import Row
from .common import by_format, colours_of, curves, distinct, each_unit, mark

CAPTION = (
    "Each mark is the smallest unit that runs at the clock, in its own number of stages and "
    "products in flight. A curve ends at the fastest clock that was met."
)


def area_at_clock(rows: Sequence[Row]) -> Iterator[Picture]:
    """Area against clock: one picture per process with several clocks, one panel per format."""
    yield from _pictures(rows, "area", lambda row: row.area, lambda row: row.area_unit)


def energy_at_clock(rows: Sequence[Row]) -> Iterator[Picture]:
    """Energy of a product against clock: one picture per process with several clocks."""
    yield from _pictures(rows, "energy", lambda row: row.energy, lambda row: row.energy_unit)


def _pictures(
    rows: Sequence[Row],
    what: str,
    value: Callable[[Row], float | None],
    unit: Callable[[Row], str | None],
) -> Iterator[Picture]:
    met = [row for row in each_unit(rows) if row.clock_mhz and row.status == "ok" and value(row)]
    for flow in distinct(met, "flow"):
        here = [row for row in met if row.flow == flow]
        if len(set(distinct(here, "clock_mhz"))) > 1:
            looks = {_name(row): "" for row in here}
            looks = {name: MANY[i % len(MANY)] for i, name in enumerate(looks)}
            kinds = {_name(row): family(row.accumulator) for row in here}
            x = axis("clock (MHz)", domain=[0, 1.25 * max(row.clock_mhz or 0 for row in here)])
            top = 1.08 * max(value(row) or 0.0 for row in here)
            y = axis(f"{what} ({unit(here[0])})", domain=[0, top])
            panels = [
                panel(name, x, y, *_layers(some, value, looks, top))
                for name, some in by_format(here).items()
            ]
            keys = [Entry(name, colour, SYMBOLS[kinds[name]]) for name, colour in looks.items()]
            title = f"{what.capitalize()} at a clock: {flow}"
            yield Picture(f"clock-curves-{what}", title, panels, CAPTION, keys, flow)


def _name(row: Row) -> str:
    return row.short_name


def _layers(
    rows: Sequence[Row], value: Callable[[Row], float | None], looks: dict[str, str], top: float
) -> list[dict[str, Any]]:
    colours = colours_of(rows)

    def at(row: Row) -> dict[str, Any]:
        place = mark(row, row.clock_mhz or 0.0, value(row) or 0.0, colours)
        return place | {"colour": looks[_name(row)]}

    ordered = sorted(rows, key=lambda row: row.clock_mhz or 0.0)
    marks = [at(row) for row in ordered]
    last = {place["text"]: place for place in marks}
    joined = curves(zip(ordered, marks, strict=True), lambda row: (row.lanes, _name(row)))
    names = thinned(list(last.values()), 0.2 * max(m["x"] for m in marks), top / 24)
    return [lines(joined, width=1.4), points(marks, 55), texts(names)]
