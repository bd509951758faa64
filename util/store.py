"""Results on disk, one file each: what is done stays done, however the run ends."""

import json
import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..model.files import read_text
from .files import write_file

LARGEST = 2**26  # bytes of an outcome


@dataclass(frozen=True)
class Outcome:
    """End of one task: a value of plain JSON types, or an error in one line."""

    key: str
    label: str
    value: Any = None
    error: str | None = None
    seconds: float = 0.0
    finished: float = 0.0
    """Seconds since the epoch."""

    @property
    def ok(self) -> bool:
        """There is a value."""
        return self.error is None

    @property
    def is_sound(self) -> bool:
        """Whether all is of its type, which a file may have otherwise."""
        times = (self.seconds, self.finished)
        return (
            isinstance(self.label, str)
            and isinstance(self.error, str | None)
            and all(type(time) in (int, float) and math.isfinite(time) for time in times)
        )


class Store:
    """Outcomes by key in a directory, each written, then renamed: whole or absent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, key: str) -> Path:
        """The file of `key`, whether it is there or not."""
        if not re.fullmatch(r"[0-9a-z-]+", key):
            raise ValueError(f"key must be lower-case letters, digits and -, not {key!r}")
        return self.directory / f"{key}.json"

    def get(self, key: str) -> Outcome | None:
        """The outcome kept under `key`; None when there is none that can be read."""
        path = self.path(key)
        try:
            outcome = Outcome(**json.loads(read_text(path, LARGEST)))
        except (OSError, RecursionError, TypeError, ValueError):
            return None
        return outcome if outcome.key == key and outcome.is_sound else None

    def put(self, outcome: Outcome) -> None:
        """Keep `outcome` under its key."""
        write_file(self.path(outcome.key), json.dumps(asdict(outcome), indent=1) + "\n")
