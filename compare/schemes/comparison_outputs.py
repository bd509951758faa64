"""Files, picture and table of compared schemes."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ...util.charts import save
from ...util.tables import lines, records, write_csv
from . import charts
from .comparison import SchemeRow, on_front

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
    fronts = {name: on_front(rows, name) for name in ("bits", "area_per_lane")}
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
