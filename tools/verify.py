"""The steps of `make verify`, each `make verify-STEP NAME=VALUE ...`, as tasks of the job engine.

A step that has passed with the same files and values does not run again, until all have passed.

python tools/verify.py [--fresh] [--dry-run] MAKE STEP NAME=VALUE ... STEP ...   # in the checkout
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from mxdot.util.children import terminate_as_interrupt
from mxdot.util.jobs import DryRun, Task, results_of, run
from mxdot.util.keys import task_key
from mxdot.util.progress import show_plan
from mxdot.util.store import Outcome
from mxdot.util.workers import processes

PASSED = Path("build/verify")
"""Results of steps that have passed."""
MADE = {"build", "dist", "__pycache__"}
"""Folders that make and Python write; hidden ones are theirs, too."""
CHANGED = "it has passed, and files have changed since"
MINUTES = {
    "test-full": 120, "test-compare": 10, "formal": 60, "mutate": 30, "coverage": 8, "faults": 60,
    "sim-cxxrtl": 10, "sim-bitsliced": 10, "sim-netlist": 60, "sim-full": 300,
}  # fmt: skip
"""Rough guesses; soaks and fuzz have HOURS and MINUTES."""


def state(root: Path) -> str:
    """Another digest for every other name or content of a file below `root`, in git or not."""
    digest = hashlib.sha256()
    for path in sorted(_files(root)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root)}\0{content}\0".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in MADE or path.name.startswith(".") or path.name.endswith(".egg-info"):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)
        elif path.is_file():
            yield path


@dataclass(frozen=True)
class Step:
    """One step. values: NAME=VALUE; files: the state that it checks."""

    make: str
    label: str
    files: str
    values: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return task_key("step", self.label, self.values, self.files)

    @property
    def weight(self) -> float:
        values = dict(value.split("=", 1) for value in self.values)
        try:
            given = 60 * float(values.get("HOURS", 0)) + float(values.get("MINUTES", 0))
        except ValueError:  # the step says so
            given = 0.0
        return 60 * (given or MINUTES.get(self.label, 10))

    def run(self) -> None:
        """ValueError when the step fails, or files change meanwhile."""
        command = [self.make, f"verify-{self.label}", *self.values]
        status = subprocess.run(command, check=False).returncode
        if status:
            raise ValueError(f"exit status {status}")
        if state(Path()) != self.files:
            raise ValueError(CHANGED)


class _Lines:
    """A line when a step begins; what it does, it says by itself."""

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        if kept:
            print(f"verify: {kept} of {kept + len(tasks)} steps have passed already", flush=True)

    def start(self, task: Task) -> None:
        print(f"verify: {task.label}", flush=True)

    def end(self, task: Task, outcome: Outcome) -> None:
        pass


def main(arguments: Sequence[str]) -> int:
    """0 when every step has passed with the files as they are at the end."""
    options = {word for word in arguments if word.startswith("--")}
    make, *words = (word for word in arguments if word not in options)
    steps = _steps(make, words, state(Path()))
    backend = replace(processes(1), only_lists="--dry-run" in options)
    store = results_of(PASSED, backend, "--fresh" in options)
    try:
        with terminate_as_interrupt():
            outcomes = run(steps, store, backend, _Lines(), order=list)
    except DryRun as plan:
        show_plan(Console(), plan)
        return 0
    is_changed, failed = state(Path()) != steps[0].files, False
    for step in steps:
        error = outcomes[step.key].error or (CHANGED if is_changed else None)
        failed |= error is not None
        print(
            f"verify: {step.label} {'passed' if error is None else f'FAILED: {error}'}", flush=True
        )
    if not failed:
        shutil.rmtree(PASSED)
    return int(failed)


def _steps(make: str, words: Sequence[str], files: str) -> list[Step]:
    """The steps, each with the values after it."""
    steps: list[Step] = []
    for word in words:
        if "=" in word:
            steps[-1] = replace(steps[-1], values=(*steps[-1].values, word))
        else:
            steps.append(Step(make, word, files))
    return steps


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
