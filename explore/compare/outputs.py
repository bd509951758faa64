"""Every file of a comparison."""

from dataclasses import dataclass
from pathlib import Path

from .export import export
from .plots import plot
from .report import report
from .session import Comparison


@dataclass(frozen=True)
class Files:
    """What was written."""

    report: Path
    tables: list[Path]
    plots: list[Path]


def write(comparison: Comparison, directory: Path) -> Files:
    """Write tables (CSV, JSON, Parquet), `plots/` (PNG, SVG) and `report.html` in `directory`."""
    tables = export(comparison, directory)
    plots = plot(comparison, directory / "plots")
    return Files(report(comparison, directory / "report.html"), tables, plots)
