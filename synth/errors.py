"""Errors of a synthesis, each of one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..model.errors import one_line


class SynthesisError(RuntimeError, ValueError):
    """A design, library or target that a flow cannot serve; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class TargetMissedError(SynthesisError):
    """A target that no attempt meets. It is kept in the cache, like a cost.

    option: `target_ps` or `target_levels`; fastest: the best delay reached, in the target's unit.
    """

    def __init__(self, option: str, target: int, top: str, fastest: float) -> None:
        self.option, self.target, self.top, self.fastest = option, target, top, fastest
        unit = option.removeprefix("target_")
        super().__init__(
            f"{option} of {target} cannot be met: the fastest {top} that was found has "
            f"{fastest:.0f} {unit}"
        )

    @property
    def arguments(self) -> tuple[str, int, str, float]:
        """Arguments of the constructor."""
        return self.option, self.target, self.top, self.fastest


@contextmanager
def naming(directory: Path) -> Iterator[None]:
    """Give an OSError without a file name (full disk) the name of `directory`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(directory)
        raise
