"""Helpers shared by the charts of a comparison: rows, marks and legend."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....util.charts import Entry
from ....util.charts.layers import level
from ....util.charts.palette import SLATE, SQUARE, SYMBOLS, family, format_colours
from ..rows import Row, number

NO_ERROR = "no error"


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Distinct values of a column, in the order of rows, without None."""
    return [v for v in dict.fromkeys(getattr(row, name) for row in rows) if v is not None]


def each_unit(rows: Sequence[Row]) -> list[Row]:
    """First row of each unit, flow and target."""
    return list({row.identity: row for row in reversed(rows)}.values())[::-1]


def by_format(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by format; units without one count as `other`."""
    names = dict.fromkeys(row.format or "other" for row in rows)
    return {name: [row for row in rows if (row.format or "other") == name] for name in names}


def mark(row: Row, x: float, y: float, colours: dict[str, str]) -> dict[str, Any]:
    """Mark of a row: place, look, and the keys by which the report filters and finds it."""
    kind = family(row.accumulator)
    return {
        "x": x,
        "y": y,
        "colour": colours.get(row.format or "", SLATE),
        "shape": SYMBOLS[kind],
        "unit": row.identity,
        "format": row.format or "other",
        "family": kind,
        "text": row.short_name,
    }


def colours_of(rows: Sequence[Row]) -> dict[str, str]:
    """Colour of each format."""
    return format_colours(row.format for row in rows)


def legend(rows: Sequence[Row], colours: dict[str, str]) -> list[Entry]:
    """Formats by colour, families by symbol."""
    formats = set(distinct(rows, "format"))
    families = {family(row.accumulator) for row in rows}
    entries = [Entry(name, colour, SQUARE) for name, colour in colours.items() if name in formats]
    shapes = {name: shape for name, shape in SYMBOLS.items() if name in families}
    return entries + [Entry(name, SLATE, shape) for name, shape in shapes.items()]


def fitted(values: Iterable[float], *, margin: float = 0.08) -> tuple[float, float]:
    """Ends of an axis that shows values with a margin; never equal."""
    values = list(values)
    low, high = min(values), max(values)
    room = (high - low) * margin or abs(high) * margin or 1.0
    return low - room, high + room


class Decibels:
    """An axis of SQNR that fits its values; infinite ones are on a line of their own at the top.

    None counts as none.
    """

    def __init__(self, values: Iterable[float | None]) -> None:
        values = list(values)
        known = [v for v in map(number, values) if v is not None] or [0.0]
        low, high = fitted(known)
        self.top = max(known) + max(high - low, 10.0) * 0.1
        self.low = low
        self.domain: tuple[float, float] = (low, high)
        self.layers: list[dict[str, Any]] = []
        self.words: list[float] = []
        if math.inf in values:
            self.words = [self.top]
            self.domain = (low, self.top + (self.top - low) * 0.08)
            self.layers = level(self.top, NO_ERROR)

    def at(self, value: float | None) -> float:
        """Place of a value."""
        return max(min(value or 0.0, self.top), self.low)


def curves(
    values: Iterable[tuple[Row, dict[str, Any]]], key: Callable[[Row], Any]
) -> list[dict[str, Any]]:
    """Marks of rows as points of lines: one line per `key` with more than one mark."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for row, value in values:
        lines.setdefault(str(key(row)), []).append(value)
    several = {name: found for name, found in lines.items() if len(found) > 1}
    return [{**value, "line": name} for name, found in several.items() for value in found]
