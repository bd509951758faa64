"""A claim: one row of docs/verification.md."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .engine import Verdict, decide
from .observer import Rule, Subject

BUGS = ((" + ", " - "), (" ^ ", " | "), (" & ", " | "), (" ? ", " ? ~"))
"""What a seeded bug replaces: the first of these that the text has."""


@dataclass(frozen=True)
class Claim:
    """What a subject does, said twice: in words, and as a rule that tells when it does not.

    bug: (right, wrong) text of the subject, replaced once, which the proof must refute; one of
    `BUGS` when None.
    """

    name: str
    says: str
    subject: Callable[[], Subject]
    rule: Rule
    bug: tuple[str, str] | None = None

    def seeded(self, subject: Subject) -> Subject:
        """The subject with its bug."""
        known = BUGS if self.bug is None else (self.bug,)
        for right, wrong in known:
            if right in subject.text:
                return replace(subject, text=subject.text.replace(right, wrong, 1))
        raise ValueError(f"bug of {self.name} must be in the subject's text, not {known!r}")


@dataclass(frozen=True)
class Result:
    """What became of a claim; times in seconds."""

    claim: Claim
    space: str
    verdict: Verdict
    seconds: float
    bug: Verdict
    bug_seconds: float

    @property
    def holds(self) -> bool:
        """Proved, and the same proof fails with the bug."""
        return self.verdict is Verdict.PROVED and self.bug is Verdict.REFUTED


def prove(claim: Claim, directory: Path, limit: float) -> Result:
    """Prove a claim and show that the proof bites. limit: seconds for each tool that runs.

    SynthesisError when a tool fails or takes longer.
    """
    subject = claim.subject()
    start = time.monotonic()
    verdict = decide(subject, claim.rule, directory / "proof", limit)
    between = time.monotonic()
    bug = decide(claim.seeded(subject), claim.rule, directory / "bug", limit)
    return Result(claim, space(subject), verdict, between - start, bug, time.monotonic() - between)


def space(subject: Subject) -> str:
    """How many inputs there are, as a power of two."""
    every = " in every cycle, from any state" if subject.clock else ""
    return f"2^{subject.input_bits}{every}"
