"""Files that are whole or as they were: written under another name, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file in the folder of `path` to write to; it takes the place of `path` at the end.

    It goes away when the block raises. Any number of processes may write the same `path`; what a
    link points to is replaced, not the link. OSError names `path`, for a full disk does not say
    whose file it was.
    """
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _named(error, path) from None
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _named(error, path) from None
        raise


def write_file(path: Path, content: str | bytes) -> None:
    """Write `content`, text as UTF-8 with its own line ends; to a device or pipe as it is."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_bytes(data)
        return
    with replacing(path) as part:
        part.write_bytes(data)


def _named(error: OSError, path: Path) -> OSError:
    if error.errno is None:  # NumPy's, of a full disk
        return OSError(f"{error}: {str(path)!r}")
    return OSError(error.errno, error.strerror, str(path))
