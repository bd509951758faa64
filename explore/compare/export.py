"""CSV, JSON and Parquet files of a comparison; docs/compare.md has their schema."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from ...model.errors import FORMULA
from ...sim.engine.files import write_file
from .rows import COLUMNS, Row
from .session import Comparison

FORMAT = 1
"""Version of the schema."""


def export(comparison: Comparison, directory: Path) -> list[Path]:
    """Write `compare.csv`, `lengths.csv`, `sections.csv`, `compare.json` and `compare.parquet`."""
    rows = comparison.rows
    files: dict[str, str | bytes] = {
        "compare.csv": _csv(COLUMNS, ([getattr(row, name) for name in COLUMNS] for row in rows)),
        "lengths.csv": lengths_csv(rows),
        "sections.csv": sections_csv(rows),
        "compare.json": json.dumps(as_json(comparison), indent=1, allow_nan=False) + "\n",
        "compare.parquet": parquet(rows),
    }
    for name, content in files.items():
        write_file(directory / name, content)
    return [directory / name for name in files]


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as strict JSON: an infinite number is the text "inf"."""
    return {
        "format": FORMAT,
        "title": comparison.title,
        "made_by": comparison.made_by,
        "date": comparison.date,
        "notes": list(comparison.notes),
        "rows": [_strict(row.to_dict()) for row in comparison.rows],
    }


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _csv(header: Sequence[str], lines: Any) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()


def lengths_csv(rows: Sequence[Row]) -> str:
    """One line for each rule, data set and length: everything that was measured there."""
    found: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        for accuracy in row.lengths:
            key = (row.format, row.accumulator, row.options, row.lanes, row.data,
                   accuracy["length"])  # fmt: skip
            found.setdefault(key, accuracy)
    names = list(dict.fromkeys(name for accuracy in found.values() for name in accuracy))
    lead = ["format", "accumulator", "options", "lanes", "data", "length"]
    rest = [name for name in names if name not in (*lead, "formats")]
    lines = ([*key, *(a.get(name) for name in rest)] for key, a in found.items())
    return _csv([*lead, *rest], lines)


def sections_csv(rows: Sequence[Row]) -> str:
    """One line for each unit, flow, target and section of the datapath."""
    found: dict[tuple, None] = {}
    for row in rows:
        for section, area in row.sections.items():
            # As Verilog spells it, an instance's name begins no formula of a spreadsheet.
            name = f"\\{section}" if section.startswith(FORMULA) else section
            found[row.unit, row.flow, row.target, name, area, row.area_unit] = None
    return _csv(["unit", "flow", "target", "section", "area", "area_unit"], found)


def parquet(rows: Sequence[Row]) -> bytes:
    """A Parquet file: the flat columns, and `sections` and `lengths` as lists of structures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "bool": pa.bool_(),
        "int": pa.int64(),
        "float": pa.float64(),
        "str": pa.string(),
    }
    columns, schema = [], []
    for column in fields(Row):
        values: list[Any] = [getattr(row, column.name) for row in rows]
        kind = types.get(column_type(column.name))
        if column.name == "sections":
            values = [[{"section": k, "area": v} for k, v in cell.items()] for cell in values]
            kind = pa.list_(pa.struct({"section": types["str"], "area": types["float"]}))
        array = pa.array(values, kind) if kind is not None else pa.array(values)
        doc = {"description": column.metadata["doc"], "unit": column.metadata["unit"]}
        schema.append(pa.field(column.name, array.type, metadata=doc))
        columns.append(array)
    table = pa.Table.from_arrays(columns, schema=pa.schema(schema))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def column_type(name: str) -> str:
    """`bool`, `int`, `float` or `str` of a flat column; empty for a nested one."""
    annotation = get_type_hints(Row)[name]
    for kind in (bool, int, float, str):
        if annotation in (kind, kind | None):
            return kind.__name__
    return ""


def schema_markdown() -> str:
    """The table of the columns for docs/compare.md."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in fields(Row):
        kind = column_type(column.name)
        nested = {"sections": "section: area", "lengths": "list of measures"}
        lines.append(
            f"| `{column.name}` | {nested.get(column.name, kind)} | {column.metadata['unit']} | "
            f"{column.metadata['doc']} |"
        )
    return "\n".join(lines) + "\n"
