"""Mutants of the RTL and of Python modules: the share that bench and tests kill, and the others."""

import sys
from dataclasses import replace
from typing import Any

from ...model.errors import integer
from ..command import Check, Session, chosen, limit_above_0
from .equivalence import Limits
from .score import GOAL, Fate, MutantOutcome, counts, score
from .tasks import MutationSubject, Sample, subjects

MOST = 5_000
"""Mutants of one subject, which live in one simulation."""


def check(sample: Sample, limits: Limits) -> None:
    """ValueError names a value that is out of range."""
    integer("count", sample.count, 2, MOST)
    integer("seed", sample.seed, 0, 2**31 - 1)
    limit_above_0(limits.first)
    if not limits.longer >= limits.first:
        raise ValueError(f"longer must be at least limit, {limits.first:g}, not {limits.longer:g}")


def run(
    only: str, sample: Sample, limits: Limits, session: Session, *, list_only: bool, markdown: bool
) -> int:
    """Judge the subject `only`, or all with it in their names: 0 when the goal is reached, else 1.

    limits: of the proofs. markdown: print rows of docs/evidence.md. A subject that does not pass
    without a mutant is told and not judged, and the result is 1. RuntimeError where no subject
    passes, and for another task without a result. ValueError for a subject of `only` that cannot be
    judged here; of all subjects this one is left out.
    """
    judged = chosen(subjects(), only, "subject")
    check(sample, limits)
    if list_only:
        for subject in judged:
            print(f"{subject.name:18} {subject.says}")
        return 0
    for subject in judged:
        if subject.missing and only:
            raise ValueError(subject.missing)
        if subject.missing:
            print(f"left out: {subject.missing}", file=sys.stderr)
    judged = [subject for subject in judged if not subject.missing]
    outcomes, errors = _judge(judged, sample, limits, session)
    for subject in judged:
        if subject.name not in errors:
            _tell(subject, [o for o in outcomes if o.name == subject.name], markdown)
    for error in errors.values():
        print(f"not judged: {error}", file=sys.stderr)
    reached = score(outcomes)
    verdict = "" if reached >= GOAL else f": the goal of {GOAL:g}% is missed"
    print(f"{len(outcomes)} mutants, score {reached:.1f}%{verdict}", file=sys.stderr)
    return int(reached < GOAL or bool(errors))


def _judge(
    judged: list[MutationSubject], sample: Sample, limits: Limits, session: Session
) -> tuple[list[MutantOutcome], dict[str, str]]:
    """Fates of all mutants, those of one subject after those of another; an error by the name of
    each subject that does not pass without one."""
    whole = [subject.mutant(sample, 0) for subject in judged]
    if session.backend.only_lists:  # as many mutants as may be
        numbers = range(1, sample.count + 1)
        session.outcomes([*whole, *(s.mutant(sample, n) for s in judged for n in numbers)], "")
    prepared = list(zip(judged, session.outcomes(whole, "preparing"), strict=True))
    errors = {subject.name: made.error for subject, made in prepared if made.error is not None}
    if errors and len(errors) == len(judged):
        raise RuntimeError(next(iter(errors.values())))
    mutants = [
        (subject, number)
        for subject, made in prepared
        if made.ok
        for number in range(1, len(made.value) + 1)
    ]
    tasks = [subject.mutant(sample, number) for subject, number in mutants]
    outcomes = [_outcome(value) for value in _values(tasks, session, "judging")]
    proofs = {
        place: subject.proof(sample, number, limits)
        for place, (subject, number) in enumerate(mutants)
        if outcomes[place].fate is not Fate.KILLED and subject.proof is not None
    }
    values = _values(list(proofs.values()), session, "proving")
    for place, value in zip(proofs, values, strict=True):
        proved = _outcome(value)
        seconds = outcomes[place].seconds + proved.seconds
        outcomes[place] = replace(proved, seconds=seconds)
    return outcomes, errors


def _values(tasks: list[Check], session: Session, doing: str) -> list[Any]:
    outcomes = session.outcomes(tasks, doing)
    for outcome in outcomes:
        if not outcome.ok:
            raise RuntimeError(outcome.error)
    return [outcome.value for outcome in outcomes]


def _outcome(value: dict[str, Any]) -> MutantOutcome:
    return MutantOutcome(**{**value, "fate": Fate(value["fate"])})


def _tell(subject: MutationSubject, outcomes: list[MutantOutcome], markdown: bool) -> None:
    """Print the survivors of a subject and its row."""
    for outcome in outcomes:
        if outcome.fate is Fate.SURVIVED:
            print(f"survived {subject.name}: {outcome.text}; {outcome.by}")
    totals = counts(outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    equivalent = totals.pop(str(Fate.EQUIVALENT), 0)
    survived = totals.pop(str(Fate.SURVIVED), 0)
    killers = ", ".join(f"{name} {count}" for name, count in totals.items())
    reached = f"{score(outcomes):.1f}%"
    if markdown:
        print(
            f"| {subject.name} | {subject.says} | {len(outcomes)} | {killers} | {equivalent} "
            f"| {survived} | {reached} | {seconds:.0f} s |"
        )
    else:
        print(
            f"{subject.name}: {len(outcomes)} mutants, killed by {killers or 'none'}; equivalent "
            f"{equivalent}, survived {survived}: score {reached} ({seconds:.0f} s)"
        )
