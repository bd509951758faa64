"""Proofs of what docs/evidence.md claims, each of which must fail with a seeded bug."""

import sys
from collections.abc import Iterator

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
)
from .claim import Claim, prove


def claims() -> Iterator[Claim]:
    """All claims, in the order of docs/evidence.md."""
    yield from arithmetic.claims()
    yield from values.claims()
    yield from alignment.claims()
    yield from units.claims()
    yield from quantisers.claims()
    yield from choices.claims()
    yield from software.claims()
    yield from packets.claims()
    yield from jobs.claims()
    yield from facts.claims()
    yield from netlists.claims()


def run(only: str, *, list_only: bool, limit: float, markdown: bool) -> int:
    """Prove the claims with `only` in their names: 0 when all hold, 1 when not.

    limit: seconds for each tool that runs. markdown: print rows of docs/evidence.md.
    """
    chosen = [claim for claim in claims() if only in claim.name]
    if not chosen:
        raise ValueError(f"only must be part of a claim's name, not {only!r}")
    command.limit_above_0(limit)
    if list_only:
        for claim in chosen:
            print(f"{claim.name:28} {claim.says}")
        return 0
    failed = []
    for number, claim in enumerate(chosen, 1):
        if not _holds(claim, f"[{number}/{len(chosen)}]", limit, markdown):
            failed.append(claim.name)
    if failed:
        print(f"formal: {len(failed)} of {len(chosen)} failed: {' '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _holds(claim: Claim, place: str, limit: float, markdown: bool) -> bool:
    """Prove a claim and print a line; whether it holds."""
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
