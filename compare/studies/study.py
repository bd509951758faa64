"""A study: units, flows and data of one comparison, from a TOML file or from options.

title = "Which accumulator?"
[[sweep]]                                  # one or more: units as products of sweep texts
format = "e4m3,e5m2"
accumulator = ["exact", "aligned:6..25"]   # text or list
lanes = [8, 16, 32]
stages = "2..5"                            # default: as `mxdot verilog` has it
process = "asap7"                          # for these units, in place of [cost]'s
clock = "1GHz"                             # the smallest of these units at a clock; also in [cost]
accuracy = false                           # of these units only area and delay
[[extra]]                                  # any other Verilog, see `extra.load_extra`
[cost]
process = "gates,asap7"                    # sky130, ihp, asap7, gt2n; or, beside it or instead:
flow = "cells"                             # another library, or an FPGA
liberty = "cells.lib"                      # relative to this file; a list where it is cut in files
target_ps = [500, 1000]                    # each flow that takes targets runs for each
target_levels = "30..50/10"
effort = "speed"                           # or area, where there is no target
wires = "model"                            # or placed, in a process; default: none
energy = true                              # the energy of a product, a few seconds for each unit
[accuracy]
data = ["normal", "real"]
lengths = [32, 4096]
count = 256
seed = 1
encoder = 0                                # sentences through the real encoder, end to end
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, defstruct

from ...model.errors import printable
from ...synth import Flow
from ...synth.clock import FREE
from ...util.data.sets import is_file
from ...util.schema import Table, check_count, checked, read_toml
from ...util.sweep import items, number_list
from .clocks import clock_list
from .extra import extras
from .flows import NONE, TIMED, Synthesis, with_processes
from .points import SWEPT, Point, Sampling, Sweep, combinations, points_of, units_of
from .units import Foreign, Generated, Unit

DEFAULT = Path(__file__).with_name("default.toml")
WIDTHS = Path(__file__).with_name("widths.toml")
"""More accumulators, without a clock: F bit by bit around the answers."""
QUESTIONS = Path(__file__).with_name("questions.toml")
"""Questions of README that the default study does not answer."""
BUILT_IN = {"default": DEFAULT, "widths": WIDTHS, "questions": QUESTIONS}
"""Studies that `--study` takes by name."""
MOST = 100_000
"""Units of all sweeps together, and points of a study."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """Units to compare, with the flows and the data, which apply to every unit."""

    title: str
    sweeps: tuple[Sweep, ...]
    extra: tuple[Foreign, ...] = ()
    synthesis: Synthesis = field(default_factory=Synthesis)
    data: tuple[str, ...] = ("normal",)
    sampling: Sampling = field(default_factory=Sampling)

    def points(self, note: Note = lambda text: None) -> list[Point]:
        """All points; ValueError when the study cannot be done, before any work."""
        check_data(self.data)
        if not (self.sweeps or self.extra):
            raise ValueError("a study must hold at least one [[sweep]] or [[extra]]")
        units = sum(map(combinations, self.sweeps))
        if units > MOST:
            raise ValueError(f"sweeps must stand for at most {MOST} units in all, not {units}")
        found: list[Point] = []
        # Without other Verilog the wires are those of the sweeps alone.
        rest = self if self.extra else replace(self, synthesis=replace(self.synthesis, wires=None))
        for part in (*(self._points(sweep, note) for sweep in self.sweeps), rest._of(self.extra)):
            found += part
            _check_points(len(found))
        if not found:
            raise ValueError("flow none and data none leave nothing to measure")
        _check_names(list(dict.fromkeys(point.unit for point in found)))
        if self.synthesis.wires and not any(p.flow is not None and p.flow.wires for p in found):
            raise ValueError(f"wires are for process {', '.join(TIMED)}, which no unit has")
        # A unit that a sweep has with its accuracy, too, is one point.
        whole = {(p.unit, p.flow, p.clock_ps) for p in found if p.data is not None}
        return [
            point
            for point in dict.fromkeys(found)
            if point.data is not None
            or point.flow is None
            or (point.unit, replace(point.flow, sections=None), point.clock_ps) not in whole
        ]

    def _points(self, sweep: Sweep, note: Note) -> list[Point]:
        here = self
        if sweep.process is not None:
            here = replace(here, synthesis=self.synthesis.on(sweep.process))
        if not sweep.accuracy:
            synthesis = replace(here.synthesis, sections=False, energy=False)
            sampling = replace(self.sampling, encoder=0)
            here = replace(here, synthesis=synthesis, data=(), sampling=sampling)
        if sweep.clock is not None:
            here = replace(here, synthesis=replace(here.synthesis, clock=sweep.clock))
        free = tuple(name for name in FREE if name not in sweep.options)
        return here._of(units_of(sweep, note), free)

    def _of(self, units: Sequence[Unit], free: tuple[str, ...] = ()) -> list[Point]:
        flows, data = self.synthesis.flows(), self.data or (None,)
        clocks = self.synthesis.clock or (None,)
        _check_points(len(units) * len(flows) * len(clocks) * len(data))
        how = self.sampling, self.synthesis.energy
        if self.synthesis.clock:
            flows = [None if flow is None else replace(flow, sections=False) for flow in flows]
        generated = [unit for unit in units if isinstance(unit, Generated)]
        points = points_of(generated, flows, data, *how, clocks, free)
        for clock in clocks:  # other Verilog is as it is
            at = [_at(flow, clock) for flow in flows]
            others = [unit for unit in units if not isinstance(unit, Generated)]
            points += points_of(others, at, data, *how)
        return points


def _at(flow: Flow | None, clock: float | None) -> Flow | None:
    return flow if flow is None or clock is None else replace(flow, target_ps=round(clock))


def _check_points(count: int) -> None:
    if count > MOST:
        raise ValueError(f"units x flows x targets x data must be at most {MOST}, not {count}")


def _check_names(units: Sequence[Unit]) -> None:
    """ValueError where two of the units have one name."""
    named: dict[str, Unit] = {}
    for unit in units:
        other = named.setdefault(unit.name, unit)
        if unit is not other:
            raise ValueError(
                f"names of units must differ, not {unit.name!r} of {_origin(other)} and of "
                f"{_origin(unit)}"
            )


def _origin(unit: Unit) -> str:
    return "a sweep" if isinstance(unit, Generated) else f"the extra unit in {unit.files[0]}"


def check_data(names: Sequence[str]) -> None:
    """ValueError unless every name is a data set."""
    from ...util.data.sets import data_set

    for name in names:
        data_set(name)


Text = Annotated[
    str | int | Annotated[list[str | int], Meta(min_length=1)],
    Meta(description="text, a number or a list of those"),
]
Names = Annotated[str | list[str], Meta(description="text or a list of texts")]


SweepTable: Any = defstruct(
    "SweepTable",
    [
        *((key, (bool if option.is_switch else Text) | UnsetType, UNSET)
          for key, option in SWEPT.items()),
        ("process", Text | UnsetType, UNSET),
        ("clock", Text | UnsetType, UNSET),
        ("accuracy", bool | UnsetType, UNSET),
    ],
    bases=(Table,),
)  # fmt: skip
"""`[[sweep]]`: options of dot units, and the fields of `Sweep`."""


class CostTable(Table):
    """How units are synthesised: `[cost]` of the file."""

    flow: Text | UnsetType = UNSET
    process: Text | UnsetType = UNSET
    liberty: Names = ()  # type: ignore[assignment]
    target_ps: Text | UnsetType = UNSET
    target_levels: Text | UnsetType = UNSET
    clock: Text | UnsetType = UNSET
    effort: str = "speed"
    wires: str | UnsetType = UNSET
    energy: bool = True


class AccuracyTable(Table):
    """`[accuracy]`; all but `data` are those of `Sampling`, which has their ranges."""

    data: Names = "normal"
    lengths: Text | UnsetType = UNSET
    count: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    encoder: int | UnsetType = UNSET


class StudyTable(Table):
    """The whole file."""

    title: str | UnsetType = UNSET
    sweep: Any = ()
    extra: Any = UNSET
    cost: Any = UNSET
    accuracy: Any = UNSET


def load_study(path: Path) -> Study:
    """The study of a TOML file; ValueError naming the file, the table and what is wrong."""
    content = read_toml(path)
    try:
        return _study(checked(content, StudyTable, "the study's"), path)
    except (ValueError, TypeError) as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _study(study: StudyTable, path: Path) -> Study:
    if not isinstance(study.sweep, list | tuple):
        raise ValueError("sweep must be a table [[sweep]], with two brackets")
    check_count("[[sweep]]", study.sweep)
    cost = checked({} if study.cost is UNSET else study.cost, CostTable, "[cost]")
    accuracy = {} if study.accuracy is UNSET else study.accuracy
    measured = checked(accuracy, AccuracyTable, "[accuracy]")
    sampling = {name: value for name, value in measured.given().items() if name != "data"}
    return Study(
        title=printable("title", path.stem if study.title is UNSET else study.title),
        sweeps=tuple(_sweep(checked(table, SweepTable, "[[sweep]]")) for table in study.sweep),
        extra=() if study.extra is UNSET else tuple(extras(study.extra, path)),
        synthesis=_synthesis(cost, path),
        data=_data(measured.data, path),
        sampling=Sampling(**_numbers(sampling, "lengths")),
    )


def _sweep(table: Table) -> Sweep:
    given = {
        name: value if isinstance(value, bool) else _text(value)
        for name, value in table.given().items()
    }
    own: dict[str, Any] = {
        name: given.pop(name) for name in ("process", "clock", "accuracy") if name in given
    }
    if "clock" in own:
        own["clock"] = clock_list(own["clock"])
    return Sweep(given, **own)


def _synthesis(table: CostTable, path: Path) -> Synthesis:
    given = table.given()
    flow, process = (_text(given[k]) if k in given else None for k in ("flow", "process"))
    targets = {k: v for k, v in given.items() if k.startswith("target")}
    files = [table.liberty] if isinstance(table.liberty, str) else table.liberty
    return Synthesis(
        flow=with_processes(flow, process) or "gates",
        liberty=tuple(path.parent / printable("liberty", name) for name in files),
        clock=() if table.clock is UNSET else clock_list(_text(table.clock)),
        effort=table.effort,
        wires=None if table.wires is UNSET else table.wires,
        energy=table.energy,
        **_numbers(targets, *targets),
    )


def _numbers(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """`given`, in which the sweep texts of `names` have become their integers."""
    found = {name: number_list(_text(given[name]), name) for name in names if name in given}
    return given | found


def _text(value: Any) -> str:
    """A sweep text from text, a number, or a list of those."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _data(value: Names, path: Path) -> tuple[str, ...]:
    """Data sets; a tensor file is relative to the study."""
    names = value if isinstance(value, list) else data_names(value)
    return tuple(
        str(path.parent / name) if is_file(name.partition("#")[0], path.parent) else name
        for name in names
    )


def data_names(text: str) -> list[str]:
    """The data sets of a text, none of `none`. What follows a `#` are the names of tensors."""
    head, mark, tensors = text.partition("#")
    names = items(head, "data")
    if names == [NONE] and not mark:
        return []
    return [*names[:-1], names[-1] + mark + tensors] if mark else names


def data_options(names: list[str]) -> list[str]:
    """Options for data sets: `--tensors` for a file with a comma in its name."""
    files = [name for name in names if "," in name.partition("#")[0]]
    others = [name for name in names if name not in files]
    words = ["--data", ",".join(others)] if others else []
    for name in files:
        file, _, tensors = name.partition("#")
        words += ["--tensors", file] + (["--name", *tensors.split(",")] if tensors else [])
    return words
