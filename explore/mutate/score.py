"""What became of mutants, kept on disk, and the score."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from ...sim.engine.cache import digest
from ..cost.cache import Cache
from ..cost.errors import SynthesisError
from ..formal import aig, engine
from ..formal.engine import Verdict
from . import bench, equivalence
from .design import Design

GOAL = 99.0
"""Percent of the mutants that are not the same unit."""
_PACKAGES = Path(__file__).parents[2]


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Outcome:
    """The fate of one mutant. by: what killed it, or how it was proved; seconds: of all of it."""

    name: str
    text: str
    fate: Fate
    by: str
    seconds: float


Told = Callable[[Outcome], None]


def score(outcomes: Iterable[Outcome]) -> float:
    """Percent killed of those that are not proved equivalent; 100 when all are."""
    fates = [outcome.fate for outcome in outcomes if outcome.fate is not Fate.EQUIVALENT]
    return 100 * fates.count(Fate.KILLED) / len(fates) if fates else 100.0


def judges() -> str:
    """A digest of what judges: the bench, the model, and the proofs."""
    files = sorted(path for name in ("sim", "model") for path in (_PACKAGES / name).rglob("*.py"))
    files += sorted((_PACKAGES / "sim").rglob("*.sv*"))
    files += [Path(str(module.__file__)) for module in (aig, bench, engine, equivalence)]
    return digest([path.read_text() for path in files])


def judged(
    design: Design, seed: int, directory: Path, cache: Cache, limit: float, tell: Told
) -> list[Outcome]:
    """The fate of every mutant of a unit; what `cache` has is taken from there.

    limit: seconds for each proof. RuntimeError when the bench does not pass the unit itself.
    """
    against = judges()
    outcomes, whole = [], False
    for mutant in design.mutants:
        key = cache.key(design.original, mutant.text, seed, against, limit)
        kept = cache.read(key, "mutant")
        if kept is None:
            whole = whole or _passes(design, seed, directory)
            outcome = _judge(design, mutant.number, seed, directory, limit)
            cache.write(key, "mutant", asdict(outcome))
        else:
            outcome = Outcome(**kept | {"fate": Fate(kept["fate"])})
        tell(outcome)
        outcomes.append(outcome)
    return outcomes


def _passes(design: Design, seed: int, directory: Path) -> bool:
    for stage in bench.stages(design.unit):
        result = bench.run(design, 0, stage, seed, directory / "run")
        if not result.passed:
            reason = result.errors[:1] or ["nothing was compared"]
            raise RuntimeError(f"{design.unit.name} itself fails {stage.name}: {reason[0]}")
    return True


def _judge(design: Design, number: int, seed: int, directory: Path, limit: float) -> Outcome:
    start = time.monotonic()
    text = design.mutants[number - 1].text

    def outcome(fate: Fate, by: str) -> Outcome:
        return Outcome(design.unit.name, text, fate, by, time.monotonic() - start)

    for stage in bench.stages(design.unit):
        if not bench.run(design, number, stage, seed, directory / "run").passed:
            return outcome(Fate.KILLED, stage.name)
    try:
        verdict, how = equivalence.decide(design, number, directory / "proof", limit)
    except SynthesisError as error:
        return outcome(Fate.SURVIVED, f"no proof: {error}")
    if verdict is Verdict.PROVED:
        return outcome(Fate.EQUIVALENT, how)
    how = "another unit" if verdict is Verdict.REFUTED else "no proof"
    return outcome(Fate.SURVIVED, f"{how}, says ABC")


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many were killed by each judge, how many are equivalent, how many survived."""
    found: dict[str, int] = {}
    for outcome in outcomes:
        name = outcome.by if outcome.fate is Fate.KILLED else str(outcome.fate)
        found[name] = found.get(name, 0) + 1
    return found
