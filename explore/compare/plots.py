"""Plots of a comparison as PNG and SVG files: the same bytes for the same results."""

import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.engine.files import write_file
from ..palette import (
    BLACK,
    GREY,
    SECTIONS,
    SECTIONS_CAPTION,
    STYLE,
    SYMBOLS,
    family,
    format_colours,
    grouped,
    literal,
)
from .arrays import roofline
from .pareto import accumulator, front, peers, total
from .rows import Row, number
from .session import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 120  # characters of a file's name
DECIBELS_PER_BIT = 20 * math.log10(2)


def plot(comparison: Comparison, directory: Path) -> list[Path]:
    """Write every plot that the rows have data for."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        mpl.use("agg")
        written = []
        for name, figure in _figures(comparison.rows):
            for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
                sink = BytesIO()
                figure.savefig(sink, format=suffix, dpi=130, metadata=metadata)
                written.append(directory / f"{name}.{suffix}")
                write_file(written[-1], sink.getvalue())
        return written


def _figures(rows: Sequence[Row]) -> Iterator[tuple[str, "Figure"]]:
    """(file name, figure) of each plot."""
    rows = [row for row in rows if row.status != "failed"]
    colours = format_colours(row.format for row in rows)
    flows = [name for name in dict.fromkeys(row.flow for row in rows) if name]
    data_sets = [name for name in dict.fromkeys(row.data for row in rows) if name]
    for flow in flows:
        here = [row for row in rows if row.flow == flow]
        for data in data_sets:
            some = [row for row in here if row.data == data and row.area]
            if some:
                yield _name("area-sqnr", flow, data), _area_sqnr(some, colours)
        first = _each_unit(here)
        if any(row.delay for row in first):
            yield _name("delay-area", flow), _delay_area(first, colours)
        if any(row.sections for row in first):
            yield _name("sections", flow), _sections(first)
    for data in data_sets:
        some = _each_unit([row for row in rows if row.data == data])
        if any(_bits(row) is not None for row in some):
            yield _name("error-f", data), _error_f(some, colours)
        if any(len(row.lengths) > 1 for row in some):
            yield _name("error-length", data), _error_length(some, colours)
    arrays = roofline(rows)
    if arrays is not None:
        yield "roofline", arrays


def _name(*words: str) -> str:
    """A file name; of a long one, as of a deep path, the end is its hash."""
    text = "-".join(words)
    name = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{zlib.crc32(text.encode()):08x}"


def _each_unit(rows: Sequence[Row]) -> list[Row]:
    return list({(row.unit, row.flow, row.target): row for row in reversed(rows)}.values())[::-1]


@contextmanager
def _axes(title: str, width: float, height: float, columns: int = 1) -> Iterator[Any]:
    """(figure, axes); laid out when the block is left."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure, figure.subplots(1, columns, squeeze=False)[0]
    figure.suptitle(literal(title), x=0.01, ha="left", fontsize=12, fontweight="bold")


def _scatter(ax: "Axes", row: Row, x: float, y: float, colours: dict[str, str]) -> None:
    symbol = SYMBOLS[family(row.accumulator)]
    colour = colours.get(row.format or "", BLACK)
    size = 90 if symbol == "*" else 45
    ax.scatter(x, y, s=size, marker=symbol, c=colour, edgecolors="white", linewidths=0.6, zorder=3)


def _legend(ax: "Axes", rows: Sequence[Row], colours: dict[str, str], symbols: bool = True) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="s", ls="", color=colour, label=name)
        for name, colour in colours.items()
        if any(row.format == name for row in rows)
    ]
    present = {family(row.accumulator) for row in rows}
    if symbols:
        handles += [
            Line2D([], [], marker=symbol, ls="", color="#555555", label=name)
            for name, symbol in SYMBOLS.items()
            if name in present
        ]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _ceiling(values: Sequence[float | None]) -> float:
    """Where an infinite SQNR is drawn: above all others."""
    return max((v for v in map(number, values) if v is not None), default=100.0) * 1.06 + 4


def _mark_exact(ax: "Axes", values: Sequence[float | None], ceiling: float) -> None:
    if math.inf in values:
        ax.axhline(ceiling, color=GREY, lw=0.8, ls=":", zorder=1)
        ax.annotate("no error", (0.01, ceiling), xycoords=("axes fraction", "data"), ha="left",
                    va="top", fontsize=8, color="#555555")  # fmt: skip


def _area_sqnr(rows: Sequence[Row], colours: dict[str, str]) -> "Figure":
    row = rows[0]
    title = f"Area and accuracy: {row.flow}, {row.data} data, length {row.length}"
    with _axes(title, 12.5, 5, columns=2) as (figure, both):
        for ax, quality, label in (
            (both[0], accumulator, "SQNR of the accumulator (dB)"),
            (both[1], total, "SQNR of format and accumulator (dB)"),
        ):
            _front_panel(ax, rows, quality, colours)
            ax.set(xlabel=f"area ({row.area_unit})", ylabel=label)
            ax.set_xlim(left=0)
        _legend(both[1], rows, colours)
    return figure


def _front_panel(
    ax: "Axes", rows: Sequence[Row], quality: Callable[[Row], float | None], colours: dict[str, str]
) -> None:
    values = [quality(row) for row in rows]
    ceiling = _ceiling(values)
    overall = quality is total
    groups: dict[Any, list[Row]] = {}
    for row, value in zip(rows, values, strict=True):
        if value is not None and row.area:
            _scatter(ax, row, row.area, min(value, ceiling), colours)
            key = peers(row) if overall else (peers(row), row.format)
            groups.setdefault(key, []).append(row)
    for members in groups.values():
        best = front(members, quality)
        at = [(row.area, min(quality(row) or 0, ceiling)) for row in best]
        colour = GREY if overall else colours.get(members[0].format or "", BLACK)
        if not at:
            continue
        ax.step(*zip(*at, strict=True), where="post", color=colour, lw=1.2, alpha=0.7, zorder=2)
    _mark_exact(ax, values, ceiling)


def _delay_area(rows: Sequence[Row], colours: dict[str, str]) -> "Figure":
    timed = any(row.delay_ps for row in rows)
    with _axes(f"Delay and area: {rows[0].flow}", 8.5, 5) as (figure, (ax,)):
        curves: dict[Any, list[Row]] = {}
        for row in rows:
            if row.delay and row.area:
                _scatter(ax, row, row.delay, row.area, colours)
                curves.setdefault((row.format, row.accumulator, row.lanes), []).append(row)
        for (name, _, _), members in curves.items():
            at = sorted((row.delay, row.area) for row in members)
            colour = colours.get(name or "", BLACK)
            ax.plot(*zip(*at, strict=True), color=colour, lw=0.9, alpha=0.6, zorder=2)
        xlabel = "longest path (ps)" if timed else "longest path (gates)"
        ax.set(xlabel=xlabel, ylabel=f"area ({rows[0].area_unit})")
        ax.set_ylim(bottom=0)
        _legend(ax, rows, colours)
    return figure


def _sections(rows: Sequence[Row]) -> "Figure":
    ordered = sorted((row for row in rows if row.sections), key=lambda row: -(row.area or 0))
    title = f"What the area is spent on: {rows[0].flow}"
    with _axes(title, 10, 1.6 + 0.27 * len(ordered)) as (figure, (ax,)):
        left = [0.0] * len(ordered)
        split = [grouped(row.sections) for row in ordered]
        for name, (colour, _) in SECTIONS.items():
            widths = [areas.get(name, 0.0) for areas in split]
            if any(widths):
                ax.barh(range(len(ordered)), widths, 0.75, left, label=name, color=colour,
                        edgecolor="white", linewidth=0.5)  # fmt: skip
                left = [a + b for a, b in zip(left, widths, strict=True)]
        for i, (row, end) in enumerate(zip(ordered, left, strict=True)):
            ax.annotate(f"{row.area or 0:,.0f}", (end, i), (4, 0), textcoords="offset points",
                        va="center", fontsize=7.5)  # fmt: skip
        ax.set_yticks(range(len(ordered)), [label(row) for row in ordered], fontsize=8.5)
        ax.set_ylim(-0.6, len(ordered) - 0.4)
        ax.margins(x=0.09)
        figure.supxlabel(SECTIONS_CAPTION, x=0.01, ha="left", fontsize=8, color="#555555")
        ax.set_xlabel(f"area ({ordered[0].area_unit})")
        ax.grid(axis="y", visible=False)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def label(row: Row) -> str:
    """A short name of a unit for an axis."""
    if not row.format or not row.accumulator:
        return literal(row.unit)
    target = f" {row.target}" if row.target else ""
    return f"{row.format} {row.accumulator} x{row.lanes} s{row.stages}{target}"


def _bits(row: Row) -> int | None:
    """F of an aligned or fused accumulator."""
    keyword, _, bits = (row.accumulator or "").partition(":")
    return int(bits) if keyword in ("aligned", "fused") else None


def _error_f(rows: Sequence[Row], colours: dict[str, str]) -> "Figure":
    title = f"Error and fraction bits: {rows[0].data} data, length {rows[0].length}"
    with _axes(title, 8.5, 5) as (figure, (ax,)):
        values = [row.sqnr_accumulator_db for row in rows if _bits(row) is not None]
        ceiling = _ceiling(values)
        curves: dict[Any, set[tuple[int, float]]] = {}
        for row in rows:
            bits, value = _bits(row), row.sqnr_accumulator_db
            if bits is not None and value is not None:
                at = (bits, min(value, ceiling))
                _scatter(ax, row, *at, colours)
                kind = family(row.accumulator)
                curves.setdefault((row.format, kind, row.lanes), set()).add(at)
        for (name, kind, _), at in curves.items():
            style = "-" if kind == "aligned" else "--"
            colour = colours.get(name or "", BLACK)
            ax.plot(*zip(*sorted(at), strict=True), style, color=colour, lw=1.2, zorder=2)
        for name, limit in _format_limits(rows).items():
            ax.axhline(limit, color=colours.get(name, BLACK), lw=1, ls=":")
            _note(ax, f"{name}'s own error", limit, colours.get(name, BLACK))
        _slope(ax, curves)
        _mark_exact(ax, values, ceiling)
        ax.set(xlabel="fraction bits F", ylabel="SQNR of the accumulator (dB)")
        _legend(ax, [row for row in rows if _bits(row) is not None], colours)
    return figure


def _note(ax: "Axes", text: str, y: float, colour: str) -> None:
    """A word on a horizontal line, at its right end."""
    ax.annotate(text, (0.995, y), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                fontsize=8, color=colour)  # fmt: skip


def _format_limits(rows: Sequence[Row]) -> dict[str, float]:
    """SQNR of each format without any accumulator's error."""
    found = {row.format: number(row.sqnr_format_db) for row in rows if _bits(row) is not None}
    return {name: limit for name, limit in found.items() if name and limit is not None}


def _slope(ax: "Axes", curves: dict[Any, set[tuple[int, float]]]) -> None:
    """A grey line of 6.02 dB per bit through the lowest point."""
    low = min(min(at) for at in curves.values())
    high = max(max(at)[0] for at in curves.values())
    ends = [(b, low[1] + (b - low[0]) * DECIBELS_PER_BIT - 6) for b in (low[0], high)]
    ax.plot(*zip(*ends, strict=True), color=GREY, lw=1, ls="--", zorder=1, label="6.02 dB per bit")
    middle = ((ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2)
    ax.annotate("6.02 dB per bit", middle, (8, -2), textcoords="offset points", va="top",
                fontsize=8, color="#555555")  # fmt: skip


def _end_labels(ax: "Axes", ends: dict[str, tuple[float, float]], ceiling: float) -> None:
    """Names beside the ends of lines, pushed apart."""
    low = min(y for _, y in ends.values())
    step = (ceiling - low or 1) / 28
    last = -math.inf
    for text, (x, y) in sorted(ends.items(), key=lambda end: end[1][1]):
        last = max(y, last + step)
        ax.annotate(literal(text), (x, last), (7, 0), textcoords="offset points", fontsize=7,
                    va="center", annotation_clip=False)  # fmt: skip


def _error_length(rows: Sequence[Row], colours: dict[str, str]) -> "Figure":
    names = list(dict.fromkeys(row.format for row in rows if row.lengths and row.format))
    title = f"Error and length: {rows[0].data} data"
    with _axes(title, 1.5 + 4.2 * len(names), 4.6, columns=len(names)) as (figure, panels):
        for ax, name in zip(panels, names, strict=True):
            some = {row.short_name: row for row in rows if row.format == name and row.lengths}
            values = [a["sqnr_accumulator_db"] for row in some.values() for a in row.lengths]
            ceiling = _ceiling(values)
            ends: dict[str, tuple[float, float]] = {}
            for text, row in some.items():
                at = [(a["length"], min(a["sqnr_accumulator_db"], ceiling)) for a in row.lengths]
                marker = SYMBOLS[family(row.accumulator)]
                ax.plot(*zip(*at, strict=True), marker=marker, ms=5, lw=1, color=colours[name])
                ends[text] = at[-1]
            _end_labels(ax, ends, ceiling)
            _mark_exact(ax, values, ceiling)
            ax.set_xscale("log", base=2)
            ax.set(title=name, xlabel="length of the dot product")
        panels[0].set_ylabel("SQNR of the accumulator (dB)")
    return figure
