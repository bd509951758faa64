"""What is made once and kept: under a digest of all that it depends on, by one at a time."""

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def digest(parts: Sequence[str]) -> str:
    """Another one for every other list of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes and threads out for the duration; the lock dies with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
