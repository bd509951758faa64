"""Tables that fit a terminal: equal columns go into the title, wide tables into several parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

GAP = 2
"""Spaces between columns."""


@dataclass(frozen=True)
class Column:
    """One column. names_row: it stands in every part; is_about: also, but in the title instead
    where all rows have the same."""

    name: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "left"
    names_row: bool = False
    is_about: bool = False

    @property
    def width(self) -> int:
        """Characters with the space to the next column."""
        return max(map(cell_len, (self.name, *self.cells))) + GAP


def fitted(
    title: str, columns: Sequence[Column], styles: Sequence[str | None], width: int
) -> Iterator[Group | Table]:
    """Tables of at most `width` characters, if every single column allows it.

    styles: of the rows.
    """
    equal = [c for c in columns if c.is_about and len(set(c.cells)) == 1 and c.cells[0]]
    if equal:
        title += f": {', '.join(f'{column.name} {column.cells[0]}' for column in equal)}"
    left = [column for column in columns if column not in equal]
    names = [column for column in left if column.names_row or column.is_about]
    others = [column for column in left if column not in names]
    parts = _parts(others, width + GAP - sum(column.width for column in names))
    for part in parts:
        chosen = [column for column in left if column in names or column in part]
        table = _table(chosen, styles)
        yield Group(Text(title, style="table.title"), table) if part is parts[0] else table


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
