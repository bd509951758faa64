"""Units in other Verilog, described in a TOML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...model import accumulator, format_pairs
from ...model.errors import cell_text, printable, reason_of
from ...model.files import read_text
from ...synth import LARGEST_VERILOG, script
from ...util.schema import Table, check_count, checked, read_toml
from .units import Foreign

Named = Annotated[str, Meta(min_length=1, description="text, not empty")]
Positive = Annotated[int, Meta(ge=1, description="an integer of at least 1")]


class ExtraTable(Table):
    """A unit in other Verilog: `[[extra]]` of the file."""

    name: Named
    verilog: Annotated[
        str | Annotated[list[str], Meta(min_length=1)],
        Meta(description="a file or a list of files"),
    ]
    top: Named
    format: Named | UnsetType = UNSET
    accumulator: Named | UnsetType = UNSET
    lanes: Positive | UnsetType = UNSET
    stages: Positive | UnsetType = UNSET
    latency: Positive | UnsetType = UNSET
    interval: Positive | UnsetType = UNSET
    parameters: Annotated[
        dict[str, int | str], Meta(description="a table of numbers and texts")
    ] = msgspec.field(default_factory=dict)


def load_extra(path: Path) -> list[Foreign]:
    """The units of a TOML file with a table `[[extra]]` each.

    `name`, `verilog` (one file or a list, relative to the TOML file) and `top` must be given;
    `format`, `accumulator`, `lanes`, `stages`, `latency`, `interval` and `parameters`, a table of
    the top module's, may be. Files named .sv are SystemVerilog. ValueError, naming the file and
    what is wrong, when it cannot be read.
    """
    data = read_toml(path)
    unknown = sorted(set(data) - {"extra"})
    if unknown:
        raise ValueError(f"{path}: tables must be [[extra]], not {unknown[0]!r}")
    return extras(data.get("extra"), path)


def extras(tables: Any, path: Path) -> list[Foreign]:
    """The units of the tables `[[extra]]` of the TOML file `path`."""
    if not isinstance(tables, list) or not tables:
        raise ValueError(f"{path} must hold at least one table [[extra]]")
    check_count(f"{path}: [[extra]]", tables)
    units: list[Foreign] = []
    room = LARGEST_VERILOG
    for table in tables:
        if not isinstance(table, dict):
            raise ValueError(f"{path}: extra must be a table [[extra]], not {table!r}")
        try:
            units.append(_foreign(checked(table, ExtraTable), path.parent, room))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: extra {table.get('name', '')!r}: {error}") from None
        room -= len(units[-1].verilog)
    names = [unit.name for unit in units]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: names of extra units must differ, {name!r} is there twice")
    return units


def _foreign(table: ExtraTable, folder: Path, room: int) -> Foreign:
    """The unit of a table, whose files have at most `room` bytes."""
    cell_text("name", table.name)
    names = [table.verilog] if isinstance(table.verilog, str) else table.verilog
    files = [folder / printable("verilog", name) for name in names]
    unit = Foreign(
        **table.given()
        | {
            "verilog": _read(files, room),
            "files": tuple(printable("verilog", str(file)) for file in files),
            "parameters": tuple(sorted(table.parameters.items())),
        }
    )
    _check_rule(unit)
    script(unit.verilog, unit.top, **unit.reading)  # refuses what must not reach Yosys
    return unit


def _check_rule(unit: Foreign) -> None:
    """ValueError unless format and accumulator exist and fit each other."""
    if unit.format is not None and len(format_pairs(unit.format)) != 1:
        raise ValueError(f"format must be one format or pair, not {unit.format!r}")
    if unit.accumulator is not None:
        accumulator(unit.accumulator)
    if unit.rule is not None:
        (a, b), rule = unit.rule
        rule.check_formats(a, b)


def _read(paths: Sequence[Path], room: int) -> str:
    texts = []
    for path in paths:
        texts.append(_read_one(path, room) + "\n")
        room -= len(texts[-1])
    return "".join(texts)


def _read_one(path: Path, room: int) -> str:
    try:
        return read_text(path, max(room, 0))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file") from None
