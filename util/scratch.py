"""Temporary directories: those of a process that was killed go away with the next run."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX, LOCK = "mxdot-", "lock"


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """A temporary directory `mxdot-KIND-...`, which goes away at the end.

    Its file `lock` is locked as long as this process lives: the kernel lets go of it even where the
    process is killed. Directories beside it whose lock is free are removed.
    """
    _remove_stale(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        new = directory / f"{LOCK}.new"
        with new.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            new.rename(directory / LOCK)  # nobody sees it before it is locked
            yield directory


def _remove_stale(folder: Path) -> None:
    for directory in folder.glob(f"{PREFIX}*"):
        try:
            if directory.is_symlink() or directory.stat().st_uid != os.getuid():
                continue
            handle = os.open(directory / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # no lock: not one of these, or not ready
            continue
        with os.fdopen(handle) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # in use
                continue
            shutil.rmtree(directory, ignore_errors=True)
