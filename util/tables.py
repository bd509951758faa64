"""The one writer of tables: Arrow tables of records, as CSV, JSON and Parquet files.

A field of a record may say what it means (metadata `doc`, `unit`), which Parquet carries along.
"""

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from .files import write_file

FLAT = (bool, int, float, str)
"""Types of the fields that a CSV file can hold."""


def flat_type(kind: type, name: str) -> type | None:
    """The type of a dataclass's flat field, which may also be None; None for a nested one."""
    hint = get_type_hints(kind)[name]
    return next((flat for flat in FLAT if hint in (flat, flat | None)), None)


def flat_columns(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's flat fields, in order."""
    return tuple(f.name for f in fields(kind) if flat_type(kind, f.name))


def records(
    kind: type, rows: Iterable[Any], nested: Mapping[str, Callable[[Any], Any]] | None = None
) -> Any:
    """The Arrow table of dataclass records: their flat columns, and those of `nested`, each made
    of the field of its name.
    """
    import pyarrow as pa

    nested, rows = nested or {}, list(rows)
    columns, schema = [], []
    for column in fields(kind):
        flat = flat_type(kind, column.name)
        if flat is None and column.name not in nested:
            continue
        change = nested.get(column.name, lambda value: value)
        values = [change(getattr(row, column.name)) for row in rows]
        array = pa.array(values) if flat is None else pa.array(values, _arrow(flat))
        about = {"description": column.metadata.get("doc"), "unit": column.metadata.get("unit")}
        metadata = {key: text for key, text in about.items() if text is not None}
        schema.append(pa.field(column.name, array.type, metadata=metadata or None))
        columns.append(array)
    return pa.Table.from_arrays(columns, schema=pa.schema(schema))


def _arrow(flat: type) -> Any:
    import pyarrow as pa

    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    return types[flat]


def lines(names: Sequence[str], content: Iterable[Mapping[str, Any]]) -> Any:
    """The Arrow table of lines that may lack some of `names`; their values tell the types."""
    import pyarrow as pa

    content = list(content)
    arrays = [pa.array([line.get(name) for line in content]) for name in names]
    return pa.Table.from_arrays(arrays, names=list(names))


def write_csv(path: Path, table: Any) -> Path:
    """Text in quotes, numbers as short as they read back the same, nothing where a value is
    unknown.
    """
    from pyarrow import csv

    sink = io.BytesIO()
    csv.write_csv(table, sink)
    write_file(path, sink.getvalue())
    return path


def write_parquet(path: Path, table: Any) -> Path:
    """Types and meanings of columns come along."""
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(table, sink)
    write_file(path, sink.getvalue())
    return path


def write_json(path: Path, content: Any) -> Path:
    """Strict JSON: an infinite number is the text "inf"."""
    write_file(path, json.dumps(strict(content), indent=1, allow_nan=False) + "\n")
    return path


def strict(value: Any) -> Any:
    """`value` in which numbers that are not finite are text."""
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
