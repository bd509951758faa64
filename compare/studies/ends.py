"""Where sweeps end: the accumulators that were not measured and may be a smaller answer."""

from collections.abc import Collection, Iterable, Sequence
from math import inf

from ...model import Accumulator, accumulator
from .rows import Row


def unmeasured(
    answer: Row | None, granted: Collection[Row], members: Sequence[Row], by_width: bool
) -> list[str]:
    """Accumulators, with the options of their units, next to those of `members` and not among them.

    The next narrower ones of `answer`; and for a wish that some width grants, the next wider ones
    of every family none of whose members is `granted`, but whose best is smaller than `answer`.
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
    """The accumulator of a unit of a sweep; an extra unit is in none."""
    return accumulator(row.accumulator) if row.generated and row.accumulator else None


def _beside(row: Row, bits: int) -> list[str]:
    """The accumulators of the same family that are `bits` wider, as `Row.short_name` has them."""
    return [f"{rule} {row.options}".strip() for rule in _wider(_rule(row), bits)]


def _wider(rule: Accumulator | None, bits: int) -> Iterable[Accumulator]:
    """`rule` with `bits` more, for a register at either end; none of a rule without width."""
    try:
        return [] if rule is None else rule.wider(bits)
    except ValueError:  # at the end of what there is
        return []
