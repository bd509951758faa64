"""Files that are whole or as they were: written under another name, then renamed."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock

_ASKED = Lock()
"""Held while the mask is not the user's: two threads at once would lose it."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file in the folder of `path` to write to; it takes the place of `path` at the end.

    It goes away when the block raises; where a process is killed, the next one that writes `path`
    takes it. Any number of processes may write the same `path`; what a link points to is replaced,
    not the link. OSError names `path`, for a full disk does not say whose file it was.
    """
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        part, lock = _part(target)
    except OSError as error:
        raise _named(error, path) from None
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.chmod(_mode(target))
        part.replace(target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _named(error, path) from None
        raise
    finally:
        os.close(lock)


def _part(target: Path) -> tuple[Path, int]:
    """An empty file next to `target` that no other process writes, and what keeps it locked."""
    for number in count():
        part = target.with_name(f".{target.name}.{number}")
        while True:
            try:
                lock = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            except PermissionError:
                if not part.exists():
                    raise
                break  # another user's
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(lock, part):
                    os.ftruncate(lock, 0)
                    return part, lock
            except BlockingIOError:
                os.close(lock)
                break
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)  # its writer has renamed it meanwhile
    raise AssertionError  # count() has no end


def _mode(target: Path) -> int:
    """Permissions of `target`, or what the user's mask leaves to a new file."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        pass
    with _ASKED:
        mask = os.umask(0o077)  # the system tells the mask only to who sets it
        os.umask(mask)
    return 0o666 & ~mask


def _is_at(opened: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), path.stat())
    except FileNotFoundError:
        return False


def write_file(path: Path, content: str | bytes) -> None:
    """Write `content`, text as UTF-8 with its own line ends; to a device or pipe as it is."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not (path.is_file() or path.is_dir()):
        try:
            path.write_bytes(data)
        except OSError as error:
            raise _named(error, path) from None
        return
    with replacing(path) as part:
        part.write_bytes(data)


def _named(error: OSError, path: Path) -> OSError:
    if error.errno is None:  # NumPy's, of a full disk
        return OSError(f"{error}: {str(path)!r}")
    return OSError(error.errno, error.strerror, str(path))
