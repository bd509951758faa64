"""A claim: one row of docs/evidence.md."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...hw.verilog import without_remarks
from .engine import Verdict, decide
from .observer import ObservedUnit, Rule

BUGS = ((" + ", " - "), (" ^ ", " | "), (" & ", " | "), (" ? ", " ? ~"))
"""Replacements that seed a bug: the first whose left text is there."""


Decision = Callable[[ObservedUnit, Rule, Path, float], Verdict]
"""Function that decides a claim, as `engine.decide` does."""


@dataclass(frozen=True)
class Claim:
    """Behaviour of a subject, in words and as a rule that tells when it is wrong.

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
    """Bits of the inputs that the claim covers; None for all of the subject."""
    state: str = "any state"
    """State in which registers begin, for claims about any number of cycles."""
    cycles: str = "every cycle"
    """Cycles that such a claim is about, in words."""

    def seeded(self, subject: ObservedUnit) -> ObservedUnit:
        """The subject with its bug."""
        known, text = BUGS if self.bug is None else (self.bug,), without_remarks(subject.text)
        for right, wrong in known:
            if right in text:
                return replace(subject, text=text.replace(right, wrong, 1))
        raise ValueError(f"bug of {self.name} must be in the subject's text, not {known!r}")


@dataclass(frozen=True)
class Result:
    """Verdicts about a claim; times in seconds."""

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
    """Number of inputs as a power of two, in words."""
    every = (
        f" in {claim.cycles}, from {claim.state}" if subject.clock and not subject.cycles else ""
    )
    bits = subject.input_bits if claim.bits is None else claim.bits
    return f"2^{bits}{every}"
