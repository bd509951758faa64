"""CSV files, plots and tables of measured and of compared schemes."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ...util.charts import Picture, save
from ...util.tables import lines, records, write_csv
from . import charts
from .comparison import SchemeRow
from .comparison import on_front as on_cost_front
from .measure import Clipped, Measured, on_front


def write(rows: Sequence[Measured], clipped: Sequence[Clipped], directory: Path) -> list[Path]:
    """Write `schemes.csv`, `schemes.svg`, and of clipping `clipping.csv` and a plot a scheme."""
    files = [write_csv(directory / "schemes.csv", records(Measured, rows))]
    files += _save(charts.schemes(rows), directory)
    if clipped:
        files.append(write_csv(directory / "clipping.csv", records(Clipped, clipped)))
    for scheme in dict.fromkeys(row.scheme for row in clipped):
        of_scheme = [row for row in clipped if row.scheme == scheme]
        files += _save(charts.clipping(of_scheme), directory)
    return files


def _save(picture: Picture, directory: Path) -> list[Path]:
    return save(picture, directory / picture.name, ["svg"])


def show(console: Console, rows: Sequence[Measured], clipped: Sequence[Clipped]) -> None:
    """Print a table of products' SQNR, one of calibrators, and what was left out.

    rows: at least one.
    """
    data = list(dict.fromkeys(row.data for row in rows))
    fronts = {name: on_front([row for row in rows if row.data == name]) for name in data}
    cells = {(row.scheme, row.data): row for row in rows}
    by = f" by {rows[0].accumulator}" if rows[0].accumulator else ""
    title = f"SQNR of products{by} in dB; ★ no scheme of as few bits has better products"
    table = _table(console, title, ["bits", *data])
    bits = {row.scheme: row.bits for row in reversed(rows) if row.bits is not None}
    for scheme in sorted(bits, key=lambda name: bits[name]):
        texts = [_cell(cells[scheme, name], fronts[name]) for name in data]
        table.add_row(scheme, f"{bits[scheme]:.4g}", *texts)
    console.print(table)
    for reason in dict.fromkeys(f"{row.scheme}: {row.reason}" for row in rows if row.reason):
        console.print(f"left out {reason}", markup=False, highlight=False, soft_wrap=True)
    for scheme in dict.fromkeys(row.scheme for row in clipped):
        some = [row for row in clipped if row.scheme == scheme]
        data = list(dict.fromkeys(row.data for row in some))
        title = f"{scheme}: SQNR of new rows in dB (limit / largest magnitude)"
        table = _table(console, title, data)
        for setting in dict.fromkeys(r.setting for r in some if r.kind == "calibrator"):
            found = {r.data: r for r in some if (r.kind, r.setting) == ("calibrator", setting)}
            table.add_row(setting, *(_limit(found[name]) for name in data))
        best = {
            n: max(
                (r for r in some if r.data == n and r.kind == "clip"), key=lambda row: row.sqnr_db
            )
            for n in data
        }
        table.add_row("best of clip", *(_limit(best[name]) for name in data))
        console.print(table)


def _table(console: Console, title: str, columns: Sequence[str]) -> Table:
    """An empty table, its title printed."""
    console.print(title, markup=False, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cell(row: Measured, front: set[str]) -> str:
    value = row.sqnr_unit_db if row.accumulator else row.sqnr_product_db
    if value is None:
        return "-"
    mark = "★ " if row.scheme in front else ""
    return mark + ("exact" if math.isinf(value) else f"{value:.1f}")


def _limit(row: Clipped) -> str:
    return f"{row.sqnr_db:.1f} ({row.fraction:.2f})"


LAYER_COLUMNS = ("scheme", "layer", "cosine", "sqnr_db", "mse", "maximum")


def write_comparison(rows: Sequence[SchemeRow], directory: Path) -> list[Path]:
    """Write `schemes.csv` (a line a pairing), `layers.csv` (one a layer too) and `schemes.svg`."""
    layers = [
        {"scheme": row.scheme, "layer": layer} | error
        for row in rows
        for layer, error in row.errors.items()
    ]
    return [
        write_csv(directory / "schemes.csv", records(SchemeRow, rows)),
        write_csv(directory / "layers.csv", lines(LAYER_COLUMNS, layers)),
        *save(charts.comparison(rows), directory / "schemes", ["svg"]),
    ]


def show_comparison(console: Console, rows: Sequence[SchemeRow]) -> None:
    """Print a table, by bits per element, and what has no unit or failed."""
    table = Table(box=None, pad_edge=False)
    known = [column for column in _columns(rows) if any(map(column[1], rows))]
    for name, _, justify in known:
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in sorted(rows, key=lambda row: (row.bits or math.inf, row.scheme)):
        table.add_row(*(cell(row) for _, cell, _ in known))
    console.print(table)
    notes = [
        "SQNR of layers' products in dB, each with float32 inputs: mean, least; no accumulator",
        "★ no pairing of as few bits (of as little area a lane) has a better mean",
    ]
    if any(row.sentences for row in rows):
        notes.append("encoder: cosine of embeddings to float32's, every layer quantised")
    for line in notes:
        console.print(line, style="dim", highlight=False)
    for what, field in (("no area", "no_unit"), ("no quantiser", "no_quantizer")):
        for reason, names in _by(rows, field).items():
            _line(console, f"{what} of {names}: {reason}", "yellow")
    for unit, names in _by(rows, "quantizer").items():
        _line(console, f"activations of {names}: {unit}", "dim")
    for row in rows:
        if row.error:
            _line(console, f"FAILED {row.scheme}: {row.error}", "red")


def _by(rows: Sequence[SchemeRow], field: str) -> dict[str, str]:
    """The pairings of every text of a field."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if text := getattr(row, field):
            found.setdefault(text, []).append(row.scheme)
    return {text: ", ".join(names) for text, names in found.items()}


def _line(console: Console, text: str, style: str) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


Column = tuple[str, Callable[[SchemeRow], str], str]


def _columns(rows: Sequence[SchemeRow]) -> list[Column]:
    fronts = {name: on_cost_front(rows, name) for name in ("bits", "area_per_lane")}
    area_unit = next((row.area_unit for row in rows if row.area_unit), "")

    def star(row: SchemeRow, cost: str) -> str:
        return "★ " if row.scheme in fronts[cost] else ""

    def number(name: str, form: str) -> Callable[[SchemeRow], str]:
        return lambda row: "" if getattr(row, name) is None else format(getattr(row, name), form)

    def pair(first: str, second: str, form: str) -> Callable[[SchemeRow], str]:
        one, two = number(first, form), number(second, form)
        return lambda row: f"{one(row)} {two(row)}".strip()

    def per_lane(row: SchemeRow) -> str:
        value = number("area_per_lane", ",.0f")(row)
        return value and star(row, "area_per_lane") + value

    return [
        ("weights/activations", lambda row: star(row, "bits") + row.scheme, "left"),
        ("bits", pair("bits_weights", "bits_activations", ".4g"), "right"),
        ("SQNR", pair("sqnr_db", "sqnr_least_db", ".1f"), "right"),
        ("cosine", pair("cosine", "cosine_least", ".5f"), "right"),
        ("MSE", number("mse", ".2g"), "right"),
        ("maximum", number("maximum", ".2g"), "right"),
        ("encoder", pair("encoder_cosine", "encoder_cosine_least", ".4f"), "right"),
        ("dB", number("encoder_sqnr_db", ".1f"), "right"),
        ("unit", lambda row: row.unit or "", "left"),
        (f"area ({area_unit})", number("area", ",.0f"), "right"),
        ("a lane", per_lane, "right"),
        ("depth", number("depth", ",.0f"), "right"),
        ("delay (ps)", number("delay_ps", ",.0f"), "right"),
        ("energy", number("energy", ",.0f"), "right"),
    ]
