"""A folder in which a disturbed command runs, and the content of its files."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
from fault_commands import Command
from figure_inputs import ROOT

HOOK = ROOT / "tools" / "fault_hook"
LIMIT = 600.0
"""Seconds of a run, above which it hangs."""
PATIENCE = 15.0
"""Seconds in which all that a run has started ends after it."""
MARK = "MXDOT_FAULT_CELL"
KEPT = ("results", "runs", "failures")
"""Folders of results, in contrast to those of builds."""


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    status: int
    out: str
    err: str
    left: tuple[str, ...] = ()
    """Programs that it started and that ran on."""


@dataclass
class Place:
    """A folder in which one command runs: `work`, `tmp` for temporary files."""

    folder: Path
    command: Command
    gpu_python: str
    package: Path | None = None
    """Folder of another version of mxdot."""

    def __post_init__(self) -> None:
        for part in (self.work, self.tmp, self.logs):
            part.mkdir(parents=True, exist_ok=True)

    work = property(lambda self: self.folder / "work")
    tmp = property(lambda self: self.folder / "tmp")
    logs = property(lambda self: self.folder / "logs")

    def start(self, words: str, at: str = "", back: float = 0.0) -> "Running":
        """Start mxdot. at: MXDOT_FAULT_AT of the hook; back: of the clock."""
        python = self.gpu_python if self.command.gpu else sys.executable
        path = [str(HOOK), *([] if self.package is None else [str(self.package)])]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("MXDOT_")
        }
        mark = f"{self.folder}/{time.monotonic_ns()}"
        environment |= {"PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(self.tmp), MARK: mark}
        environment |= {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        if at:
            environment["MXDOT_FAULT_AT"] = f"{at}:{self.logs / 'renames'}"
        if back:
            environment["MXDOT_FAULT_CLOCK"] = str(back)
        out, err = (self.logs / f"{mark.rpartition('/')[2]}.{name}" for name in ("out", "err"))
        with out.open("wb") as one, err.open("wb") as two:
            process = subprocess.Popen(
                [python, *self.command.program, *words.split()],
                cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=one, stderr=two,
                start_new_session=True,
                # A background job ignores SIGINT, and so do its children unless told otherwise.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip
        return Running(process, mark, out, err)

    def run(self, words: str = "", **options: object) -> Ended:
        """Run mxdot to its end."""
        return self.start(words or self.command.words, **options).ended()  # type: ignore[arg-type]

    def made(self) -> dict[str, object]:
        """Content of the files that the user asked for, without times."""
        files = (path for form in self.command.makes for path in self.work.glob(form))
        whole = (path for path in files if not path.name.startswith("."))
        return {path.relative_to(self.work).as_posix(): content(path) for path in whole}

    def kept(self) -> dict[str, bytes]:
        """Results that are whole; a task that failed is done again."""
        files = (path for path in self.work.rglob("*.json") if path.parent.name == "results")
        return {str(path): path.read_bytes() for path in files if is_done(path)}

    def forms(self) -> set[str]:
        """Names of all files, with # in place of what another run has otherwise."""
        here = (path.relative_to(self.work) for path in self.work.rglob("*") if path.is_file())
        return {form_of(path.as_posix()) for path in here}


@dataclass(frozen=True)
class Running:
    """A run under way."""

    process: subprocess.Popen
    mark: str
    out: Path
    err: Path

    def ended(self, limit: float = LIMIT) -> Ended:
        """Wait for the end of the run and of all that it has started."""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            status = self.process.wait()
        end = time.monotonic() + PATIENCE
        while (left := self.left()) and time.monotonic() < end:
            time.sleep(0.1)
        for number in left:
            os.kill(number, signal.SIGKILL)
        out, err = (file.read_text(errors="replace") for file in (self.out, self.err))
        return Ended(status, out, err, tuple(left.values()))

    def left(self) -> dict[int, str]:
        """Processes of this run by number: their programs."""
        mark, found = f"{MARK}={self.mark}\0".encode(), {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                text = (place / "environ").read_bytes() + b"\0"
                state = (place / "stat").read_text().rpartition(")")[2].split()[0]
                if mark in text and state != "Z":
                    words = (place / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(place.name)] = words.decode(errors="replace")[:80]
            except (OSError, IndexError):  # it has ended, or is another user's
                continue
        return found


def content(path: Path) -> object:
    """Content of a file, without times and rates."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: (arrays[name].dtype.str, arrays[name].tobytes()) for name in arrays}
    text = path.read_text(errors="replace")
    if path.suffix == ".json":
        try:
            return untimed(json.loads(text))
        except ValueError:
            return text
    if path.suffix == ".csv":
        rows = csv.DictReader(text.splitlines())
        return [{name: row[name] for name in row if name != "seconds"} for row in rows]
    text = re.sub(r'\b(time|timestamp|seconds)="[^"]*"|"seconds":[\d.]+', "", text)
    return re.sub(r"\d{4}-\d\d-\d\d[ T][\d:]*|\b\d+(\.\d+)? (s|min)\b", "", text)


TIMED = re.compile(r"seconds|finished|rate|row|text|share|simulated|model_s|^key$")


def untimed(value: object) -> object:
    """A JSON value without what depends on time, and keys, in which versions differ."""
    if isinstance(value, dict):
        return {k: untimed(v) for k, v in value.items() if not TIMED.search(k)}
    return [untimed(v) for v in value] if isinstance(value, list) else value


def whole(name: str, made: object) -> bool:
    """Whether a file's content is not half a file."""
    if not isinstance(made, str):  # it could be read
        return True
    if name.endswith(".xml"):
        with suppress(ET.ParseError):
            return ET.fromstring(made) is not None
        return False
    return made.endswith("\n") and not name.endswith(".json")


def is_done(path: Path) -> bool:
    """Whether a file holds a result, and no error."""
    try:
        outcome = json.loads(path.read_text())
    except ValueError:
        return False
    return not (isinstance(outcome, dict) and outcome.get("error"))


def form_of(name: str) -> str:
    """The name of a file with # for digests, dates and numbers."""
    name = re.sub(r"(/runs)/[^/]+", r"\1/#", f"/{name}")
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", name)


def size_of(folder: Path) -> int:
    """Bytes that the files of a folder take on a disk."""
    sizes = (path.lstat().st_size for path in folder.rglob("*"))
    return sum(-(-size // 4096) * 4096 + 4096 for size in sizes)


def forget(place: Place) -> None:
    """Remove results, and keep builds."""
    for path in [p for p in place.work.rglob("*") if p.name in KEPT and p.is_dir()]:
        shutil.rmtree(path, ignore_errors=True)
    for form in place.command.makes:
        for path in list(place.work.glob(form)):
            path.unlink()


def fill(place: Place, source: Path) -> None:
    """Put a copy of a folder in the place's."""
    shutil.copytree(source, place.work, symlinks=True, dirs_exist_ok=True)
