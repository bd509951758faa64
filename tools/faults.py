"""Disturb commands in every way of a matrix, and see that nothing is lost, stale, half or wrong.

    python tools/faults.py [--seed N] [--only COMMAND:FAULT] [--jobs N] [--fresh] [--list]

Each cell runs in `build/faults`; what has passed is not run again while no code changes. A seed
draws the same moments, files and lengths every time. Faults: tools/fault_cells.py; commands:
tools/fault_commands.py; their folders: tools/fault_places.py.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_cells import FAULTS, MOUNTS, Reference, cells, make_reference, run_cell
from fault_commands import COMMANDS
from figure_inputs import ROOT
from figure_tables import markdown
from rich.console import Console

from mxdot.util.children import terminate_as_interrupt
from mxdot.util.jobs import results_of, run
from mxdot.util.keys import fingerprint, task_key
from mxdot.util.progress import display
from mxdot.util.workers import processes

BUILD = ROOT / "build" / "faults"
ROOMS = tuple(sorted(folder.parent.name for folder in ROOT.glob("*/__init__.py")))
FILES = ("fault_cells.py", "fault_commands.py", "fault_places.py", "fault_hook/sitecustomize.py")
SOURCES = (*ROOMS, *(f"tools/{name}" for name in FILES))


@dataclass(frozen=True)
class Undisturbed:
    """Task: a command as it runs without a fault."""

    command: str
    gpu_python: str

    @property
    def key(self) -> str:
        command = COMMANDS[self.command]
        return task_key("undisturbed", self.command, str(command), fingerprint(SOURCES))

    @property
    def label(self) -> str:
        return f"{self.command}, undisturbed"

    @property
    def weight(self) -> float:
        return 60.0

    @property
    def folder(self) -> Path:
        """Folder of the reference."""
        return BUILD / "references" / self.key

    def run(self) -> dict[str, Any]:
        return make_reference(COMMANDS[self.command], self.folder, self.gpu_python)


@dataclass(frozen=True)
class Disturbed:
    """Task: one cell; ValueError names the first problem."""

    command: str
    fault: str
    seed: int
    undisturbed: Undisturbed
    reference: str
    """Fields of a `Reference` as JSON."""

    @property
    def key(self) -> str:
        return task_key("fault", self.fault, self.seed, self.undisturbed.key)

    @property
    def label(self) -> str:
        return f"{self.command}:{self.fault}"

    @property
    def weight(self) -> float:
        return 3 * json.loads(self.reference)["seconds"]

    def run(self) -> list[str]:
        problems = json.loads(self._inside()) if self.fault in MOUNTS else self.problems()
        if problems:
            raise ValueError("; ".join(problems))
        return problems

    def problems(self) -> list[str]:
        """The problems of the cell in this process's namespace."""
        reference = Reference(self.undisturbed.folder, **json.loads(self.reference))
        command, gpu_python = COMMANDS[self.command], self.undisturbed.gpu_python
        return run_cell(self.command, command, self.fault, self.seed, reference, gpu_python)

    def _inside(self) -> str:
        """The problems as JSON, from a process that may mount file systems."""
        fields = [self.command, self.fault, self.seed, self.undisturbed.gpu_python, self.reference]
        done = subprocess.run(
            ["unshare", "-rm", sys.executable, __file__, "--inside", json.dumps(fields)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ValueError(f"without a file system of its own: {done.stderr.strip()[-200:]}")
        return done.stdout.splitlines()[-1]


def inside(text: str) -> None:
    """Print the problems of a cell as JSON."""
    command, fault, seed, gpu_python, reference = json.loads(text)
    cell = Disturbed(command, fault, seed, Undisturbed(command, gpu_python), reference)
    print(json.dumps(cell.problems()))


def table(passed: dict[tuple[str, str], bool]) -> str:
    """Commands by faults; empty where a cell was not asked for."""
    columns = [command for command in COMMANDS if any(key[0] == command for key in passed)]
    words = {True: "ok", False: "FAIL", None: ""}
    rows = [
        [fault, *(words[passed.get((command, fault))] for command in columns)] for fault in FAULTS
    ]
    return markdown(["fault", *columns], rows)


def main() -> int:
    """0 when every cell has passed, else 1."""
    parser = argparse.ArgumentParser(description="disturb commands in every way of a matrix")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="TEXT", help="part of COMMAND:FAULT")
    parser.add_argument("--gpu-python", default=str(ROOT / ".venv-gpu/bin/python"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside is not None:
        inside(args.inside)
        return 0
    chosen = list(cells(args.only))
    if not chosen:
        parser.error(f"only must be part of COMMAND:FAULT (see --list), not {args.only!r}")
    if args.list:
        print("\n".join(map(":".join, chosen)))
        return 0
    with terminate_as_interrupt():
        return disturb(chosen, args)


def disturb(chosen: list[tuple[str, str]], args: argparse.Namespace) -> int:
    """Run the cells and print the matrix; as `main`."""
    backend = processes(args.jobs)
    store = results_of(BUILD, backend, args.fresh)
    gpu_python = str(Path(args.gpu_python).absolute())
    commands = {name: Undisturbed(name, gpu_python) for name, _ in chosen}
    with display(Console(highlight=False), "running undisturbed") as observer:
        whole = run(commands.values(), store, backend, observer)
    tasks, passed = {}, {}
    for name, fault in chosen:
        outcome = whole[commands[name].key]
        if outcome.error is None:
            fields = json.dumps(outcome.value)
            tasks[name, fault] = Disturbed(name, fault, args.seed, commands[name], fields)
        else:
            passed[name, fault] = False
    with display(Console(highlight=False), "disturbing") as observer:
        outcomes = run(tasks.values(), store, backend, observer, order=list)
    for cell, task in tasks.items():
        outcome = outcomes[task.key]
        passed[cell] = outcome.error is None
    print(table({cell: passed[cell] for cell in chosen}))
    for name, fault in chosen:
        if not passed[name, fault]:
            error = (
                outcomes[tasks[name, fault].key].error
                if (name, fault) in tasks
                else (whole[commands[name].key].error)
            )
            print(f"FAILED {name}:{fault}: {error}")
            print(f"  python tools/faults.py --seed {args.seed} --only {name + ':' + fault!r}")
    failed = sum(not each for each in passed.values())
    faults = len({fault for _, fault in chosen})
    print(f"{len(commands)} commands, {faults} faults: {failed} of {len(chosen)} cells failed")
    return int(failed > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
