"""Measure the results that come with the package (`compare/studies/measured.json`).

    python tools/shipped_results.py             measure what is missing, and write the file
    python tools/shipped_results.py --check N   synthesise N of the units again, drawn at random

They are those of the default comparison and of README's questions. `--check` exits with 1 where an
area or a delay differs.
"""

import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from mxdot.compare.studies import DEFAULT, load_study, processes
from mxdot.compare.studies.clock_task import ClockTask, clock_task
from mxdot.compare.studies.shipped import (
    FILE,
    code_digest,
    energy_digest,
    find,
    measured_again,
    question,
    record_of,
    records,
)
from mxdot.compare.studies.study import QUESTIONS
from mxdot.compare.studies.tasks import Instruments
from mxdot.model import DotConfig
from mxdot.synth import SYNTHESES
from mxdot.util.jobs import run
from mxdot.util.progress import display
from mxdot.util.store import Store
from mxdot.util.tables import write_json

FOLDER = Path("build/shipped")


def tasks(cache: Path) -> list[ClockTask]:
    """The searches of the default comparison and of README's questions, each once."""
    tools = Instruments()
    points = [point for path in (DEFAULT, QUESTIONS) for point in load_study(path).points()]
    found = [clock_task(point, cache.resolve(), tools) for point in points]
    return list({task.key: task for task in found if task is not None}.values())


def _lacks_energy(record: dict[str, Any]) -> bool:
    """True for an energy by another model; a missed clock has none."""
    return "missed" not in record["value"] and record["energy"] != energy_digest()


def measure() -> int:
    """Write the file, with the results that it has as far as they count."""
    wanted = tasks(SYNTHESES)
    kept = {question(record["question"]): record for record in records()}
    new = [
        task
        for task in wanted
        if find(task) is None or _lacks_energy(kept[question(task.described)])
    ]
    with display(Console()) as observer:
        outcomes = run(new, Store(FOLDER / "results"), processes(), observer)
    for task in new:
        outcome = outcomes[task.key]
        if not outcome.ok:
            print(f"{task.label}: {outcome.error}", file=sys.stderr)
            return 1
        kept[question(task.described)] = record_of(task, outcome, version("mxdot"))
    # Those that count have the Verilog that this code writes.
    write_json(FILE, [kept[question(task.described)] | {"code": code_digest()} for task in wanted])
    return 0


def check(count: int) -> int:
    """Synthesise the units of some results again, and compare."""
    chosen = random.sample(records(), min(count, len(records())))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for record in chosen:
            unit = DotConfig(**record["value"]["clock"]["config"])
            differing = measured_again(record, Path(folder))
            wrong += bool(differing)
            print(f"{unit}, {record['question']['process']}: {differing or 'the same'}", flush=True)
    return int(wrong > 0)


def main() -> int:
    """The command line."""
    if sys.argv[1:2] == ["--check"]:
        return check(int(sys.argv[2]))
    return measure()


if __name__ == "__main__":
    sys.exit(main())
