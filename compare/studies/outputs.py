"""Files of a comparison: CSV, JSON and Parquet (`mxdot compare columns`), plots and report."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...model.errors import FORMULA
from ...util.charts import save
from ...util.tables import flat_type, lines, records, write_csv, write_json, write_parquet
from .charts import pictures
from .report import report
from .rows import Row
from .session import Comparison


def export(comparison: Comparison, directory: Path) -> list[Path]:
    """Write `compare.csv`, `lengths.csv`, `sections.csv`, `compare.json` and `compare.parquet`."""
    rows = comparison.rows
    nested = {"sections": _areas, "lengths": list}
    return [
        write_csv(directory / "compare.csv", records(Row, rows)),
        write_csv(directory / "lengths.csv", lengths(rows)),
        write_csv(directory / "sections.csv", sections(rows)),
        write_json(directory / "compare.json", comparison.to_dict()),
        write_parquet(directory / "compare.parquet", records(Row, rows, nested)),
    ]


def _areas(of_row: dict[str, float]) -> list[dict[str, Any]]:
    return [{"section": name, "area": area} for name, area in of_row.items()]


def lengths(rows: Sequence[Row]) -> Any:
    """One line for each rule, data set and length: everything that was measured there."""
    found: dict[tuple, dict[str, Any]] = {}
    lead = ["format", "accumulator", "options", "lanes", "data"]
    for row in rows:
        rule = {name: getattr(row, name) for name in lead}
        for accuracy in row.lengths:
            key = (*rule.values(), accuracy["length"])
            found.setdefault(key, accuracy | rule)
    known = dict.fromkeys([*lead, "length"]) | dict.fromkeys(n for a in found.values() for n in a)
    return lines([name for name in known if name != "formats"], found.values())


def sections(rows: Sequence[Row]) -> Any:
    """One line for each unit, flow, target and section of the datapath."""
    found: dict[tuple, None] = {}
    for row in rows:
        for section, area in row.sections.items():
            # As Verilog spells it, an instance's name begins no formula of a spreadsheet.
            name = f"\\{section}" if section.startswith(FORMULA) else section
            found[row.unit, row.flow, row.target, name, area, row.area_unit] = None
    names = ["unit", "flow", "target", "section", "area", "area_unit"]
    return lines(names, (dict(zip(names, line, strict=True)) for line in found))


def schema() -> list[dict[str, str]]:
    """Column, type, unit and meaning of each column."""
    nested = {"sections": "section: area", "lengths": "list of measures"}
    names = [column.name for column in fields(Row)]
    types = [flat_type(Row, name) for name in names]
    return [
        {
            "column": column.name,
            "type": flat.__name__ if flat else nested[column.name],
            "unit": column.metadata["unit"],
            "meaning": column.metadata["doc"],
        }
        for column, flat in zip(fields(Row), types, strict=True)
    ]


def schema_markdown() -> str:
    """The columns as a table in Markdown."""
    text = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    text += [f"| `{r['column']}` | {r['type']} | {r['unit']} | {r['meaning']} |" for r in schema()]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class Files:
    """Paths of written files."""

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
