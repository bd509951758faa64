"""Files that are made once and kept: under a digest of their sources, by one process at a time."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .files import write_file


def digest(parts: Sequence[str]) -> str:
    """Another one for every other list of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def locked(path: Path, refusal: str = "") -> Iterator[None]:
    """Keeps other processes and threads out for the duration; the lock dies with its holder.

    Waits for another holder, or, with a `refusal`, raises a RuntimeError that says so.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError:
            raise RuntimeError(refusal) from None
        yield


def seal(file: Path, key: str = "") -> None:
    """Record that `file` is whole and made from `key`: the last step of making it."""
    write_file(_seal_of(file), _content(file, key))


def is_whole(file: Path, key: str = "") -> bool:
    """True for a file as it was sealed with `key`; a power loss can cut one that was renamed."""
    seal_file = _seal_of(file)
    return file.is_file() and seal_file.is_file() and seal_file.read_text() == _content(file, key)


def linked(file: Path, link: Path) -> Path:
    """Another name for `file`, which stays when a later build replaces `file`."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    try:
        os.link(file, link)
    except OSError:  # another file system
        shutil.copy2(file, link)
    return link


def _seal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.seal")


def _content(file: Path, key: str) -> str:
    with file.open("rb") as opened:
        return f"{key} {hashlib.file_digest(opened, 'sha256').hexdigest()}\n"
