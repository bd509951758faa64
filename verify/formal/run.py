"""Proofs of what docs/evidence.md claims, each of which must fail with a seeded bug."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...util.runs import scratch
from ...util.store import Outcome
from ..command import Check, Session, chosen, limit_above_0
from . import (
    alignment,
    arithmetic,
    assertions,
    choices,
    facts,
    matmul,
    netlists,
    quantisers,
    software,
    units,
    values,
)
from .claim import Claim, prove

BUILD = Path("build/formal")
_SECONDS = {
    "loop": 500.0, "packets": 65.0, "scale-multiplier": 50.0, "adder-tree": 30.0, "sum": 30.0,
    "ends": 28.0, "length": 20.0, "chain": 18.0, "lfsr": 16.0, "terms": 13.0, "netlist": 12.0,
    "assertions": 30.0, "errors": 11.0, "order": 9.0,
}  # fmt: skip
"""Rough times of claims by the first word of their names; docs/evidence.md has each."""


def claims() -> Iterator[Claim]:
    """All claims, in the order of docs/evidence.md."""
    subjects = (arithmetic, values, alignment, units, quantisers, choices, software, matmul)
    for subject in (*subjects, facts, netlists, assertions):
        yield from subject.claims()


@dataclass(frozen=True)
class Proof(Check):
    """Proof of one claim. limit: seconds for each tool that runs."""

    kind = "proof"
    sources = ("model", "util", "hw", "synth", "verify/formal", "verify/small_units.py")
    name: str
    limit: float

    @property
    def parts(self) -> Sequence[Any]:
        return [self.name]

    @property
    def label(self) -> str:
        return self.name

    @property
    def weight(self) -> float:
        return _SECONDS.get(self.name.partition(":")[0], 4.0)

    def result(self) -> dict[str, str]:
        """Texts of the row; ValueError for a claim that does not hold."""
        claim = next(claim for claim in claims() if claim.name == self.name)
        with scratch("formal") as directory:
            shown = prove(claim, directory, self.limit)
        text = (
            f"{shown.verdict.value} for {shown.space} inputs in {shown.seconds:.1f} s; with a bug "
            f"{shown.bug.value} in {shown.bug_seconds:.1f} s"
        )
        if not shown.holds:
            raise ValueError(text)
        row = f"{shown.space} | {shown.verdict.value} | {shown.seconds:.0f} s"
        return {"text": text, "row": row}


def run(only: str, session: Session, *, list_only: bool, limit: float, markdown: bool) -> int:
    """Prove the claims with `only` in their names: 0 when all hold, 1 when not.

    limit: seconds for each tool that runs. markdown: print rows of docs/evidence.md.
    """
    subjects = chosen(claims(), only, "claim")
    limit_above_0(limit)
    if list_only:
        for claim in subjects:
            print(f"{claim.name:28} {claim.says}")
        return 0
    outcomes = session.outcomes([Proof(claim.name, limit) for claim in subjects], "proving")
    for claim, outcome in zip(subjects, outcomes, strict=True):
        print(_row(claim, outcome, markdown))
    failed = [outcome.label for outcome in outcomes if not outcome.ok]
    if failed:
        print(
            f"formal: {len(failed)} of {len(outcomes)} failed: {' '.join(failed)}", file=sys.stderr
        )
    return int(bool(failed))


def _row(claim: Claim, outcome: Outcome, markdown: bool) -> str:
    if not outcome.ok:
        return f"FAILED {claim.name}: {outcome.error}"
    if markdown:
        return f"| `{claim.name}` | {claim.says} | {outcome.value['row']} |"
    return f"holds  {claim.name}: {outcome.value['text']}"
