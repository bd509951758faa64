"""CSV files, plots and tables of measured schemes."""

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ...util.charts import Picture, save
from ...util.tables import records, write_csv
from . import charts
from .clipping import Clipped
from .measure import Measured, on_front


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
            n: max((r for r in some if r.data == n and r.kind == "clip"), key=_sqnr) for n in data
        }
        table.add_row("best of clip", *(_limit(best[name]) for name in data))
        console.print(table)


def _sqnr(row: Clipped) -> float:
    return row.sqnr_db


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
