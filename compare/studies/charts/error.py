"""Charts of error: SQNR against fraction bits, and against the length of dot products."""

from collections.abc import Iterator, Sequence
from typing import Any

from ....util.charts import Picture
from ....util.charts.layers import axis, level, lines, panel, points, slope
from ....util.charts.palette import GREY, family
from ..rows import Row, number
from .common import Decibels, by_format, colours_of, curves, distinct, each_unit, legend, mark
from .labels import Axis, labels

FRACTION_BITS = "SQNR of the accumulator alone."
DRAWN = {
    "aligned": "Solid line: aligned.",
    "fused": "Dashed line: fused.",
    "format": "Dotted line: the format's own error, which hides what is well above it.",
    "slope": "Grey line: 6.02 dB per bit.",
}
"""Captions, by what a picture may have."""
ALIGNED = "aligned"
KINDS = {ALIGNED: (), "fused": (6, 4)}
"""Families with fraction bits, and the dashes of their lines."""


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
            caption = " ".join([FRACTION_BITS, *_drawn(known)])
            yield Picture("error-f", title, panels, caption, keys, data=data)


def _drawn(rows: Sequence[Row]) -> list[str]:
    """Captions of the lines that the panels of these rows have."""
    drawn = [kind for kind in KINDS for some in by_format(rows).values() if _line(some, kind)]
    drawn += ["format" for row in rows if number(row.sqnr_format_db) is not None]
    rising = by_format([row for row in rows if _is_rising(row)])
    drawn += ["slope" for some in rising.values() if len({bits(r.accumulator) for r in some}) > 1]
    return [DRAWN[name] for name in dict.fromkeys(drawn)]


def _line(rows: Sequence[Row], kind: str) -> bool:
    """Whether a family has a line: several units with equal lanes and options."""
    ends = [(row.lanes, row.options) for row in _unique(rows) if family(row.accumulator) == kind]
    return len(ends) > len(set(ends))


def _unique(rows: Sequence[Row]) -> list[Row]:
    """Rows that are points: the first of each accumulator and number of lanes."""
    return list({(row.short_name, row.lanes): row for row in reversed(rows)}.values())[::-1]


def _is_rising(row: Row) -> bool:
    """Whether a point counts for the line of 6.02 dB per bit: aligned, and with an error."""
    is_finite = number(row.sqnr_accumulator_db) is not None
    return family(row.accumulator) == ALIGNED and is_finite


def bits(accumulator: str | None) -> int | None:
    """F of an aligned or fused accumulator with a float32 running value."""
    keyword, _, text = (accumulator or "").partition(":")
    return int(text) if keyword in ("aligned", "fused") and text.isdecimal() else None


def _has_fraction_bits(row: Row) -> bool:
    return bits(row.accumulator) is not None and row.sqnr_accumulator_db is not None


def _fraction_bits_panel(name: str, rows: Sequence[Row], colours: dict[str, str]) -> dict[str, Any]:
    limits = [number(rows[0].sqnr_format_db)]
    values = [row.sqnr_accumulator_db for row in rows]
    scale = Decibels([*values, *limits])
    fraction_bits = {row.accumulator: bits(row.accumulator) or 0 for row in rows}
    marks = [
        (row, mark(row, fraction_bits[row.accumulator], scale.at(row.sqnr_accumulator_db), colours))
        for row in _unique(rows)
    ]
    layers = []
    if limits[0] is not None:
        layers = level(limits[0], "the format's own error", marks[0][1]["colour"], right=True)
    rising = [m for row, m in marks if _is_rising(row)]
    layers += [slope(rising, GREY, scale.low)] if len({m["x"] for m in rising}) > 1 else []
    for kind, dash in KINDS.items():
        some = [(row, m) for row, m in marks if family(row.accumulator) == kind]
        layers.append(lines(curves(some, lambda row: (row.lanes, row.options)), dash=dash))
    places = [m["x"] for _, m in marks]
    across = range(min(places), max(places) + 1)
    return panel(
        name,
        axis("fraction bits F", domain=[across[0] - 0.5, across[-1] + 0.5],
             ticks=list(across[:: -(-len(across) // 12)])),
        axis("SQNR, accumulator (dB)", domain=scale.domain),
        *scale.layers, *layers, points([m for _, m in marks]),
    )  # fmt: skip


LENGTHS = "SQNR of the accumulator alone, as dot products grow."
TALL = 300
"""Height of a panel."""


def error_length(rows: Sequence[Row]) -> Iterator[Picture]:
    """SQNR against length: one picture per data set with several lengths."""
    colours = colours_of(rows)
    for data in distinct(rows, "data"):
        known = each_unit([row for row in rows if row.data == data and len(row.lengths) > 1])
        if known:
            panels = [_length_panel(name, some, colours) for name, some in by_format(known).items()]
            title = f"Error and length: {data} data"
            keys = legend(known, colours)
            yield Picture("error-length", title, panels, LENGTHS, keys, data=data, height=TALL)


def _length_panel(name: str, rows: Sequence[Row], colours: dict[str, str]) -> dict[str, Any]:
    units = _unique(rows)
    values = [a["sqnr_accumulator_db"] for row in units for a in row.lengths]
    scale = Decibels(values)
    several = len({row.lanes for row in units}) > 1
    marks, ends = [], []
    for i, row in enumerate(units):
        at = [
            mark(row, a["length"], scale.at(a["sqnr_accumulator_db"]), colours) | {"line": str(i)}
            for a in row.lengths
        ]
        marks += at
        ends.append(at[-1] | ({"text": f"{row.short_name} x{row.lanes}"} if several else {}))
    lengths = sorted({m["x"] for m in marks})
    # To the right of the last length is room for the names.
    across = lengths[0] / 1.3, lengths[-1] * (lengths[-1] / lengths[0]) ** 0.6
    places = Axis(across[0], across[1], True), Axis(*scale.domain)
    return panel(
        name,
        axis("length of the dot product", log=2, ticks=lengths[:: -(-len(lengths) // 6)],
             domain=across),
        axis("SQNR, accumulator (dB)", domain=scale.domain),
        *scale.layers, lines(marks, width=1), points(marks, 35),
        *labels(ends, *places, TALL, words=scale.words),
    )  # fmt: skip
