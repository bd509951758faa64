"""One comparison from end to end: points to tasks, outcomes to rows."""

import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model import DotConfig
from ...model.pipeline.advice import advice
from ...synth import Flow
from ...util.jobs import Backend, Observer, Task, run_rows
from ...util.keys import version_of
from ...util.store import Outcome, Store
from . import shipped
from .clock_task import ClockTask, clock_task
from .clocks import MHZ, clock_option, clock_text
from .flows import NONE, flow_options, flow_text, synth_options, target_text
from .pareto import marked
from .points import Point, Sampling, listed
from .rows import Row, accuracy_columns, cost_columns, encoder_columns, status_of
from .study import Study, data_options
from .tasks import Instruments, accuracy_task, cost_task, encoder_task
from .units import TOP, Foreign, Generated, Unit

FORMAT = 1
"""Version of the schema of `compare.json`."""


@dataclass(frozen=True)
class Comparison:
    """Results of a study."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """Reasons for missing units and values."""
    finished: float
    """Time of the last result, seconds since the epoch: the same for the same results."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, except infinite floats."""
        return {
            "format": FORMAT,
            "title": self.title,
            "made_by": self.made_by,
            "date": self.date,
            "notes": list(self.notes),
            "rows": [row.to_dict() for row in self.rows],
        }

    @property
    def made_by(self) -> str:
        """Versions of the tools that made the numbers."""
        tools = dict.fromkeys(row.tool for row in self.rows if row.tool)
        return ", ".join([f"mxdot {version_of('mxdot', '(source tree)')}", *tools])

    @property
    def date(self) -> str:
        """The day of the last result."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.finished))

    @property
    def failed(self) -> list[Row]:
        """Rows with a status other than `ok`."""
        return [row for row in self.rows if row.status != "ok"]


def compare(
    study: Study,
    directory: Path,
    backend: Backend,
    observer: Observer,
    cache_dir: Path | None = None,
    tools: Instruments | None = None,
    fresh: bool = False,
    before: Callable[[Sequence[ClockTask]], None] = lambda tasks: None,
) -> Comparison:
    """Measure every point of `study`; results are kept in `directory` as they come.

    Kept results are reused unless code or tools have changed. cache_dir: cache of synthesis.
    fresh: measure again, without the cache and kept results. before: told the searches at a clock
    that have no result yet, before they run. ImportError before any work when the encoder is asked
    for and its packages are missing.
    """
    notes: list[str] = []
    points = study.points(notes.append)
    tools = tools or Instruments()
    if study.sampling.encoder:
        tools.check_encoder()
    cache_dir = (cache_dir or directory / "cache").resolve()
    if fresh:
        cache_dir = (directory / "fresh").resolve()
        if not backend.only_lists:
            shutil.rmtree(cache_dir, ignore_errors=True)
    needs = [
        (
            clock_task(p, cache_dir, tools) or cost_task(p, cache_dir, tools),
            accuracy_task(p, tools),
            encoder_task(p, tools),
        )
        for p in points
    ]
    clocked = [task for some in needs for task in some if isinstance(task, ClockTask)]
    if clocked and not fresh and tools == Instruments():
        shipped.seed(clocked, Store(directory / "results"))
    where = directory
    if fresh:
        made = [task for some in needs for task in some if task is not None]
        where = without_kept(directory, made, backend)
    if clocked and not backend.only_lists:
        store = Store(directory / "results")
        missing = {t.key: t for t in clocked if (kept := store.get(t.key)) is None or not kept.ok}
        before(list(missing.values()))
    outcomes = run_rows(needs, where, backend, observer, order=_by_data)
    rows = [row_of(point, *some) for point, some in zip(points, outcomes, strict=True)]
    there = [outcome for some in outcomes for outcome in some if outcome is not None]
    finished = max((outcome.finished for outcome in there), default=0.0)
    notes += energy_notes(rows) + stage_notes(points)
    return Comparison(study.title, tuple(marked(rows)), tuple(notes), finished)


def without_kept(directory: Path, tasks: Iterable[Task], backend: Backend) -> Path:
    """The directory, without kept results of some tasks; for a dry run another, which has none."""
    if backend.only_lists:
        return directory / "fresh"
    store = Store(directory / "results")
    for task in tasks:
        store.path(task.key).unlink(missing_ok=True)
    return directory


def _by_data(task: Any) -> str:
    """Sort key that puts tasks on the same operands together: an evaluation caches its operands."""
    return getattr(task, "data", "")


def energy_notes(rows: Iterable[Row]) -> list[str]:
    """One note per reason why units have no energy."""
    units: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.energy_error is not None:
            units.setdefault(row.energy_error, {})[f"{row.unit} ({row.flow})"] = None
    return [f"no energy of {listed(list(names))}: {why}" for why, names in units.items()]


def stage_notes(points: Iterable[Point]) -> list[str]:
    """One note per reason why stages that were given buy no clock."""
    units: dict[str, dict[str, None]] = {}
    for point in points:
        if point.flow is not None and point.clock_ps is None and isinstance(point.unit, Generated):
            line = advice(point.unit.config)
            if line is not None:
                units.setdefault(line, {})[point.unit.name] = None
    return [f"{listed(list(names))}: {line}" for line, names in units.items()]


def row_of(
    point: Point, cost: Outcome | None, accuracy: Outcome | None, encoder: Outcome | None
) -> Row:
    """Row of a point from the outcomes of its tasks; a failed task leaves its columns empty."""
    unit, sampling = point.unit, point.sampling
    clocked = point.clock_ps is not None and isinstance(unit, Generated)
    flow = point.flow
    if clocked and cost is not None and cost.ok:
        unit = Generated(DotConfig(**cost.value["clock"]["config"]))
        flow = Flow.from_dict(cost.value["clock"]["flow"])
    names = ("format", "accumulator", "lanes", "stages", "latency", "interval")
    columns: dict[str, Any] = {name: getattr(unit, name) for name in names}
    if isinstance(unit, Generated):
        columns["interleave"] = unit.config.interleave
    target = target_text(point.flow)
    if clocked:
        assert point.clock_ps is not None
        columns["clock_mhz"] = MHZ / point.clock_ps
        target = clock_text(point.clock_ps)
    if accuracy is not None:
        columns |= {"data": point.data, "count": sampling.count, "seed": sampling.seed}
        columns |= {"length": sampling.lengths[-1]}
    missed = None
    if cost is not None and cost.ok:
        columns |= cost_columns(cost.value)
        missed = cost.value.get("missed")
    if accuracy is not None and accuracy.ok:
        columns |= accuracy_columns(accuracy.value)
    if encoder is not None and encoder.ok:
        columns |= encoder_columns(encoder.value)
    return Row(
        unit=unit.name,
        generated=isinstance(unit, Generated),
        flow=flow_text(point.flow),
        target=target,
        command=command_of(point),
        verilog=verilog_command(unit),
        synthesis=netlist_command(unit, flow),
        **columns,
        **status_of((cost, accuracy, encoder), columns.get("bound_ok"), missed),
    )


def command_of(point: Point) -> str:
    """Command that measures this point again, alone."""
    unit = point.unit
    if not isinstance(unit, Generated):
        return synth_command(unit, point.flow)
    words = ["mxdot compare", unit.options, flow_options(point.flow)]
    if point.clock_ps is not None:
        words[1] = unit.options_without(point.free)
        words += ["--clock", clock_option(point.clock_ps)]
    words.append(shlex.join(data_options([point.data or NONE])))
    words += [sampling_options(point.sampling)] if point.data is not None else []
    words += [f"--encoder {point.sampling.encoder}"] if point.sampling.encoder else []
    return " ".join(words)


def synth_command(unit: Foreign, flow: Flow | None) -> str:
    """Command that synthesises a unit in other Verilog."""
    files = [f"./{file}" if file.startswith("-") else file for file in unit.files]
    first, words = "", ["mxdot", "synth", files[0], "--top", unit.top]
    if len(files) > 1:
        first = f"cat {shlex.join(files)} > unit.v && "
        words[2] = "unit.v"
    for name, value in unit.parameters:
        words += ["--parameter", f"{name}={value}"]
    if flow is None:
        return first + shlex.join(words)
    return f"{first}{shlex.join([*words, *synth_options(flow)])}"


def netlist_command(unit: Unit, flow: Flow | None) -> str | None:
    """Command that synthesises the file of `verilog_command` by the same flow."""
    if flow is None or not isinstance(unit, Generated):
        return None
    return shlex.join(["mxdot", "synth", "dot.v", "--top", TOP, *synth_options(flow)])


def sampling_options(sampling: Sampling) -> str:
    """Options of `mxdot compare` for the same evaluation."""
    lengths = ",".join(map(str, sampling.lengths))
    return f"--lengths {lengths} --count {sampling.count} --seed {sampling.seed}"


def verilog_command(unit: Unit) -> str | None:
    """Command that writes the unit's Verilog; None for an extra unit."""
    return f"mxdot verilog {unit.options} -o dot.v" if isinstance(unit, Generated) else None
