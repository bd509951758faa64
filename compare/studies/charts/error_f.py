"""Error and fraction bits: SQNR of aligned and fused accumulators against F, a panel a format."""

from collections.abc import Iterator, Sequence
from typing import Any

from ....util.charts import Picture
from ....util.charts.layers import axis, level, lines, panel, points, slope
from ....util.charts.palette import GREY, family
from ..rows import Row, number
from .common import (
    by_format,
    ceiling,
    colours_of,
    curves,
    decibels,
    distinct,
    each_unit,
    legend,
    shown,
)
from .common import mark as mark_of

CAPTION = (
    "SQNR of the accumulator alone. Solid: aligned; dashed: fused. Dotted: the format's own error, "
    "which hides the accumulator's where that is well above it. Grey: 6.02 dB per bit."
)


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each data set."""
    colours = colours_of(rows)
    for data in distinct(rows, "data"):
        known = [row for row in each_unit([r for r in rows if r.data == data]) if _known(row)]
        if known:
            panels = [_panel(name, some, colours) for name, some in by_format(known).items()]
            title = f"Error and fraction bits: {data} data, length {known[0].length}"
            keys = legend(known, colours)
            yield Picture("error-f", title, panels, CAPTION, keys, data=data)


def bits(accumulator: str | None) -> int | None:
    """F of an aligned or fused accumulator with a float32 running value."""
    keyword, _, text = (accumulator or "").partition(":")
    return int(text) if keyword in ("aligned", "fused") and text.isdecimal() else None


def _known(row: Row) -> bool:
    return bits(row.accumulator) is not None and row.sqnr_accumulator_db is not None


def _panel(name: str, rows: Sequence[Row], colours: dict[str, str]) -> dict[str, Any]:
    limits = [number(rows[0].sqnr_format_db)]
    values = [row.sqnr_accumulator_db for row in rows]
    domain, exact = decibels([*values, *limits])
    top = ceiling([*values, *limits])
    unique: dict[Any, Row] = {(row.short_name, row.lanes): row for row in reversed(rows)}
    fraction_bits = {row.accumulator: bits(row.accumulator) or 0 for row in rows}
    marks = [
        (
            row,
            mark_of(
                row, fraction_bits[row.accumulator], shown(row.sqnr_accumulator_db, top), colours
            ),
        )
        for row in list(unique.values())[::-1]
    ]
    layers = []
    if limits[0] is not None:
        layers = level(limits[0], "the format's own error", marks[0][1]["colour"], right=True)
    finite = [m for row, m in marks if number(row.sqnr_accumulator_db) is not None]
    layers += [slope(finite, GREY)] if len({m["x"] for m in finite}) > 1 else []
    for kind, dash in (("aligned", ()), ("fused", (6, 4))):
        some = [(row, m) for row, m in marks if family(row.accumulator) == kind]
        layers.append(lines(curves(some, lambda row: (row.lanes, row.options)), dash=dash))
    places = [m["x"] for _, m in marks]
    across = range(min(places), max(places) + 1)
    return panel(
        name,
        axis("fraction bits F", domain=[across[0] - 0.5, across[-1] + 0.5],
             ticks=list(across[:: -(-len(across) // 12)])),
        axis("SQNR, accumulator (dB)", domain=domain),
        *exact, *layers, points([m for _, m in marks]),
    )  # fmt: skip
