"""What soaks have done so far, in a file that any number of them share and that is always whole."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...model.errors import one_line
from ...model.files import read_text
from ...util.cache import digest, locked
from ...util.files import write_file

SCHEMA = "mxdot soak 1"
LARGEST = 2**26  # bytes of the file


@dataclass
class Count:
    """Of one unit, as the Verilog of this digest has it."""

    verilog: str
    items: str
    """What was compared, in words."""
    compared: int = 0
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    fresh: int = 0
    """Of what was compared, that of operands drawn anew: without what was sent again in rounds."""


class State:
    """The counts in `directory`, by the names of units.

    The file is read, changed and replaced under a lock: a soak that is killed loses the runs that
    it had not finished, and two beside each other lose nothing.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "state.json"
        self.lock = directory / "state.lock"

    def load(self) -> dict[str, Count]:
        """The counts; ValueError, naming the file, when it is none of ours."""
        try:
            text = read_text(self.path, LARGEST)
        except FileNotFoundError:
            return {}
        try:
            values = json.loads(text)
            if values.pop("schema") != SCHEMA:
                raise ValueError(f"schema must be {SCHEMA!r}")
            return {name: _count(**fields) for name, fields in values["units"].items()}
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            reason = one_line(str(error))
            raise ValueError(f"{self.path} cannot be read as a soak's state: {reason}") from None

    def add(self, name: str, run: Count) -> Count:
        """Add a run; what the unit has now. Other Verilog than before counts from zero."""
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


def _count(compared: int, different: int | None = None, **fields: Any) -> Count:
    """Of a file's fields: `fresh` was called `different`, and was not there before rounds were."""
    return Count(
        **{"fresh": compared if different is None else different, **fields}, compared=compared
    )


def verilog_digest(verilog: Path) -> str:
    """Another one for every other text."""
    return digest([verilog.read_text()])[:16]
