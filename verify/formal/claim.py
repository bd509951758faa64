"""A claim: one row of docs/verification.md."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .engine import Verdict, decide
from .observer import ObservedUnit, Rule

BUGS = ((" + ", " - "), (" ^ ", " | "), (" & ", " | "), (" ? ", " ? ~"))
"""What a seeded bug replaces: the first of these that the text has."""


Decision = Callable[[ObservedUnit, Rule, Path, float], Verdict]
"""How a claim is decided: as `engine.decide`, or by that and something before it."""


@dataclass(frozen=True)
class Claim:
    """What a subject does, said twice: in words, and as a rule that tells when it does not.

    bug: (right, wrong) text of the subject, replaced once, which the proof must refute; one of
    `BUGS` when None.
    """

    name: str
    says: str
    subject: Callable[[], ObservedUnit]
    rule: Rule
    bug: tuple[str, str] | None = None
    decide: Decision = decide
    bits: int | None = None
    """Of the inputs that it speaks of, if not of all that the subject has."""
    state: str = "any state"
    """In which registers begin, where it is about any number of cycles."""

    def seeded(self, subject: ObservedUnit) -> ObservedUnit:
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
    verdict = claim.decide(subject, claim.rule, directory / "proof", limit)
    between = time.monotonic()
    bug = claim.decide(claim.seeded(subject), claim.rule, directory / "bug", limit)
    bug_seconds = time.monotonic() - between
    return Result(claim, space(claim, subject), verdict, between - start, bug, bug_seconds)


def space(claim: Claim, subject: ObservedUnit) -> str:
    """How many inputs there are, as a power of two."""
    every = f" in every cycle, from {claim.state}" if subject.clock and not subject.cycles else ""
    bits = subject.input_bits if claim.bits is None else claim.bits
    return f"2^{bits}{every}"
