"""The steps of `make verify`, each `make verify-STEP NAME=VALUE ...`, as tasks of the job engine.

A step does not run when its row in docs/evidence.json passed with today's code, packages and seed,
and at least these HOURS or MINUTES. `figures` has no row and always runs. Rows are taken into the
page after each step.

python tools/verify_steps.py [--fresh] [--dry-run] MAKE STEP NAME=VALUE ... STEP ...
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import evidence
from rich.console import Console

from mxdot.util.children import terminate_as_interrupt
from mxdot.util.jobs import DryRun, Task, run
from mxdot.util.keys import task_key
from mxdot.util.progress import show_plan
from mxdot.util.store import Outcome, Store
from mxdot.util.workers import processes

CHANGED = "it has passed, and its code has changed since"
MINUTES = {
    "test-full": 120, "test-compare": 13, "formal": 26, "mutate": 90, "coverage": 8, "faults": 14,
    "sim-cxxrtl": 5, "sim-bitsliced": 5, "sim-netlist": 34, "sim-full": 61, "figures": 1,
}  # fmt: skip
"""Rough guesses; soaks and fuzz have HOURS and MINUTES."""


@dataclass(frozen=True)
class Step:
    """One step. values: NAME=VALUE."""

    make: str
    label: str
    values: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return task_key("step", self.label, self.values)

    @property
    def weight(self) -> float:
        values = dict(value.split("=", 1) for value in self.values)
        try:
            given = 60 * float(values.get("HOURS", 0)) + float(values.get("MINUTES", 0))
        except ValueError:  # the step says so
            given = 0.0
        return 60 * (given or MINUTES.get(self.label, 10))

    @property
    def has_row(self) -> bool:
        """False for `figures`, whose check takes seconds."""
        return self.label in evidence.STEPS

    def has_passed(self) -> bool:
        """Whether there is a row of today's code that passed."""
        evidence.digest_of.cache_clear()
        return self.has_row and evidence.has_passed(self.label, self.values)

    def run(self) -> None:
        """ValueError when the step fails, or files change meanwhile."""
        command = [self.make, f"verify-{self.label}", *self.values]
        if self.has_row and evidence.is_forgotten(self.label):
            command.append("FRESH=1")
        status = subprocess.run(command, check=False).returncode
        if status:
            raise ValueError(f"exit status {status}")
        if self.has_row and not self.has_passed():
            raise ValueError(CHANGED)


class _Lines:
    """Prints a line when a step begins, and writes its rows when it ends; steps print the rest."""

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        if kept:
            print(f"verify: {kept} of {kept + len(tasks)} steps have passed already", flush=True)

    def start(self, task: Task) -> None:
        print(f"verify: {task.label}", flush=True)

    def end(self, task: Task, outcome: Outcome) -> None:
        evidence.write()


def main(arguments: Sequence[str]) -> int:
    """0 when every step has passed with the files as they are at the end."""
    options = {word for word in arguments if word.startswith("--")}
    make, *words = (word for word in arguments if word not in options)
    steps = _steps(make, words)
    backend = replace(processes(1), only_lists="--dry-run" in options)
    if "--fresh" in options and not backend.only_lists:
        evidence.forget()
    try:
        with tempfile.TemporaryDirectory() as folder, terminate_as_interrupt():
            passed = Store(Path(folder))
            for step in steps:
                if "--fresh" not in options and step.has_passed():
                    passed.put(Outcome(step.key, step.label))
            outcomes = run(steps, passed, backend, _Lines(), order=list)
    except DryRun as plan:
        show_plan(Console(), plan)
        return 0
    failed = False
    for step in steps:
        error = outcomes[step.key].error
        if error is None and step.has_row and not step.has_passed():
            error = CHANGED
        failed |= error is not None
        print(
            f"verify: {step.label} {'passed' if error is None else f'FAILED: {error}'}", flush=True
        )
    evidence.write()
    return int(failed)


def _steps(make: str, words: Sequence[str]) -> list[Step]:
    """The steps, each with the values after it."""
    steps: list[Step] = []
    for word in words:
        if "=" in word:
            steps[-1] = replace(steps[-1], values=(*steps[-1].values, word))
        else:
            steps.append(Step(make, word))
    return steps


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
