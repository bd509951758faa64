"""A directory for each run, so that no two write the same files."""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .cache import locked

KEPT = 8
"""Directories of ended runs that stay, the newest."""


@contextmanager
def own_directory(
    parent: Path, kept: int = KEPT, goes_on: Callable[[Path], bool] = lambda directory: False
) -> Iterator[Path]:
    """A directory in `parent` for one run, locked for the duration.

    It is the newest one of an ended or killed run for which `goes_on` is true, else a new one. The
    others go away, except the newest `kept`; with `kept` 0 this one goes away at the end.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with locked(parent.with_name(f"{parent.name}.lock")):
        others = ended(parent)
        directory = next(filter(goes_on, others), None)
        for other in others[max(0, kept - 1) :]:
            if other != directory:
                shutil.rmtree(other, ignore_errors=True)
        if directory is None:
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


def ended(parent: Path) -> list[Path]:
    """Directories of ended or killed runs, the newest first."""
    return sorted(filter(_is_over, parent.iterdir()), reverse=True) if parent.is_dir() else []


def _is_over(directory: Path) -> bool:
    try:
        with (directory / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # of a run that goes on, or no run's
        return False
    return True
