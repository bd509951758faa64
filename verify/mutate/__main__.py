"""Mutants of the RTL and of the model: how many does the bench kill, and what are the others.

make mutate [ARGS='--only dot --count 40']
python -m mxdot.verify.mutate --list
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
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
COUNT, SEED, LIMIT, LONGER = 40, 1, 20.0, 120.0
MOST = 5_000
"""Mutants of one subject, which live in one simulation."""

Judge = Callable[[argparse.Namespace, Cache, Told], list[MutantOutcome]]


@dataclass(frozen=True)
class MutationSubject:
    """What has a row of its own. says: in words."""

    name: str
    says: str
    judge: Judge


def subjects() -> list[MutationSubject]:
    """Units, then files of the model."""
    units = [MutationSubject(unit.name, unit.config.name, _unit(unit)) for unit in UNITS]
    files = [MutationSubject(part.name, part.says, _file(part)) for part in model.PARTS]
    return [*units, *files]


def _unit(unit: Unit) -> Judge:
    def judge(args: argparse.Namespace, cache: Cache, tell: Told) -> list[MutantOutcome]:
        directory = BUILD / unit.name
        made = design.make(unit, args.count, args.seed, directory)
        limits = Limits(args.limit, args.longer)
        return judged(made, args.seed, directory, cache, limits, tell)

    return judge


def _file(part: model.Part) -> Judge:
    return lambda args, cache, tell: model.judged(
        part, args.count, args.seed, BUILD / part.name, cache, tell
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when the goal is reached, 1 when not, 2 for a bad argument or no tool."""
    parser = command.parser("mutate", __doc__, "subjects")
    parser.add_argument("--count", type=int, default=COUNT, help="mutants of each (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample and of the bench")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS",
                        help="for each proof of equivalence (%(default)g)")  # fmt: skip
    parser.add_argument("--longer", type=float, default=LONGER, metavar="SECONDS",
                        help="for those that take longer than that (%(default)g)")  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="rows of docs/verification.md")
    args = parser.parse_args(arguments)
    return command.status("mutate", lambda: _run(args), kept="; what was judged is kept")


def _run(args: argparse.Namespace) -> int:
    chosen = [subject for subject in subjects() if args.only == subject.name]
    chosen = chosen or [subject for subject in subjects() if args.only in subject.name]
    if not chosen:
        raise ValueError(f"only must be part of a subject's name (see --list), not {args.only!r}")
    integer("count", args.count, 2, MOST)
    integer("seed", args.seed, 0, 2**31 - 1)
    command.limit_above_0(args.limit)
    if not args.longer >= args.limit:
        raise ValueError(f"longer must be at least limit, {args.limit:g}, not {args.longer:g}")
    if args.list:
        for subject in chosen:
            print(f"{subject.name:18} {subject.says}")
        return 0
    outcomes = [o for subject in chosen for o in _told(subject, args)]
    reached = score(outcomes)
    verdict = "" if reached >= GOAL else f": the goal of {GOAL:g}% is missed"
    print(f"{len(outcomes)} mutants, score {reached:.1f}%{verdict}", file=sys.stderr)
    return int(reached < GOAL)


def _told(subject: MutationSubject, args: argparse.Namespace) -> list[MutantOutcome]:
    """Judge one subject, with progress, its row and its survivors."""
    start, done = time.monotonic(), 0

    def tell(outcome: MutantOutcome) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            end = "\n" if done == args.count else ""
            print(f"\r{subject.name} {done}/{args.count}", end=end, file=sys.stderr, flush=True)
        if outcome.fate is Fate.SURVIVED:
            print(f"survived {subject.name}: {outcome.text}; {outcome.by}", flush=True)

    outcomes = subject.judge(args, Cache(BUILD / "results"), tell)
    found = counts(outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    equivalent = found.pop(str(Fate.EQUIVALENT), 0)
    survived = found.pop(str(Fate.SURVIVED), 0)
    killers = ", ".join(f"{name} {count}" for name, count in found.items())
    reached = f"{score(outcomes):.1f}%"
    if args.markdown:
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


if __name__ == "__main__":
    sys.exit(main())
