"""Reasons why a point cannot be reached, from reasons.toml: each must hold something."""

import fnmatch
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .points import KINDS, Point

FILE = Path(__file__).with_name("reasons.toml")
_KEYS = ("unit", "module", "kind", "what", "why")


@dataclass(frozen=True)
class Reason:
    """Shell patterns of a unit, a module and a point's words, and why such points cannot occur."""

    unit: str
    module: str
    kind: str
    what: str
    why: str

    def holds(self, unit: str, point: Point) -> bool:
        """Whether it is the reason of this point."""
        return (
            self.kind == point.kind
            and fnmatch.fnmatchcase(unit, self.unit)
            and fnmatch.fnmatchcase(point.module, self.module)
            and fnmatch.fnmatchcase(point.what, self.what)
        )


def load(path: Path = FILE) -> list[Reason]:
    """All of a file; ValueError names an entry that is none."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reason", [])
    for entry in entries:
        if sorted(entry) != sorted(_KEYS) or not all(
            isinstance(v, str) and v for v in entry.values()
        ):
            raise ValueError(
                f"a reason in {path} must have texts {', '.join(_KEYS)}, not {entry!r}"
            )
        if entry["kind"] not in KINDS:
            raise ValueError(
                f"kind in {path} must be one of {', '.join(KINDS)}, not {entry['kind']!r}"
            )
    return [Reason(**entry) for entry in entries]


def explained(
    reasons: Iterable[Reason], unit: str, points: Iterable[Point]
) -> tuple[dict[Point, Reason], list[Point]]:
    """The reason of each point that has one, the first; and the others."""
    reasons = list(reasons)
    found: dict[Point, Reason] = {}
    left: list[Point] = []
    for point in points:
        reason = next((reason for reason in reasons if reason.holds(unit, point)), None)
        if reason is None:
            left.append(point)
        else:
            found[point] = reason
    return found, left
