"""Regression vectors: a few items that a unit computed wrong, in a file that can be replayed.

    {"schema": "mxdot regression vector 1", "kind": "dot", "config": {...}, "state": "minimised",
     "timing": {"gap": 0, "stall": 0, "seed": 1}, "items": [{...}], "wrong": 0,
     "found": {"unit": "...", "seed": 1, "count": 100000, "where": "...", "got": [], "want": []}}

The golden model computes the right results when the vector is replayed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...model.errors import one_line
from ...model.files import read_text
from ...model.units import KINDS, UnitConfig
from ...sim.engine.job import Failure, UnitJob
from ...sim.engine.stream_unit import AT_ONCE, Replayed, StallChances, StreamUnit, stream_unit_of
from ...sim.engine.unit import verilog_of
from ...util.files import write_file

SCHEMA = "mxdot regression vector 1"
FOUND, MINIMISED, LOST = "found", "minimised", "not reproduced"
STATES = (FOUND, MINIMISED, LOST)
MOST_ITEMS = 10_000
LARGEST = 2**28  # bytes of a file


@dataclass(frozen=True)
class Vector:
    """Items that fail, or failed. wrong: the one that was seen to be. found: how it was found."""

    config: UnitConfig
    items: list[dict[str, Any]]
    timing: StallChances = AT_ONCE
    wrong: int = 0
    state: str = FOUND
    found: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file, whole."""
        values = asdict(self) | {"config": self.config.arguments}
        values = {"schema": SCHEMA, "kind": self.config.kind} | values
        write_file(path, json.dumps(values, indent=1) + "\n")


def load(path: Path) -> Vector:
    """The vector of a file; ValueError, naming the file, for anything else."""
    try:
        values = json.loads(read_text(path, LARGEST))
        if not isinstance(values, dict) or values.pop("schema", None) != SCHEMA:
            raise ValueError(f"schema must be {SCHEMA!r}")
        return _vector(values)
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        reason = one_line(str(error))
        raise ValueError(f"{path} cannot be read as a regression vector: {reason}") from None


def _vector(values: dict[str, Any]) -> Vector:
    kind = values.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    config = KINDS[kind].of(**values.pop("config"))
    timing = StallChances(**values.pop("timing"))
    vector = Vector(config, timing=timing, **values)
    numbers = {"gap": (timing.gap, 255), "stall": (timing.stall, 255), "seed": (timing.seed, 2**31)}
    if not isinstance(vector.items, list) or not 1 <= len(vector.items) <= MOST_ITEMS:
        raise ValueError(f"items must be a list of 1 to {MOST_ITEMS}")
    numbers["wrong"] = vector.wrong, len(vector.items) - 1
    for name, (value, most) in numbers.items():
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"{name} must be from 0 to {most}, not {value!r}")
    if vector.state not in STATES:
        raise ValueError(f"state must be one of {', '.join(STATES)}, not {vector.state!r}")
    return vector


def stream_unit(job: UnitJob) -> StreamUnit:
    """The unit of a job; ValueError for a kind whose items cannot be replayed."""
    unit = stream_unit_of(job.config)
    if unit is None:
        raise ValueError(f"kind must be one whose items can be replayed, not {job.config.kind}")
    return unit(job)


def replay(vector: Vector, job: UnitJob) -> tuple[Replayed, str]:
    """Results of the unit of `job` for a vector, and the report of wrong ones, or "".

    ValueError for items that are none of the unit; SimulationError when it does not finish.
    """
    unit = stream_unit(job)
    try:
        for batch in unit.gathered(vector.items)[0]:
            job.predict()(job.config, batch)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"items must be those of the unit: {one_line(str(error))}") from None
    job.directory.mkdir(parents=True, exist_ok=True)
    verilog = verilog_of(job)
    waves = job.directory / "replay.fst" if job.waves else None
    replayed = unit.replay(unit.build(verilog), vector.items, vector.timing, waves)
    return replayed, report(unit, verilog, vector, replayed)


def report(unit: StreamUnit, verilog: Path, vector: Vector, replayed: Replayed) -> str:
    """Report of a replay that failed, for people; "" for one that did not."""
    if not replayed.failed:
        return ""
    if not replayed.wrong:
        return f"{replayed.surplus} results without an item"
    first = replayed.wrong[0]
    item, got, want = vector.items[first], replayed.got[first], replayed.want[first]
    where = f"replay, item {first} of {len(vector.items)}"
    if got is None:
        return unit.job.report(f"{where}: no result", [f"want {want}"])
    return unit.report(verilog, Failure(item, got, want, where))


def summary(found: Mapping[str, Any]) -> str:
    """Origin of a vector, in a line."""
    return ", ".join(f"{name} {value}" for name, value in found.items() if value != "")
