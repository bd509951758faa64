"""Units at a clock on a terminal: a table per process and clock, and what it says in words."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from textwrap import wrap

from rich.console import Console

from .clock_task import ClockTask
from .clocks import clock_text
from .pareto import is_equal
from .rows import MISSED, Row
from .table import Column, decibels, fitted

EQUAL = "="
"""Mark of a unit that another one of its format and lanes equals within the error bars."""
COMMAND = 96
"""Characters in a line of a command, so that it fits 100 with what is around it."""


def show_clocked(console: Console, rows: Sequence[Row], first: Row | None = None) -> None:
    """Print the rows that have a clock, the smallest unit first, and words about them.

    first: the row that stands above the others.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.clock_mhz is not None:
            groups.setdefault((row.flow or "", row.target or ""), []).append(row)
    for (flow, target), members in groups.items():
        units = _ordered(members, first)
        columns = _columns(units)
        styles = ["red" if unit[0].status != "ok" else None for unit in units]
        for table in fitted(_title(flow, target, members), columns, styles, console.width):
            console.print(table)
        for line in words([unit[0] for unit in units]):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print()


def show_notes(console: Console, notes: Sequence[str]) -> None:
    """Print why units or values are missing."""
    for note in notes:
        text = f"note: {note}"
        console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def estimates(console: Console) -> Callable[[Sequence[ClockTask]], None]:
    """A printer of predictions of searches, before anything is synthesised."""

    def show(tasks: Sequence[ClockTask]) -> None:
        for task in tasks:
            line = f"estimate  {task.estimate}"
            console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    return show


def _title(flow: str, target: str, rows: Sequence[Row]) -> str:
    """Process and clock, and what all rows share."""
    lanes = [f"{one} lanes" for one in dict.fromkeys(row.lanes for row in rows)]
    shared = [*dict.fromkeys(row.format or "" for row in rows)], lanes
    return ", ".join([f"{flow} at {target}", *(own[0] for own in shared if len(own) == 1)])


def _differs(values: Sequence[str]) -> bool:
    return len(set(values)) > 1


def _ordered(rows: Sequence[Row], first: Row | None) -> list[list[Row]]:
    """Rows of each unit, one per data set: the smallest unit first, after `first`."""
    units: dict[str, list[Row]] = {}
    for row in rows:
        units.setdefault(row.unit, []).append(row)

    def place(unit: list[Row]) -> tuple[bool, bool, float]:
        row = unit[0]
        return first is None or row.unit != first.unit, row.status != "ok", row.area or inf

    return sorted(units.values(), key=place)


Rivals = tuple[str, int]
"""Format and lanes: units of equal work."""


def rivals(row: Row) -> Rivals:
    """Key of the units that `row` is compared with."""
    return row.format or "", row.lanes or 0


def smallest(rows: Sequence[Row]) -> dict[Rivals, Row]:
    """The smallest unit that meets the clock, by format and lanes."""
    best: dict[Rivals, Row] = {}
    for row in rows:
        if row.status == "ok" and row.area is not None:
            own = best.setdefault(rivals(row), row)
            if row.area < (own.area or inf):
                best[rivals(row)] = row
    return best


def _names(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Texts of format and, where they differ, of lanes."""
    several = len({row.lanes for row in rows if row.lanes}) > 1
    return lambda row: f"{row.format} x{row.lanes}" if several and row.lanes else f"{row.format}"


def words(rows: Sequence[Row]) -> Iterator[str]:
    """Lines below the table: equals of the smallest, how to make it, missed clocks, sources."""
    about = _names(rows)
    for group in equals(rows):
        names = " and ".join(row.short_name for row in group)
        yield f"{EQUAL} {about(group[0])}: {names} are equal within their error bars"
    for row in smallest(rows).values():
        if row.verilog is not None:
            yield f"Verilog of {about(row)} {row.short_name}: {row.verilog}"
        if row.synthesis is not None:
            parts = wrap(row.synthesis, COMMAND, break_long_words=False, break_on_hyphens=False)
            yield "  " + " \\\n    ".join(parts)
    for row in rows:
        if row.status == MISSED:
            yield f"MISSED {about(row)} {row.accumulator}: {row.error}"
        elif row.status != "ok":
            yield f"{row.status.upper()} {about(row)} {row.accumulator}: {row.error}"
    shipped = dict.fromkeys(row.measured for row in rows if row.measured)
    if shipped:
        yield f"measured by {', '.join(shipped)}; --fresh measures again"


def equals(rows: Sequence[Row]) -> list[list[Row]]:
    """Units of one format and lanes that equal the smallest of them, in groups of two or more."""
    groups: list[list[Row]] = []
    met = [row for row in rows if row.status == "ok" and row.area is not None]
    for row in sorted(met, key=lambda row: (rivals(row), row.area)):
        last = groups[-1][0] if groups else None
        if last is not None and rivals(last) == rivals(row) and is_equal(row, last):
            groups[-1].append(row)
        else:
            groups.append([row])
    return [group for group in groups if len(group) > 1]


def _columns(units: Sequence[list[Row]]) -> list[Column]:
    first = [unit[0] for unit in units]
    best = smallest(first)
    area = next((row.area_unit for row in first if row.area_unit), "um2")
    energy = next((row.energy_unit for row in first if row.energy_unit), "fJ")

    same = [id(row) for group in equals(first) for row in group]

    def marked(row: Row) -> str:
        return EQUAL if id(row) in same else ""

    def ratio(row: Row) -> str:
        rival = best.get(rivals(row))
        known = row.area and rival is not None and rival.area and row.status == "ok"
        return f"{row.area / rival.area:.2f}" if known else ""  # type: ignore[operator,union-attr]

    columns = [
        Column("", [marked(row) for row in first], names_row=True),
        Column("format", [row.format or "" for row in first], names_row=True),
        Column("accumulator", [row.short_name for row in first], names_row=True),
        Column("lanes", [f"{row.lanes or ''}" for row in first], "right", names_row=True),
        Column(f"area ({area})", [_area(row) for row in first], "right"),
        Column("x", [ratio(row) for row in first], "right"),
        Column(f"{energy} a product", [_energy(row) for row in first], "right"),
        Column("latency", [_latency(row) for row in first], "right"),
        Column("stages", [f"{row.stages or ''}" for row in first], "right"),
        Column("in flight", [f"{row.interleave or ''}" for row in first], "right"),
        Column("flip-flops", [_whole(row.flipflops) for row in first], "right"),
        Column("slack (ps)", [_whole(row.slack_ps) for row in first], "right"),
    ]
    columns += [
        Column(f"{data} (dB)", [_quality(unit, data) for unit in units], "right")
        for data in dict.fromkeys(row.data for unit in units for row in unit if row.data)
    ]
    columns.append(Column("status", [row.status if row.status != "ok" else "" for row in first]))
    shared = [c.name for c in columns if c.name in ("format", "lanes") and not _differs(c.cells)]
    return [column for column in columns if column.name not in shared and any(column.cells)]


def _area(row: Row) -> str:
    if row.area is None or row.status != "ok":
        return ""
    return f"{row.area:,.0f}" + ("" if row.area_error is None else f" ±{row.area_error:,.0f}")


def _energy(row: Row) -> str:
    if row.energy is None:
        return ""
    return f"{row.energy:.3g}" + ("" if row.energy_spread is None else f" ±{row.energy_spread:.2g}")


def _latency(row: Row) -> str:
    if row.latency is None or row.clock_mhz is None:
        return ""
    return f"{row.latency} ({1000 * row.latency / row.clock_mhz:.3g} ns)"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _quality(unit: Sequence[Row], data: str) -> str:
    """Accumulator alone / with the format's own error."""
    for row in unit:
        if row.data == data and row.sqnr_total_db is not None:
            return f"{decibels(row.sqnr_accumulator_db)} / {decibels(row.sqnr_total_db)}"
    return ""


def crossings(rows: Sequence[Row]) -> list[str]:
    """Clocks between which the smaller of two units of equal formats and lanes changes, in words.

    Units are compared where both meet the same clocks; equal ones decide nothing.
    """
    curves: dict[tuple[str, Rivals, str], dict[float, Row]] = {}
    for row in rows:
        if row.clock_mhz is not None and row.status == "ok" and row.area is not None:
            name = (row.flow or "", rivals(row), row.short_name)
            curves.setdefault(name, {})[row.clock_mhz] = row
    found = []
    about, names = _names(rows), list(curves)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if one[:2] == other[:2]:
                found += _crossing(curves[one], curves[other], about)
    return found


def _crossing(
    one: dict[float, Row], other: dict[float, Row], about: Callable[[Row], str]
) -> Iterator[str]:
    """A line for each change of the smaller of two units over the clocks of both."""
    before: tuple[float, Row, Row] | None = None
    for mhz in sorted(one.keys() & other.keys()):
        if is_equal(one[mhz], other[mhz]):
            continue
        small, large = sorted((one[mhz], other[mhz]), key=lambda row: row.area or 0.0)
        if before is not None and before[1].short_name != small.short_name:
            low, high = clock_text(1e6 / before[0]), clock_text(1e6 / mhz)
            yield (
                f"{small.flow} {about(small)}: up to {low} {large.short_name} is smaller, from "
                f"{high} on {small.short_name}"
            )
        before = (mhz, small, large)
