"""Coverage of the Verilog of small units: lines, branches, toggles; each hole with its reason."""

from collections.abc import Sequence
from pathlib import Path

from ...model.errors import integer
from ...sim.engine.job import UnitJob
from ...sim.engine.merge import merge_coverage
from ...sim.engine.unit import run_unit, verilog_of
from ...util.files import write_file
from ..small_units import UNITS, Unit
from .judge import Judged, judge
from .reasons import Reason, load, wider
from .report import page, summary, told

BUILD = Path("build/coverage")


def run(only: str, seed: int, *, list_only: bool) -> int:
    """Cover the units with `only` in their names: 0 when every hole has its reason, 1 when not."""
    chosen = [unit for unit in UNITS if only in unit.name]
    if not chosen:
        raise ValueError(f"only must be part of a unit's name (see --list), not {only!r}")
    integer("seed", seed, 0, 2**31 - 1)
    if list_only:
        print("\n".join(f"{unit.name:18} {unit.config.name}" for unit in chosen))
        return 0
    reasons = load()
    units = [_covered(unit, seed, reasons) for unit in chosen]
    return conclude(units, reasons)


def conclude(units: Sequence[Judged], reasons: Sequence[Reason]) -> int:
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
    files = [path for unit in units if (path := BUILD / unit.name / "coverage.yml").is_file()]
    merged = BUILD / "functional"
    functional = None
    if files:
        functional = merge_coverage(files, merged.with_suffix(".yml"), merged.with_suffix(".xml"))
    line = summary(units, functional, len(unused), len(wide))
    write_file(BUILD / "report.html", page(units, line))
    for reason in unused:
        print(f"no hole needs the reason {reason.what!r} of {reason.unit}: {reason.why}")
    for reason, what in wide.items():
        print(f"{what}, was reached, in spite of the reason {reason.what!r} of {reason.unit}")
    failed = bool(unused or wide) or any(unit.holes for unit in units)
    print(f"{line}: {'FAILED' if failed else 'closed'} ({BUILD / 'report.html'})")
    return int(failed)


def _covered(unit: Unit, seed: int, reasons: Sequence[Reason]) -> Judged:
    """Simulate one unit as `make sim` does, and judge what it reached."""
    directory = BUILD / unit.name
    job = UnitJob(unit.name, unit.config, seed, directory, unit.traffic, unit.many, coverage=True)
    for old in directory.glob("*.dat"):
        old.unlink()
    result = run_unit(job)
    if not result.passed:
        raise ValueError(f"{unit.name} failed: {(result.errors or ['nothing was compared'])[0]}")
    verilog = verilog_of(job)
    return judge(unit.name, verilog, sorted(directory.glob("*.dat")), reasons, directory / "case")
