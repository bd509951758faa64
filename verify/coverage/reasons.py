"""Reasons why a point cannot be reached, from reasons.toml: each must hold of points that were not
reached, and of no others."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .points import KINDS, Counts, Point

FILE = Path(__file__).with_name("reasons.toml")
_KEYS = ("unit", "module", "kind", "what", "why")
_BITS = re.compile(r"(.+)\[(\d+)(?::(\d+))?\]")


@dataclass(frozen=True)
class Reason:
    """Why points of a unit cannot occur. module: a shell pattern; what: one of the point's
    words, of a toggle of a net, with or without a range of bits; source: text that the
    point's line has."""

    unit: str
    module: str
    kind: str
    what: str
    why: str
    source: str = ""

    def holds(self, unit: str, point: Point, line: str) -> bool:
        """True for the reason of this point. line: of the Verilog."""
        return (
            self.kind == point.kind
            and unit == self.unit
            and fnmatchcase(point.module, self.module)
            and self.source in line
            and _matches(point.bit, self.what)
        )


def _matches(bit: str, words: str) -> bool:
    """Whether a bit, `net[3]`, is one of `words`, `n*[5:2]`; other words are one pattern."""
    wanted, single = _BITS.fullmatch(words), _BITS.fullmatch(bit)
    if wanted is None or single is None:
        return fnmatchcase(bit, words)
    high, low = int(wanted[2]), int(wanted[3] or wanted[2])
    return fnmatchcase(single[1], wanted[1]) and low <= int(single[2]) <= high


def load(path: Path = FILE) -> list[Reason]:
    """All of a file, one for each pattern; ValueError names an entry that is none."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reason", [])
    return [reason for entry in entries for reason in _reasons(path, entry)]


def _reasons(path: Path, entry: dict[str, Any]) -> list[Reason]:
    what = entry.get("what")
    words = what if isinstance(what, list) and what else [what]
    texts = [*words, *(value for key, value in entry.items() if key != "what")]
    if set(entry) - {"source"} != set(_KEYS) or not all(isinstance(t, str) and t for t in texts):
        raise ValueError(f"a reason in {path} must have texts {', '.join(_KEYS)}, not {entry!r}")
    if entry["kind"] not in KINDS:
        raise ValueError(f"kind in {path} must be one of {', '.join(KINDS)}, not {entry['kind']!r}")
    return [Reason(**{**entry, "what": pattern}) for pattern in words]


def explained(
    reasons: Iterable[Reason], unit: str, points: Iterable[Point], source: Sequence[str]
) -> tuple[dict[Point, Reason], list[Point]]:
    """The reason of each point that has one, the first; and the others. source: lines."""
    reasons = list(reasons)
    explained_points: dict[Point, Reason] = {}
    left: list[Point] = []
    for point in points:
        line = source[point.line - 1]
        reason = next((reason for reason in reasons if reason.holds(unit, point, line)), None)
        if reason is None:
            left.append(point)
        else:
            explained_points[point] = reason
    return explained_points, left


def wider(
    reasons: Iterable[Reason], unit: str, counts: Counts, source: Sequence[str]
) -> dict[Reason, str]:
    """Reasons that hold of a bit or of branches of a line although all of it was reached, and of
    which, in words: they say too much, and would hide a later hole. source: lines."""
    places: dict[tuple[str, str, int, str], list[bool]] = defaultdict(list)
    points: dict[tuple[str, str, int, str], Point] = {}
    for point, count in counts.items():
        place = (point.module, point.kind, point.line, point.bit)
        places[place].append(count.hits > 0)
        points[place] = point
    reached = [points[place] for place, hits in places.items() if all(hits)]
    too_wide: dict[Reason, str] = {}
    for reason in (reason for reason in reasons if reason.unit == unit):
        for point in reached:
            if reason.holds(unit, point, source[point.line - 1]):
                too_wide[reason] = f"{point.bit} of {point.module}, line {point.line}"
                break
    return too_wide
