"""One comparison from end to end: points to tasks, outcomes to rows."""

import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...synth import Flow
from ...util.jobs import Backend, Observer, run_rows
from ...util.store import Outcome
from .flows import NONE, flow_options, flow_text, target_text
from .pareto import marked
from .points import Point, Sampling, listed
from .rows import Row, accuracy_columns, cost_columns, encoder_columns, status_of
from .study import Study
from .tasks import Instruments, accuracy_task, cost_task, encoder_task, instruments
from .units import Foreign, Generated


@dataclass(frozen=True)
class Comparison:
    """What a study found."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """What was left out or could not be told, and why."""
    finished: float
    """When the last result was made, seconds since the epoch: the same for the same results."""

    @property
    def made_by(self) -> str:
        """Versions of everything that made the numbers."""
        tools = dict.fromkeys(row.tool for row in self.rows if row.tool)
        return ", ".join([f"mxdot {_version()}", *tools])

    @property
    def date(self) -> str:
        """The day of the last result."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.finished))

    @property
    def failed(self) -> list[Row]:
        """Rows that failed, or whose error exceeded its bound."""
        return [row for row in self.rows if row.status != "ok"]


def _version() -> str:
    try:
        return version("mxdot")
    except PackageNotFoundError:
        return "(source tree)"


def compare(
    study: Study,
    directory: Path,
    backend: Backend,
    observer: Observer,
    cache_dir: Path | None = None,
    tools: Instruments | None = None,
) -> Comparison:
    """Measure every point of `study`; results are kept in `directory` as they come.

    Points that the directory has results of are not measured again, unless the code or the tools
    that made them have changed. `cache_dir` is where synthesis keeps its own. ImportError before
    any work when the study asks for the encoder and its packages are not there.
    """
    notes: list[str] = []
    points = study.points(notes.append)
    tools = tools or instruments()
    if study.sampling.encoder:
        tools.check_encoder()
    cache_dir = (cache_dir or directory / "cache").resolve()
    needs = [
        (
            cost_task(p, cache_dir, tools),
            accuracy_task(p, tools),
            encoder_task(p, tools),
        )
        for p in points
    ]
    outcomes = run_rows(needs, directory, backend, observer, order=_by_data)
    rows = [row_of(point, *some) for point, some in zip(points, outcomes, strict=True)]
    there = [outcome for some in outcomes for outcome in some if outcome is not None]
    finished = max((outcome.finished for outcome in there), default=0.0)
    notes += energy_notes(rows)
    return Comparison(study.title, tuple(marked(rows)), tuple(notes), finished)


def _by_data(task: Any) -> str:
    """Rules of the same operands one behind the other: an evaluation keeps its operands."""
    return getattr(task, "data", "")


def energy_notes(rows: Iterable[Row]) -> list[str]:
    """A note for each reason why units have no energy proxy."""
    units: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.energy_error is not None:
            units.setdefault(row.energy_error, {})[f"{row.unit} ({row.flow})"] = None
    return [f"no energy proxy of {listed(list(names))}: {why}" for why, names in units.items()]


def row_of(
    point: Point, cost: Outcome | None, accuracy: Outcome | None, encoder: Outcome | None
) -> Row:
    """The row of a point from the outcomes of its tasks; a failed one leaves its columns empty."""
    unit, sampling = point.unit, point.sampling
    columns: dict[str, Any] = {
        name: getattr(unit, name)
        for name in ("format", "accumulator", "lanes", "stages", "latency", "interval")
    }
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
        target=target_text(point.flow),
        command=command_of(point),
        verilog=verilog_command(point),
        **columns,
        **status_of((cost, accuracy, encoder), columns.get("bound_ok"), missed),
    )


def command_of(point: Point) -> str:
    """The command that measures this point again, alone."""
    unit = point.unit
    if not isinstance(unit, Generated):
        return synth_command(unit, point.flow)
    words = ["mxdot compare", unit.options, flow_options(point.flow)]
    words.append(shlex.join(["--data", point.data or NONE]))
    words += [sampling_options(point.sampling)] if point.data is not None else []
    words += [f"--encoder {point.sampling.encoder}"] if point.sampling.encoder else []
    return " ".join(words)


def synth_command(unit: Foreign, flow: Flow | None) -> str:
    """The command that synthesises a unit of other Verilog."""
    files = [f"./{file}" if file.startswith("-") else file for file in unit.files]
    first, words = "", ["mxdot", "synth", files[0], "--top", unit.top]
    if len(files) > 1:
        first = f"cat {shlex.join(files)} > unit.v && "
        words[2] = "unit.v"
    for name, value in unit.parameters:
        words += ["--parameter", f"{name}={value}"]
    if flow is None:
        return first + shlex.join(words)
    options = flow_options(flow).replace("-dsp", "")
    no_dsp = " --no-dsp" if flow.kind in ("xilinx", "ecp5") and not flow.dsp else ""
    return f"{first}{shlex.join(words)} {options}{no_dsp}"


def sampling_options(sampling: Sampling) -> str:
    """The options of `mxdot compare` that evaluate in the same way."""
    lengths = ",".join(map(str, sampling.lengths))
    return f"--lengths {lengths} --count {sampling.count} --seed {sampling.seed}"


def verilog_command(point: Point) -> str | None:
    """The command that writes the unit's Verilog; None for an extra unit, which has its own."""
    unit = point.unit
    return f"mxdot verilog {unit.options} -o dot.v" if isinstance(unit, Generated) else None
