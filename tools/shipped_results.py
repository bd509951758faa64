"""Measure the results that come with the package (`compare/studies/measured.json`).

    python tools/shipped_results.py             measure what is missing, and write the file
    python tools/shipped_results.py --check N   measure N of the file afresh, drawn at random

They are those of the default comparison. `--check` exits with 1 where an area or a delay differs.
"""

import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from mxdot.compare.studies import DEFAULT, load_study, processes
from mxdot.compare.studies.clock_task import ClockTask, clock_task
from mxdot.compare.studies.shipped import FILE, energy_digest, find, question, record_of, records
from mxdot.compare.studies.study import Study
from mxdot.compare.studies.tasks import Instruments
from mxdot.synth import SYNTHESES
from mxdot.util.jobs import run
from mxdot.util.progress import display
from mxdot.util.store import Store
from mxdot.util.tables import write_json

FOLDER = Path("build/shipped")
SAME = ("area", "delay_ps", "flipflops")


def tasks(study: Study, cache: Path) -> list[ClockTask]:
    """The searches of the default comparison, each once."""
    tools = Instruments()
    found = [clock_task(point, cache.resolve(), tools) for point in study.points()]
    return list({task.key: task for task in found if task is not None}.values())


def measure() -> int:
    """Write the file, with the results that it has as far as they count."""
    wanted = tasks(load_study(DEFAULT), SYNTHESES)
    kept = {question(record["question"]): record for record in records()}
    new = [
        task
        for task in wanted
        if find(task) is None or kept[question(task.described)]["energy"] != energy_digest()
    ]
    with display(Console()) as observer:
        outcomes = run(new, Store(FOLDER / "results"), processes(), observer)
    from importlib.metadata import version

    for task in new:
        outcome = outcomes[task.key]
        if not outcome.ok:
            print(f"{task.label}: {outcome.error}", file=sys.stderr)
            return 1
        kept[question(task.described)] = record_of(task, outcome, version("mxdot"))
    write_json(FILE, [kept[question(task.described)] for task in wanted])
    return 0


def check(count: int) -> int:
    """Measure some again, and compare."""
    wanted = [task for task in tasks(load_study(DEFAULT), SYNTHESES) if find(task) is not None]
    chosen = random.sample(wanted, min(count, len(wanted)))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, display(Console()) as observer:
        fresh = [replace(task, cache_dir=Path(folder), energy=False) for task in chosen]
        outcomes = run(fresh, Store(Path(folder) / "results"), processes(), observer)
    for task, again in zip(chosen, fresh, strict=True):
        kept = find(task)
        assert kept is not None
        got, want = (
            {name: outcome.value[name] for name in SAME} for outcome in (outcomes[again.key], kept)
        )
        print(f"{task.label}: {want}" + ("" if got == want else f", measured again {got}"))
        wrong += got != want
    return int(wrong > 0)


def main() -> int:
    """The command line."""
    if sys.argv[1:2] == ["--check"]:
        return check(int(sys.argv[2]))
    return measure()


if __name__ == "__main__":
    sys.exit(main())
