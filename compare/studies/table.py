"""The comparison on a terminal: a table for each flow, with the accuracy on each data set."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ...synth.processes import GATES, PROCESSES
from .answers import WISHES, Answer, answers
from .narrowest import Found, measure_command
from .pareto import FRONT, NEAR
from .points import listed
from .rows import MISSED, Row
from .session import Comparison

GAP = 2
"""Spaces between columns."""


@dataclass(frozen=True)
class Column:
    """One column. names_row: it stands in every part. is_mark: it is no value, and stays where all
    rows have the same."""

    name: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "left"
    names_row: bool = False
    is_mark: bool = False

    @property
    def width(self) -> int:
        """Characters with the space to the next column."""
        return max(map(cell_len, (self.name, *self.cells))) + GAP


def fitted(
    title: str, columns: Sequence[Column], styles: Sequence[str | None], width: int
) -> Iterator[Group | Table]:
    """Tables of at most `width` characters, if every single column allows it.

    Columns that are equal in all rows stand in the title. styles: of the rows.
    """
    equal = [column for column in columns if _is_equal(column)]
    if equal:
        title += f": {', '.join(f'{column.name} {column.cells[0]}' for column in equal)}"
    left = [column for column in columns if column not in equal]
    names = [column for column in left if column.names_row]
    others = [column for column in left if column not in names]
    parts = _parts(others, width + GAP - sum(column.width for column in names))
    for part in parts:
        chosen = [column for column in left if column in names or column in part]
        table = _table(chosen, styles)
        yield Group(_title(title, width), table) if part is parts[0] else table


def _is_equal(column: Column) -> bool:
    """Whether rows do not differ in a column; of one row, only what names it."""
    same = len(set(column.cells)) == 1 and bool(column.cells[0]) and not column.is_mark
    return same and (len(column.cells) > 1 or column.name in ABOUT)


def _title(title: str, width: int) -> Text:
    return Text("\n".join(wrap(title, width, break_on_hyphens=False)), style="table.title")


def _parts(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Columns in order, as many in each part as `width` has room for, and one at least."""
    parts: list[list[Column]] = [[]]
    for column in columns:
        if parts[-1] and sum(c.width for c in (*parts[-1], column)) > width:
            parts.append([])
        parts[-1].append(column)
    return parts


def _table(columns: Sequence[Column], styles: Sequence[str | None]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.name, justify=column.justify, no_wrap=True)
    rows = zip(*(column.cells for column in columns), strict=True)
    for style, cells in zip(styles, rows, strict=True):
        table.add_row(*map(Text, cells), style=style)
    return table


SORTS: dict[str, Callable[[Row], float]] = {
    "area": lambda row: _or_last(row.area),
    "delay": lambda row: _or_last(row.delay),
    "sqnr": lambda row: _or_last(row.sqnr_accumulator_db, -1),
    "total": lambda row: _or_last(row.sqnr_total_db, -1),
}
MARKS = {FRONT: "★", NEAR: "≈"}
END = "†"
MARKED = ("all", "fmt")
"""Columns of marks."""
ABOUT = ("flow", "format", "lanes", "stages", "target")
"""Columns that say what a unit is, beside its accumulator."""
NAMED = (*MARKED, *ABOUT, "accumulator")
"""Columns in every part of a table."""
Cells = list[Row]
"""Rows of one unit in one flow, one per data set."""
Beside = dict[str, dict[str, Row]]
"""Rows by process and unit."""


def _or_last(value: float | None, sign: int = 1) -> float:
    return math.inf if value is None else sign * value


def check_sort(sort: str) -> str:
    """`sort` if it names an order."""
    if sort not in SORTS:
        raise ValueError(f"sort must be one of {', '.join(SORTS)}, not {sort!r}")
    return sort


def show(console: Console, comparison: Comparison, sort: str = "area") -> None:
    """Print a table per flow, the smallest units, and what failed or was left out."""
    rows = comparison.rows
    flows = list(dict.fromkeys(row.flow for row in rows))
    for flow in flows:
        units: dict[tuple, Cells] = {}
        for row in rows:
            if row.flow == flow:
                units.setdefault((row.unit, row.target), []).append(row)
        # A unit is placed by the first data set.
        ordered = sorted(units.values(), key=lambda cells: SORTS[check_sort(sort)](cells[0]))
        # Gates and processes share one table.
        others = [name for name in flows if name in PROCESSES] if flow == GATES else []
        beside = {name: found for name in others if (found := _beside(rows, name))}
        for table in _tables(flow, ordered, beside, console.width):
            console.print(table)
            console.print()
    _legend(console, rows)
    _answers(console, rows)
    for note in comparison.notes:
        _line(console, f"note: {note}", "yellow")
    for reason, failed in failures(rows).items():
        names = listed([_named(row) for row in failed])
        _line(console, f"{failed[0].status.upper()} {names}: {reason}", "red")


def _beside(rows: Sequence[Row], process: str) -> dict[str, Row]:
    """Rows of a process by unit; none where several targets have one each."""
    own = [row for row in rows if row.flow == process]
    if len({row.target for row in own}) > 1:
        return {}
    return {row.unit: row for row in own if row.status == "ok"}


def _named(row: Row) -> str:
    """Name of a failed unit; for a missed target also its fastest result."""
    fastest = f", {row.delay:,.0f} {(row.target or '').split()[-1]}" if row.status == MISSED else ""
    return f"{row.unit} ({row.flow or 'no synthesis'}{fastest})"


def _line(console: Console, text: str, style: str) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _answers(console: Console, rows: Sequence[Row]) -> None:
    """Print the smallest units for the first data set."""
    found = answers(rows)
    found = [answer for answer in found if answer.data == found[0].data]
    if not found:
        return
    about = [
        Column(
            name,
            [str(getattr(answer, name) or "") for answer in found],
            names_row=True,
            is_mark=name == "format",
        )
        for name in ABOUT
    ]
    columns = [column for column in about if any(column.cells)]
    columns += [
        Column(wish, [_answer(answer, wish) for answer in found], is_mark=True) for wish in WISHES
    ]
    title = f"What to build ({found[0].data} data), area x exact's"
    for table in fitted(title, columns, [None] * len(found), console.width):
        console.print()
        console.print(table)
    ends = [
        f"{answer.format} x{answer.lanes} {wish}: {', '.join(names)}"
        for answer in found
        for wish, names in answer.unmeasured.items()
    ]
    if ends:
        what = f"{END} at the end of its sweep; a smaller unit may be among those not measured"
        _line(console, f"{what}: {'; '.join(dict.fromkeys(ends))}", "dim")


def _answer(answer: Answer, wish: str) -> str:
    row, mark = answer.units.get(wish), END * (wish in answer.unmeasured)
    if row is None:
        return f"-{mark}"
    ratio = f" {row.area / answer.reference:.2f}x" if row.area and answer.reference else ""
    return f"{row.short_name}{mark}{ratio}"


def _legend(console: Console, rows: Sequence[Row]) -> None:
    data = [name for name in dict.fromkeys(row.data for row in rows) if name]
    lines = []
    if any(row.energy for row in rows):
        lines.append("energy: of one product of two elements of normal data (docs/cost.md)")
    if data:
        length = max(row.length or 0 for row in rows)
        lines.append(
            f"SQNR in dB, dot products of {length}: accumulator alone / with the format's own error"
        )
        lines.append(
            "error / bound: largest error / sum of the terms' magnitudes, and what it may be at "
            "most a priori, on the data where they are closest (docs/accuracy.md)"
        )
    sentences = max((row.encoder_sentences or 0 for row in rows), default=0)
    if sentences:
        lines.append(
            f"encoder: cosine similarity of embeddings to float32's (sentences: {sentences}), "
            "mean / smallest / mean with the format's own error only"
        )
    if any(row.pareto_total or row.pareto_format for row in rows):
        lines.append(
            f"Pareto-optimal on {data[0]} data, in area and SQNR: ★ in 'all' with the format's "
            "error among all units, in 'fmt' of the accumulator among units of its format; "
            "≈ as large as such a unit, within 3% or, at a clock, the error bars"
        )
    for line in lines:
        console.print(line, style="dim", highlight=False)


def failures(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Units that are not ok, each once, by reason."""
    found: dict[str, dict[tuple, Row]] = {}
    for row in rows:
        if row.status != "ok":
            found.setdefault(why(row), {})[row.unit, row.flow, row.target] = row
    return {reason: list(units.values()) for reason, units in found.items()}


def why(row: Row) -> str:
    """Reason of a row that is not ok, in one line."""
    if row.error is not None:
        return row.error
    return f"on {row.data} data errors reach {row.bound_ratio or 0:.3g} of their bound"


def _tables(
    flow: str | None, units: Sequence[Cells], beside: Beside, width: int
) -> Iterator[Group | Table]:
    columns = [
        Column(name, [cell(cells) for cells in units], justify, name in NAMED, name in MARKED)
        for name, (justify, cell) in _columns(units, beside).items()
    ]
    yield from fitted(flow or "no synthesis", columns, [_style(cells) for cells in units], width)


def _style(cells: Cells) -> str | None:
    if any(row.status != "ok" for row in cells):
        return "red"
    return "bold" if cells[0].pareto_total == FRONT else None


Cell = Callable[[Cells], str]
Justify = Literal["left", "right"]


def _columns(units: Sequence[Cells], beside: Beside) -> dict[str, tuple[Justify, Cell]]:
    """Columns with any content."""
    first = [cells[0] for cells in units]
    smallest = min((row.area for row in first if row.area), default=0.0)
    area_unit = next((row.area_unit for row in first if row.area_unit), "")
    columns: dict[str, tuple[Justify, Cell]] = {
        "all": ("left", lambda c: MARKS.get(c[0].pareto_total or "", "")),
        "fmt": ("left", lambda c: MARKS.get(c[0].pareto_format or "", "")),
        "format": ("left", lambda c: c[0].format or ""),
        "accumulator": ("left", lambda c: c[0].short_name),
        "lanes": ("right", lambda c: _number(c[0].lanes)),
        "stages": ("right", lambda c: _number(c[0].stages)),
        "target": ("right", lambda c: c[0].target or ""),
        f"area ({area_unit})": ("right", lambda c: _number(c[0].area)),
        "NAND2": ("right", lambda c: _number(_gates(c[0]))),
        "x": ("right", lambda c: f"{c[0].area / smallest:.2f}" if c[0].area and smallest else ""),
        "flip-flops": ("right", lambda c: _number(c[0].flipflops)),
        "carry": ("right", lambda c: _number(c[0].carry)),
        "DSP": ("right", lambda c: _number(c[0].dsp)),
        "depth": ("right", lambda c: _number(c[0].depth)),
        "delay (ps)": ("right", lambda c: _number(c[0].delay_ps)),
        "Fmax (MHz)": ("right", lambda c: _number(c[0].fmax_mhz)),
    }
    for name, found in beside.items():
        for column in _PROCESS:
            columns[f"{name} ({column})"] = ("right", _elsewhere(found, column))
    energy_unit = next((row.energy_unit for row in first if row.energy_unit), "")
    per = " a product" if energy_unit == "fJ" else ""
    columns[f"energy ({energy_unit}{per})"] = ("right", lambda c: _number(c[0].energy))
    for data in dict.fromkeys(row.data for cells in units for row in cells):
        if data is not None:
            columns[data] = ("right", _accuracy(data))
    columns["encoder"] = ("right", _encoder)
    columns["error / bound"] = ("right", _bound)
    columns["saturated"] = ("right", lambda c: _number(max(r.saturated or 0 for r in c) or None))
    columns["status"] = ("left", _status)
    return {name: (j, cell) for name, (j, cell) in columns.items() if any(map(cell, units))}


_PROCESS: dict[str, Callable[[Row], float | None]] = {
    "um2": lambda row: row.area,
    "ps": lambda row: row.delay_ps,
    "MHz": lambda row: row.fmax_mhz,
}
"""Columns of a process in a table of gates."""


def _elsewhere(found: dict[str, Row], column: str) -> Cell:
    """Column of another flow's rows, by unit."""

    def cell(cells: Cells) -> str:
        row = found.get(cells[0].unit)
        return "" if row is None else _number(_PROCESS[column](row))

    return cell


def _gates(row: Row) -> float | None:
    """Area in NAND2 equivalents, where `area` is in another unit."""
    return None if row.area_unit == "NAND2" else row.area_nand2


def _accuracy(data: str) -> Cell:
    def cell(cells: Cells) -> str:
        for row in cells:
            if row.data == data and row.sqnr_total_db is not None:
                own, total = decibels(row.sqnr_accumulator_db), decibels(row.sqnr_total_db)
                return f"{own} / {total}"
        return ""

    return cell


def _encoder(cells: Cells) -> str:
    """Mean and smallest similarity of embeddings, and the format's own mean."""
    row = cells[0]
    known = (row.encoder_mean, row.encoder_min, row.encoder_format_mean)
    return " / ".join(f"{value:.4f}" for value in known if value is not None)


def _bound(cells: Cells) -> str:
    """Largest error and its bound, on the data set where they are closest."""
    known = [row for row in cells if row.observed is not None and row.bound is not None]
    if not known:
        return ""
    row = max(known, key=lambda row: row.bound_ratio or 0.0)
    return f"{row.observed:.1e} / {row.bound:.1e}"


def _status(cells: Cells) -> str:
    return ", ".join(dict.fromkeys(row.status for row in cells if row.status != "ok"))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def decibels(value: float | None) -> str:
    """Text of an SQNR in dB; `exact` without error."""
    if value is None:
        return ""
    return "exact" if value == math.inf else f"{value:.1f}"


def show_found(console: Console, found: Sequence[Found]) -> None:
    """Print the results of a search, and the command that measures what they cost."""
    lengths = ", ".join(map(str, found[0].lengths))
    title = f"Narrowest accumulators: {found[0].target}, at lengths {lengths}"
    columns = [
        Column("format", [result.format for result in found], names_row=True),
        Column("lanes", [str(result.lanes) for result in found], names_row=True),
        Column("data", [result.data for result in found], names_row=True),
        Column("family", [result.family for result in found], names_row=True),
        Column("narrowest", [_narrowest(result) for result in found], is_mark=True),
        Column("SQNR in dB, where worst", [_at(r.sqnr_db, r.length) for r in found]),
        Column("one bit narrower", [_narrower(result) for result in found], is_mark=True),
        Column("tried", [str(result.evaluations) for result in found], "right", is_mark=True),
    ]
    styles = ["red" if result.error else None for result in found]
    for table in fitted(title, columns, styles, console.width):
        console.print(table)
    command = measure_command(list(found))
    if command is not None:
        console.print(f"\nto compare what they cost: {command}", highlight=False, soft_wrap=True)


def _narrowest(result: Found) -> str:
    return result.error or result.accumulator or "none is accurate enough"


def _narrower(result: Found) -> str:
    if result.next_narrower is None:
        return "-"
    return f"{result.next_narrower}: {_at(result.next_sqnr_db, result.next_length)}"


def _at(sqnr: float | None, length: int | None) -> str:
    return "" if sqnr is None else f"{decibels(sqnr)} at {length}"
