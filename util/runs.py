"""A directory for each run, so that no two write the same files."""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .cache import locked

KEPT = 8
"""Directories of ended runs that stay, the newest."""


@contextmanager
def own_directory(parent: Path, kept: int = KEPT) -> Iterator[Path]:
    """A new directory in `parent`, locked for the duration.

    Directories of ended or killed runs go away, except the newest `kept`; with `kept` 0 this one
    goes away at the end.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with locked(parent.with_name(f"{parent.name}.lock")):
        others = sorted(filter(_is_over, parent.iterdir()))
        for other in others[: max(0, len(others) - max(0, kept - 1))]:
            shutil.rmtree(other, ignore_errors=True)
        directory = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=parent))
        directory.chmod(0o755)
        lock = (directory / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        try:
            yield directory
        finally:
            if not kept:
                shutil.rmtree(directory, ignore_errors=True)


def _is_over(directory: Path) -> bool:
    try:
        with (directory / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # of a run that goes on, or no run's
        return False
    return True
