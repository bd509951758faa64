"""The narrowest accumulators of a study: its searches as tasks, and their table of results."""

import shlex
from dataclasses import replace
from pathlib import Path

from ...util.jobs import Backend, Observer, run_rows
from ...util.store import Outcome
from ...util.tables import records, write_csv, write_json
from .narrowest import FAMILIES, Found, SearchTask, Target
from .points import Sampling
from .study import Study
from .tasks import Instruments, instruments


def search(
    study: Study,
    target: Target,
    directory: Path,
    backend: Backend,
    observer: Observer,
    tools: Instruments | None = None,
) -> list[Found]:
    """The narrowest accumulator of each family for the formats, lanes and data of `study`.

    Results are kept in `directory` as they come, and written there as `narrowest.json` and
    `narrowest.csv`. A search that fails has its `error` set.
    """
    tools = tools or instruments()
    if study.sampling.encoder:
        raise ValueError(f"encoder must be 0 with find narrowest, not {study.sampling.encoder}")
    points = [p for p in study.points() if p.data is not None and p.unit.rule is not None]
    if not points:
        raise ValueError("find narrowest needs data: --data")
    where = dict.fromkeys((p.unit.format, p.unit.lanes, p.data) for p in points)
    for fmt in dict.fromkeys(str(fmt) for fmt, _, _ in where):
        target.check_format(fmt)
    tasks = [
        SearchTask(family, str(fmt), lanes or 0, str(data), target, study.sampling, tools)
        for fmt, lanes, data in where
        for family in FAMILIES
    ]
    outcomes = run_rows([(task,) for task in tasks], directory, backend, observer)
    found = [_found(task, outcome) for task, (outcome,) in zip(tasks, outcomes, strict=True)]
    write_json(directory / "narrowest.json", [result.to_dict() for result in found])
    texts = {"lengths": lambda lengths: " ".join(map(str, lengths))}
    write_csv(directory / "narrowest.csv", records(Found, found, texts))
    return found


def _found(task: SearchTask, outcome: Outcome | None) -> Found:
    assert outcome is not None
    return Found(**outcome.value) if outcome.ok else replace(task.unknown, error=outcome.error)


def measure_command(found: list[Found]) -> str | None:
    """The command that compares what was found with float32 and exact sums; None for nothing."""
    there = [result for result in found if result.accumulator is not None]
    if not there:
        return None
    formats, accumulators, lanes, data = (
        ",".join(dict.fromkeys(str(getattr(result, name)) for result in there))
        for name in ("format", "accumulator", "lanes", "data")
    )
    words = ["--format", formats, "--accumulator", f"{accumulators},float32,exact"]
    words += ["--lanes", lanes, "--data", data, "--lengths", ",".join(map(str, there[0].lengths))]
    for name in ("count", "seed"):
        value = getattr(there[0], name)
        words += [f"--{name}", str(value)] if value != getattr(Sampling, name) else []
    return shlex.join(["mxdot", "compare", *words])
