"""The steps of `make verify`, each `make verify-STEP NAME=VALUE ...`: all that have not passed with
today's files and these values.

python tools/verify.py MAKE STEP NAME=VALUE ... STEP ...      # in the checkout
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mxdot.util.files import write_file

PASSED = Path("build/verify")
"""A file for each step that has passed: the state and the values that it has passed with."""
MADE = {"build", "dist", "__pycache__"}
"""Folders that make and Python write; hidden ones are theirs, too."""


def state(root: Path) -> str:
    """Another digest for every other name or content of a file below `root`, in git or not."""
    found = hashlib.sha256()
    for path in sorted(_files(root)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(root)}\0{content}\0".encode())
    return found.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in MADE or path.name.startswith(".") or path.name.endswith(".egg-info"):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)
        elif path.is_file():
            yield path


def main(arguments: Sequence[str]) -> int:
    """0 when every step has passed with the files as they are at the end."""
    make, *words = arguments
    steps = _steps(words)
    for step, values in steps.items():
        before = [state(Path()), *values]
        if _passed_with(step) != before:
            (PASSED / step).unlink(missing_ok=True)
            if subprocess.run([make, f"verify-{step}", *values], check=False).returncode == 0:
                write_file(PASSED / step, "\n".join(before))
    now, failed = state(Path()), False
    for step, values in steps.items():
        found = _passed_with(step)
        passed = found == [now, *values]
        verdict = "passed" if passed else "FAILED"
        more = "" if passed or not found else ": it has passed, and files have changed since"
        failed |= not passed
        print(f"verify: {step} {verdict}{more}", flush=True)
    if not failed:
        shutil.rmtree(PASSED)
    return int(failed)


def _steps(words: Sequence[str]) -> dict[str, list[str]]:
    """The values behind each step."""
    steps: dict[str, list[str]] = {}
    for word in words:
        if "=" in word:
            steps[next(reversed(steps))].append(word)
        else:
            steps[word] = []
    return steps


def _passed_with(step: str) -> list[str]:
    """The state and the values that a step has passed with; empty where it has not."""
    try:
        return (PASSED / step).read_text().splitlines()
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
