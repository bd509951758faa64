"""Tasks of mutants: a subject passes without one, each is judged, survivors meet proofs."""

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...model.units import MatmulConfig
from ...sim.engine.unit import UnitResult
from ...synth.errors import SynthesisError
from ...util.cache import is_whole, locked, seal
from ...util.children import blames_machine
from ...util.files import write_file
from ...util.keys import fingerprint, task_key
from ...util.runs import scratch
from ..command import Check
from ..formal.engine import Verdict
from ..small_units import UNITS, Unit
from . import bench, design, equivalence, rows
from .design import Design, Mutant
from .equivalence import Limits
from .parts import PARTS, Part, failing, judged, missing, mutants, tests_digest, text_of
from .score import Fate, MutantOutcome

BUILD = Path("build/mutate")
"""Folder of designs and simulations, which mutants of a unit share."""
_BENCH = ("model", "util", "hw", "sim", "verify/mutate")
_PROOFS = ("model", "util", "hw", "synth", "verify/formal", "verify/mutate")


@dataclass(frozen=True)
class Sample:
    """Mutants to judge per subject, by a seed."""

    count: int
    seed: int


@dataclass(frozen=True)
class _OfUnit(Check):
    """Task about a mutant of a unit. number: counted from 1; 0 is the unit as it is."""

    unit: Unit
    sample: Sample
    number: int

    @property
    def parts(self) -> Sequence[Any]:
        return [*self.unit.parts, asdict(self.sample), self.number]

    @property
    def label(self) -> str:
        return f"{self.unit.name} {self.number}" if self.number else self.unit.name

    @property
    def weight(self) -> float:
        rough = 4.0 if self.number else 60.0
        return rough * (4 if isinstance(self.unit.config, MatmulConfig) else 1)


class UnitMutant(_OfUnit):
    """The bench judges a mutant: an outcome as a dict.

    The unit as it is must pass; the value is a list with the text of each mutant.
    """

    kind, sources = "mutant", _BENCH

    def result(self) -> dict[str, Any] | list[str]:
        made, seed = designed(self.unit, self.sample), self.sample.seed
        builds = BUILD / self.unit.name / "builds"
        if self.number:
            return asdict(simulated(made, self.number, seed, builds))
        for stage in bench.stages(self.unit):
            _check_itself(made, stage, seed, builds)
        return [mutant.text for mutant in made.mutants]


@dataclass(frozen=True)
class SurvivorProof(_OfUnit):
    """A survivor of the bench is proved equal, or killed by a proof, or neither."""

    kind, sources = "survivor", _PROOFS
    limits: Limits

    @property
    def parts(self) -> Sequence[Any]:
        return [*super().parts, asdict(self.limits)]

    def result(self) -> dict[str, Any]:
        made = designed(self.unit, self.sample)
        with scratch("mutant") as directory:
            return asdict(proved(made, made.mutants[self.number - 1], directory, self.limits))


@dataclass(frozen=True)
class PartMutant(Check):
    """Tests judge a mutant of Python modules; values as `UnitMutant`'s."""

    kind, sources = "part", ("model", "hw", "gpu", "verify/mutate")
    part: Part
    sample: Sample
    number: int

    @property
    def parts(self) -> Sequence[Any]:
        return [asdict(self.part), asdict(self.sample), self.number, tests_digest()]

    @property
    def label(self) -> str:
        return f"{self.part.name} {self.number}" if self.number else self.part.name

    @property
    def weight(self) -> float:
        return 10.0 if self.number else 60.0

    def result(self) -> dict[str, Any] | list[str]:
        made = mutants(self.part, self.sample.count, self.sample.seed)
        if self.number:
            return asdict(judged(self.part, *made[self.number - 1]))
        if failed := failing(self.part):
            raise ValueError(f"{self.part.name} without a mutant fails {failed}")
        return [text_of(*mutant) for mutant in made]


@dataclass(frozen=True)
class MutationSubject:
    """One row of the result: a unit or Python modules. says: the subject in words.

    mutant: task of a number, 0 for the subject as it is. proof: task of a survivor; None without.
    missing: why it cannot be judged here.
    """

    name: str
    says: str
    mutant: Callable[[Sample, int], Check]
    proof: Callable[[Sample, int, Limits], Check] | None = None
    missing: str = ""


def of_unit(unit: Unit) -> MutationSubject:
    """A unit, whose mutants the bench and proofs judge."""
    says, proof = unit.config.name, partial(SurvivorProof, unit)
    return MutationSubject(unit.name, says, partial(UnitMutant, unit), proof)


def of_part(part: Part) -> MutationSubject:
    """Python modules, whose mutants tests judge."""
    return MutationSubject(part.name, part.says, partial(PartMutant, part), None, missing(part))


def subjects() -> list[MutationSubject]:
    """Units, then parts of Python."""
    return [*map(of_unit, UNITS), *map(of_part, PARTS)]


def designed(unit: Unit, sample: Sample) -> Design:
    """The unit and its mutants, made once for all processes of this machine."""
    key = task_key("design", unit.parts, asdict(sample), fingerprint(_BENCH))
    directory = BUILD / unit.name / key
    file = directory.resolve() / "design.pickle"
    with locked(BUILD / unit.name / "lock"):
        made = _kept(file, key)
        if made is None:
            made = design.make(unit, sample.count, sample.seed, file.parent)
            write_file(file, pickle.dumps(made))
            for each in (made.verilog, made.aiger, file):
                seal(each, key)
    return made


def _kept(file: Path, key: str) -> Design | None:
    """The design of a file, wherever its folder was when it was made; None unless all is whole."""
    if not is_whole(file, key):
        return None
    made = pickle.loads(file.read_bytes())
    verilog, aiger = (file.with_name(path.name) for path in (made.verilog, made.aiger))
    if not (is_whole(verilog, key) and is_whole(aiger, key)):
        return None
    return replace(made, verilog=verilog, aiger=aiger)


def simulated(made: Design, number: int, seed: int, builds: Path) -> MutantOutcome:
    """Fate of a mutant by the bench. builds: folder of its simulations."""
    start, fate, by = time.monotonic(), Fate.SURVIVED, "no bench"
    for stage in bench.stages(made.unit):
        if _fails(made, number, stage, seed, builds):
            fate, by = Fate.KILLED, stage.name
            break
    text = made.mutants[number - 1].text
    return MutantOutcome(made.unit.name, text, fate, by, time.monotonic() - start)


def _run(made: Design, number: int, stage: bench.Stage, seed: int, builds: Path) -> UnitResult:
    with scratch("mutant") as directory:
        return bench.run(made, number, stage, seed, directory, builds)


def _fails(made: Design, number: int, stage: bench.Stage, seed: int, builds: Path) -> bool:
    """Whether the bench fails of the mutant. A run without a wrong result may fail of the machine,
    as of a full disk or a program that is killed: it must fail again, and the unit itself pass."""
    result = _run(made, number, stage, seed, builds)
    if result.passed or result.mismatches:
        return not result.passed
    if _run(made, number, stage, seed, builds).passed:
        return False
    _check_itself(made, stage, seed, builds)
    return True


def _check_itself(made: Design, stage: bench.Stage, seed: int, builds: Path) -> None:
    """ValueError where the unit as it is fails."""
    result = _run(made, 0, stage, seed, builds)
    if not result.passed:
        why = (result.errors or ["nothing was compared"])[0]
        raise ValueError(f"{made.unit.name} itself fails {stage.name}: {why}")


def proved(made: Design, mutant: Mutant, directory: Path, limits: Limits) -> MutantOutcome:
    """Fate of a survivor: proved to be the same unit, killed by a row of `make formal`, or neither.

    Equality first: a row about a module says also what the unit never asks of it.
    """
    start = time.monotonic()

    def outcome(fate: Fate, by: str) -> MutantOutcome:
        return MutantOutcome(made.unit.name, mutant.text, fate, by, time.monotonic() - start)

    try:
        verdict, how = equivalence.decide(made, mutant.number, directory, limits)
    except SynthesisError as error:
        if blames_machine(str(error)):
            raise
        verdict, how = Verdict.UNDECIDED, f": {error}"
    if verdict is Verdict.PROVED:
        return outcome(Fate.EQUIVALENT, how)
    row = rows.killer(made, mutant, directory / "row", limits.longer)
    if row is not None:
        return outcome(Fate.KILLED, f"proof `{row}`")
    if verdict is Verdict.REFUTED:
        return outcome(Fate.SURVIVED, "another unit, says ABC")
    return outcome(Fate.SURVIVED, f"no proof{how}")
