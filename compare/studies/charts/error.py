"""Charts of error: SQNR against fraction bits, and against the length of dot products."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ....util.charts import Picture
from ....util.charts.layers import axis, level, lines, panel, points, slope, texts, thinned
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
    mark,
    shown,
)

FRACTION_BITS = (
    "SQNR of the accumulator alone. Solid: aligned; dashed: fused. Dotted: the format's own error, "
    "which hides the accumulator's where that is well above it. Grey: 6.02 dB per bit."
)


def error_fraction_bits(rows: Sequence[Row]) -> Iterator[Picture]:
    """SQNR of aligned and fused accumulators against F: one picture per data set."""
    colours = colours_of(rows)
    for data in distinct(rows, "data"):
        known = [
            row for row in each_unit([r for r in rows if r.data == data]) if _has_fraction_bits(row)
        ]
        if known:
            panels = [
                _fraction_bits_panel(name, some, colours) for name, some in by_format(known).items()
            ]
            title = f"Error and fraction bits: {data} data, length {known[0].length}"
            keys = legend(known, colours)
            yield Picture("error-f", title, panels, FRACTION_BITS, keys, data=data)


def bits(accumulator: str | None) -> int | None:
    """F of an aligned or fused accumulator with a float32 running value."""
    keyword, _, text = (accumulator or "").partition(":")
    return int(text) if keyword in ("aligned", "fused") and text.isdecimal() else None


def _has_fraction_bits(row: Row) -> bool:
    return bits(row.accumulator) is not None and row.sqnr_accumulator_db is not None


def _fraction_bits_panel(name: str, rows: Sequence[Row], colours: dict[str, str]) -> dict[str, Any]:
    limits = [number(rows[0].sqnr_format_db)]
    values = [row.sqnr_accumulator_db for row in rows]
    domain, exact = decibels([*values, *limits])
    top = ceiling([*values, *limits])
    unique: dict[Any, Row] = {(row.short_name, row.lanes): row for row in reversed(rows)}
    fraction_bits = {row.accumulator: bits(row.accumulator) or 0 for row in rows}
    marks = [
        (
            row,
            mark(row, fraction_bits[row.accumulator], shown(row.sqnr_accumulator_db, top), colours),
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


LENGTHS = (
    "SQNR of the accumulator alone as dot products grow. An accumulator that truncates loses "
    "accuracy with length; one that rounds loses little."
)
NAMES = 24
"""Number of names that fit above each other in a panel."""


def error_length(rows: Sequence[Row]) -> Iterator[Picture]:
    """SQNR against length: one picture per data set with several lengths."""
    colours = colours_of(rows)
    for data in distinct(rows, "data"):
        known = each_unit([row for row in rows if row.data == data and len(row.lengths) > 1])
        if known:
            panels = [_length_panel(name, some, colours) for name, some in by_format(known).items()]
            title = f"Error and length: {data} data"
            keys = legend(known, colours)
            yield Picture("error-length", title, panels, LENGTHS, keys, data=data, height=300)


def _length_panel(name: str, rows: Sequence[Row], colours: dict[str, str]) -> dict[str, Any]:
    units = list({(row.short_name, row.lanes): row for row in reversed(rows)}.values())[::-1]
    values = [a["sqnr_accumulator_db"] for row in units for a in row.lengths]
    domain, exact = decibels(values)
    top = ceiling(values)
    several = len({row.lanes for row in units}) > 1
    marks, ends = [], []
    for i, row in enumerate(units):
        at = [
            mark(row, a["length"], shown(a["sqnr_accumulator_db"], top), colours) | {"line": str(i)}
            for a in row.lengths
        ]
        marks += at
        ends.append(at[-1] | ({"text": f"{row.short_name} x{row.lanes}"} if several else {}))
    lengths = sorted({m["x"] for m in marks})
    # To the right of the last length is room for the names.
    room = (lengths[-1] / lengths[0]) ** 0.45
    return panel(
        name,
        axis("length of the dot product", log=2, ticks=lengths[:: -(-len(lengths) // 6)],
             domain=[lengths[0] / 1.3, lengths[-1] * room]),
        axis("SQNR, accumulator (dB)", domain=domain),
        *exact, lines(marks, width=1), points(marks, 35),
        texts(thinned(ends, math.inf, (domain[1] - domain[0]) / NAMES), size=9),
    )  # fmt: skip
