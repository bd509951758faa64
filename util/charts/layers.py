"""Layers and panels of Vega-Lite. A value of data holds x, y and the keys that a layer reads.

The report hides values by `format` and `family`, and shows the row `unit` of a mark; layers keep
these keys.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Values = Sequence[Mapping[str, Any]]
DECIBELS_PER_BIT = 20 * math.log10(2)


def axis(
    title: str,
    *,
    domain: Sequence[float] | None = None,
    log: int | None = None,
    symlog: float | None = None,
    ticks: Sequence[float] | None = None,
    labels: str | None = None,
) -> dict[str, Any]:
    """A quantitative axis. log: the base of a logarithmic one. symlog: where one of both signs
    stops being linear. labels: a Vega expression.
    """
    scale: dict[str, Any] = {"zero": False, "nice": False}
    if log is not None:
        scale = {"type": "log", "base": log, "nice": False}
    if symlog is not None:
        scale = {"type": "symlog", "constant": symlog, "nice": False}
    if domain is not None:
        scale["domain"] = list(domain)
    look: dict[str, Any] = {"tickCount": 6}
    if ticks is not None:
        look = {"values": list(ticks)}
    if labels is not None:
        look["labelExpr"] = labels
    return {"type": "quantitative", "title": title, "scale": scale, "axis": look}


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names, in their order."""
    look = {"ticks": False, "domain": False, "labelOverlap": False}
    return {"type": "nominal", "title": None, "sort": list(names), "axis": look}


def panel(
    title: str, x: Mapping[str, Any], y: Mapping[str, Any], *layers: dict[str, Any]
) -> dict[str, Any]:
    """A view of `layers`, which share its axes."""
    encoding = {"x": {"field": "x", **x}, "y": {"field": "y", **y}}
    return {"title": title, "encoding": encoding, "layer": list(layers)}


def _data(values: Values, *names: str) -> dict[str, Any]:
    """Keys that a layer reads, with as many digits as a picture shows."""
    kept = ("x", "y", "format", "family", *names)
    return {"values": [{k: _short(v[k]) for k in kept if k in v} for v in values]}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def points(values: Values, size: int = 70) -> dict[str, Any]:
    """Marks of colour and shape; each may have a `size` of its own."""
    sized = [{"size": size, **value} for value in values]
    return {
        "data": _data(sized, "colour", "shape", "size", "unit"),
        "mark": {"type": "point", "filled": True, "opacity": 0.95},
        "encoding": {
            "color": {"field": "colour", "type": "nominal", "scale": None},
            "shape": {"field": "shape", "type": "nominal", "scale": None},
            "size": {"field": "size", "type": "quantitative", "scale": None},
        },
    }


def lines(
    values: Values, *, step: bool = False, dash: Sequence[int] = (), width: float = 1.4
) -> dict[str, Any]:
    """A line for each `line` of the values, in the order of x."""
    mark: dict[str, Any] = {"type": "line", "strokeWidth": width, "opacity": 0.8}
    mark |= {"interpolate": "step-after"} if step else {}
    mark |= {"strokeDash": list(dash)} if dash else {}
    return {
        "data": _data(values, "colour", "line"),
        "mark": mark,
        "encoding": {
            "color": {"field": "colour", "type": "nominal", "scale": None},
            "detail": {"field": "line", "type": "nominal"},
        },
    }


def bands(values: Values) -> dict[str, Any]:
    """A band from y to y2 for each `line` of the values."""
    return {
        "data": _data(values, "y2", "colour", "line"),
        "mark": {"type": "area", "opacity": 0.15},
        "encoding": {
            "y2": {"field": "y2"},
            "color": {"field": "colour", "type": "nominal", "scale": None},
            "detail": {"field": "line", "type": "nominal"},
        },
    }


def texts(
    values: Values, *, align: str = "left", dx: int = 7, dy: int = 0, size: int = 10
) -> dict[str, Any]:
    """Text of each value next to its place."""
    mark = {"type": "text", "align": align, "dx": dx, "dy": dy, "baseline": "middle"}
    return {
        "data": _data(values, "text"),
        "mark": mark | {"fontSize": size},
        "encoding": {"text": {"field": "text", "type": "nominal"}},
    }


def level(
    y: float, text: str, colour: str | None = None, *, right: bool = False
) -> list[dict[str, Any]]:
    """A dotted line across the panel, with a word at its left or right end."""
    data = {"values": [{"y": y, "text": text}]}
    look = {} if colour is None else {"color": colour}
    align, dx = ("right", -3) if right else ("left", 3)
    mark = {"type": "text", "align": align, "baseline": "bottom", "dx": dx, "dy": -2}
    place = {"value": "width" if right else 0}
    return [
        {"data": data, "mark": {"type": "rule", "strokeDash": [2, 3], **look},
         "encoding": {"x": None, "x2": None}},
        {"data": data, "mark": mark | look,
         "encoding": {"x": place, "text": {"field": "text", "type": "nominal"}}},
    ]  # fmt: skip


def slope(values: Values, colour: str, low: float) -> dict[str, Any]:
    """A dashed line of 6.02 dB per bit below points whose x are bits; it begins at y of `low`."""
    first, last = (f(value["x"] for value in values) for f in (min, max))
    offset = min(value["y"] - value["x"] * DECIBELS_PER_BIT for value in values) - 4
    first = max(first, (low - offset) / DECIBELS_PER_BIT)
    ends = [{"x": x, "y": x * DECIBELS_PER_BIT + offset, "line": ""} for x in (first, last)]
    return lines([end | {"colour": colour} for end in ends], dash=(6, 4), width=1)


def thinned(values: Values, gap_x: float, gap_y: float) -> list[dict[str, Any]]:
    """Drop values that are close to a higher one on both axes."""
    kept: list[dict[str, Any]] = []
    for value in sorted(values, key=lambda value: -value["y"]):
        if all(abs(value["x"] - k["x"]) > gap_x or abs(value["y"] - k["y"]) > gap_y for k in kept):
            kept.append(dict(value))
    return kept


def legend_panel(entries: Values, width: int) -> dict[str, Any]:
    """Legend of a file: labels of colours and symbols."""
    values, x, line = [], 0, 0
    for entry in entries:
        room = 34 + 6.2 * len(entry["label"])
        if x and x + room > width:
            x, line = 0, line + 1
        values.append({"x": x, "y": line, "text": entry["label"], **entry})
        x += room
    hidden = {"type": "quantitative", "axis": None}
    across = hidden | {"scale": {"domain": [-10, width - 10], "nice": False, "zero": False}}
    down = hidden | {"scale": {"domain": [-0.5, line + 0.5], "reverse": True, "nice": False}}
    size = {"width": width, "height": 20 * (line + 1)}
    return panel("", across, down, points(values), texts(values, dx=9, size=11)) | size


def bars(values: Values) -> dict[str, Any]:
    """Bars from x to x2, with `text` as tooltip."""
    return {
        "data": _data(values, "x2", "colour", "text", "unit"),
        "mark": {"type": "bar", "height": {"band": 0.75}},
        "encoding": {
            "x2": {"field": "x2"},
            "color": {"field": "colour", "type": "nominal", "scale": None},
        },
    }
