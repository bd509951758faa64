"""Outcomes of mutants, kept on disk, and the score."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from ...synth.errors import SynthesisError
from ...synth.measure import Cache
from ...util.cache import digest
from ..formal.engine import Verdict
from . import bench, equivalence, rows
from .design import Design, Mutant
from .equivalence import Limits

GOAL = 99.0
"""Percent of the mutants that are not the same unit."""
_PACKAGES = Path(__file__).parents[2]
_MAKERS = ("design", "operators", "rtlil")
"""Modules that make a mutant of what its text says."""


class Fate(StrEnum):
    """Outcome of a mutant."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "survived"


@dataclass(frozen=True)
class MutantOutcome:
    """The fate of one mutant. by: what killed it, or how it was proved; seconds: of all of it."""

    name: str
    text: str
    fate: Fate
    by: str
    seconds: float


Told = Callable[[MutantOutcome], None]


def score(outcomes: Iterable[MutantOutcome]) -> float:
    """Percent killed of those that are not proved equivalent; 100 when all are."""
    fates = [outcome.fate for outcome in outcomes if outcome.fate is not Fate.EQUIVALENT]
    return 100 * fates.count(Fate.KILLED) / len(fates) if fates else 100.0


def judged(
    design: Design, seed: int, directory: Path, cache: Cache, limits: Limits, tell: Told
) -> list[MutantOutcome]:
    """The fate of every mutant of a unit; what `cache` has is taken from there, what the bench
    found and what proofs found each by itself.

    limits: of the proofs. RuntimeError when the bench does not pass the unit itself.
    """
    benches, proofs = _digest_of_bench(), _digest_of_proofs()
    outcomes, whole = [], False
    for mutant in design.mutants:
        key = cache.key(design.original, mutant.text, seed, benches)
        found = _kept(cache, key, "bench")
        if found is None:
            whole = whole or _passes(design, seed, directory)
            found = _simulated(design, mutant, seed, directory)
            cache.write(key, "bench", asdict(found))
        if found.fate is not Fate.KILLED:
            key = cache.key(design.original, mutant.text, proofs, asdict(limits))
            proof = _kept(cache, key, "proof")
            if proof is None:
                proof = _proved(design, mutant, directory / "proof", limits)
                cache.write(key, "proof", asdict(proof))
            found = replace(proof, seconds=found.seconds + proof.seconds)
        tell(found)
        outcomes.append(found)
    return outcomes


def _kept(cache: Cache, key: str, kind: str) -> MutantOutcome | None:
    kept = cache.read(key, kind)
    return None if kept is None else MutantOutcome(**kept | {"fate": Fate(kept["fate"])})


def _digest_of_bench() -> str:
    """Digest of the bench, the model that it compares with, and the code that makes mutants."""
    others = [
        path for kind in ("*.sv*", "*.cc") for path in sorted((_PACKAGES / "sim").rglob(kind))
    ]
    units = _PACKAGES / "verify/small_units.py"
    return _digest("sim", "model", files=[*others, units, *_own("bench", *_MAKERS)])


def _digest_of_proofs() -> str:
    """Digest of the claims of `make formal`, their proofs and subjects, and what makes mutants."""
    files = [*_own("equivalence", "rows", *_MAKERS), _PACKAGES / "synth/tools.py"]
    return _digest("verify/formal", "hw", "model", files=files)


def _digest(*folders: str, files: Iterable[Path]) -> str:
    """Digest of the Python files of folders of mxdot, and of further files."""
    found = sorted(path for folder in folders for path in (_PACKAGES / folder).rglob("*.py"))
    return digest([path.read_text() for path in [*found, *files]])


def _own(*modules: str) -> list[Path]:
    return [Path(__file__).with_name(f"{module}.py") for module in modules]


def _passes(design: Design, seed: int, directory: Path) -> bool:
    for stage in bench.stages(design.unit):
        result = bench.run(design, 0, stage, seed, directory / "run")
        if not result.passed:
            reason = result.errors[:1] or ["nothing was compared"]
            raise RuntimeError(f"{design.unit.name} itself fails {stage.name}: {reason[0]}")
    return True


def _simulated(design: Design, mutant: Mutant, seed: int, directory: Path) -> MutantOutcome:
    """Killed by a stage of the bench, or not yet."""
    start, fate, by = time.monotonic(), Fate.SURVIVED, "no bench"
    for stage in bench.stages(design.unit):
        if not bench.run(design, mutant.number, stage, seed, directory / "run").passed:
            fate, by = Fate.KILLED, stage.name
            break
    return MutantOutcome(design.unit.name, mutant.text, fate, by, time.monotonic() - start)


def _proved(design: Design, mutant: Mutant, directory: Path, limits: Limits) -> MutantOutcome:
    """Proved to be the same unit, killed by a row of `make formal`, or neither.

    Equality first: a row about a module says also what the unit never asks of it.
    """
    start = time.monotonic()

    def outcome(fate: Fate, by: str) -> MutantOutcome:
        return MutantOutcome(design.unit.name, mutant.text, fate, by, time.monotonic() - start)

    try:
        verdict, how = equivalence.decide(design, mutant.number, directory, limits)
    except SynthesisError as error:
        verdict, how = Verdict.UNDECIDED, f": {error}"
    if verdict is Verdict.PROVED:
        return outcome(Fate.EQUIVALENT, how)
    row = rows.killer(design, mutant, directory / "row", limits.longer)
    if row is not None:
        return outcome(Fate.KILLED, f"proof `{row}`")
    if verdict is Verdict.REFUTED:
        return outcome(Fate.SURVIVED, "another unit, says ABC")
    return outcome(Fate.SURVIVED, f"no proof{how}")


def counts(outcomes: Sequence[MutantOutcome]) -> dict[str, int]:
    """How many were killed by each judge, how many are equivalent, how many survived."""
    found: dict[str, int] = {}
    for outcome in outcomes:
        name = outcome.by if outcome.fate is Fate.KILLED else str(outcome.fate)
        found[name] = found.get(name, 0) + 1
    return found
