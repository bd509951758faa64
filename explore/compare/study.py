"""A study: everything that one comparison asks, from a TOML file or from options.

title = "Which accumulator?"
[[sweep]]                                  # one or more: units as products of sweep texts
format = "e4m3,e5m2"
accumulator = ["exact", "aligned:6..25"]   # text or list
lanes = [8, 16, 32]
stages = "2..5"                            # default: as `mxdot verilog` has it
[[extra]]                                  # any other Verilog, see `extra.load_extra`
[cost]
process = "gates,asap7"                    # sky130, ihp, asap7, gt2n; or, beside it or instead:
flow = "cells"                             # another library, or an FPGA
liberty = "cells.lib"                      # relative to this file; a list where it is cut in files
target_ps = [500, 1000]                    # each flow that takes targets runs for each
target_levels = "30..50/10"
effort = "speed"                           # or area, where there is no target
energy = true                              # the energy proxy, a few seconds for each unit
[accuracy]
data = ["normal", "real"]
lengths = [32, 4096]
count = 256
seed = 1
encoder = 0                                # sentences through the real encoder, end to end
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...model.errors import printable
from ..run.keys import FILES
from .extra import extras, read_toml
from .flows import NONE, Synthesis, with_processes
from .points import Point, Sampling, Sweep, parameters, points_of, units_of
from .sweep import integers, items
from .units import Foreign

DEFAULT = Path(__file__).with_name("default.toml")
NUMBERS = ("count", "seed", "encoder")
"""Keys of `[accuracy]` that are those of `Sampling`."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """What to compare. The flows and the data apply to every unit."""

    title: str
    sweeps: tuple[Sweep, ...]
    extra: tuple[Foreign, ...] = ()
    synthesis: Synthesis = field(default_factory=Synthesis)
    data: tuple[str, ...] = ("normal",)
    sampling: Sampling = field(default_factory=Sampling)

    def points(self, note: Note = lambda text: None) -> list[Point]:
        """All points; ValueError when the study cannot be done, before any work."""
        check_data(self.data)
        swept = [unit for sweep in self.sweeps for unit in units_of(sweep, note)]
        everything = [*dict.fromkeys(swept), *self.extra]
        if not everything:
            raise ValueError("a study must hold at least one [[sweep]] or [[extra]]")
        found = points_of(everything, self.synthesis.flows(), self.data or (None,), self.sampling)
        if not found:
            raise ValueError("flow none and data none leave nothing to measure")
        return found


def check_data(names: Sequence[str]) -> None:
    """ValueError unless every name is a data set."""
    from ..accuracy import data_set

    for name in names:
        data_set(name)


def load_study(path: Path) -> Study:
    """The study of a TOML file; ValueError naming the file, the table and what is wrong."""
    content = read_toml(path)
    try:
        return _study(content, path)
    except (ValueError, TypeError) as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _study(content: dict[str, Any], path: Path) -> Study:
    _known(content, ("title", "sweep", "extra", "cost", "accuracy"), "the study's keys")
    title = content.get("title", path.stem)
    if not isinstance(title, str):
        raise ValueError(f"title must be text, not {title!r}")
    sweeps = content.get("sweep", [])
    if not isinstance(sweeps, list):
        raise ValueError("sweep must be a table [[sweep]], with two brackets")
    accuracy = _table(content, "accuracy", ("data", "lengths", *NUMBERS))
    sampling = Sampling()
    lengths = sampling.lengths
    if "lengths" in accuracy:
        lengths = number_list(_text(accuracy["lengths"], "[accuracy] lengths"), "lengths")
    return Study(
        title=printable("title", title),
        sweeps=tuple(_sweep(table) for table in sweeps),
        extra=tuple(extras(content["extra"], path)) if "extra" in content else (),
        synthesis=_synthesis(content, path),
        data=_data(accuracy.get("data", "normal"), path),
        sampling=Sampling(
            lengths,
            **{
                key: _number(accuracy[key], f"[accuracy] {key}")
                for key in NUMBERS
                if key in accuracy
            },
        ),
    )


def _synthesis(content: dict[str, Any], path: Path) -> Synthesis:
    keys = ("flow", "process", "liberty", "target_ps", "target_levels", "effort", "energy")
    table = _table(content, "cost", keys)
    if not isinstance(table.get("effort", ""), str):
        raise ValueError(f"[cost] effort must be text, not {table['effort']!r}")
    named = [_text(table[k], f"[cost] {k}") if k in table else None for k in ("flow", "process")]
    targets = {
        key: number_list(_text(table[key], f"[cost] {key}"), key)
        for key in ("target_ps", "target_levels")
        if key in table
    }
    return Synthesis(
        flow=with_processes(*named) or "gates",
        liberty=tuple(path.parent / name for name in _files(table.get("liberty", []))),
        effort=table.get("effort", "speed"),
        energy=_switch(table.get("energy", True), "[cost] energy"),
        **targets,
    )


def _files(value: Any) -> list[str]:
    """The names of one file or several."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"[cost] liberty must be text or a list of texts, not {value!r}")
    return parts


def _sweep(table: Any) -> Sweep:
    if not isinstance(table, dict):
        raise ValueError(f"sweep must be a table [[sweep]], not {table!r}")
    _known(table, tuple(parameters()), "[[sweep]] keys")
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in ("status", "load_c", "micro"):
            values[key] = _switch(value, f"[[sweep]] {key}")
        else:
            values[key] = _text(value, f"[[sweep]] {key}")
    return Sweep(**values)


def _table(content: dict[str, Any], name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise ValueError(f"{name} must be a table [{name}], not {table!r}")
    _known(table, keys, f"[{name}] keys")
    return table


def _known(table: dict[str, Any], keys: tuple[str, ...], what: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{what} are {', '.join(keys)}, not {key!r}")


def _text(value: Any, name: str) -> str:
    """A sweep text from text, a number, or a list of those."""
    parts = value if isinstance(value, list) else [value]
    if not parts or not all(type(part) in (str, int) for part in parts):
        raise ValueError(f"{name} must be text, a number or a list of those, not {value!r}")
    return ",".join(str(part) for part in parts)


def _switch(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return value


def _number(value: Any, name: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{name} must be an integer, not {value!r}")
    return value


def number_list(text: str, name: str) -> tuple[int, ...]:
    """The integers of a sweep text."""
    return tuple(number for item in items(text, name) for number in integers(item, name))


def _data(value: Any, path: Path) -> tuple[str, ...]:
    """Data sets; a tensor file is relative to the study."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"[accuracy] data must be text or a list of texts, not {value!r}")
    names = parts if isinstance(value, list) else data_names(value)
    return tuple(
        str(path.parent / name) if name.partition("#")[0].endswith(FILES) else name
        for name in names
    )


def data_names(text: str) -> list[str]:
    """The data sets of a text, none of `none`. What follows a `#` are the names of tensors."""
    head, mark, tensors = text.partition("#")
    names = items(head, "data")
    if names == [NONE] and not mark:
        return []
    return [*names[:-1], names[-1] + mark + tensors] if mark else names
