"""The accumulator to build: the smallest unit of each format for each wish.

Also accumulators beyond the ends of sweeps, which were not measured and may be smaller.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from ...model import Accumulator, accumulator
from .narrowest import AS_GOOD_DB, FLOAT32_DB
from .rows import Row


def unmeasured(
    answer: Row | None, granted: Collection[Row], members: Sequence[Row], by_width: bool
) -> list[str]:
    """Accumulators next to `members` that were not measured, with the options of their units.

    They are the next narrower ones of `answer`. For a wish that some width grants, they are also
    the next wider ones of each family without a `granted` member whose best is smaller than
    `answer`.
    """
    names = {row.short_name for row in members}
    found = [] if answer is None else _beside(answer, -1)
    if by_width:
        families: dict[tuple[type, str, str], list[Row]] = {}
        for row in members:
            if _beside(row, 1):
                rule = _rule(row)
                overflow = rule.register.overflow if rule and rule.register else ""
                families.setdefault((type(rule), overflow, row.options), []).append(row)
        limit = inf if answer is None else answer.area or inf
        for rows in families.values():
            best = max(rows, key=lambda row: (row.sqnr_accumulator_db or 0.0, row.area or 0.0))
            if not any(row in granted for row in rows) and (best.area or inf) < limit:
                found += _beside(best, 1)
    return [name for name in dict.fromkeys(found) if name not in names]


def _rule(row: Row) -> Accumulator | None:
    """Accumulator of a swept unit; None for an extra unit."""
    return accumulator(row.accumulator) if row.generated and row.accumulator else None


def _beside(row: Row, bits: int) -> list[str]:
    """Accumulators of the same family, `bits` wider, in the form of `Row.short_name`."""
    return [f"{rule} {row.options}".strip() for rule in _wider(_rule(row), bits)]


def _wider(rule: Accumulator | None, bits: int) -> Iterable[Accumulator]:
    """Rules `bits` wider than `rule`, for a register at either end; empty without a width."""
    try:
        return [] if rule is None else rule.wider(bits)
    except ValueError:  # at the end of what there is
        return []


INVISIBLE_DB = 0.1
"""Loss in dB, added to the format's own error, that counts as invisible."""


class Wish(NamedTuple):
    """A property that a unit may have."""

    meaning: str
    grants: Callable[[Row, Sequence[Row]], bool]
    """Function of a row and all rows of its group."""
    by_width: Callable[[Sequence[Row]], bool] = lambda rows: False
    """True when some family grants it at enough width, among these rows."""


def _smallest(row: Row, peers: Sequence[Row]) -> bool:
    return True


def _invisible(row: Row, peers: Sequence[Row]) -> bool:
    if row.sqnr_format_db is None or row.sqnr_total_db is None:
        return False
    return row.sqnr_total_db >= row.sqnr_format_db - INVISIBLE_DB


def _as_float32(row: Row, peers: Sequence[Row]) -> bool:
    goals = [p.sqnr_accumulator_db for p in peers if _float32(p)]
    if not goals or goals[0] is None or row.sqnr_accumulator_db is None:
        return False
    return row.sqnr_accumulator_db >= min(goals[0], FLOAT32_DB) - AS_GOOD_DB


def _float32(row: Row) -> bool:
    return row.accumulator == "float32"


def _exact(row: Row, peers: Sequence[Row]) -> bool:
    requantised = ":" in row.options
    return row.accumulator in ("exact", "int32") and not requantised


WISHES = {
    "smallest": Wish("the smallest unit", _smallest),
    "no visible loss": Wish(
        f"adds less than {INVISIBLE_DB:g} dB to the format's own error",
        _invisible,
        lambda rows: True,
    ),
    "as good as float32": Wish(
        f"SQNR within {AS_GOOD_DB:g} dB of float32's, or above {FLOAT32_DB:g} dB",
        _as_float32,
        lambda rows: any(map(_float32, rows)),
    ),
    "float32": Wish("products and sums in float32", lambda row, _: _float32(row)),
    "exact": Wish("every block summed exactly", _exact),
}


@dataclass(frozen=True)
class Answer:
    """The smallest unit of one format for each wish, among equal lanes, stages and target."""

    flow: str
    data: str
    format: str
    lanes: int
    stages: int | None
    """None at a clock, where each unit has its own."""
    target: str | None
    units: dict[str, Row]
    """Smallest unit by wish; wishes that no unit grants are missing."""
    unmeasured: dict[str, list[str]]
    """Unmeasured accumulators by wish, which may be a smaller answer. Wishes are missing unless
    their answer lies at the end of its sweep.
    """

    @property
    def reference(self) -> float | None:
        """Area of the exact unit, the reference for others; None without one."""
        return self.units["exact"].area if "exact" in self.units else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: units by name."""
        return vars(self) | {"units": {wish: row.unit for wish, row in self.units.items()}}


def answers(rows: Iterable[Row]) -> list[Answer]:
    """One answer per flow, data set, format, lanes and stages with measured units."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row.flow, row.data, row.format, row.lanes)
        stages = None if row.clock_mhz else row.stages
        known = all(key) and (stages or row.clock_mhz)
        if row.status == "ok" and row.area and row.sqnr_total_db is not None and known:
            groups.setdefault((*key, stages, row.target), []).append(row)
    found = []
    for key, members in groups.items():
        chosen, beyond = {}, {}
        for name, wish in WISHES.items():
            granted = [row for row in members if wish.grants(row, members)]
            answer = min(granted, key=lambda row: row.area or inf, default=None)
            if answer is not None:
                chosen[name] = answer
            if names := unmeasured(answer, granted, members, wish.by_width(members)):
                beyond[name] = names
        flow, data, fmt, lanes, stages, target = key
        found.append(Answer(flow, data, fmt, lanes, stages, target, chosen, beyond))
    return found
