"""Units in other Verilog, described in a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from ...model import accumulator, format_pairs
from ...model.errors import cell_text, printable
from ..cost import script
from .units import Foreign

NEEDED = ("name", "verilog", "top")
TEXTS = ("format", "accumulator")
NUMBERS = ("lanes", "stages", "latency", "interval")
KEYS = (*NEEDED, *TEXTS, *NUMBERS, "parameters")


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
    units = []
    for table in tables:
        if not isinstance(table, dict):
            raise ValueError(f"{path}: extra must be a table [[extra]], not {table!r}")
        try:
            units.append(_foreign(table, path.parent))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: extra {table.get('name', '')!r}: {error}") from None
    names = [unit.name for unit in units]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: names of extra units must differ, {name!r} is there twice")
    return units


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; ValueError naming it when it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None


def _foreign(table: dict[str, Any], folder: Path) -> Foreign:
    for key, value in table.items():
        _check(key, value)
    for key in NEEDED:
        if key not in table:
            raise ValueError(f"{key} is missing")
    verilog = table["verilog"]
    files = [folder / file for file in ([verilog] if isinstance(verilog, str) else verilog)]
    unit = Foreign(
        table["name"],
        "".join(_read(file) for file in files),
        table["top"],
        tuple(printable("verilog", str(file)) for file in files),
        **{key: table[key] for key in (*TEXTS, *NUMBERS) if key in table},
        parameters=tuple(sorted(table.get("parameters", {}).items())),
    )
    _check_rule(unit)
    script(unit.verilog, unit.top, **unit.reading)  # refuses what must not reach Yosys
    return unit


def _check(key: str, value: Any) -> None:
    """ValueError unless `value` is of the kind that `key` takes."""
    if key not in KEYS:
        raise ValueError(f"keys are {', '.join(KEYS)}, not {key!r}")
    if key in ("name", "top", *TEXTS) and not (isinstance(value, str) and value):
        raise ValueError(f"{key} must be text, not {value!r}")
    if key == "name":
        cell_text(key, value)
    if key in NUMBERS and not (type(value) is int and value > 0):
        raise ValueError(f"{key} must be a positive integer, not {value!r}")
    if key == "verilog":
        files = value if isinstance(value, list) else [value]
        if not files or not all(isinstance(file, str) for file in files):
            raise ValueError(f"verilog must be a file or a list of files, not {value!r}")
    if key == "parameters":
        values = value.values() if isinstance(value, dict) else [None]
        if not all(type(item) in (int, str) for item in values):
            raise ValueError(f"parameters must be a table of numbers and texts, not {value!r}")


def _check_rule(unit: Foreign) -> None:
    """ValueError unless format and accumulator exist and fit each other."""
    if unit.format is not None and len(format_pairs(unit.format)) != 1:
        raise ValueError(f"format must be one format or pair, not {unit.format!r}")
    if unit.accumulator is not None:
        accumulator(unit.accumulator)
    if unit.rule is not None:
        (a, b), rule = unit.rule
        rule.check_formats(a, b)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") + "\n"
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file") from None
