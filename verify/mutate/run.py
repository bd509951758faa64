"""Mutants of the RTL and of the model: the share that bench and tests kill, and the others."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...model.errors import integer
from ...synth.measure import Cache
from .. import command
from ..small_units import UNITS, Unit
from . import design, model
from .equivalence import Limits
from .score import GOAL, Fate, MutantOutcome, Told, counts, judged, score

BUILD = Path("build/mutate")
MOST = 5_000
"""Mutants of one subject, which live in one simulation."""


@dataclass(frozen=True)
class Sample:
    """Mutants to judge per subject, and the time for each proof of equivalence."""

    count: int
    seed: int
    limits: Limits

    def check(self) -> None:
        """ValueError names a field that is out of range."""
        integer("count", self.count, 2, MOST)
        integer("seed", self.seed, 0, 2**31 - 1)
        limit, longer = self.limits.first, self.limits.longer
        command.limit_above_0(limit)
        if not longer >= limit:
            raise ValueError(f"longer must be at least limit, {limit:g}, not {longer:g}")


Judge = Callable[[Sample, Cache, Told], list[MutantOutcome]]


@dataclass(frozen=True)
class MutationSubject:
    """One row of the result: a unit or files of the model. says: the subject in words."""

    name: str
    says: str
    judge: Judge


def subjects() -> list[MutationSubject]:
    """Units, then files of the model."""
    units = [MutationSubject(unit.name, unit.config.name, _unit(unit)) for unit in UNITS]
    files = [MutationSubject(part.name, part.says, _file(part)) for part in model.PARTS]
    return [*units, *files]


def _unit(unit: Unit) -> Judge:
    def judge(sample: Sample, cache: Cache, tell: Told) -> list[MutantOutcome]:
        directory = BUILD / unit.name
        mutants = design.make(unit, sample.count, sample.seed, directory)
        return judged(mutants, sample.seed, directory, cache, sample.limits, tell)

    return judge


def _file(part: model.Part) -> Judge:
    return lambda sample, cache, tell: model.judged(
        part, sample.count, sample.seed, BUILD / part.name, cache, tell
    )


def run(only: str, sample: Sample, *, list_only: bool, markdown: bool) -> int:
    """Judge the subject `only`, or all with it in their names: 0 when the goal is reached, else 1.

    markdown: print rows of docs/evidence.md.
    """
    chosen = [subject for subject in subjects() if only == subject.name]
    chosen = chosen or [subject for subject in subjects() if only in subject.name]
    if not chosen:
        raise ValueError(f"only must be part of a subject's name (see --list), not {only!r}")
    sample.check()
    if list_only:
        for subject in chosen:
            print(f"{subject.name:18} {subject.says}")
        return 0
    outcomes = [o for subject in chosen for o in _judge(subject, sample, markdown)]
    reached = score(outcomes)
    verdict = "" if reached >= GOAL else f": the goal of {GOAL:g}% is missed"
    print(f"{len(outcomes)} mutants, score {reached:.1f}%{verdict}", file=sys.stderr)
    return int(reached < GOAL)


def _judge(subject: MutationSubject, sample: Sample, markdown: bool) -> list[MutantOutcome]:
    """Judge one subject, with progress, its row and its survivors."""
    start, done = time.monotonic(), 0

    def tell(outcome: MutantOutcome) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            end = "\n" if done == sample.count else ""
            print(f"\r{subject.name} {done}/{sample.count}", end=end, file=sys.stderr, flush=True)
        if outcome.fate is Fate.SURVIVED:
            print(f"survived {subject.name}: {outcome.text}; {outcome.by}", flush=True)

    outcomes = subject.judge(sample, Cache(BUILD / "results"), tell)
    found = counts(outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    equivalent = found.pop(str(Fate.EQUIVALENT), 0)
    survived = found.pop(str(Fate.SURVIVED), 0)
    killers = ", ".join(f"{name} {count}" for name, count in found.items())
    reached = f"{score(outcomes):.1f}%"
    if markdown:
        print(
            f"| {subject.name} | {subject.says} | {len(outcomes)} | {killers} | {equivalent} "
            f"| {survived} | {reached} | {seconds:.0f} s |", flush=True,
        )  # fmt: skip
    else:
        print(
            f"{subject.name}: {len(outcomes)} mutants, killed by {killers or 'none'}; equivalent "
            f"{equivalent}, survived {survived}: score {reached} "
            f"({seconds:.0f} s, now {time.monotonic() - start:.0f} s)", flush=True,
        )  # fmt: skip
    return outcomes
