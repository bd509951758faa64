"""What can go wrong in a synthesis, told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...model.errors import one_line


class SynthesisError(ValueError):
    """A design, library or target that a flow cannot serve; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@contextmanager
def naming(directory: Path) -> Iterator[None]:
    """An OSError that names no file, as that of a full disk, names `directory`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(directory)
        raise
