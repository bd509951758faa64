"""A unit's share of a regression, as data that crosses into the simulator's process."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...model.units import KINDS
from ..kinds import kind_of, named


@dataclass(frozen=True)
class UnitJob:
    """A simulation of one unit of any kind.

    name: unique in a regression; files go to `directory`. traffic, bulk: how much is simulated
    cycle by cycle and in bulk mode; 0 leaves it out. rounds: how often bulk mode sends its items,
    each time with other gaps and stalls (units with one stream in and one out). explains: describe
    the first failure, for which a unit may be built once more. coverage: of the Verilog's lines,
    branches and toggles, next to the results of each run (.dat). verilog: simulate this file, not
    the generated unit.
    generator: "module:function" that makes the Verilog, of the configuration and the arguments
    after it; None for the generated unit. assertions: a broken assertion of the generated unit ends
    the run. predictor: "module:function" that predicts results; None is the golden model's.
    simulator: "module:function" that builds the simulation of bulk mode, of
    the top, the Verilog, a directory and the layout, in place of Verilator. builds: where
    simulations are compiled and kept; the job's directory when None. repeat: the command that
    repeats this job, for reports. tensors: a file of real data and the names of two arrays in it,
    of which all dot products are simulated in bulk mode, or a sample.
    """

    name: str
    config: Any
    seed: int
    directory: Path
    traffic: int = 2000
    bulk: int = 0
    rounds: int = 1
    waves: bool = False
    coverage: bool = False
    verilog: Path | None = None
    generator: tuple[str, ...] | None = None
    predictor: str | None = None
    simulator: str | None = None
    builds: Path | None = None
    repeat: str = ""
    tensors: Path | None = None
    tensor_names: tuple[str, ...] = ()
    all_tensors: bool = False
    explains: bool = True
    assertions: bool = False

    @property
    def build_directory(self) -> Path:
        """Directory in which simulations are compiled and kept."""
        return self.builds or self.directory

    def rng(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose: of the seed, the job's name and the purpose alone."""
        return np.random.default_rng([self.seed, zlib.crc32(f"{self.name}/{purpose}".encode())])

    def predict(self) -> Callable[..., Any]:
        """The function that predicts outcomes, of (configuration, batch)."""
        return named(self.predictor or kind_of(self.config).predictor)

    def generate(self) -> str:
        if self.generator is not None:
            function, *arguments = self.generator
            return named(function)(self.config, *arguments)
        from ...hw.verilog import generate

        return generate(self.config)

    def write(self) -> Path:
        """Write the job as JSON to job.json in its directory."""
        values = {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "kind": self.config.kind,
            "config": self.config.arguments,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory.resolve() / "job.json"
        # Paths become absolute: the simulator has another current directory.
        path.write_text(json.dumps(values, indent=1, default=_absolute) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> "UnitJob":
        """The job that `write` wrote."""
        values = json.loads(path.read_text())
        values["config"] = KINDS[values.pop("kind")].of(**values["config"])
        values["directory"] = Path(values["directory"])
        values["tensor_names"] = tuple(values["tensor_names"])
        values["generator"] = values["generator"] and tuple(values["generator"])
        for name in ("verilog", "tensors", "builds"):
            values[name] = None if values[name] is None else Path(values[name])
        return cls(**values)

    def report(self, failure: str, details: Sequence[str], waves: str | None = None) -> str:
        """Text for people: the failure, its unit, details, waves, the command that repeats it.

        failure: begins with its run. waves: file of the waves; the one of the run when None.
        """
        lines = [failure, f"seed {self.seed}, unit {self.name}: {self.config}", *details]
        file = next((run for run in ("bulk", "replay") if failure.startswith(run)), "cycle")
        path = self.directory / (waves or f"{file}.fst")
        if self.waves and path.is_file():
            lines.append(f"waves: {path}")
        if self.repeat:
            lines.append(f"repeat with: {self.repeat}")
        return "\n".join(lines)


def _absolute(path: Path) -> str:
    return str(path.resolve())


@dataclass
class Failure:
    """One item that came out wrong. item: its operands; all of them plain values of JSON.

    before, timing: of the first failure in bulk, items whose results came before this one, and the
    `Timing` of the run.
    """

    item: dict[str, Any]
    got: list[Any]
    want: list[Any]
    where: str
    """The run, and the number of the item in it."""
    before: list[dict[str, Any]] = field(default_factory=list)
    timing: dict[str, int] = field(default_factory=dict)


@dataclass
class CycleReport:
    """Results of the cycle-by-cycle bench; its test writes them as JSON."""

    compared: int = 0
    cycles: int = 0
    seconds: float = 0.0
    mismatches: int = 0
    errors: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    coverage: float = 0.0
    missed: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "CycleReport":
        """The report that `save` wrote."""
        values = json.loads(path.read_text())
        values["failures"] = [Failure(**failure) for failure in values["failures"]]
        return cls(**values)


KEPT_ERRORS = 2  # of a kind


class ErrorLog:
    """Errors of a run, into its report: the first of each kind, then the number of the others.

    Errors of a kind differ in numbers alone.
    """

    def __init__(self, report: CycleReport) -> None:
        self.report = report
        self.kinds: Counter[str] = Counter()

    def add(self, text: str) -> None:
        kind = re.sub(r"0x[0-9a-f]+|\d+", "#", text)
        self.kinds[kind] += 1
        if self.kinds[kind] <= KEPT_ERRORS:
            self.report.errors.append(text)

    def finish(self) -> None:
        """Note how many errors were left out."""
        self.report.errors += [
            f"{count - KEPT_ERRORS} more: {kind}"
            for kind, count in self.kinds.items()
            if count > KEPT_ERRORS
        ]
