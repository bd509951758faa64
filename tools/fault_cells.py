"""Faults, and what must hold after each: the cells of tools/faults.py.

A cell runs a small command in a folder of its own, disturbs it, and runs it once more. After the
fault: an exit status that says so, one line of error, nothing that runs on, no half file. After the
second run: the verdict and files of an undisturbed run, kept results as they were, and no file that
an undisturbed run does not leave.
"""

import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path

from fault_commands import COMMANDS, MODEL, ONE, Command
from fault_places import LIMIT, Ended, Place, Running, fill, forget, form_of, size_of, whole
from figure_inputs import ROOT

from mxdot.util.runs import scratch

BACK = 40 * 86400.0
"""Seconds by which the clock is set back."""
REPORT = re.compile(r"/failures/|/runs/#/.*\.log$")
"""Files that tell of a failure."""


# An undisturbed run ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """An undisturbed run. The folder has `warm`, builds without results, and `stopped`, what a run
    that is killed before its last rename leaves."""

    folder: Path
    seconds: float
    renames: int
    verdict: list[str]
    forms: list[str]
    bytes: int
    """That a run adds to `warm`."""

    warm = property(lambda self: self.folder / "warm")
    stopped = property(lambda self: self.folder / "stopped")

    @cached_property
    def made(self) -> dict[str, object]:
        """Files that the user asked for."""
        return pickle.loads((self.folder / "made.pickle").read_bytes())


def verdict_of(command: Command, ended: Ended) -> list[str]:
    """The lines that say the result."""
    lines = (f"{line}\n" for line in ended.out.splitlines())
    found = (re.search(command.says, line) for line in lines)
    return [re.sub(r"\(?\b[\d.]+ s\b\)?", "", match[0]).strip() for match in found if match]


def make_reference(command: Command, folder: Path, gpu_python: str) -> dict[str, object]:
    """Run a command undisturbed: the fields of a `Reference` except its folder."""
    shutil.rmtree(folder, ignore_errors=True)
    with scratch("cell") as short:  # a socket's path has 107 characters
        return _referred(command, short, folder, gpu_python)


def _referred(command: Command, short: Path, folder: Path, gpu_python: str) -> dict[str, object]:
    place = Place(short / "first", command, gpu_python)
    if command.gpu:
        subprocess.run([gpu_python, "-c", MODEL], cwd=place.work, check=True, capture_output=True)
    first = place.run()
    if first.status or first.left:
        says = (first.err + first.out).strip().splitlines()[-2:]
        raise ValueError(f"undisturbed it ends with {first.status}: {says}, leaves {first.left}")
    forms = place.forms()
    forget(place)
    shutil.copytree(place.work, folder / "warm", symlinks=True)
    before, start = size_of(place.work), time.monotonic()
    second = place.run(at="9:0")
    seconds = time.monotonic() - start
    verdict, made = verdict_of(command, second), place.made()
    if not verdict or verdict != verdict_of(command, first) or second.status:
        raise ValueError(f"two undisturbed runs say {verdict} and {verdict_of(command, first)}")
    renames = (place.logs / "renames").stat().st_size
    added = size_of(place.work) - before
    place.run()
    forms |= place.forms()
    stopped = Place(short / "last", command, gpu_python)
    fill(stopped, folder / "warm")
    stopped.run(at=f"9:{renames}")
    shutil.copytree(stopped.work, folder / "stopped", symlinks=True)
    forms |= {form for form in stopped.forms() if "/runs/#/" in form}  # the newest ones stay
    (folder / "made.pickle").write_bytes(pickle.dumps(made))
    return {
        "seconds": seconds, "renames": renames, "verdict": verdict, "forms": sorted(forms),
        "bytes": max(added, 2**16),
    }  # fmt: skip


# Faults -------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """One command and one fault. problems: what does not hold."""

    place: Place
    reference: Reference
    draw: random.Random
    problems: list[str] = field(default_factory=list)
    fails: bool = False
    """Whether the fault makes something fail, of which a report may stay."""

    def check(self, holds: bool, problem: str) -> None:
        """Note a problem unless `holds`."""
        if not holds:
            self.problems.append(problem)

    def check_fault(self, ended: Ended, statuses: tuple[int, ...]) -> None:
        """What must hold of the run that the fault has met."""
        says = " | ".join(ended.err.strip().splitlines()[-2:])
        if ended.status == 0:  # it had ended, or did not mind
            self.check_verdict(ended, "with the fault")
        else:
            self.check(ended.status in statuses, f"ends with {ended.status}: {says}")
        self.check("Traceback" not in ended.err + ended.out, f"prints a traceback: {says}")
        self.check(not ended.left, f"leaves {ended.left} running")
        for name, made in self.place.made().items():
            reports = self.fails and ended.status == 1 and whole(name, made)
            right = made == self.reference.made.get(name)
            self.check(right or reports, f"leaves a wrong or half {name}")

    def check_verdict(self, ended: Ended, when: str, alone: bool = True) -> None:
        """The verdict and the files of an undisturbed run.

        alone: no run of another unit may have ended later, whose files are then in `build`.
        """
        verdict = verdict_of(self.place.command, ended)
        says = " | ".join((ended.err + ended.out).strip().splitlines()[-2:])
        self.check(ended.status == 0, f"{when} ends with {ended.status}: {says}")
        self.check(verdict == self.reference.verdict, f"{when} says {verdict}")
        made = self.place.made()
        for name, right in self.reference.made.items():
            if alone or not name.startswith("build/"):
                self.check(made.get(name) == right, f"{when} makes another {name}")

    def check_again(self, keeps: bool = True) -> None:
        """What must hold of the next run. keeps: results so far stay as they are."""
        kept = self.place.kept()
        self.check_verdict(self.place.run(), "the next run")
        after = self.place.kept() if keeps else kept
        lost = [Path(name).name for name, text in kept.items() if after.get(name) != text]
        self.check(not lost, f"the next run makes {lost} again")
        self.check_rest()

    def check_rest(self) -> None:
        """No file that an undisturbed run does not leave."""
        others = self.place.forms() - set(self.reference.forms)
        others = {name for name in others if not name.endswith("lock")}  # which hold nothing
        if self.fails:
            others = {name for name in others if not REPORT.search(name)}
        others = sorted(others)
        self.check(not others, f"files are left: {others[:3]}")
        left = [path.name for path in self.place.tmp.iterdir()]
        self.check(not left, f"temporary files are left: {left[:3]}")


def _signal(number: int, statuses: tuple[int, ...], at_rename: bool) -> Callable[[Cell], None]:
    def fault(cell: Cell) -> None:
        place, reference = cell.place, cell.reference
        fill(place, reference.warm)
        if at_rename:
            nth = cell.draw.randint(1, reference.renames)
            ended = place.run(at=f"{number}:{nth}")
        else:
            running = place.start(place.command.words)
            time.sleep(cell.draw.uniform(0.4, 0.95) * reference.seconds)
            if running.process.poll() is None:
                if number == signal.SIGINT:  # as a terminal does
                    os.killpg(running.process.pid, number)
                else:
                    os.kill(running.process.pid, number)
            ended = running.ended()
        cell.check_fault(ended, statuses)
        cell.check_again()

    return fault


def _child(cell: Cell) -> None:
    """One of the programs that the command has started is killed, as for want of memory."""
    fill(cell.place, cell.reference.warm)
    running = cell.place.start(cell.place.command.words)
    time.sleep(cell.draw.uniform(0.3, 0.9) * cell.reference.seconds)
    others = [number for number in running.left() if number != running.process.pid]
    if others:
        os.kill(cell.draw.choice(others), signal.SIGKILL)
    cell.fails = True
    cell.check_fault(running.ended(), (1, 2))
    cell.check_again()


def _full(least: float, most: float) -> Callable[[Cell], None]:
    def fault(cell: Cell) -> None:
        place, reference = cell.place, cell.reference
        room = size_of(reference.warm) + int(cell.draw.uniform(least, most) * reference.bytes)
        with mounted(place.folder, f"size={room + 2**16}"):
            place.__post_init__()
            fill(place, reference.warm)
            cell.check_fault(place.run(), (1, 2))
            subprocess.run(["mount", "-o", "remount,size=2g", place.folder], check=True)
            cell.check_again()

    return fault


def _read_only(cell: Cell) -> None:
    place = cell.place
    with mounted(place.work, "size=2g"):
        fill(place, cell.reference.warm)
        subprocess.run(["mount", "-o", "remount,ro", place.work], check=True)
        ended = place.run()
        cell.check_fault(ended, (1, 2))
        cell.check(ended.status != 0 or not cell.reference.made, "it passes, and writes nothing")
        subprocess.run(["mount", "-o", "remount,rw", place.work], check=True)
        cell.check_again()


class mounted:  # noqa: N801
    """A file system of its own at a folder, in this process's namespace."""

    def __init__(self, folder: Path, options: str) -> None:
        self.folder, self.options = folder, options

    def __enter__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", self.options, "faults", self.folder]
        subprocess.run(command, check=True)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True)


def _cut(every: bool) -> Callable[[Cell], None]:
    def fault(cell: Cell) -> None:
        place = cell.place
        fill(place, cell.reference.stopped)
        by_form: dict[str, list[Path]] = {}
        for path in sorted(place.work.rglob("*")):
            name = path.relative_to(place.work)
            if path.is_file() and path.stat().st_size and name.parts[0] != "model":
                by_form.setdefault(form_of(name.as_posix()), []).append(path)
        forms = sorted(by_form)
        chosen = [p for paths in by_form.values() for p in paths] if every else []
        if forms and not every:
            chosen = [cell.draw.choice(by_form[cell.draw.choice(forms)])]
        for path in chosen:
            os.truncate(path, cell.draw.randrange(path.stat().st_size))
        before = len(cell.problems)
        ended = place.run()
        if ended.status == 2:  # the user removes the file that the message names
            cell.check(ended.err.count("\n") == 1, f"refuses in other than a line: {ended.err}")
            for path in chosen:
                if str(path.relative_to(place.work)) in ended.err:
                    path.unlink()
            ended = place.run()
        cell.check_verdict(ended, "the next run")
        cell.check_rest()
        names = ", ".join(str(path.relative_to(place.work)) for path in chosen[:1])
        cell.problems[before:] = [f"{text} (cut: {names})" for text in cell.problems[before:]]

    return fault


def _clock(cell: Cell) -> None:
    """Files are of the future, and the clock is back."""
    place, later = cell.place, time.time() + BACK
    fill(place, cell.reference.stopped)
    for path in place.work.rglob("*"):
        os.utime(path, (later, later), follow_symlinks=False)
    cell.check_verdict(place.run(back=BACK), "with the clock back")
    cell.check_again()


def _pair(cell: Cell, first: Running, second: Running, is_same: bool) -> None:
    """Two runs at once: each has its own verdict."""
    one, two = first.ended(), second.ended()
    cell.check_verdict(one, "the first of two", is_same)
    cell.check(not one.left and not two.left, f"two leave {one.left + two.left} running")
    if is_same:
        cell.check_verdict(two, "the second of two")
    else:
        cell.check(two.status == 0, f"the other of two ends with {two.status}: {two.err[-200:]}")


def _same(cell: Cell) -> None:
    fill(cell.place, cell.reference.warm)
    words = cell.place.command.words
    _pair(cell, cell.place.start(words), cell.place.start(words), True)
    cell.check_again(keeps=False)


def _other(cell: Cell) -> None:
    fill(cell.place, cell.reference.warm)
    command = cell.place.command
    _pair(cell, cell.place.start(command.words), cell.place.start(command.other), False)
    cell.check_verdict(cell.place.run(), "the next run")


def _versions(cell: Cell) -> None:
    """Another version of the package runs at once, in which the code of each room differs."""
    fill(cell.place, cell.reference.warm)
    tree = cell.place.folder / "version"
    (tree / "mxdot").mkdir(parents=True)
    for folder in ROOT.iterdir():
        if (folder / "__init__.py").is_file():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(folder, tree / "mxdot" / folder.name, ignore=ignore)
            with (tree / "mxdot" / folder.name / "__init__.py").open("a") as file:
                file.write("\nOTHER_VERSION = True\n")
    other = Place(cell.place.folder, cell.place.command, cell.place.gpu_python, tree)
    words = cell.place.command.words
    _pair(cell, cell.place.start(words), other.start(words), True)
    cell.check_again(keeps=False)


def _worker_lost(cell: Cell) -> None:
    """One of two workers of a Dask cluster is killed."""
    sys.path.append(str(ROOT / "tests" / "lib"))
    place = cell.place
    fill(place, cell.reference.warm)
    (place.folder / "dask").mkdir()
    cluster = import_module("dask_cluster").Cluster(place.folder / "dask")
    try:
        words = place.command.words.replace(ONE, f"--scheduler {cluster.address()}")
        running = place.start(words)
        time.sleep(cell.draw.uniform(0.3, 1.0) * cell.reference.seconds)
        cluster.workers[0].kill()
        cell.check_fault(running.ended(), ())
    finally:
        cluster.close()
    shutil.rmtree(place.folder / "dask")
    cell.check_again()


SUBMITS = """
import sys
from pathlib import Path
from mxdot.util.workers import slurm
from mxdot.verify.command import Session
from mxdot.verify.formal.run import BUILD, run
if __name__ == "__main__":
    jobs = slurm("partition=none,timeout_min=5", 1, cluster="local")
    options = {"list_only": False, "limit": 300.0, "markdown": False}
    sys.exit(run("multiplier:2", Session(BUILD, jobs), **options))
"""
"""Script of `mxdot verify formal` on submitit's local executor in place of Slurm."""


def _requeued(cell: Cell) -> None:
    """A job is killed, and runs again from its beginning, as Slurm does after a node is lost."""
    place = cell.place
    fill(place, cell.reference.warm)
    submits = Place(place.folder, replace(place.command, program=("-c", SUBMITS)), place.gpu_python)
    running, job = submits.start(""), None
    end = time.monotonic() + LIMIT
    while job is None and running.process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
        jobs = [number for number, text in running.left().items() if "submitit.core" in text]
        job = next(iter(jobs), None)
    cell.check(job is not None, "no job was submitted")
    if job is not None:
        proc = Path(f"/proc/{job}")
        words = (proc / "cmdline").read_bytes().decode().split("\0")[:-1]
        values = (proc / "environ").read_bytes().decode().split("\0")[:-1]
        where = (proc / "cwd").readlink()
        parent = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
        time.sleep(cell.draw.uniform(0.1, 1.0))
        os.kill(parent, signal.SIGSTOP)  # it sees the end of the second run alone
        os.kill(job, signal.SIGKILL)
        environment = dict(value.split("=", 1) for value in values)
        subprocess.run(words, cwd=where, env=environment, check=False, capture_output=True)
        os.kill(parent, signal.SIGCONT)
    ended = running.ended()
    verdict = verdict_of(place.command, ended)
    cell.check(ended.status == 0, f"ends with {ended.status}: {ended.err[-200:]}")
    cell.check(verdict == cell.reference.verdict, f"says {verdict}")
    cell.check_again()


FAULTS: Mapping[str, Callable[[Cell], None]] = {
    "kill at a rename": _signal(signal.SIGKILL, (-signal.SIGKILL,), True),
    "kill": _signal(signal.SIGKILL, (-signal.SIGKILL,), False),
    "SIGTERM at a rename": _signal(signal.SIGTERM, (130, -signal.SIGTERM), True),
    "SIGTERM": _signal(signal.SIGTERM, (130, -signal.SIGTERM), False),
    "Ctrl-C at a rename": _signal(signal.SIGINT, (130, -signal.SIGINT), True),
    "Ctrl-C": _signal(signal.SIGINT, (130, -signal.SIGINT), False),
    "a program killed": _child,
    "disk full": _full(0.0, 0.3),
    "disk full later": _full(0.3, 1.0),
    "read-only": _read_only,
    "a file cut": _cut(False),
    "another file cut": _cut(False),
    "all files cut": _cut(True),
    "clock back": _clock,
    "two at once": _same,
    "two units": _other,
    "two versions": _versions,
    "Dask worker lost": _worker_lost,
    "Slurm job requeued": _requeued,
}
"""By name. What a fault draws depends on the seed, the command and the name."""
PLACES = {"Dask worker lost": ("formal", "sim", "compare"), "Slurm job requeued": ("formal",)}
"""Commands of faults that not every command has."""
MOUNTS = ("disk full", "disk full later", "read-only")
"""Faults that need a file system of their own."""


def cells(only: str) -> Iterator[tuple[str, str]]:
    """Command and fault of each cell, of those whose `COMMAND:FAULT` has `only` in it."""
    for command in COMMANDS:
        for fault in FAULTS:
            if only in f"{command}:{fault}" and command in PLACES.get(fault, COMMANDS):
                yield command, fault


def run_cell(
    name: str, command: Command, fault: str, seed: int, reference: Reference, gpu_python: str
) -> list[str]:
    """The problems of one cell."""
    with scratch("c") as folder:  # short, as for `own_temporary`
        place = Place(folder, command, gpu_python)
        cell = Cell(place, reference, random.Random(f"{seed} {name} {fault}"))
        FAULTS[fault](cell)
    return cell.problems
