"""Counts of all soaks, in a file that any number of them share and that is always whole."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ...model.errors import one_line
from ...model.files import read_text
from ...util.cache import digest, locked
from ...util.files import write_file

SCHEMA = "mxdot soak 1"
LARGEST = 2**26  # bytes of the file


@dataclass
class Count:
    """Runs of one unit. verilog: the digest of its Verilog, without which nothing is counted."""

    verilog: str
    items: str
    """Name of what was compared."""
    compared: int = 0
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    fresh: int = 0
    """Items compared without those that were sent again in rounds."""


class State:
    """The counts in `directory`, by the names of units.

    The file is read, changed and replaced under a lock: a soak that is killed loses the runs that
    it had not finished, and two at the same time lose nothing.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "state.json"
        self.lock = directory / "state.lock"

    def load(self) -> dict[str, Count]:
        """The counts; ValueError, naming the file, when it is not a soak's."""
        try:
            text = read_text(self.path, LARGEST)
        except FileNotFoundError:
            return {}
        try:
            values = json.loads(text)
            if values.pop("schema") != SCHEMA:
                raise ValueError(f"schema must be {SCHEMA!r}")
            return {name: Count(**fields) for name, fields in values["units"].items()}
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            reason = one_line(str(error))
            raise ValueError(f"{self.path} cannot be read as a soak's state: {reason}") from None

    def add(self, name: str, run: Count) -> Count:
        """Add a run; the unit's new count. Other Verilog than before counts from zero."""
        with locked(self.lock):
            counts = self.load()
            count = counts.get(name)
            if count is None or count.verilog != run.verilog:
                count = Count(run.verilog, run.items)
            for field in ("compared", "fresh", "runs", "failed", "seconds"):
                setattr(count, field, getattr(count, field) + getattr(run, field))
            counts[name] = count
            units = {name: asdict(counts[name]) for name in sorted(counts)}
            write_file(self.path, json.dumps({"schema": SCHEMA, "units": units}, indent=1) + "\n")
        return count


def verilog_digest(verilog: Path) -> str:
    """A short digest of the text of a file."""
    return digest([verilog.read_text()])[:16]
