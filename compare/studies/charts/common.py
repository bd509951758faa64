"""Helpers shared by the charts of a comparison: rows, marks and legend."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....util.charts import Entry
from ....util.charts.layers import level
from ....util.charts.palette import SLATE, SQUARE, SYMBOLS, family, format_colours
from ..rows import Row, number

SHIFT = 1.06
"""End of an axis relative to its largest value."""
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


def ceiling(values: Iterable[float | None]) -> float:
    """Place of an infinite SQNR: above all others."""
    return max((v for v in map(number, values) if v is not None), default=100.0) * SHIFT + 4


def shown(value: float | None, top: float) -> float:
    """Place of an SQNR on an axis that ends at `top`."""
    return max(min(value or 0.0, top), -top)


def decibels(values: Iterable[float | None]) -> tuple[list[float], list[dict[str, Any]]]:
    """(domain, layers) of an axis of SQNR: infinite ones are on a line of their own at the top."""
    values = list(values)
    top = ceiling(values)
    known = [v for v in map(number, values) if v is not None]
    low = min([0.0, *known])
    if math.inf in values:
        return [low, top * 1.08], level(top, NO_ERROR)
    return [low, max([*known, 1.0]) * SHIFT], []


def curves(
    values: Iterable[tuple[Row, dict[str, Any]]], key: Callable[[Row], Any]
) -> list[dict[str, Any]]:
    """Marks of rows as points of lines: one line per `key` with more than one mark."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for row, value in values:
        lines.setdefault(str(key(row)), []).append(value)
    several = {name: found for name, found in lines.items() if len(found) > 1}
    return [{**value, "line": name} for name, found in several.items() for value in found]
