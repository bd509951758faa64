"""Directories of runs, each locked by its run: no two write the same files.

The kernel frees the lock of a killed process; the next run removes its directory.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing.util import Finalize
from pathlib import Path

from .cache import locked

KEPT = 8
"""Directories of ended runs that stay, the newest."""
_LOCK, _PREFIX = "lock", "mxdot-"
_TEMPORARY = "TMPDIR"
_LONGEST = 50
"""Characters of a directory for `mxdot-run-NUMBER-0/pymp-NAME/listener-NAME`, of 107 in all."""


@contextmanager
def own_directory(
    parent: Path,
    kept: int = KEPT,
    goes_on: Callable[[Path], bool] = lambda directory: False,
    is_replaced: Callable[[Path], bool] = lambda directory: False,
) -> Iterator[Path]:
    """A directory in `parent` for one run, locked for the duration.

    It is the newest one of an ended or killed run for which `goes_on` is true, else a new one. The
    others go away, except the newest `kept` for which `is_replaced` is false; with `kept` 0 this
    one goes away at the end.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with locked(parent.with_name(f"{parent.name}.lock")):
        others = ended(parent)
        directory = next(filter(goes_on, others), None)
        for place, other in enumerate(others):
            if other != directory and (place >= max(0, kept - 1) or is_replaced(other)):
                shutil.rmtree(other, ignore_errors=True)
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=parent))
            directory.chmod(0o755)
        lock = (directory / _LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        try:
            yield directory
        finally:
            if not kept:
                shutil.rmtree(directory, ignore_errors=True)


def ended(parent: Path) -> list[Path]:
    """Directories of ended or killed runs, the newest first."""
    directories = parent.iterdir() if parent.is_dir() else ()
    over = (directory for directory in directories if _is_over(directory, without_lock=True))
    return sorted(over, reverse=True)


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """A temporary directory `mxdot-KIND-...`, which goes away at the end.

    Temporary directories of the user's killed runs go away at the beginning.
    """
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not directory.is_symlink() and _is_over(directory):
            shutil.rmtree(directory, ignore_errors=True)
    directory = _made(kind)
    try:
        new = directory / f"{_LOCK}.new"
        with new.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            new.rename(directory / _LOCK)  # other runs see a locked file, or none
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _made(kind: str) -> Path:
    """A new temporary directory with the number of this process in its name."""
    for number in count():
        name = f"{_PREFIX}{kind}-{os.getpid()}-{number}"
        directory = Path(tempfile.gettempdir()) / name
        try:
            directory.mkdir(0o700)
        except FileExistsError:
            continue
        return directory
    raise AssertionError  # count() has no end


def _is_gone(directory: Path) -> bool:
    """True where the process in the name of a temporary directory has ended."""
    process = re.search(r"-(\d+)-\d+$", directory.name)
    try:
        os.kill(int(process[1]), 0) if process else None
    except ProcessLookupError:
        return True
    except OSError:  # another user's
        return False
    return False


def own_temporary() -> None:
    """Temporary files of this process and of what it starts lie in a `scratch` of its own, until
    it ends.

    The next command removes what a killed one leaves. Nothing changes where no directory can be
    made, nor where a socket's path in it would be too long.
    """
    stack = ExitStack()
    try:
        if len(tempfile.gettempdir()) > _LONGEST:
            return
        directory = stack.enter_context(scratch("run"))
    except OSError:
        return
    tempfile.tempdir = os.environ[_TEMPORARY] = str(directory)
    Finalize(None, stack.close, exitpriority=-200)  # after multiprocessing's own, of -100


@contextmanager
def temporary_files_in(directory: str) -> Iterator[None]:
    """Temporary files of this process and of what it starts lie in `directory`."""
    before = tempfile.tempdir, os.environ.get(_TEMPORARY)
    tempfile.tempdir = os.environ[_TEMPORARY] = directory
    try:
        yield
    finally:
        tempfile.tempdir = before[0]
        os.environ.pop(_TEMPORARY)
        if before[1] is not None:
            os.environ[_TEMPORARY] = before[1]


def _is_over(directory: Path, without_lock: bool = False) -> bool:
    """True for a directory of this user whose lock is free.

    Where there is none: `without_lock`, or when the process that made it died before the lock.
    """
    try:
        if not directory.is_dir() or directory.stat().st_uid != os.getuid():
            return False
        with os.fdopen(os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return without_lock or _is_gone(directory)
    except OSError:  # a run that goes on
        return False
    return True
