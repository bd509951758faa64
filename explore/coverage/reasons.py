"""Reasons why a point cannot be reached, from reasons.toml: each must hold something."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .points import KINDS, Point

FILE = Path(__file__).with_name("reasons.toml")
_KEYS = ("unit", "module", "kind", "what", "why")
_BITS = re.compile(r"(.+)\[(\d+)(?::(\d+))?\]")


@dataclass(frozen=True)
class Reason:
    """Why such points of a unit cannot occur. module: a shell pattern; what: such patterns of the
    point's words, of a toggle of nets, with a range of bits behind or without; source: text that
    the point's line has."""

    unit: str
    module: str
    kind: str
    what: tuple[str, ...]
    why: str
    source: str = ""

    def holds(self, unit: str, point: Point, line: str) -> bool:
        """Whether it is the reason of this point. line: of the Verilog."""
        return (
            self.kind == point.kind
            and unit == self.unit
            and fnmatchcase(point.module, self.module)
            and self.source in line
            and any(_matches(point.bit, words) for words in self.what)
        )


def _matches(bit: str, words: str) -> bool:
    """Whether a bit, `net[3]`, is one of `words`, `n*[5:2]`; other words are one pattern."""
    wanted, found = _BITS.fullmatch(words), _BITS.fullmatch(bit)
    if wanted is None or found is None:
        return fnmatchcase(bit, words)
    high, low = int(wanted[2]), int(wanted[3] or wanted[2])
    return fnmatchcase(found[1], wanted[1]) and low <= int(found[2]) <= high


def load(path: Path = FILE) -> list[Reason]:
    """All of a file; ValueError names an entry that is none."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reason", [])
    return [_reason(path, entry) for entry in entries]


def _reason(path: Path, entry: dict[str, Any]) -> Reason:
    what = entry.get("what")
    words = what if isinstance(what, list) and what else [what]
    given = {**entry, "what": tuple(words)}
    texts = [*words, *(value for key, value in entry.items() if key != "what")]
    if set(entry) - {"source"} != set(_KEYS) or not all(isinstance(t, str) and t for t in texts):
        raise ValueError(f"a reason in {path} must have texts {', '.join(_KEYS)}, not {entry!r}")
    if entry["kind"] not in KINDS:
        raise ValueError(f"kind in {path} must be one of {', '.join(KINDS)}, not {entry['kind']!r}")
    return Reason(**given)


def explained(
    reasons: Iterable[Reason], unit: str, points: Iterable[Point], source: Sequence[str]
) -> tuple[dict[Point, Reason], list[Point]]:
    """The reason of each point that has one, the first; and the others. source: lines."""
    reasons = list(reasons)
    found: dict[Point, Reason] = {}
    left: list[Point] = []
    for point in points:
        line = source[point.line - 1]
        reason = next((reason for reason in reasons if reason.holds(unit, point, line)), None)
        if reason is None:
            left.append(point)
        else:
            found[point] = reason
    return found, left
