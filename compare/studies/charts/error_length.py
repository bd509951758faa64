"""Error and length: SQNR as dot products grow, a panel a format, each line named at its end."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ....util.charts import Picture
from ....util.charts.layers import axis, lines, panel, points, texts, thinned
from ..rows import Row
from .common import (
    by_format,
    ceiling,
    colours_of,
    decibels,
    distinct,
    each_unit,
    legend,
    mark,
    shown,
)

CAPTION = (
    "SQNR of the accumulator alone as dot products grow. An accumulator that truncates loses "
    "accuracy with length; one that rounds loses little."
)
NAMES = 24
"""Names that stand one above the other in a panel."""


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each data set with several lengths."""
    colours = colours_of(rows)
    for data in distinct(rows, "data"):
        known = each_unit([row for row in rows if row.data == data and len(row.lengths) > 1])
        if known:
            panels = [_panel(name, some, colours) for name, some in by_format(known).items()]
            title = f"Error and length: {data} data"
            keys = legend(known, colours)
            yield Picture("error-length", title, panels, CAPTION, keys, data=data, height=300)


def _panel(name: str, rows: Sequence[Row], colours: dict[str, str]) -> dict[str, Any]:
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
