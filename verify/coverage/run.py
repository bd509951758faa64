"""Coverage of the Verilog of small units: lines, branches, toggles; each hole with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.errors import integer
from ...sim.engine.job import UnitJob
from ...sim.engine.regression import run_unit
from ...sim.engine.summary import merge_coverage
from ...sim.engine.unit import verilog_of
from ...util.files import write_file
from ...util.runs import scratch
from ..command import Check, Session, chosen
from ..small_units import UNITS, Unit
from .judge import Covered, Judged, judge, measured
from .reasons import Reason, load, wider
from .report import page, summary, told

BUILD = Path("build/coverage")
_FUNCTIONAL = "coverage.yml"


@dataclass(frozen=True)
class CoverageOfUnit(Check):
    """A unit is simulated as `mxdot sim` does; points of its Verilog, and bins of the bench."""

    kind = "coverage"
    sources = (
        *("model", "util", "hw", "sim", "synth/tools.py", "verify/formal/aig.py"),
        *("verify/coverage/judge.py", "verify/coverage/points.py", "verify/coverage/run.py"),
    )
    unit: Unit
    seed: int

    @property
    def parts(self) -> Sequence[Any]:
        return [*self.unit.parts, self.seed]

    @property
    def label(self) -> str:
        return self.unit.name

    @property
    def weight(self) -> float:
        return 100.0 if self.unit.config.kind == "matmul" else 35.0

    def result(self) -> dict[str, Any]:
        unit = self.unit
        with scratch("coverage") as directory:
            job = UnitJob(
                unit.name, unit.config, self.seed, directory, unit.traffic, unit.many, coverage=True
            )
            result = run_unit(job)
            if not result.passed:
                raise ValueError((result.errors or ["nothing was compared"])[0])
            files = sorted(directory.glob("*.dat"))
            covered = measured(unit.name, verilog_of(job), files, directory / "case")
            bins = (directory / _FUNCTIONAL).read_text(encoding="utf-8")
        return {**covered.to_dict(), "functional": bins}


def run(only: str, seed: int, session: Session, *, list_only: bool) -> int:
    """Cover the units with `only` in their names: 0 when every hole has its reason, 1 when not.

    RuntimeError for a unit that does not pass.
    """
    units = chosen(UNITS, only, "unit")
    integer("seed", seed, 0, 2**31 - 1)
    if list_only:
        print("\n".join(f"{unit.name:18} {unit.config.name}" for unit in units))
        return 0
    reasons = load()
    judged = []
    outcomes = session.outcomes([CoverageOfUnit(unit, seed) for unit in units], "covering")
    for unit, outcome in zip(units, outcomes, strict=True):
        if not outcome.ok:
            raise RuntimeError(f"{unit.name} failed: {outcome.error}")
        bins = session.directory / unit.name / _FUNCTIONAL
        write_file(bins, outcome.value["functional"])
        judged.append(judge(Covered.of_dict(unit.name, outcome.value), reasons))
    return conclude(judged, reasons, session.directory)


def conclude(units: Sequence[Judged], reasons: Sequence[Reason], directory: Path) -> int:
    """Write the report and print the summary, with reasons of these units that no hole needs, or
    that hold of what was reached as well."""
    print("\n".join(map(told, units)))
    names = {unit.name for unit in units}
    used = {reason for unit in units for reason in unit.reasons.values()}
    unused = [reason for reason in reasons if reason.unit in names and reason not in used]
    wide = {
        reason: what
        for unit in units
        for reason, what in wider(reasons, unit.name, unit.counts, unit.source.splitlines()).items()
    }
    files = [path for unit in units if (path := directory / unit.name / _FUNCTIONAL).is_file()]
    merged = directory / "functional"
    functional = None
    if files:
        functional = merge_coverage(files, merged.with_suffix(".yml"), merged.with_suffix(".xml"))
    line = summary(units, functional, len(unused), len(wide))
    write_file(directory / "report.html", page(units, line))
    for reason in unused:
        print(f"no hole needs the reason {reason.what!r} of {reason.unit}: {reason.why}")
    for reason, what in wide.items():
        print(f"{what}, was reached, in spite of the reason {reason.what!r} of {reason.unit}")
    failed = bool(unused or wide) or any(unit.holes for unit in units)
    print(f"{line}: {'FAILED' if failed else 'closed'} ({directory / 'report.html'})")
    return int(failed)
