"""Plots of schemes as SVG: the same bytes for the same results."""

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.engine.files import write_file
from ..compare.plots import DECIBELS_PER_BIT
from ..palette import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, STYLE, VERMILION, literal
from .clipping import Clipped
from .comparison import SchemeRow
from .comparison import on_front as best_rows
from .measure import Measured, on_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAMILIES = {  # colour and symbol
    "MX": (BLUE, "o"),
    "float, float scale": (VERMILION, "s"),
    "integer, float scale": (GREEN, "^"),
    "MSFP": (ORANGE, "D"),
    "micro-exponents": (PURPLE, "P"),
    "two levels": (BLACK, "*"),
    "code book": (SKY, "X"),
}
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
CALIBRATORS = {"amax": "o", "average": "s", "mse": "*", "kl": "^", "octav": "D"}
COLUMNS = 3
CEILING = 160.0  # dB; where a product without error is drawn


def save_svg(figure: "Figure", path: Path) -> Path:
    """Write the figure."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        sink = BytesIO()
        figure.savefig(sink, format="svg", metadata={"Date": None})
    write_file(path, sink.getvalue())
    return path


def _panels(count: int, title: str, height: float) -> tuple["Figure", list[Any]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(COLUMNS, count)
    lines = -(-count // columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.5 + 4.2 * columns, height * lines + 1), layout="constrained")
        panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for panel in panels[count:]:
        panel.set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure, panels[:count]


def schemes_figure(rows: Sequence[Measured]) -> "Figure":
    """SQNR of products against bits per element, a panel for each pair of matrices."""
    data = list(dict.fromkeys(row.data for row in rows))
    figure, panels = _panels(len(data), "SQNR of products against bits per element", 4.0)
    for panel, name in zip(panels, data, strict=True):
        some = [row for row in rows if row.data == name and row.bits is not None]
        for kind, (colour, symbol) in FAMILIES.items():
            at = [_place(row) for row in some if row.family == kind]
            size = 9 if symbol == "*" else 6
            panel.plot([x for x, _ in at], [y for _, y in at], symbol, color=colour, ms=size,
                       mec="white", mew=0.4, zorder=3)  # fmt: skip
        front = on_front(some)
        _front(panel, {row.scheme: _place(row) for row in some if row.scheme in front})
        panel.set(title=literal(name), xlabel="bits per element", ylabel="SQNR (dB)")
        panel.margins(x=0.12)
    present = {name: FAMILIES[name] for name in FAMILIES if _present(rows, name)}
    figure.legend(handles=_handles(present), loc="outside lower center", ncols=len(present))
    return figure


def _place(row: Measured) -> tuple[float, float]:
    return row.bits or 0.0, min(row.sqnr_product_db or 0.0, CEILING)


def _front(panel: "Axes", points: dict[str, tuple[float, float]], cost: str = "bits") -> None:
    """A line through the best points, their names, and by bits a dotted one of 6.02 dB per bit."""
    if not points:
        return
    at = sorted(points.values())
    panel.step(*zip(*at, strict=True), where="post", color=GREY, lw=1, zorder=2)
    (first, low), (last, high) = at[0], at[-1]
    if cost == "bits":
        panel.plot((first, last), (low, low + (last - first) * DECIBELS_PER_BIT), color=GREY,
                   lw=0.8, ls=":", zorder=1)  # fmt: skip
    step = (high - low) / 18  # names that would cover another's are left out, from the best down
    above = math.inf
    for name, place in sorted(points.items(), key=lambda point: -point[1][1]):
        if above - place[1] >= step:
            panel.annotate(name, place, (-4, 3), textcoords="offset points", ha="right",
                           fontsize=6.5, zorder=4)  # fmt: skip
            above = place[1]


def _present(rows: Sequence[Measured], family: str) -> bool:
    return any(row.family == family for row in rows)


def _handles(entries: dict[str, tuple[str, str]]) -> list[Any]:
    """Marks of a legend, of (colour, symbol)."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], marker=symbol, ls="", color=colour, label=literal(name))
        for name, (colour, symbol) in entries.items()
    ]


def comparison_figure(rows: Sequence[SchemeRow]) -> "Figure":
    """Mean SQNR of layers' products against bits, marks as large as the unit's area a lane and
    hollow where there is no unit; and against that area.
    """
    known = [row for row in rows if row.sqnr_db is not None]
    with_area = [row for row in known if row.area_per_lane]
    figure, panels = _panels(2 if with_area else 1, "Error, bits and area of schemes", 5.0)
    largest = max((row.area_per_lane or 0.0 for row in with_area), default=1.0)
    for panel, cost in zip(panels, ("bits", "area_per_lane"), strict=False):
        shown = known if cost == "bits" else with_area
        places = {row.scheme: (getattr(row, cost), min(row.sqnr_db or 0.0, CEILING))
                  for row in shown}  # fmt: skip
        for row in shown:
            colour, symbol = FAMILIES[row.family]
            area = row.area_per_lane
            panel.scatter(*places[row.scheme], marker=symbol.replace("*", "p"), zorder=3, lw=0.9,
                          s=24 + 150 * (area or 0.0) / largest, ec=colour, alpha=0.8,
                          fc=colour if area else "none")  # fmt: skip
        best = best_rows(shown, cost)
        _front(panel, {name: place for name, place in places.items() if name in best}, cost)
        panel.margins(x=0.16)
        panel.set(ylabel="SQNR of layers' products, mean (dB)")
    panels[0].set(xlabel="bits per element, mean of both operands",
                  title="marks as large as the unit's area a lane, hollow without")  # fmt: skip
    if with_area:
        unit = next(row.area_unit for row in with_area)
        panels[1].set(xlabel=f"area of the unit a lane ({unit})", title="float scales outside")
    present = {name: (c, s.replace("*", "p")) for name, (c, s) in FAMILIES.items()
               if any(row.family == name for row in known)}  # fmt: skip
    if present:
        figure.legend(handles=_handles(present), loc="outside lower center", ncols=4)
    return figure


def clipping_figure(rows: Sequence[Clipped]) -> "Figure":
    """SQNR against the limit (with the calibrators' choices) and against the percentile."""
    data = list(dict.fromkeys(row.data for row in rows))
    figure, (limits, percentiles) = _panels(2, f"Error and clipping: {rows[0].scheme}", 4.6)
    for i, name in enumerate(data):
        colour = COLOURS[i % len(COLOURS)]
        of = {k: [r for r in rows if (r.data, r.kind) == (name, k)] for k in _kinds(rows)}
        limits.plot([r.fraction for r in of["clip"]], [r.sqnr_db for r in of["clip"]],
                    color=colour, lw=1.3)  # fmt: skip
        for r in of["calibrator"]:
            size = 10 if r.setting == "mse" else 6
            limits.plot(r.fraction, r.sqnr_db, CALIBRATORS[r.setting], color=colour, ms=size,
                        mec="white", mew=0.5, zorder=3)  # fmt: skip
        some = of["percentile"]
        percentiles.plot(range(len(some)), [r.sqnr_db for r in some], color=colour, marker="o",
                         ms=3.5, lw=1.3)  # fmt: skip
        percentiles.set_xticks(range(len(some)), [r.setting for r in some], fontsize=8)
    limits.set_xscale("log")
    limits.set(xlabel="limit / largest magnitude of the calibration rows",
               ylabel="SQNR of new rows (dB)")  # fmt: skip
    percentiles.set(xlabel="percentile of magnitudes", ylabel="SQNR of new rows (dB)")
    entries = {name: (COLOURS[i % len(COLOURS)], "_") for i, name in enumerate(data)}
    entries |= {name: ("#555555", symbol) for name, symbol in CALIBRATORS.items()}
    figure.legend(handles=_handles(entries), loc="outside lower center", ncols=6)
    return figure


def _kinds(rows: Sequence[Clipped]) -> list[str]:
    return list(dict.fromkeys(row.kind for row in rows))
