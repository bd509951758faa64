"""Which accumulator to build, from the rows: the smallest unit of each format for each wish."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from .narrowest import AS_GOOD_DB, FLOAT32_DB
from .rows import Row

INVISIBLE_DB = 0.1
"""What an accumulator may add to the format's own error and still not be seen."""

Wish = Callable[[Row, Sequence[Row]], bool]


def _smallest(row: Row, peers: Sequence[Row]) -> bool:
    return True


def _invisible(row: Row, peers: Sequence[Row]) -> bool:
    if row.sqnr_format_db is None or row.sqnr_total_db is None:
        return False
    return row.sqnr_total_db >= row.sqnr_format_db - INVISIBLE_DB


def _as_float32(row: Row, peers: Sequence[Row]) -> bool:
    goals = [p.sqnr_accumulator_db for p in peers if p.accumulator == "float32"]
    if not goals or goals[0] is None or row.sqnr_accumulator_db is None:
        return False
    return row.sqnr_accumulator_db >= min(goals[0], FLOAT32_DB) - AS_GOOD_DB


def _exact(row: Row, peers: Sequence[Row]) -> bool:
    requantised = ":" in row.options
    return row.accumulator in ("exact", "int32") and not requantised


WISHES: dict[str, tuple[str, Wish]] = {
    "smallest": ("the smallest unit", _smallest),
    "no visible loss": (
        f"adds less than {INVISIBLE_DB:g} dB to the format's own error",
        _invisible,
    ),
    "as good as float32": (
        f"SQNR within {AS_GOOD_DB:g} dB of float32's, or above {FLOAT32_DB:g} dB",
        _as_float32,
    ),
    "float32": ("products and sums in float32", lambda row, _: row.accumulator == "float32"),
    "exact": ("every block summed exactly", _exact),
}
"""Name: meaning, and whether a row grants it."""


@dataclass(frozen=True)
class Answer:
    """The smallest unit of one format for each wish, among those of equal lanes, stages, target."""

    flow: str
    data: str
    format: str
    lanes: int
    stages: int
    target: str | None
    units: dict[str, Row]
    """By wish; without those that no unit grants."""

    @property
    def reference(self) -> float | None:
        """Area of the exact unit, to which others are compared; None without one."""
        return self.units["exact"].area if "exact" in self.units else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: units by name."""
        return vars(self) | {"units": {wish: row.unit for wish, row in self.units.items()}}


def answers(rows: Iterable[Row]) -> list[Answer]:
    """An answer for each flow, data set, format, lanes and stages that units were measured for."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row.flow, row.data, row.format, row.lanes, row.stages)
        if row.status == "ok" and row.area and row.sqnr_total_db is not None and all(key):
            groups.setdefault((*key, row.target), []).append(row)
    found = []
    for key, members in groups.items():
        chosen = {}
        for wish, (_, grants) in WISHES.items():
            granted = [row for row in members if grants(row, members)]
            if granted:
                chosen[wish] = min(granted, key=lambda row: row.area or inf)
        flow, data, fmt, lanes, stages, target = key
        found.append(Answer(flow, data, fmt, lanes, stages, target, chosen))
    return found
