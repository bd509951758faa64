"""Prove what docs/verification.md claims, and show that each proof fails with a seeded bug.

make formal [ARGS='--only rounder']
python -m mxdot.verify.formal --list
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from ...synth.errors import SynthesisError
from ...util.scratch import scratch
from .. import command
from . import (
    alignment,
    arithmetic,
    choices,
    facts,
    jobs,
    netlists,
    packets,
    quantisers,
    software,
    units,
    values,
    writes,
)
from .claim import Claim, prove

LIMIT = 300.0  # seconds


def claims() -> Iterator[Claim]:
    """All of them."""
    yield from arithmetic.claims()
    yield from values.claims()
    yield from alignment.claims()
    yield from units.claims()
    yield from quantisers.claims()
    yield from choices.claims()
    yield from software.claims()
    yield from writes.claims()
    yield from packets.claims()
    yield from jobs.claims()
    yield from facts.claims()
    yield from netlists.claims()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when everything chosen holds, 1 when not, 2 for a bad argument."""
    parser = command.parser("formal", __doc__, "claims")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS",
                        help="for each tool that runs (%(default)g)")  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="rows of docs/verification.md")
    args = parser.parse_args(arguments)
    return command.status("formal", lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    chosen = [claim for claim in claims() if args.only in claim.name]
    if not chosen:
        raise ValueError(f"only must be part of a claim's name, not {args.only!r}")
    command.limit_above_0(args.limit)
    if args.list:
        for claim in chosen:
            print(f"{claim.name:28} {claim.says}")
        return 0
    failed = []
    for number, claim in enumerate(chosen, 1):
        if not _told(claim, f"[{number}/{len(chosen)}]", args.limit, args.markdown):
            failed.append(claim.name)
    if failed:
        print(f"formal: {len(failed)} of {len(chosen)} failed: {' '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _told(claim: Claim, place: str, limit: float, markdown: bool) -> bool:
    """Whether a claim holds, in a line."""
    try:
        with scratch("formal") as directory:
            result = prove(claim, directory, limit)
    except (SynthesisError, OSError, RuntimeError, ValueError) as error:
        print(f"{place} FAILED {claim.name}: {error}", flush=True)
        return False
    if markdown:
        print(
            f"| `{claim.name}` | {claim.says} | {result.space} | {result.verdict.value} "
            f"| {result.seconds:.0f} s |", flush=True,
        )  # fmt: skip
    else:
        word = "holds " if result.holds else "FAILED"
        print(
            f"{place} {word} {claim.name}: {result.verdict.value} for {result.space} inputs in "
            f"{result.seconds:.1f} s; with a bug {result.bug.value} in {result.bug_seconds:.1f} s",
            flush=True,
        )
    return result.holds


if __name__ == "__main__":
    sys.exit(main())
