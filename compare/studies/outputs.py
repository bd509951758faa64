"""Every file of a comparison."""

from dataclasses import dataclass
from pathlib import Path

from ...util.charts import save
from .charts import pictures
from .export import export
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


def plot(comparison: Comparison, directory: Path) -> list[Path]:
    """Write every picture that the rows have data for, as PNG and SVG."""
    return [
        path
        for picture in pictures(comparison.rows)
        for path in save(picture, directory / picture.file_name)
    ]
