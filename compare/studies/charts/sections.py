"""What the area is spent on: bars of sections of the datapath, a panel a format."""

from collections.abc import Iterator, Sequence
from typing import Any

from ....util.charts import Entry, Picture
from ....util.charts.layers import axis, bars, names_axis, panel, texts
from ....util.charts.palette import SECTIONS, SECTIONS_CAPTION, SQUARE, grouped
from ..rows import Row
from .common import by_format, distinct, each_unit, mark

BAR = 19


def pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """One for each flow that keeps sections apart."""
    for flow in distinct(rows, "flow"):
        known = [row for row in each_unit([r for r in rows if r.flow == flow]) if row.sections]
        if known:
            of_formats = by_format(known)
            widest = max(sum(row.sections.values()) for row in known)
            panels = [_panel(name, some, widest) for name, some in of_formats.items()]
            used = {name for row in known for name in grouped(row.sections)}
            keys = [Entry(n, colour, SQUARE) for n, (colour, _) in SECTIONS.items() if n in used]
            heights = [60 + BAR * len(some) for some in of_formats.values()]
            title = f"What the area is spent on: {flow}"
            yield Picture("sections", title, panels, SECTIONS_CAPTION, keys, flow, height=heights)


def _panel(name: str, rows: Sequence[Row], widest: float) -> dict[str, Any]:
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
    """What tells units of the same name apart."""
    known = (("x", row.lanes), ("s", row.stages), ("", row.target))
    return " ".join(f"{letter}{value}" for letter, value in known if value)
