"""Fates of mutants, and the score."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

GOAL = 99.0
"""Percent of the mutants that are not equivalent."""


class Fate(StrEnum):
    """Outcome of a mutant."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "survived"


@dataclass(frozen=True)
class MutantOutcome:
    """The fate of a mutant. by: what killed it, or why it is equivalent; seconds: of all of it."""

    name: str
    text: str
    fate: Fate
    by: str
    seconds: float


def score(outcomes: Iterable[MutantOutcome]) -> float:
    """Percent killed of those that are not equivalent; 100 when all are."""
    fates = [outcome.fate for outcome in outcomes if outcome.fate is not Fate.EQUIVALENT]
    return 100 * fates.count(Fate.KILLED) / len(fates) if fates else 100.0


def counts(outcomes: Sequence[MutantOutcome]) -> dict[str, int]:
    """Mutants killed per judge, equivalent and surviving."""
    totals: dict[str, int] = {}
    for outcome in outcomes:
        name = outcome.by if outcome.fate is Fate.KILLED else str(outcome.fate)
        totals[name] = totals.get(name, 0) + 1
    return totals
